"""docs/results.md, and the figure of docs/understanding.md, from what is kept in studies/results: a folder a study.

python studies/results.py                            write the page and its figures anew
python studies/results.py --take hippocampus=OUT     first take the scores of a finished study from OUT
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from segpl.foundation.files import write_text
from segpl.reporting.render import markdown
from segpl.reporting.statistics import LEVEL, interval, mean_of_regions
from segpl.reporting.table import (
    MISSING,
    Better,
    Column,
    Effect,
    Format,
    Row,
    Spread,
    Table,
    Value,
    text_column,
)
from segpl.reporting.verdict import Kind, Verdict, compare, gains, pairs, verdicts
from segpl.rundir import read_table
from segpl.study.work import DONE

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "results", HERE.parent / "docs" / "results.md"
OURS, PLAIN, CONTROL = "segpl-em", "supervised", "supervised-averaged"
BESIDE, DEAREST = (CONTROL, "fixmatch", "cps", "mean-teacher"), "cps"
LATER = (3, 4, 5)
"""Seeds that were decided on when the scores of the others had been seen (docs/protocol.md)."""
METRICS = ("iou", "dice")
COLUMNS = [
    "run",
    "method",
    "labelled",
    "seed",
    "subject",
    "case",
    "region",
    "shift",
    "level",
    "metric",
    "value",
]
SHOWN = {
    "validation_iou": "validation subjects",
    "pseudo_iou": "unlabelled subjects, against their hidden truth",
}
VARIANTS = {
    "supervised, rate 0.003, mirrored": "0.6",
    "segpl-em, rate 0.01, slow average": "#ff7f0e",
    "supervised": "#1f77b4",
    "segpl-em, T = 0.5, Dice and cross-entropy": "#2ca02c",
}
COLOURS = {Kind.HELPS: "#2ca02c", Kind.CANNOT_TELL: "0.5", Kind.HURTS: "#d62728"}


def take(name: str, out: Path) -> None:
    """Keep the scores of a study's finished runs, without those that the page has no use for."""
    scores = []
    for done in sorted(out.glob(f"runs/*/{DONE}")):
        run, result = done.parent, json.loads(done.read_text(encoding="utf-8"))
        table = read_table(run / result["scores"])
        kept = table[table["metric"].isin(METRICS) & (table["shift"] == "clean")]
        # A run's directory begins with what the study calls its method.
        scores.append(kept.assign(run=run.name, method=run.name.partition("_")[0])[COLUMNS])
    write_text(
        KEPT / name / "scores.csv", pd.concat(scores).to_csv(index=False, float_format="%.5f")
    )


def section(folder: Path) -> Iterator[str]:
    """What a study found: verdicts, a table, a figure."""
    study = yaml.safe_load((HERE / f"{folder.name}.yaml").read_text(encoding="utf-8"))
    scores = read_table(folder / "scores.csv")
    names = {
        number: name
        for number, name in budget_names(study).items()
        if number in set(scores["labelled"])
    }
    scores = scores.assign(budget=scores["labelled"].map(names))
    found = verdicts(scores, PLAIN, labels_alone=[PLAIN, CONTROL])
    figure = PAGE.parent / f"results-{folder.name}.png"
    draw(found, study["title"], names).savefig(figure, dpi=110)
    steps = seconds_a_step(study["title"])
    yield markdown(
        table(
            study["title"],
            scores,
            found,
            names,
            steps,
            list(notes(folder.name, study, scores, found)),
        )
    )
    yield f"![Effect over supervised training with its 95 % interval, by method]({figure.name})\n"


def notes(
    name: str, study: dict[str, Any], scores: pd.DataFrame, found: Sequence[Verdict]
) -> Iterator[str]:
    """What must be known beside the table: the answer, the rivals, and what is missing."""
    ours = [one for one in found if one.comparison.method == OURS]
    yield from (one.sentence for one in ours)
    yield from on_later_seeds(scores, budget_names(study))
    yield from (on_power(scores, one, len(found)) for one in ours)
    yield from against_rivals(scores, budget_names(study))
    yield on_subjects(scores)
    yield from on_steps(seconds_a_step(study["title"]))
    yield from on_missing(study, scores)
    yield f"`segpl study studies/{name}.yaml --data DATA --out OUT` makes the runs."


