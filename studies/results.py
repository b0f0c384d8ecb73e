"""Writes docs/results.md, and the figure of docs/understanding.md, from studies/results.

python studies/results.py                            write the page and its figures again
python studies/results.py --take hippocampus=OUT     first copy the scores of a finished study
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segpl.foundation.files import write_text
from segpl.foundation.named import Settings
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
from segpl.reporting.verdict import (
    Comparison,
    Kind,
    Verdict,
    compare,
    gains,
    pairs,
    verdicts,
)
from segpl.rundir import read_plain, read_table
from segpl.study.single_run import DONE_FILE

HERE = Path(__file__).parent
KEPT = HERE / "results"
"""A folder for each study, with its scores."""
PAGE = HERE.parent / "docs" / "results.md"
DPI = 110

OURS = "segpl-em"
BASELINE = "supervised"
CONTROL = "supervised-averaged"
MOST_EXPENSIVE = "cps"
RIVALS = (CONTROL, "fixmatch", "cps", "mean-teacher")
LATER_SEEDS = (3, 4, 5)
"""Seeds that were added after the scores of the others had been seen (docs/protocol.md)."""

METRICS = ("iou", "dice")
SCORE_COLUMNS = [
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

POINTS = Format(".1f")
PER_CENT = Format(".1f", 100)
TABLE_COLUMNS = (
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

CAPTION = "Effect over supervised training with its 95 % interval, by method"
COLOURS = {Kind.HELPS: "#2ca02c", Kind.INCONCLUSIVE: "0.5", Kind.HURTS: "#d62728"}
UNDERSTANDING_PANELS = {
    "validation_iou": "validation subjects",
    "pseudo_iou": "unlabelled subjects, against their hidden truth",
}
UNDERSTANDING_COLOURS = {
    "supervised, rate 0.003, mirrored": "0.6",
    "segpl-em, rate 0.01, slow average": "#ff7f0e",
    "supervised": "#1f77b4",
    "segpl-em, T = 0.5, Dice and cross-entropy": "#2ca02c",
}

BudgetNames = dict[int | None, str]
"""The name of each number of labelled subjects; None stands for all of them."""


def main() -> None:
    """Copy the scores of the given studies, and write the page with its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", nargs="+", default=[], metavar="NAME=OUT")
    for text in parser.parse_args().take:
        name, _, out = text.partition("=")
        take_scores(name, Path(out))
    understanding = draw_understanding(pd.read_csv(KEPT / "understanding.csv"))
    understanding.savefig(PAGE.parent / "understanding.png", dpi=DPI)
    parts = [(KEPT / "opening.md").read_text(encoding="utf-8")]
    for file in sorted(KEPT.glob("*/scores.csv")):
        parts.extend(section(file.parent))
    write_text(PAGE, "\n".join(parts))


def take_scores(name: str, out: Path) -> None:
    """Copy the scores of a study's finished runs that the page needs."""
    tables = []
    for done in sorted(out.glob(f"runs/*/{DONE_FILE}")):
        run = done.parent
        scores_file = run / read_plain(done)["scores"]
        table = read_table(scores_file)
        is_needed = table["metric"].isin(METRICS) & (table["shift"] == "clean")
        # The name of a run's directory begins with the study's label of its method.
        label, _, _ = run.name.partition("_")
        named = table[is_needed].assign(run=run.name, method=label)
        tables.append(named[SCORE_COLUMNS])
    text = pd.concat(tables).to_csv(index=False, float_format="%.5f")
    write_text(KEPT / name / "scores.csv", text)


def section(folder: Path) -> list[str]:
    """The part of the page about one study: a table with notes, and a figure."""
    study = read_plain(HERE / f"{folder.name}.yaml")
    title = study["title"]
    scores = read_table(folder / "scores.csv")
    budgets = budgets_with_scores(study, scores)
    scores = scores.assign(budget=scores["labelled"].map(budgets))
    answers = verdicts(scores, BASELINE, labels_only=[BASELINE, CONTROL])
    figure = PAGE.parent / f"results-{folder.name}.png"
    draw_effects(answers, title, budgets).savefig(figure, dpi=DPI)
    groups = table_groups(scores, answers, budgets, step_seconds(title))
    notes = list(section_notes(folder.name, study, scores, answers))
    table = Table(title, TABLE_COLUMNS, groups, notes, marks_best=True)
    image = f"![{CAPTION}]({figure.name})\n"
    return [markdown(table), image]


def budget_names(study: Settings) -> BudgetNames:
    """The names of the budgets by number of labelled subjects: a label, or else the number."""
    names = {}
    for budget in study["budgets"]:
        if isinstance(budget, dict):
            labelled = budget["labelled"]
            names[labelled] = budget.get("label", f"{labelled}")
        else:
            names[budget] = f"{budget}"
    return names


def budgets_with_scores(study: Settings, scores: pd.DataFrame) -> BudgetNames:
    """The names of those budgets that have runs already."""
    available = set(scores["labelled"])
    names = {}
    for labelled, name in budget_names(study).items():
        if labelled in available:
            names[labelled] = name
    return names


