"""Where settings come from before the data are read: a preset, an earlier run, another method."""

from pathlib import Path
from typing import Any

from segpl.methods import DEFAULT, METHODS, PAPER_DEFAULT, PAPER_METHODS
from segpl.rundir import RUN_FILE
from segpl.settings.run import read_run, read_yaml

PRESETS = Path(__file__).parent / "presets"


def preset_file(name: Path) -> Path:
    """The file of a preset such as brats, unless a file of that name exists."""
    preset = PRESETS / f"{name}.yaml"
    if preset.is_file() and not name.is_file():
        return preset
    return name


NETWORK_SETTINGS = (
    "method",
    "patch",
    "channels",
    "strides",
    "spacing",
    "window",
    "orientation",
    "centre_crop",
)
"""What a run takes over from the run whose weights it starts from: network and preparation."""


def initial_settings(directory: Path, resume: bool, start_from: Path | None) -> dict[str, Any]:
    """The settings before the user's own.

    Those of the run in this directory if it is resumed; the network of the run to start from; or
    the default method.
    """
    run_file = directory / RUN_FILE
    if resume and run_file.is_file():
        return read_yaml(run_file)
    if start_from is None:
        return {"method": DEFAULT}
    earlier = read_run(start_from).mapping()
    settings = {name: earlier[name] for name in NETWORK_SETTINGS}
    return {**settings, "start_from": str(start_from.resolve())}


def settings_for_method(settings: Any, name: str | None) -> Any:
    """The settings under `method`, adapted to the method `name`.

    `settings` is a name or a mapping. A mapping for another method, or for none, is reduced to the
    settings that this method has too. The key `paper` of a preset holds settings for the paper's
    own methods; they would be a handicap for others. Without any name the paper's method is used.
    """
    if not isinstance(settings, dict):
        return name or settings
    paper_settings = settings.get("paper", {})
    shared_settings = {key: value for key, value in settings.items() if key != "paper"}
    own_name = settings.get("name")
    if own_name and name in (None, own_name):
        return shared_settings
    chosen = name or PAPER_DEFAULT
    if chosen not in METHODS:
        return {"name": chosen}
    if chosen in PAPER_METHODS:
        shared_settings = {**paper_settings, **shared_settings}
    return {"name": chosen, **METHODS[chosen].applicable(shared_settings)}
