"""How good: numbers and figures of the scores, by subject, by size of the foreground, and against a baseline."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.style import legend, lines, looks, panels
from segpl.reporting.statistics import bland_altman, by_size, per_subject
from segpl.reporting.study_numbers import over_seeds

CELL = ["method", "budget"]


def subjects(material: Material) -> pd.DataFrame:
    """The IoU of every subject and run, in per cent."""
    if material.clean.empty:
        return pd.DataFrame()
    values = per_subject(material.clean).dropna(subset="value")
    budgets = {run.name: run.budget for run in material.runs}
    values = values.assign(budget=values["run"].map(budgets), value=100 * values["value"])
    return values[[*CELL, "run", "seed", "subject", "value"]]


def draw_subjects(numbers: pd.DataFrame) -> Figure:
    """A strip a method: every subject of every seed is a point, and the mean a line."""
    figure, parts = panels(numbers)
    styles = looks(numbers["method"])
    for axis, part in parts:
        present = [
            str(name) for name in part["method"].cat.categories if (part["method"] == name).any()
        ]
        for place, method in enumerate(present):
            points = part[part["method"] == method]
            spots = pd.factorize(points["subject"], sort=True)[0]
            offsets = 0.5 * ((spots + 0.5) / (spots.max() + 1) - 0.5)
            look = styles[method]
            axis.scatter(
                place + offsets,
                points["value"],
                s=18,
                color=look.color,
                marker=look.marker,
                alpha=0.75,
                lw=0,
            )
            axis.hlines(points["value"].mean(), place - 0.35, place + 0.35, color="black", lw=1.5)
        axis.set_xticks(range(len(present)), present, rotation=25 if len(present) > 4 else 0)
        axis.set(
            ylabel="IoU %",
            ylim=(min(0, part["value"].min()), None),
            xlim=(-0.6, len(present) - 0.4),
        )
        axis.grid(visible=False, axis="x")
    return figure


def sizes(material: Material) -> pd.DataFrame:
    """The IoU of images, in per cent, by the foreground's share of them."""
    found = by_size(material.images, by=CELL) if len(material.images) else pd.DataFrame()
    return (
        found.assign(mean=100 * found["mean"], spread=100 * found["spread"])
        if len(found)
        else found
    )


def draw_sizes(numbers: pd.DataFrame) -> Figure:
    """A line a method over classes of size; the bars are the deviation over images."""
    figure, parts = panels(numbers)
    names = [
        str(name) for name in numbers["size"].cat.categories if (numbers["size"] == name).any()
    ]
    for axis, part in parts:
        for n, (method, look, line) in enumerate(lines(part)):
            x = np.array([names.index(str(size)) for size in line["size"]]) + 0.06 * n
            axis.errorbar(
                x,
                line["mean"],
                line["spread"],
                color=look.color,
                ls=look.linestyle,
                marker=look.marker,
                ms=4,
                lw=1.3,
                elinewidth=0.6,
                label=method,
            )
        axis.set_xticks(range(len(names)), names)
        axis.set(xlabel="foreground, % of the image", ylabel="IoU %", ylim=(0, None))
    return legend(figure)


def agreement(material: Material) -> pd.DataFrame:
    """Differences to the baseline, subject by subject (seeds averaged), with their bias and limits."""
    values, tables = subjects(material), []
    if values.empty or material.baseline is None:
        return pd.DataFrame()
    means = values.groupby(["budget", "method", "subject"], sort=False)["value"].mean()
    for budget, method in dict.fromkeys(zip(values["budget"], values["method"], strict=True)):
        if (
            method == material.baseline
            or (budget, material.baseline) not in means.droplevel("subject").index
        ):
            continue
        found = bland_altman(means[budget, method], means[budget, material.baseline])
        cell = {"method": method, "budget": budget, "baseline": material.baseline}
        limits = {"bias": found.bias, "low": found.limits[0], "high": found.limits[1]}
        tables.append(
            pd.DataFrame({**cell, "mean": found.means, "difference": found.differences, **limits})
        )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def draw_agreement(numbers: pd.DataFrame) -> Figure:
    """Bland and Altman's plot: difference over mean, with the bias and where 95 % of differences lie."""
    figure, parts = panels(numbers)
    for axis, part in parts:
        axis.axhline(0, color="black", lw=0.8)
        for method, look, points in lines(part):
            color, first = look.color, points.iloc[0]
            axis.scatter(
                points["mean"],
                points["difference"],
                s=22,
                lw=0,
                c=color,
                marker=look.marker,
                label=method,
            )
            axis.axhline(first["bias"], color=color, lw=1.4)
            for limit in ("low", "high"):
                axis.axhline(first[limit], color=color, lw=0.8, ls="--")
        baseline = part["baseline"].iloc[0]
        axis.set(xlabel=f"mean IoU % with {baseline}", ylabel=f"difference to {baseline}, points")
    return legend(figure)


def robustness(material: Material) -> pd.DataFrame:
    """The IoU over levels of each shift, in per cent: mean and range over seeds; the clean images are level 0."""
    headline = material.scores[material.scores["metric"] == "iou"]
    if headline.empty or (headline["shift"] == "clean").all():
        return pd.DataFrame()
    spread = over_seeds(headline)
    spread[["mean", "std", "min", "max"]] *= 100
    clean, shifted = (spread[(spread["shift"] == "clean") == side] for side in (True, False))
    tables = []
    for shift, part in shifted.groupby("shift", sort=False):
        both = pd.concat(
            [clean.merge(part[CELL].drop_duplicates()).assign(level=0.0), part]
        ).assign(shift=shift)
        tables.append(both.drop_duplicates([*CELL, "level"], keep="last"))
    found = pd.concat(tables, ignore_index=True).sort_values("level", kind="stable")
    named = found["shift"] + (", " + found["budget"] if len(material.budgets) > 1 else "")
    return found.assign(panel=named)[
        ["panel", *CELL, "shift", "level", "mean", "min", "max", "seeds", "subjects"]
    ]


def draw_robustness(numbers: pd.DataFrame) -> Figure:
    """A panel a shift, a line a method, a band over seeds."""
    figure, parts = panels(numbers, by="panel")
    for axis, part in parts:
        for method, look, line in lines(part):
            axis.fill_between(
                line["level"], line["min"], line["max"], color=look.color, alpha=0.18, lw=0
            )
            axis.plot(
                line["level"],
                line["mean"],
                color=look.color,
                ls=look.linestyle,
                marker=look.marker,
                ms=4,
                label=method,
            )
        axis.set(xlabel=f"level of {part['shift'].iloc[0]}", ylabel="IoU %", ylim=(0, None))
    return legend(figure)
