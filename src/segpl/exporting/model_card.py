"""A model card: what a model was trained on, what it is for, how good it is and where it ends.

Everything in it is read from the run directory, so nothing is claimed that was not recorded.
"""

from pathlib import Path
from typing import Any

from segpl import __version__
from segpl.data.likeness import LIMIT, read_statistics
from segpl.exporting.documentation import describe_preparation
from segpl.exporting.trained import Trained
from segpl.rundir import PROVENANCE_FILE, SCORES_FILE, read_plain, read_split, read_table

CARD_FILE = "MODEL_CARD.md"
METRICS = {
    "dice": "Dice, %",
    "iou": "IoU, %",
    "hd95": "HD95, mm",
    "volume_error": "volume error, ml",
}
FACTORS = {"dice": 100, "iou": 100}
"""Metrics that are shown in per cent."""

CARD = """# Model card: {name}

## Model

A {dimensions}D U-Net that segments {regions} in {channels}. It was trained by segpl {version} with
the method {method} for {steps} steps (seed {seed}){start}.
A scan is prepared as follows: {preparation}.

## Training data

{data}

## Scores

{scores}

## Intended use

Research: masks of {regions} for scans like those of the training data, looked at by somebody who
can judge them. It is not a medical device and must not be the only basis of a decision about a
patient.

## Limits

- It was tested on scans of the same collection as the training scans, if at all. On another
  scanner, protocol or population expect lower scores, and measure them first.
{limits}
- Expected Dice, uncertainty and intervals come from the model's own probabilities. They are too
  optimistic for scans that the model does not know.
- Age, sex and origin of the subjects were not recorded, so nothing is known about differences
  between groups.
"""


def model_card(trained: Trained, name: str) -> str:
    """The model card of a trained run in Markdown."""
    run = trained.run
    start = f", from the weights of {run.start_from.name}" if run.start_from else ""
    return CARD.format(
        name=name,
        dimensions=len(run.patch),
        regions=_listed([region.name for region in trained.task.regions]),
        channels=_listed(list(trained.task.channels)),
        version=__version__,
        method=run.method.name(),
        steps=run.steps,
        seed=run.seed,
        start=start,
        preparation=describe_preparation(trained),
        data=_data(trained.directory, run.data),
        scores=_scores(trained.directory),
        limits=_limits(trained.directory),
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _data(directory: Path, folder: Path) -> str:
    """What training has seen. The cases are counted and not named: names may identify patients."""
    split = read_split(directory) or {}
    lines = [f"- Folder `{folder.name}`, {_fingerprint(directory)}."]
    for use, purpose in (
        ("labelled", "learnt from with their labels"),
        ("unlabelled", "learnt from without labels"),
        ("validation", "used to choose the weights"),
    ):
        lines.append(f"- {len(split.get(use, ()))} cases {purpose}.")
    lines.append(f"- {len(split.get('subjects', ()))} subjects in all. Splits are by subject.")
    return "\n".join(lines)


def _fingerprint(directory: Path) -> str:
    file = directory / PROVENANCE_FILE
    if not file.is_file():
        return "without a record of its files"
    first: dict[str, Any] = read_plain(file)[0]
    return f"files {first['data']['fingerprint'][:19]}, training started {first['started'][:10]}"


def _scores(directory: Path) -> str:
    """A table of the test scores by region; a sentence if the run was not evaluated."""
    file = directory / SCORES_FILE
    if not file.is_file():
        return "The model was not evaluated: `segpl evaluate RUN`, then export it again."
    scores = read_table(file)
    clean = scores[(scores["shift"] == "clean") & scores["metric"].isin(METRICS)]
    subjects = clean["subject"].nunique()
    by_subject = clean.groupby(["region", "metric", "subject"], sort=False)["value"].mean()
    means = by_subject.groupby(["region", "metric"], sort=False).agg(["mean", "min", "max"])
    lines = [
        f"Mean over {subjects} test subjects, and range:",
        "",
        "| region | " + " | ".join(METRICS.values()) + " |",
        "| --- |" + " ---: |" * len(METRICS),
    ]
    for region in dict.fromkeys(clean["region"]):
        cells = []
        for metric in METRICS:
            factor = FACTORS.get(metric, 1)
            mean, low, high = (factor * means.loc[(region, metric)]).tolist()
            cells.append(f"{mean:.3g} ({low:.3g} to {high:.3g})")
        lines.append(f"| {region} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _limits(directory: Path) -> str:
    statistics = read_statistics(directory)
    if statistics is None:
        return "- What the training scans look like was not recorded."
    return (
        f"- `segpl predict` flags scans of which size, grey values or texture are more than "
        f"{LIMIT:g} standard\n  deviations from those of {statistics.scans} training scans. Other "
        "differences go unnoticed."
    )
