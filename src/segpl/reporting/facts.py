"""What training recorded about a run, and what can be said of a run that was made before it did.

`segpl.training.facts` writes the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from segpl.rundir import COST_FILE, FACTS_FILE, LOG_FILE, read_plain


class GuardAct(NamedTuple):
    """The guard backed alpha off, because pseudo-labels had gone empty or full."""

    after_step: int
    alpha_factor: float
    """What is left of alpha."""


@dataclass(frozen=True)
class Facts:
    """Facts about one run; None is unknown."""

    uses_unlabelled: bool | None
    """Whether unlabelled scans had a part in its weights."""
    guard_on: bool | None
    guard_acts: Sequence[GuardAct] | None
    seconds: float | None
    """The median step times the number of steps."""


def read_facts(directory: Path, steps: int | None = None) -> Facts:
    """The facts of a run directory; those that are not recorded are derived from its log and its cost."""
    recorded = _read(directory / FACTS_FILE)
    cost = _read(directory / COST_FILE)
    guard = recorded.get("guard", {})
    log = pd.DataFrame()
    if "uses_unlabelled" not in recorded or "acts" not in guard:
        log = read_log(directory)
    return Facts(
        uses_unlabelled=recorded.get("uses_unlabelled", derived_use(log, cost)),
        guard_on=guard.get("on"),
        guard_acts=_recorded_acts(guard["acts"]) if "acts" in guard else derived_acts(log),
        seconds=recorded.get("seconds") or _seconds(cost, steps),
    )


def read_log(directory: Path) -> pd.DataFrame:
    """The log of a training, without rows where there is none."""
    file = directory / LOG_FILE
    return pd.read_csv(file) if file.is_file() and file.stat().st_size else pd.DataFrame()


def derived_use(log: pd.DataFrame, cost: Mapping[str, Any]) -> bool | None:
    """Whether unlabelled scans had a part in the weights, from what earlier versions left behind.

    A run that learnt from labels alone minimised the labels' loss and nothing else.
    """
    if len(log) and {"loss", "labelled"} <= set(log):
        return not np.allclose(log["loss"], log["labelled"], rtol=1e-6, atol=1e-9, equal_nan=True)
    if cost.get("flops_unlabelled") == 0:
        return False
    return None


def derived_acts(log: pd.DataFrame) -> list[GuardAct] | None:
    """The acts that a log shows: alpha is smaller from the step after an act on."""
    if "alpha_factor" not in log:
        return None
    before = log["alpha_factor"].shift(fill_value=1.0)
    rows = log[log["alpha_factor"] < before]
    acts = []
    for step, factor in zip(rows["step"], rows["alpha_factor"], strict=True):
        acts.append(GuardAct(int(step) - 1, float(factor)))
    return acts


def _recorded_acts(acts: Sequence[Mapping[str, Any]]) -> list[GuardAct]:
    return [GuardAct(act["after_step"], act["alpha_factor"]) for act in acts]


def _seconds(cost: Mapping[str, Any], steps: int | None) -> float | None:
    if steps is None or "seconds_per_step" not in cost:
        return None
    return float(cost["seconds_per_step"]) * steps


def _read(file: Path) -> Mapping[str, Any]:
    return read_plain(file) if file.is_file() else {}
