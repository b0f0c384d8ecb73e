"""Tables of what a study or a run can be made of: methods, priors, shifts and their settings."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from segpl.evaluation.shifts import shift_types
from segpl.foundation.errors import UserError
from segpl.foundation.suggestions import suggest
from segpl.methods import DEFAULT, METHODS
from segpl.reporting.table import Table, text_column
from segpl.settings.descriptions import (
    PRIORS,
    method_settings,
    prior_settings,
    run_settings,
    summary,
)

EVERY_RUN = "run"
"""The name under which the settings of every training are listed."""


def catalogue() -> list[Table]:
    """Methods, priors and shifts, one table each."""
    more = [
        "segpl methods NAME lists the settings of a method or prior; "
        f"segpl methods {EVERY_RUN} those of every training."
    ]
    methods = dict(sorted(METHODS.items()))
    default = {DEFAULT: methods.pop(DEFAULT)}
    return [
        _names("Methods: segpl train --method NAME. The first is the default.", default | methods),
        _names("Priors of T: segpl train --set method.prior.name=NAME", PRIORS),
        _names("Shifts: segpl evaluate --shift NAME[=LEVEL]", shift_types(), more),
    ]


def _names(title: str, kinds: Mapping[str, type[Any]], notes: list[str] | None = None) -> Table:
    rows = [[name, summary(kind)] for name, kind in kinds.items()]
    columns = [text_column("Name"), text_column("What it does", wraps=True)]
    return Table(title, columns, [rows], notes or [])


def description(name: str) -> str:
    """What a method or a prior does, or what the settings of every training are."""
    if name == EVERY_RUN:
        return "Settings of every training."
    kind = _kind(name)
    return f"{name}: {cleandoc(kind.__doc__ or '')}"


def settings_table(name: str) -> Table:
    """The settings of a method, of a prior, or of every training."""
    if name == EVERY_RUN:
        settings = run_settings()
    elif name in METHODS:
        settings = method_settings(_kind(name))
    else:
        settings = prior_settings(_kind(name))
    columns = [text_column("Setting"), text_column("Default"), text_column("Meaning", wraps=True)]
    return Table("--set SETTING=VALUE", columns, [[list(setting) for setting in settings]])


def _kind(name: str) -> type[Any]:
    """The method or the prior of this name."""
    kinds: dict[str, type[Any]] = METHODS | PRIORS
    if name not in kinds:
        known = [*sorted(kinds), EVERY_RUN]
        raise UserError(
            f"there is no method or prior {name!r}: choose one of {', '.join(known)}."
            f"{suggest(name, known)}"
        )
    return kinds[name]
