"""Curves of runs that differ in one setting only, such as alpha: numbers and plot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.accuracy import subject_scores
from segpl.reporting.page.reproducibility import differing_settings, flatten_settings
from segpl.reporting.page.style import MARKERS, PALETTE, add_legend, draw_band, make_panels
from segpl.reporting.run_folder import RunFolder

NO_ABLATIONS = {"seed", "labelled", "slices", "validation", "test"}
"""Settings that choose subjects. The runs of a curve may differ in the seed."""
METHOD_NAME = "method.name"
LOGARITHMIC_FROM = 10.0
"""An axis is logarithmic if its largest value is this many times its smallest positive one."""

Settings = Mapping[str, str]
"""Settings by their full name, such as method.alpha; values as YAML."""


@dataclass(frozen=True)
class Curve:
    """Runs that have all settings in common except one and the seed."""

    setting: str
    others: Settings
    """All settings but the one that differs and the seed."""
    runs: dict[float, list[RunFolder]] = field(default_factory=dict)
    """By the value of the setting."""


def ablations(material: Material) -> pd.DataFrame:
    """The mean IoU in per cent and its range over seeds, for every value of every ablated setting.

    A run belongs to the curves of all settings for which there is another run that differs from it
    in that setting only.
    """
    scores = subject_scores(material)
    if scores.empty:
        return pd.DataFrame()
    run_iou = scores.groupby("run", sort=False)["value"].mean()
    scored = [run for run in material.runs if run.name in run_iou.index]
    curves = find_curves(scored)
    rows = []
    for curve in curves:
        siblings = [other for other in curves if other.setting == curve.setting]
        name = _curve_name(curve, siblings)
        for value, runs in sorted(curve.runs.items()):
            iou = run_iou[[run.name for run in runs]]
            rows.append(
                {
                    "setting": curve.setting,
                    "curve": name,
                    "value": value,
                    "mean": iou.mean(),
                    "min": iou.min(),
                    "max": iou.max(),
                    "seeds": len(iou),
                    "method": runs[0].method,
                    "budget": runs[0].budget,
                }
            )
    return pd.DataFrame(rows)


def find_curves(runs: Sequence[RunFolder]) -> list[Curve]:
    """A curve for every set of runs with two or more values of one number among their settings."""
    curves: dict[tuple[str, frozenset[tuple[str, str]]], Curve] = {}
    for run in runs:
        settings = dict(flatten_settings(run.settings))
        settings.pop("seed", None)
        for setting, value in _numbers(settings):
            others = {name: text for name, text in settings.items() if name != setting}
            key = (setting, frozenset(others.items()))
            curve = curves.setdefault(key, Curve(setting, others))
            curve.runs.setdefault(value, []).append(run)
    found = [curve for curve in curves.values() if len(curve.runs) > 1]
    return sorted(found, key=lambda curve: curve.setting)


def _numbers(settings: Settings) -> Iterator[tuple[str, float]]:
    """Yield the name and the value of every setting that is a number."""
    for name, text in settings.items():
        if name in NO_ABLATIONS:
            continue
        value = yaml.safe_load(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


def _curve_name(curve: Curve, siblings: Sequence[Curve]) -> str:
    """The method, and what else tells the curve from the others of the same method and setting."""
    method = curve.others.get(METHOD_NAME, "")
    same_method = []
    for sibling in siblings:
        if sibling.others.get(METHOD_NAME, "") == method:
            same_method.append(sibling.others)
    words = [method]
    for name in differing_settings(same_method):
        words.append(f"{_short(name)} {curve.others.get(name, '')}")
    return ", ".join(words)


def _short(setting: str) -> str:
    """The name of a setting as a label: method.warm_up becomes warm up."""
    return setting.removeprefix("method.").replace("_", " ").replace(".", " ")


def draw_ablations(numbers: pd.DataFrame) -> Figure:
    """Plot one panel per setting and one line per curve, with a band over seeds."""
    figure, panels = make_panels(numbers, by="setting")
    names = list(numbers["curve"].unique())
    for axis, rows in panels:
        setting = _short(rows["setting"].iloc[0])
        for name, curve in rows.groupby("curve", sort=False):
            _draw_curve(axis, curve, names.index(name))
        axis.set_title("", loc="left")  # the label of the axis is enough
        axis.set(xlabel=setting, ylabel="mean IoU %")
        _scale(axis, rows["value"])
    return add_legend(figure)


def _draw_curve(axis: Axes, rows: pd.DataFrame, index: int) -> None:
    color = PALETTE[index % len(PALETTE)]
    draw_band(axis, rows["value"], rows["min"], rows["max"], color)
    axis.plot(
        rows["value"],
        rows["mean"],
        color=color,
        marker=MARKERS[index % len(MARKERS)],
        ms=4,
        label=rows["curve"].iloc[0],
    )


def _scale(axis: Axes, values: pd.Series) -> None:
    """Choose a logarithmic axis for values of different magnitude, and mark every value."""
    positive = values[values > 0]
    if positive.empty or values.min() < 0:
        return
    if positive.max() / positive.min() >= LOGARITHMIC_FROM:
        if values.min() == 0:
            # Zero has a place at the left of the smallest positive value.
            axis.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
        else:
            axis.set_xscale("log")
    ticks = sorted(set(values))
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=30)
    axis.set_xticks([], minor=True)
