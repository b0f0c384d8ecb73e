"""How many scans `segpl predict` would flag: held-out scans of a run, foreign scans and noise.

    python studies/flagged_scans.py RUN --other DATA --scans 60

Held-out scans should rarely be flagged unless their true Dice is low, foreign scans and noise
always.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from segpl.data.cases import Case
from segpl.data.layouts import read_dataset
from segpl.data.likeness import (
    LIMIT,
    TrainingStatistics,
    read_statistics,
    scan_statistics,
    summarise,
)
from segpl.data.preparation import load, load_truth
from segpl.data.scans import Scan, read_scan
from segpl.inference.predictor import MapOptions, Predictor, to_scan_grid
from segpl.inference.predictor import load as load_run
from segpl.inference.result import prediction_of
from segpl.metrics.overlap import dice
from segpl.prediction.flags import LOW_DICE
from segpl.rundir import read_split
from segpl.settings.run import read_run
from segpl.settings.subjects import held_out_cases_of


class Outcome(NamedTuple):
    """What is known of one predicted scan; means over its regions."""

    distance: float
    expected_dice: float
    true_dice: float = float("nan")


def statistics_of(directory: Path, predictor: Predictor) -> TrainingStatistics:
    """What training recorded; computed now for a run that recorded nothing."""
    recorded = read_statistics(directory)
    if recorded is not None:
        return recorded
    split = read_split(directory) or {}
    names = {*split["labelled"], *split["unlabelled"]}
    scans = []
    for case in read_dataset(predictor.run.data).training:
        if case.name in names:
            volume = load(case.unlabelled(), predictor.task, predictor.run.preparation)
            scans.append(scan_statistics(volume.x, predictor.task.channels))
    return summarise(scans)


def measure(scan: Scan, predictor: Predictor, training: TrainingStatistics) -> Outcome:
    """Predict a scan."""
    prepared = predictor.prepare(scan)
    likeness = training.likeness(scan_statistics(prepared.x, predictor.task.channels))
    assert likeness is not None
    maps = to_scan_grid(predictor.maps(prepared.x, MapOptions()), prepared.frame)
    prediction = prediction_of(maps, predictor.task.regions, prepared.frame)
    expected = [numbers.expected_dice for numbers in prediction.numbers.values()]
    true_dice = float("nan")
    if scan.case.label:
        truth = load_truth(scan.case, predictor.task)
        masks = torch.from_numpy(prediction.mask_levels > 32767)
        true_dice = float(dice(masks, truth.y).nanmean())
    return Outcome(likeness.distance, float(np.min(expected)), true_dice)


def noise_like(scans: Iterable[Scan]) -> Iterator[Scan]:
    """Scans of the same size that hold noise."""
    rng = np.random.default_rng(0)
    for scan in scans:
        images = []
        for image in scan.images:
            values = rng.normal(size=image.values.shape).astype(np.float32)
            images.append(image._replace(values=values))
        yield scan._replace(images=images, label=None, case=replace(scan.case, label=None))


def report(name: str, outcomes: list[Outcome]) -> None:
    """Print how many were flagged, and why."""
    distance = np.array([outcome.distance for outcome in outcomes])
    expected = np.array([outcome.expected_dice for outcome in outcomes])
    truth = np.array([outcome.true_dice for outcome in outcomes])
    is_unlike = distance > LIMIT
    is_low = expected < LOW_DICE
    print(f"{name}: {len(outcomes)} scans, {(is_unlike | is_low).sum()} flagged")
    print(f"  unlike {is_unlike.sum()}: distance {distance.min():.1f} to {distance.max():.1f}")
    lowest = np.nanmin(expected, initial=1)
    highest = np.nanmax(expected, initial=0)
    print(f"  low expected Dice {is_low.sum()}: {lowest:.2f} to {highest:.2f}")
    if np.isfinite(truth).any():
        correlation = np.corrcoef(expected, truth)[0, 1]
        print(f"  true Dice {truth.min():.2f} to {truth.max():.2f}, correlation {correlation:.2f}")
        for limit in (0.6, 0.65, 0.7, 0.75, 0.8):
            is_poor = truth < limit
            found = (is_poor & (expected < limit)).sum()
            false = (~is_poor & (expected < limit)).sum()
            print(
                f"  below {limit}: {is_poor.sum()} scans, {found} of them flagged, {false} others"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--other", type=Path, action="append", default=[])
    parser.add_argument("--scans", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    predictor = load_run(options.run)
    training = statistics_of(options.run, predictor)
    run = read_run(options.run)
    held_out: list[Case] = list(held_out_cases_of(run, read_dataset(run.data)))[: options.scans]
    scans = [read_scan(case) for case in held_out]
    report("held out", [measure(scan, predictor, training) for scan in scans])
    noise = noise_like(scans[:20])
    report("noise of the same size", [measure(scan, predictor, training) for scan in noise])
    for folder in options.other:
        dataset = read_dataset(folder)
        cases = [case.unlabelled() for case in dataset.test + dataset.training]
        outcomes = []
        for case in cases[: options.scans]:
            outcomes.append(measure(read_scan(case), predictor, training))
        report(folder.name, outcomes)


if __name__ == "__main__":
    main()
