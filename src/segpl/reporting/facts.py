"""What training recorded about a run, or what can be derived for a run of an earlier version.

`segpl.training.facts` writes the record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from segpl.rundir import COST_FILE, FACTS_FILE, LOG_FILE, read_mapping, read_numbers


class GuardAct(NamedTuple):
    """The guard reduced alpha, because pseudo-labels had become empty or full."""

    after_step: int
    alpha_factor: float
    """alpha is multiplied by this from then on."""


@dataclass(frozen=True)
class Facts:
    """Facts about one run; None means unknown."""

    uses_unlabelled: bool | None
    """Whether the run learnt from unlabelled scans."""
    guard_on: bool | None
    guard_acts: Sequence[GuardAct] | None
    seconds: float | None
    """Training time: the median time of a step times the number of steps."""


def read_facts(directory: Path, steps: int | None = None) -> Facts:
    """The facts of a run directory. Facts that are not recorded come from its log and its cost.

    `steps` is the number of training steps; without it, unrecorded seconds stay unknown.
    """
    recorded = _read(directory / FACTS_FILE)
    cost = _read(directory / COST_FILE)
    guard = recorded.get("guard", {})
    is_complete = "uses_unlabelled" in recorded and "acts" in guard
    log = pd.DataFrame() if is_complete else read_log(directory)
    if "uses_unlabelled" in recorded:
        uses_unlabelled = recorded["uses_unlabelled"]
    else:
        uses_unlabelled = derived_use(log, cost)
    if "acts" in guard:
        guard_acts: Sequence[GuardAct] | None = _recorded_acts(guard["acts"])
    else:
        guard_acts = derived_acts(log)
    return Facts(
        uses_unlabelled=uses_unlabelled,
        guard_on=guard.get("on"),
        guard_acts=guard_acts,
        seconds=recorded.get("seconds") or _derived_seconds(cost, steps),
    )


def read_log(directory: Path) -> pd.DataFrame:
    """The log of a training; no rows if there is none."""
    file = directory / LOG_FILE
    if not file.is_file() or not file.stat().st_size:
        return pd.DataFrame()
    return read_numbers(file)


def derived_use(log: pd.DataFrame, cost: Mapping[str, Any]) -> bool | None:
    """Whether a run of an earlier version learnt from unlabelled scans; None if unknown.

    A run that learnt from labels only minimised the loss of the labelled images and nothing else.
    """
    if len(log) and {"loss", "labelled"} <= set(log):
        total = log["loss"]
        labelled = log["labelled"]
        return not np.allclose(total, labelled, rtol=1e-6, atol=1e-9, equal_nan=True)
    if cost.get("flops_unlabelled") == 0:
        return False
    return None


def derived_acts(log: pd.DataFrame) -> list[GuardAct] | None:
    """The acts of the guard that a log shows; None if it has no column for them.

    The first step with a smaller alpha is the step after the act.
    """
    if "alpha_factor" not in log:
        return None
    previous_factor = log["alpha_factor"].shift(fill_value=1.0)
    rows = log[log["alpha_factor"] < previous_factor]
    acts = []
    for step, factor in zip(rows["step"], rows["alpha_factor"], strict=True):
        act = GuardAct(after_step=int(step) - 1, alpha_factor=float(factor))
        acts.append(act)
    return acts


def _recorded_acts(acts: Sequence[Mapping[str, Any]]) -> list[GuardAct]:
    return [GuardAct(act["after_step"], act["alpha_factor"]) for act in acts]


def _derived_seconds(cost: Mapping[str, Any], steps: int | None) -> float | None:
    if steps is None or "seconds_per_step" not in cost:
        return None
    return float(cost["seconds_per_step"]) * steps


def _read(file: Path) -> Mapping[str, Any]:
    return read_mapping(file) if file.is_file() else {}
