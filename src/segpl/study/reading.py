"""From a YAML file to a study: a mistake in the file is one sentence with its line and key."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from segpl.evaluation.shifts import parse_shifts
from segpl.foundation.errors import Place, UserError
from segpl.foundation.named import validated
from segpl.methods.base import Method
from segpl.study.schema import Budget, Entry, Paper, Phantoms, Study
from segpl.study.source import Source

ELSEWHERE = {"data": "data", "seed": "seeds", "method": "methods", "why": None}
"""Settings of a run that a study gives elsewhere."""
LISTS = ("methods", "budgets", "seeds", "shifts", "baselines")

Labelled = TypeVar("Labelled", Entry, Budget)


def read_study(file: Path, data: Path | None = None) -> tuple[Study, Source]:
    """The study that a file describes, on its own data or on `data`, and the file's lines."""
    source = Source(file)
    values = dict(source.values)
    with source.blame(()):
        _check_lists(values)
    for key, read in (("methods", _entry), ("budgets", _budget)):
        if key in values:
            values[key] = _each(source, key, read)
    for key, kind in (("data", Phantoms), ("paper", Paper)):
        if isinstance(values.get(key), dict):
            with source.blame((key,)):
                values[key] = _strict(kind, _with_text_keys(values[key]))
    if isinstance(values.get("data"), str):
        values["data"] = file.parent / values["data"]
    with source.blame(()):
        study = _strict(Study, values | ({"data": data} if data else {}))
    _check(study, source)
    return replace(study, baselines=study.baselines or (study.methods[0].label,)), source


def _strict(kind: type[Any], values: dict[str, Any]) -> Any:
    """An instance; a misspelt key is named before the one that is then missing."""
    known = [each.name for each in fields(kind)]
    for key in values:
        if key not in known:
            raise UserError(
                f"unknown setting {key!r}: it takes {', '.join(known)}.", where=(str(key),)
            )
    return validated(kind, values)


def _check_lists(values: dict[str, Any]) -> None:
    for key in LISTS:
        if key in values and (not isinstance(values[key], list) or not values[key]):
            raise UserError(
                f"{key} is {values[key]!r}, but it takes a list of one or more, as in '{key}: [...]'.",
                where=(key,),
            )


def _each(source: Source, key: str, read: Callable[[Any], Labelled]) -> tuple[Labelled, ...]:
    """The items of a list, each with its own line when it is wrong."""
    found: dict[str, Labelled] = {}
    for number, value in enumerate(source.values[key]):
        with source.blame((key, number)):
            item = read(value)
            if found.setdefault(item.label, item) is not item:
                raise UserError(f"{item.label!r} is listed twice: give one of them another label.")
    return tuple(found.values())


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict):
        Method.choose(value)
        return Entry(value, {"name": value})
    method = {key: each for key, each in value.items() if key not in ("label", "settings")}
    Method.choose(method)
    try:
        settings = _mapping(value.get("settings", {}), "settings")
    except UserError as error:
        raise error.within("settings") from None
    own = {key: each for key, each in (method | settings).items() if key != "name"}
    return Entry(
        str(value.get("label", " ".join([method["name"], *_words(own)]))), method, settings
    )


def _budget(value: Any) -> Budget:
    if isinstance(value, int) and not isinstance(value, bool):
        return Budget(str(value), {"labelled": value})
    settings = dict(_mapping(value, "a budget"))
    label = settings.pop("label", None)
    return Budget(str(label or " ".join(_words(settings))), settings)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    """The settings of runs, without those that a study gives elsewhere."""
    if not isinstance(value, dict):
        raise UserError(
            f"{what} is {value!r}, but it takes a number or settings such as {{labelled: 2}}."
        )
    for key in value.keys() & ELSEWHERE.keys():
        remedy = f"list it under {ELSEWHERE[key]}" if ELSEWHERE[key] else "leave it out"
        raise UserError(f"{key} is not set here: {remedy}.", where=(key,))
    return value


def _words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as they stand in a label: of those with a name, the name."""
    plain = {
        key: each.get("name", each) if isinstance(each, dict) else each
        for key, each in settings.items()
    }
    return [f"{key}={value}" for key, value in plain.items()]


def _with_text_keys(value: Any) -> Any:
    """Budgets such as 2 and 50 are names here."""
    return (
        {str(key): _with_text_keys(each) for key, each in value.items()}
        if isinstance(value, dict)
        else value
    )


def _check(study: Study, source: Source) -> None:
    """What only all parts together can tell."""
    if len(set(study.seeds)) < len(study.seeds):
        with source.blame(("seeds",)):
            raise UserError("seeds are listed twice: list each once.")
    for number, text in enumerate(study.shifts):
        with source.blame(("shifts", number)):
            parse_shifts([text])
    with source.blame(("settings",)):
        _mapping(
            {key: value for key, value in study.settings.items() if key != "method"}, "settings"
        )
    labels, budgets = (
        [entry.label for entry in study.methods],
        [budget.label for budget in study.budgets],
    )
    paper = study.paper or Paper("")
    _known(source, ("baselines",), study.baselines, labels)
    _known(source, ("paper", "cost"), paper.cost, labels)
    _known(source, ("paper", "scores"), paper.scores, budgets)
    for budget, scores in paper.scores.items():
        _known(source, ("paper", "scores", budget), scores, labels)


def _known(source: Source, place: Place, names: Collection[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            with source.blame((*place, name)):
                raise UserError(f"the study has no {name!r}: choose one of {', '.join(known)}.")