def table_groups(
    scores: pd.DataFrame,
    answers: Sequence[Verdict],
    budgets: BudgetNames,
    seconds: pd.Series,
) -> list[list[Row]]:
    """A group for each number of labelled subjects, with a row for each method."""
    by_cell = {}
    for answer in answers:
        by_cell[answer.comparison.labelled, answer.comparison.method] = answer
    groups = []
    for labelled, name in budgets.items():
        at_budget = scores[scores["labelled"] == labelled]
        iou = mean_by_seed(at_budget, "iou")
        dice = mean_by_seed(at_budget, "dice")
        rows: list[Row] = []
        for method in iou.index.unique("method"):
            row: list[Value] = [name, str(method)]
            row += [_spread(iou[method]), dice[method].mean()]
            row += _answer_cells(by_cell.get((labelled, method)))
            row += [_seeds_ahead(iou, method), _relative_step(seconds, method)]
            rows.append(row)
        groups.append(rows)
    return groups


def mean_by_seed(scores: pd.DataFrame, metric: str) -> pd.Series:
    """The mean over test subjects, regions averaged, of each method and seed."""
    keys = ["method", "seed"]
    of_metric = scores[scores["metric"] == metric]
    subjects = mean_of_regions(of_metric, [*keys, "subject"])
    return subjects.groupby(keys, sort=False).mean()


def _spread(seeds: pd.Series) -> Spread:
    """Mean and standard deviation over seeds; one seed has no deviation."""
    deviation = seeds.std() if len(seeds) > 1 else None
    return Spread(seeds.mean(), deviation)


def _answer_cells(answer: Verdict | None) -> list[Value]:
    """Effect, p and verdict; supervised training has none."""
    if answer is None:
        return [None, None, MISSING]
    return [_effect(answer.comparison), answer.p, answer.kind.value]


def _effect(comparison: Comparison) -> Effect:
    return Effect(comparison.effect, comparison.low, comparison.high)


def _seeds_ahead(iou: pd.Series, method: str) -> Value:
    """How many seeds are better than supervised training; for that, its number of seeds."""
    seeds = iou[method]
    if method == BASELINE:
        return len(seeds)
    is_ahead = seeds > iou[BASELINE][seeds.index]
    return f"{is_ahead.sum()} of {len(seeds)}"


def step_seconds(title: str) -> pd.Series:
    """Seconds of a training step by method, measured in one process (studies/steps.py)."""
    rows = pd.read_csv(KEPT / "steps.csv")
    return rows[rows["configuration"] == title].set_index("method")["seconds"]


def _relative_step(seconds: pd.Series, method: str) -> float | None:
    if method not in seconds:
        return None
    return seconds[method] / seconds[MOST_EXPENSIVE]


def section_notes(
    name: str,
    study: Settings,
    scores: pd.DataFrame,
    answers: Sequence[Verdict],
) -> Iterator[str]:
    """The notes below the table: the answer, the rivals, and what is missing."""
    budgets = budget_names(study)
    ours = [answer for answer in answers if answer.comparison.method == OURS]
    for answer in ours:
        yield answer.sentence
    yield from note_on_later_seeds(scores, budgets)
    for answer in ours:
        yield note_on_power(scores, answer.comparison, len(answers))
    yield from notes_on_rivals(scores, budgets)
    yield note_on_subjects(scores)
    if len(step_seconds(study["title"])):
        yield note_on_steps()
    yield from note_on_missing_runs(study, scores)
    yield f"`segpl study studies/{name}.yaml --data DATA --out OUT` makes the runs."


def note_on_later_seeds(scores: pd.DataFrame, budgets: BudgetNames) -> Iterator[str]:
    """The effect in the seeds added later, alone: an independent second experiment."""
    later = scores[scores["seed"].isin(LATER_SEEDS)]
    first = LATER_SEEDS[0]
    last = LATER_SEEDS[-1]
    for labelled, name in budgets.items():
        at_budget = later[later["labelled"] == labelled]
        if at_budget.size:
            effect = POINTS.text(_effect(compare(at_budget, OURS, BASELINE)))
            yield (
                f"Seeds {first} to {last} alone, which were added after the others had been seen: "
                f"{OURS} minus {BASELINE} at {name} labelled is {effect} IoU points."
            )


def note_on_power(scores: pd.DataFrame, comparison: Comparison, family: int) -> str:
    """How large an effect would have to be to be significant, given the observed spread."""
    at_budget = scores[scores["labelled"] == comparison.labelled]
    differences = gains(pairs(at_budget, comparison.method, comparison.baseline))
    corrected = interval(differences, 1 - (1 - LEVEL) / family)
    alone = (comparison.high - comparison.low) / 2
    among = (corrected.high - corrected.low) / 2
    return (
        f"With this spread, the effect of {OURS} at {comparison.budget} labelled would have to "
        f"exceed {alone:.1f} points for its interval to exclude 0, and {among:.1f} points for a "
        f"verdict as the clearest of {family} comparisons."
    )


