"""`facts.json`: what a report must know about a run and could otherwise only guess from its settings.

`segpl.reporting.facts` reads it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from segpl.rundir import COST_FILE, FACTS_FILE, FORMAT, read_plain, write_json
from segpl.settings.run import Run

GuardAct = Mapping[str, Any]
"""`after_step`, the `alpha_factor` from then on, and what the `pseudo_labels` had become."""


def write_first_facts(run: Run, directory: Path) -> None:
    """What is known before the first step."""
    _write(directory, _known_beforehand(run))


def write_final_facts(run: Run, directory: Path, acts: Sequence[GuardAct] | None) -> None:
    """The same with what happened; `acts` is None where a resumed run cannot know all of them."""
    facts = _known_beforehand(run) | {"finished": True, "seconds": _seconds(run, directory)}
    if acts is not None:
        facts["guard"] |= {"acts": list(acts)}
    _write(directory, facts)


def _known_beforehand(run: Run) -> dict[str, Any]:
    return {
        "finished": False,
        "uses_unlabelled": run.method.learns_from_unlabelled(),
        "guard": {"on": run.guard},
    }


def _seconds(run: Run, directory: Path) -> float | None:
    """The median step times the number of steps: a busy machine and a resumed run distort the sum.

    None for a run that was stopped after its last step: it never timed one.
    """
    file = directory / COST_FILE
    return read_plain(file)["seconds_per_step"] * run.steps if file.is_file() else None


def _write(directory: Path, facts: Mapping[str, Any]) -> None:
    write_json(directory / FACTS_FILE, {"format": FORMAT, **facts})
