"""Reads a study from a YAML file; a mistake in the file is one sentence with its line and key."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from segpl.evaluation.shifts import parse_shifts
from segpl.foundation.errors import KeyPath, UserError
from segpl.foundation.named import Settings, validated
from segpl.methods.base import Method
from segpl.study.schema import Budget, Entry, Paper, Phantoms, Study
from segpl.study.yaml_source import YamlSource

GIVEN_ELSEWHERE = {"data": "data", "seed": "seeds", "method": "methods", "why": None}
"""Settings of a run that are not set here, with the key of the study that sets them."""
LISTS = ("methods", "budgets", "seeds", "shifts", "baselines")

Labelled = TypeVar("Labelled", Entry, Budget)


def read_study(file: Path, data: Path | None = None) -> tuple[Study, YamlSource]:
    """The study in a file, and the file with its lines; `data` replaces the study's data folder."""
    source = YamlSource(file)
    values = dict(source.values)
    with source.locate_errors(()):
        _check_lists(values)
    if "methods" in values:
        values["methods"] = _read_list(source, "methods", _read_method)
    if "budgets" in values:
        values["budgets"] = _read_list(source, "budgets", _read_budget)
    _read_mapping(source, values, "data", Phantoms)
    _read_mapping(source, values, "paper", Paper)
    if isinstance(values.get("data"), str):
        values["data"] = file.parent / values["data"]
    if data is not None:
        values["data"] = data
    with source.locate_errors(()):
        study = _strictly_validated(Study, values)
    _check(study, source)
    baselines = study.baselines or (study.methods[0].label,)
    return replace(study, baselines=baselines), source


def _check_lists(values: Settings) -> None:
    for key in LISTS:
        if key not in values:
            continue
        value = values[key]
        if not isinstance(value, list) or not value:
            message = (
                f"{key} is {value!r}, but it takes a list of one or more, as in '{key}: [...]'."
            )
            raise UserError(message, where=(key,))


def _read_list(
    source: YamlSource, key: str, read_item: Callable[[Any], Labelled]
) -> tuple[Labelled, ...]:
    """The items of a list with distinct labels; an error gives the line of the wrong item."""
    items: dict[str, Labelled] = {}
    for index, value in enumerate(source.values[key]):
        with source.locate_errors((key, index)):
            item = read_item(value)
            if item.label in items:
                raise UserError(f"{item.label!r} is listed twice: give one of them another label.")
            items[item.label] = item
    return tuple(items.values())


def _read_mapping(
    source: YamlSource,
    values: Settings,
    key: str,
    kind: type[Phantoms | Paper],
) -> None:
    """Replace a mapping in `values` by an instance of `kind`; other values stay as they are."""
    if isinstance(values.get(key), dict):
        with source.locate_errors((key,)):
            values[key] = _strictly_validated(kind, _with_text_keys(values[key]))


def _strictly_validated(kind: type[Any], values: Settings) -> Any:
    """An instance of `kind`; unknown keys are reported before missing ones.

    A misspelt key is both unknown and missing, and the misspelling is what the user must correct.
    """
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            message = f"unknown setting {key!r}: it takes {', '.join(known)}."
            raise UserError(message, where=(str(key),))
    return validated(kind, values)


def _with_text_keys(value: Any) -> Any:
    """Nested mappings with strings as keys: YAML reads a budget called 2 as a number."""
    if not isinstance(value, dict):
        return value
    return {str(key): _with_text_keys(item) for key, item in value.items()}


def _read_method(value: Any) -> Entry:
    """A method from its name, or from a mapping with hyper-parameters, `settings` and `label`."""
    if not isinstance(value, dict):
        Method.choose(value)
        return Entry(value, {"name": value})
    method = _without(value, "label", "settings")
    Method.choose(method)
    try:
        settings = _run_settings(value.get("settings", {}), "settings")
    except UserError as error:
        raise error.within("settings") from None
    specific = _without(method | settings, "name")
    default_label = " ".join([method["name"], *_label_parts(specific)])
    label = str(value.get("label", default_label))
    return Entry(label, method, settings)


def _read_budget(value: Any) -> Budget:
    """A budget from a number of labelled subjects, or from settings with perhaps a `label`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Budget(str(value), {"labelled": value})
    settings = dict(_run_settings(value, "a budget"))
    label = settings.pop("label", None)
    default_label = " ".join(_label_parts(settings))
    return Budget(str(label or default_label), settings)


def _run_settings(value: Any, description: str) -> Settings:
    """Check that these are settings of a run, without any that a study sets elsewhere."""
    if not isinstance(value, dict):
        raise UserError(
            f"{description} is {value!r}, "
            "but it takes a number or settings such as {labelled: 2}."
        )
    for key in value.keys() & GIVEN_ELSEWHERE.keys():
        study_key = GIVEN_ELSEWHERE[key]
        remedy = f"list it under {study_key}" if study_key else "leave it out"
        raise UserError(f"{key} is not set here: {remedy}.", where=(key,))
    return value


def _without(mapping: Mapping[str, Any], *keys: str) -> Settings:
    return {key: value for key, value in mapping.items() if key not in keys}


def _label_parts(settings: Mapping[str, Any]) -> list[str]:
    """Settings as parts of a label, such as `alpha=0.1`; a nested mapping is given by its name."""
    parts = []
    for key, value in settings.items():
        if isinstance(value, dict):
            value = value.get("name", value)
        parts.append(f"{key}={value}")
    return parts


def _check(study: Study, source: YamlSource) -> None:
    """Check what depends on several keys of the study."""
    if len(set(study.seeds)) < len(study.seeds):
        with source.locate_errors(("seeds",)):
            raise UserError("seeds are listed twice: list each once.")
    for index, text in enumerate(study.shifts):
        with source.locate_errors(("shifts", index)):
            parse_shifts([text])
    with source.locate_errors(("settings",)):
        _run_settings(_without(study.settings, "method"), "settings")
    _check_labels(study, source)


def _check_labels(study: Study, source: YamlSource) -> None:
    """Check that baselines and the paper's figures refer to methods and budgets of the study."""
    methods = [entry.label for entry in study.methods]
    budgets = [budget.label for budget in study.budgets]
    _check_known(source, ("baselines",), study.baselines, methods)
    if study.paper is None:
        return
    _check_known(source, ("paper", "cost"), study.paper.cost, methods)
    _check_known(source, ("paper", "scores"), study.paper.scores, budgets)
    for budget, scores in study.paper.scores.items():
        _check_known(source, ("paper", "scores", budget), scores, methods)


def _check_known(
    source: YamlSource,
    path: KeyPath,
    labels: Collection[str],
    known: list[str],
) -> None:
    for label in labels:
        if label not in known:
            with source.locate_errors((*path, label)):
                raise UserError(f"the study has no {label!r}: choose one of {', '.join(known)}.")