def notes_on_rivals(scores: pd.DataFrame, budgets: BudgetNames) -> Iterator[str]:
    """Our method against its control and its rivals; not corrected, as nothing is claimed."""
    for labelled, name in budgets.items():
        at_budget = scores[scores["labelled"] == labelled]
        methods = set(at_budget["method"])
        for rival in RIVALS:
            if OURS in methods and rival in methods:
                effect = POINTS.text(_effect(compare(at_budget, OURS, rival)))
                yield (
                    f"{OURS} minus {rival} at {name} labelled: {effect} IoU points, "
                    "not corrected for multiple comparisons."
                )


def note_on_subjects(scores: pd.DataFrame) -> str:
    """How many subjects were tested, and why means and effects do not add up."""
    per_seed = scores.groupby("seed")["subject"].nunique().max()
    total = scores["subject"].nunique()
    if total > per_seed:
        subjects = (
            f"{per_seed} test subjects per seed, {total} in total: each seed draws test, "
            "validation and labelled subjects, so ± includes the variation between draws"
        )
    else:
        subjects = (
            f"The same {per_seed} test subjects with every seed; "
            "each seed draws validation and labelled subjects"
        )
    return f"{subjects}. IoU and Dice are means over seeds; effects are means over test subjects."


def note_on_steps() -> str:
    """The meaning of the last column."""
    return (
        f"*Step* is the time of a training step relative to {MOST_EXPENSIVE}, with 4 patches each "
        f"(all labelled for {BASELINE}, which has 2 in the study; {OURS} when it uses "
        "pseudo-labels): `python studies/steps.py`."
    )


def note_on_missing_runs(study: Settings, scores: pd.DataFrame) -> Iterator[str]:
    """Which methods of the study have not been run, and which runs of the others are missing."""
    columns = scores[["labelled", "method", "seed"]]
    done = set(columns.itertuples(index=False, name=None))
    budgets = budget_names(study)
    with_runs = set(scores["method"])
    methods = [label for label in method_labels(study) if label in with_runs]
    without_runs = [label for label in method_labels(study) if label not in with_runs]
    if without_runs:
        yield f"Not run yet: {', '.join(without_runs)}."
    requested = list(product(budgets, methods, study["seeds"]))
    missing = [run for run in requested if run not in done]
    where = []
    for budget, name in budgets.items():
        seeds = {seed for labelled, _, seed in missing if labelled == budget}
        if seeds:
            numbers = ", ".join(str(seed) for seed in sorted(seeds))
            where.append(f"at {name} labelled with seeds {numbers}")
    if where:
        count = len(requested) - len(done)
        yield (
            f"{count} of the study's {len(requested)} runs have not been made: "
            f"{' and '.join(where)}."
        )


def method_labels(study: Settings) -> list[str]:
    """The label of each method of a study file."""
    labels = []
    for method in study["methods"]:
        labels.append(method["label"] if isinstance(method, dict) else method)
    return labels


def draw_effects(answers: Sequence[Verdict], title: str, budgets: BudgetNames) -> Figure:
    """Effects with their intervals, one above the other, the first at the top."""
    height = 0.6 + 0.32 * len(answers)
    figure = Figure(figsize=(7, height), layout="constrained")
    axis = figure.subplots()
    names = []
    for y, answer in enumerate(reversed(answers)):
        comparison = answer.comparison
        colour = COLOURS[answer.kind]
        ends = [comparison.low, comparison.high]
        axis.plot(ends, [y, y], color=colour, lw=2, solid_capstyle="round")
        axis.plot(comparison.effect, y, "o", color=colour, ms=6)
        budget = budgets[comparison.labelled]
        names.append(f"{comparison.method}, {budget} labelled")
    axis.axvline(0, color="0.3", lw=1)
    axis.set_yticks(range(len(answers)), names, fontsize=8)
    axis.set_xlabel(f"{title}: IoU points over supervised training", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    return figure


def draw_understanding(rows: pd.DataFrame) -> Figure:
    """The quality of masks and of pseudo-labels over the steps of training, one panel each."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, column in zip(axes, UNDERSTANDING_PANELS, strict=True):
        _draw_variants(axis, rows, column)
        axis.set_title(UNDERSTANDING_PANELS[column], fontsize=9)
        axis.set_xlabel("step", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("IoU %", fontsize=8)
    axes[1].legend(fontsize=6, frameon=False, handlelength=4)
    return figure


def _draw_variants(axis: Axes, rows: pd.DataFrame, column: str) -> None:
    """A line for each variant and seed; seed 0 is solid, others are dashed."""
    for variant, colour in UNDERSTANDING_COLOURS.items():
        of_variant = rows[rows["variant"] == variant]
        for seed, of_seed in of_variant.groupby("seed"):
            axis.plot(
                of_seed["step"],
                100 * of_seed[column],
                color=colour,
                ls="-" if seed == 0 else "--",
                marker="o",
                ms=3,
                label=f"{variant}; seed {seed}",
            )


if __name__ == "__main__":
    main()