def on_later_seeds(scores: pd.DataFrame, names: dict[int | None, str]) -> Iterator[str]:
    """What the seeds say by themselves that were added when others had been seen: a clean second trial."""
    later = scores[scores["seed"].isin(LATER)]
    seeds = f"the seeds {LATER[0]} to {LATER[-1]} by themselves, which were added when the others had been seen"
    for labelled, name in names.items():
        if (part := later[later["labelled"] == labelled]).size:
            it = compare(part, OURS, PLAIN)
            yield f"{OURS} less {PLAIN} at {name} labelled, {seeds}: {_effect(it.effect, it.low, it.high)}."


def on_power(scores: pd.DataFrame, one: Verdict, family: int) -> str:
    """How large an effect would have had to be, with as much spread, to be called one."""
    it = one.comparison
    differences = gains(pairs(scores[scores["labelled"] == it.labelled], it.method, it.baseline))
    corrected = interval(differences, 1 - (1 - LEVEL) / family)
    alone, among = ((each.high - each.low) / 2 for each in (it, corrected))
    return (
        f"With its spread, {OURS} at {it.budget} labelled would have to be {alone:.1f} points off for its interval to "
        f"miss 0, and {among:.1f} for a verdict as the clearest of {family}: less cannot be told here."
    )


def on_subjects(scores: pd.DataFrame) -> str:
    """Who was tested, and why a column of means does not add up to a column of effects."""
    tested = scores.groupby("seed")["subject"].nunique()
    drawn = (
        f"{tested.max()} test subjects a seed, {scores['subject'].nunique()} in all: a seed draws test, validation and "
        "labelled subjects anew, so that ± is the spread of draws and trainings together"
        if scores["subject"].nunique() > tested.max()
        else f"The same {tested.max()} test subjects with every seed; validation and labelled ones are drawn anew"
    )
    return f"{drawn}. IoU and Dice are means over seeds, an effect is one over test subjects."


def on_missing(study: dict[str, Any], scores: pd.DataFrame) -> Iterator[str]:
    """Which runs of the study have not been made."""
    done = set(scores[["labelled", "method", "seed"]].itertuples(index=False, name=None))
    names = budget_names(study)
    methods = [each["label"] if isinstance(each, dict) else each for each in study["methods"]]
    wanted = list(product(names, methods, study["seeds"]))
    where = []
    for labelled, name in names.items():
        seeds = {
            seed
            for number, method, seed in wanted
            if number == labelled and (number, method, seed) not in done
        }
        if seeds:
            where.append(f"at {name} labelled with seeds {', '.join(map(str, sorted(seeds)))}")
    if where:
        yield f"{len(wanted) - len(done)} of the study's {len(wanted)} runs have not been made, {' and '.join(where)}."


def budget_names(study: dict[str, Any]) -> dict[int | None, str]:
    """What the page calls a number of labelled subjects: the study's own word for it, if it has one."""
    given = [each if isinstance(each, dict) else {"labelled": each} for each in study["budgets"]]
    return {each["labelled"]: each.get("label", f"{each['labelled']}") for each in given}


def against_rivals(scores: pd.DataFrame, names: dict[int | None, str]) -> Iterator[str]:
    """How ours stands beside its control and its rivals; nothing is claimed, so nothing is corrected."""
    for labelled, name in names.items():
        part = scores[scores["labelled"] == labelled]
        for rival in BESIDE:
            if {OURS, rival} <= set(part["method"]):
                it = compare(part, OURS, rival)
                effect = _effect(it.effect, it.low, it.high)
                yield f"{OURS} less {rival} at {name} labelled: {effect} IoU points, not corrected."


def seconds_a_step(title: str) -> pd.Series:
    """What a training step of each method takes, taken by turns in one process (studies/steps.py)."""
    rows = pd.read_csv(KEPT / "steps.csv")
    return rows[rows["configuration"] == title].set_index("method")["seconds"]


def on_steps(seconds: pd.Series) -> Iterator[str]:
    """What the last column says."""
    if len(seconds):
        yield (
            f"*Step* is the time of a training step as a share of one of {DEAREST}, all with 4 patches (all labelled "
            f"in {PLAIN}, which has 2 in the study; {OURS} once pseudo-labels count): `python studies/steps.py`."
        )


POINTS = Format(".1f")
PER_CENT = Format(".1f", 100)
COLUMNS_SHOWN = (
    text_column("labelled"),
    text_column("method"),
    Column("IoU %", PER_CENT, better=Better.HIGHER),
    Column("Dice %", PER_CENT),
    Column("over supervised", POINTS),
    Column("p (Holm)", Format(".2g")),
    text_column("verdict"),
    Column("seeds ahead"),
    Column("step", Format(".2f")),
)


