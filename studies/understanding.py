"""Trains variants that differ in one setting, and measures their pseudo-labels against the truth.

    python studies/understanding.py DATA OUT [--seeds 0 1] [--only NAME ...] [--set steps=400 ...]

Trains every variant of understanding.yaml with every seed, continues what was interrupted, and
writes a row for each validation to OUT/understanding.csv. Variants are compared on the validation
subjects; test subjects are never read. The labels of some unlabelled subjects are used to measure
the pseudo-labels, never to train.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import pandas as pd
import torch
import yaml
from torch import Tensor

from segpl.data.cache import Cache, default_folder
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Volume
from segpl.data.splits import training_cases
from segpl.foundation.files import write_text
from segpl.foundation.named import merged
from segpl.inference.windows import predict_volume
from segpl.metrics.overlap import iou
from segpl.rundir import LOG_FILE
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.training.loop import train

WATCHED = 6
"""How many unlabelled subjects have their pseudo-labels compared with their hidden labels."""
TRUTH_ENDING = ".truth.json"
"""The ending of the file beside a run directory with these comparisons."""
COLUMNS = ["variant", "seed", "step", "validation_iou", "pseudo_iou", "mistakes_kept"]

VARIANTS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("understanding.yaml").read_text()
)
"""Settings by name; other settings have their defaults."""


class CompareWithTruth(lightning.Callback):
    """Compares pseudo-labels of a few subjects with their hidden labels at each validation."""

    def __init__(self, volumes: list[Volume], file: Path):
        self.volumes = volumes
        self.file = file
        self.previous_mistakes: list[Tensor] = []
        """Which voxels of each volume were wrong at the previous validation."""

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: lightning.Trainer, learner: Any) -> None:
        """Record the IoU, and the share of the previous mistakes that are still there."""
        scores: list[float] = []
        mistakes: list[Tensor] = []
        learner.model.eval()
        for volume in self.volumes:
            assert volume.y is not None, "watched subjects are labelled"
            y = _predict(learner, volume.x) > 0.5
            scores.append(float(iou(y, volume.y).nanmean()))
            mistakes.append(y != volume.y)
        learner.model.train()
        row = {
            "step": trainer.global_step,
            "pseudo_iou": sum(scores) / len(scores),
            "mistakes_kept": _share_kept(mistakes, self.previous_mistakes),
        }
        self.previous_mistakes = mistakes
        self._append(row)

    def _append(self, row: dict[str, float]) -> None:
        """Add a row to the file, without rows of later steps from before an interruption."""
        rows = []
        if self.file.is_file():
            rows = json.loads(self.file.read_text())
        earlier = [other for other in rows if other["step"] < row["step"]]
        write_text(self.file, json.dumps([*earlier, row]))


def _predict(learner: Any, x: Tensor) -> Tensor:
    """A map of a whole volume that exceeds 1/2 inside the masks."""
    run: Run = learner.run

    def predict_window(window: Tensor) -> Tensor:
        return run.method.predict(learner.model, window).samples[0]

    return predict_volume(predict_window, x, run.patch)


def _share_kept(mistakes: Sequence[Tensor], previous: Sequence[Tensor]) -> float:
    """The share of previous mistakes that are mistakes again, averaged over volumes.

    NaN at the first validation, which has no previous one.
    """
    if not previous:
        return float("nan")
    shares = []
    for now, before in zip(mistakes, previous, strict=True):
        kept = now & before
        shares.append(float(kept.sum() / before.sum()))
    return sum(shares) / len(shares)


def main() -> None:
    """Train the variants that are not trained yet, and collect the logs of all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of all variants"
    )
    options = parser.parse_args()
    common = _parse_settings(options.set)
    for seed in options.seeds:
        for name in options.only:
            given = {"seed": seed, **common, **VARIANTS[name]}
            in_order = dict(sorted(given.items()))  # `method` before `method.alpha`
            run = plan_run(options.data, merged({}, in_order))
            _train(run, options.out / f"{name}-{seed}")
    _collect(options.out)


def _parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Settings from texts such as `steps=400`."""
    settings = {}
    for text in texts:
        key, _, value = text.partition("=")
        settings[key] = yaml.safe_load(value)
    return settings


def _train(run: Run, directory: Path) -> None:
    cache = Cache(default_folder())
    dataset = read_dataset(run.data)
    cases = training_cases(dataset, run.labelled, run.seed, run.validation, run.test)
    if not cases.validation:
        raise SystemExit(
            "Variants are compared on validation subjects: ask for some, as in --set validation=12."
        )
    unlabelled = {case.name for case in cases.unlabelled}
    hidden = [case for case in dataset.training if case.name in unlabelled and case.label]
    volumes = cache.volumes(hidden[:WATCHED], dataset.task, run.preparation)
    file = directory.with_name(directory.name + TRUTH_ENDING)
    file.parent.mkdir(parents=True, exist_ok=True)
    comparison = CompareWithTruth(volumes, file)
    train(run, directory, resume=True, cache=cache, watchers=[comparison])


def _collect(out: Path) -> None:
    """Write one table of the logs and comparisons of all variants and seeds."""
    tables = []
    for file in sorted(out.glob(f"*{TRUTH_ENDING}")):
        name = file.name.removesuffix(TRUTH_ENDING)
        variant, _, seed = name.rpartition("-")
        log = pd.read_csv(out / name / LOG_FILE, usecols=["step", "validation_iou"])
        truth = pd.DataFrame(json.loads(file.read_text()))
        table = log.dropna().merge(truth, on="step", how="left")
        tables.append(table.assign(variant=variant, seed=int(seed)))
    table = pd.concat(tables)[COLUMNS]
    write_text(out / "understanding.csv", table.to_csv(index=False, float_format="%.4f"))


if __name__ == "__main__":
    main()
