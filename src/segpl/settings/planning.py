"""A run from the user's settings, completed by what the data suggest."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.data.preparation import is_ct
from segpl.data.splits import TrainingCases, of_grade
from segpl.foundation.errors import UserError
from segpl.foundation.named import plain
from segpl.methods.base import Method
from segpl.settings.patch import SMALLEST
from segpl.settings.plan import plan
from segpl.settings.planned import CHOSEN, Planned
from segpl.settings.run import Run, run_from
from segpl.settings.schedule import plan_batch
from segpl.settings.subjects import training_cases_of

METHOD_SETTINGS = ("single_component", "match_size", "nested", "mirror")
"""Settings that are planned for those methods that have them."""
OTHER_PATHS = ("split", "start_from")
"""Settings that are paths beside the data: they are made absolute, so a run can be resumed."""
PLACEHOLDERS: dict[str, Any] = {
    "steps": 1,
    "learning_rate": 1.0,
    "ratio": 1,
    "patch": [SMALLEST, SMALLEST],
    "channels": 1,
}
"""Valid values of the settings that a run must have, before they are planned."""


def plan_run(
    data: Path,
    settings: dict[str, Any],
    source: str = "the settings",
    dataset: Dataset | None = None,
) -> Run:
    """A run on a data folder: the user's `settings` and, for all others, what the data suggest.

    The run's data folder is always `data`. `dataset` is its content, if it has been read already.
    """
    planned = plan_settings(data, settings, source, dataset)
    return finish_run(data, settings, planned, source)


def plan_settings(
    data: Path,
    settings: dict[str, Any],
    source: str = "the settings",
    dataset: Dataset | None = None,
) -> dict[str, Planned]:
    """What the data suggest for runs with these settings, whatever their method.

    Reads only labels that the training of such a run learns from or validates on. If the user gives
    a patch but no spacing, or a spacing but no patch, the other one is planned to fit.
    """
    draft = _draft(data, settings, source)
    if dataset is None:
        dataset = read_dataset(draft.data)
    dataset = of_grade(dataset, draft.grade)
    _check_dataset(dataset, draft, settings)
    cases = _with_known_labels(training_cases_of(draft, dataset), draft)
    given: dict[str, Any] = {}
    if "patch" in settings:
        given["patch"] = draft.patch
    if "spacing" in settings:
        given["spacing"] = draft.spacing
    if len(given) == 2:
        # Nothing is left to fit. The plan of the data alone shows whether the user's values differ.
        return plan(dataset, cases)
    return plan(dataset, cases, given)


def _with_known_labels(cases: TrainingCases, draft: Run) -> TrainingCases:
    """The cases without labels of which training knows only crops: these tell too little."""
    if draft.crops is None:
        return cases
    labelled = tuple(case.unlabelled() for case in cases.labelled)
    return replace(cases, labelled=labelled)


def _check_dataset(dataset: Dataset, draft: Run, settings: dict[str, Any]) -> None:
    if not dataset.training:
        raise UserError(f"{dataset.folder} has no training image: add some.")
    has_ct = any(is_ct(name) for name in dataset.task.channels)
    if settings.get("window") and not has_ct:
        raise UserError(
            f"window is for CT, but {draft.data} has no channel called CT, CTA or HU: "
            "rename the channel, or remove window."
        )


def finish_run(
    data: Path,
    settings: dict[str, Any],
    planned: dict[str, Planned],
    source: str = "the settings",
) -> Run:
    """A run with the user's settings and, for all others, what was planned."""
    draft = _draft(data, settings, source)
    planned = planned | {"batch": _plan_batch(draft.method, planned)}
    suggestions = _suggestions_for_run(settings, planned)
    method, method_reasons = _complete_method(draft.method, settings["method"], planned)
    values = {key: suggestion.value for key, suggestion in suggestions.items()}
    values |= settings
    values["method"] = method
    values["data"] = str(draft.data)
    for key in OTHER_PATHS:
        if values.get(key) is not None:
            values[key] = str(Path(values[key]).resolve())
    values["why"] = _reasons(settings, suggestions) | method_reasons
    return run_from(values, source)


def _draft(data: Path, settings: dict[str, Any], source: str) -> Run:
    """The user's settings, checked, with placeholders for those that the plan must fill in.

    Strides and mirror axes can be checked only against the final patch, so they are left out.
    """
    values = dict(PLACEHOLDERS)
    for key, value in settings.items():
        if key not in ("strides", "mirror", "why"):
            values[key] = value
    values["data"] = str(data.resolve())
    return run_from(values, source)


def _plan_batch(method: Method, planned: dict[str, Planned]) -> Planned:
    """The planned batch, or a smaller one if the method's batches would not fit into memory."""
    if method.batches_per_step == 1:
        return planned["batch"]
    patch = planned["patch"].value
    channels = planned["channels"].value
    ratio = planned["ratio"].value
    return plan_batch(patch, channels, ratio, method.batches_per_step)


def _suggestions_for_run(
    settings: dict[str, Any],
    planned: dict[str, Planned],
) -> dict[str, Planned]:
    """The planned settings of the run itself; no planned strides if the user changes the patch."""
    run_settings = {field.name for field in fields(Run)}
    suggestions = {key: value for key, value in planned.items() if key in run_settings}
    planned_patch = planned["patch"].value
    if settings.get("patch", planned_patch) != planned_patch:
        suggestions["strides"] = Planned(None, "derived from the patch")
    return suggestions


def _reasons(settings: dict[str, Any], suggestions: dict[str, Planned]) -> dict[str, str]:
    """The reasons for the suggestions that the user has not overridden."""
    reasons = {}
    for key, (value, reason) in suggestions.items():
        is_kept = settings.get(key, value) == value
        if is_kept and reason != CHOSEN:
            reasons[key] = reason
    return reasons


def _complete_method(
    method: Method,
    given: Any,
    planned: dict[str, Planned],
) -> tuple[dict[str, Any], dict[str, str]]:
    """The method as plain values with its planned settings, and the reasons for these.

    `given` is what the user wrote: a name, or a mapping whose values override the plan.
    """
    values = plain(method)
    given_values = given if isinstance(given, dict) else {}
    reasons = {}
    for key in METHOD_SETTINGS:
        if key in values:
            suggested, reason = planned[key]
            values[key] = given_values.get(key, suggested)
            if values[key] == suggested:
                reasons[f"method.{key}"] = reason
    return values, reasons