def table(
    title: str,
    scores: pd.DataFrame,
    found: Sequence[Verdict],
    names: dict[int | None, str],
    steps: pd.Series,
    notes: Sequence[str],
) -> Table:
    """A row for each method and number of labelled subjects."""
    answers = {(one.comparison.labelled, one.comparison.method): one for one in found}
    groups = []
    for labelled, name in names.items():
        part = scores[scores["labelled"] == labelled]
        iou = by_seed(part, "iou")
        dice = by_seed(part, "dice")
        rows: list[Row] = []
        for method in map(str, iou.index.unique("method")):
            answer = answers.get((labelled, method))
            cells = [_spread(iou[method]), dice[method].mean(), *_answer(answer)]
            ahead = _ahead(iou[method], iou[PLAIN]) if method != PLAIN else len(iou[method])
            step = steps[method] / steps[DEAREST] if method in steps else None
            rows.append([name, method, *cells, ahead, step])
        groups.append(rows)
    return Table(title, COLUMNS_SHOWN, groups, notes, marks_best=True)


def by_seed(scores: pd.DataFrame, metric: str) -> pd.Series:
    """The mean over test subjects, regions averaged, of each method and seed."""
    keys = ["method", "seed"]
    subjects = mean_of_regions(scores[scores["metric"] == metric], [*keys, "subject"])
    return subjects.groupby(keys, sort=False).mean()


def _ahead(seeds: pd.Series, plain: pd.Series) -> str:
    return f"{(seeds > plain[seeds.index]).sum()} of {len(seeds)}"


def _spread(seeds: pd.Series) -> Spread:
    return Spread(seeds.mean(), seeds.std() if len(seeds) > 1 else None)


def _answer(one: Verdict | None) -> list[Value]:
    """Effect, p and verdict; supervised training has none."""
    if one is None:
        return [None, None, MISSING]
    it = one.comparison
    return [Effect(it.effect, it.low, it.high), one.p, one.kind.value]


def draw(found: Sequence[Verdict], title: str, budgets: dict[int | None, str]) -> Figure:
    """Effects with their intervals, one above the other."""
    figure = Figure(figsize=(7, 0.6 + 0.32 * len(found)), layout="constrained")
    axis = figure.subplots()
    for place, one in enumerate(reversed(found)):
        it, colour = one.comparison, COLOURS[one.kind]
        axis.plot([it.low, it.high], [place, place], color=colour, lw=2, solid_capstyle="round")
        axis.plot(it.effect, place, "o", color=colour, ms=6)
    axis.axvline(0, color="0.3", lw=1)
    names = [
        f"{one.comparison.method}, {budgets[one.comparison.labelled]} labelled"
        for one in reversed(found)
    ]
    axis.set_yticks(range(len(found)), names, fontsize=8)
    axis.set_xlabel(f"{title}: IoU points over supervised training", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    return figure


def draw_understanding(rows: pd.DataFrame) -> Figure:
    """How masks of validation subjects, and pseudo-labels of unlabelled ones, get better over training."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axis, (column, title) in zip(both, SHOWN.items(), strict=True):
        for variant, colour in VARIANTS.items():
            for seed, part in rows[rows["variant"] == variant].groupby("seed"):
                style = {"color": colour, "ls": "-" if seed == 0 else "--", "marker": "o", "ms": 3}
                axis.plot(
                    part["step"], 100 * part[column], **style, label=f"{variant}; seed {seed}"
                )
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("step", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    both[0].set_ylabel("IoU %", fontsize=8)
    both[1].legend(fontsize=6, frameon=False, handlelength=4)
    return figure


def _effect(effect: float, low: float, high: float) -> str:
    return POINTS.text(Effect(effect, low, high))


def main() -> None:
    """Take what is asked for, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", nargs="+", default=[], metavar="NAME=OUT")
    for name, _, out in (each.partition("=") for each in parser.parse_args().take):
        take(name, Path(out))
    draw_understanding(pd.read_csv(KEPT / "understanding.csv")).savefig(
        PAGE.parent / "understanding.png", dpi=110
    )
    opening = (HERE / "results" / "opening.md").read_text(encoding="utf-8")
    folders = sorted(file.parent for file in KEPT.glob("*/scores.csv"))
    parts = [part for folder in folders for part in section(folder)]
    write_text(PAGE, "\n".join([opening, *parts]))


if __name__ == "__main__":
    main()
