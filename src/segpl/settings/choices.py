"""Where settings come from before the data are looked at: a preset, an earlier run, another method's."""

from pathlib import Path
from typing import Any

from segpl.methods import DEFAULT, METHODS, PAPERS, PAPERS_OWN
from segpl.rundir import RUN_FILE
from segpl.settings.run import read_yaml


def preset(name: Path) -> Path:
    """The file that a name such as brats stands for, unless there is a file of that name."""
    known = Path(__file__).parent / "presets" / f"{name}.yaml"
    return known if known.is_file() and not name.is_file() else name


def asked_before(directory: Path, resume: bool) -> dict[str, Any]:
    """The settings to begin with: those of the run in this directory if it goes on, else the default method."""
    started = directory / RUN_FILE
    return read_yaml(started) if resume and started.is_file() else {"method": DEFAULT}


def for_method(settings: Any, name: str | None) -> Any:
    """A method's settings where another one is asked for, or none is named: those that it has too.

    Under `paper` a preset has what suits the paper's own forms and would be a handicap for others.
    """
    if not isinstance(settings, dict):
        return name or settings
    paper, settings = (
        settings.get("paper", {}),
        {key: value for key, value in settings.items() if key != "paper"},
    )
    own = settings.get("name")
    if own and name in (None, own):
        return settings
    chosen = name or PAPERS
    if chosen not in METHODS:
        return {"name": chosen}
    if chosen in PAPERS_OWN:
        settings = {**paper, **settings}
    return {"name": chosen, **METHODS[chosen].adopt(settings)}
