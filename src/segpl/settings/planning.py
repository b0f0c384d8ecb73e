"""A run from the user's settings and, where they are silent, from what the data suggest."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.data.preparation import is_ct
from segpl.data.splits import training_cases
from segpl.foundation.errors import UserError
from segpl.foundation.named import plain
from segpl.settings.context import SMALLEST
from segpl.settings.plan import CHOSEN, plan
from segpl.settings.planned import Planned
from segpl.settings.run import Run, run_from

METHOD_SETTINGS = ("single_component", "nested", "mirror")
"""What is planned for the methods that have settings of these names."""


def plan_run(
    data: Path,
    settings: dict[str, Any],
    source: str = "the settings",
    dataset: Dataset | None = None,
) -> Run:
    """A run on a data folder: what the data suggest, and the user's `settings` before that (DATA goes before both).

    `dataset` is what the folder holds, if that has been read already.
    """
    return finish_run(data, settings, plan_settings(data, settings, source, dataset), source)


def plan_settings(
    data: Path,
    settings: dict[str, Any],
    source: str = "the settings",
    dataset: Dataset | None = None,
) -> dict[str, Planned]:
    """What the data suggest for runs with these settings, whichever their method.

    Of labels, it opens only those that the training of such a run learns from or validates on. If the
    user gives a patch but no spacing, or a spacing but no patch, the other one is planned to fit.
    """
    draft = _draft(data, settings, source)
    if dataset is None:
        dataset = read_dataset(draft.data)
    if not dataset.training:
        raise UserError(f"{dataset.folder} has no training image: add some.")
    if settings.get("window") and not any(map(is_ct, dataset.task.channels)):
        raise UserError(
            f"window is for CT, and {draft.data} has no channel called CT, CTA or HU: name it so, or leave it out."
        )
    cases = training_cases(dataset, draft.labelled, draft.seed, draft.validation, draft.test)
    given: dict[str, Any] = {
        key: getattr(draft, key) for key in ("patch", "spacing") if key in settings
    }
    if len(given) == 2:
        given = {}  # nothing is left to fit; the plan of the data alone tells whether they differ from it
    return plan(dataset, cases, given)


def finish_run(
    data: Path, settings: dict[str, Any], planned: dict[str, Planned], source: str = "the settings"
) -> Run:
    """A run of the user's settings and, where they do not say, of what was planned."""
    draft = _draft(data, settings, source)
    of_method = {key: planned[key] for key in METHOD_SETTINGS}
    own = {each.name for each in fields(Run)}
    planned = {key: each for key, each in planned.items() if key in own}
    if settings.get("patch", planned["patch"].value) != planned["patch"].value:
        planned["strides"] = Planned(None, "derived from the patch")
    why = {}
    for key, (value, reason) in planned.items():
        if settings.get(key, value) == value and reason != CHOSEN:
            why[key] = reason
    method = plain(draft.method)
    given = settings["method"] if isinstance(settings["method"], dict) else {}
    for key, (value, reason) in of_method.items():
        if key in method:
            method[key] = given.get(key, value)
            if method[key] == value:
                why[f"method.{key}"] = reason
    derived = {key: value for key, (value, _) in planned.items()}
    return run_from(
        {**derived, **settings, "method": method, "data": str(draft.data), "why": why}, source
    )


def _draft(data: Path, settings: dict[str, Any], source: str) -> Run:
    """The user's settings, checked, with anything at all where they leave it to the plan."""
    anything = {
        "steps": 1,
        "learning_rate": 1.0,
        "ratio": 1,
        "patch": [SMALLEST, SMALLEST],
        "channels": 1,
    }
    unplanned = {
        key: value for key, value in settings.items() if key not in ("strides", "mirror", "why")
    }
    return run_from({**anything, **unplanned, "data": str(data.resolve())}, source)
