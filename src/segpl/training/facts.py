"""`facts.json`: what the report must know about a run and cannot derive from its settings.

`segpl.reporting.facts` reads it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from segpl.rundir import COST_FILE, FACTS_FILE, FORMAT, read_plain, write_json
from segpl.settings.run import Run

GuardAction = Mapping[str, Any]
"""`after_step`, the `alpha_factor` from then on, and what the `pseudo_labels` had become."""


def write_initial_facts(run: Run, directory: Path) -> None:
    """Write what is known before the first step."""
    _write(directory, _initial_facts(run))


def write_final_facts(
    run: Run,
    directory: Path,
    guard_actions: Sequence[GuardAction] | None,
) -> None:
    """Write what is known at the end.

    `guard_actions` is None where a resumed run cannot know all of them.
    """
    facts = _initial_facts(run)
    facts["finished"] = True
    facts["seconds"] = _seconds(run, directory)
    if guard_actions is not None:
        facts["guard"]["acts"] = list(guard_actions)
    _write(directory, facts)


def _initial_facts(run: Run) -> dict[str, Any]:
    return {
        "finished": False,
        "uses_unlabelled": run.method.learns_from_unlabelled(),
        "guard": {"on": run.guard},
    }


def _seconds(run: Run, directory: Path) -> float | None:
    """The median time of a step times the number of steps.

    A busy machine and a resumed run distort the sum. None for a run that was stopped after its last
    step, so that the resumed part timed none.
    """
    file = directory / COST_FILE
    if not file.is_file():
        return None
    return read_plain(file)["seconds_per_step"] * run.steps


def _write(directory: Path, facts: Mapping[str, Any]) -> None:
    write_json(directory / FACTS_FILE, {"format": FORMAT, **facts})
