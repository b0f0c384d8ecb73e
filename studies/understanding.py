"""One setting at a time on the validation subjects, and how good the pseudo-labels are against the hidden truth.

    python studies/understanding.py DATA OUT [--seeds 0 1] [--only NAME ...] [--set steps=400 ...]

Trains every variant of understanding.yaml for every seed, goes on where it was stopped, and writes a row for each
validation to OUT/understanding.csv. Test subjects are not touched. The truth of the unlabelled subjects is only
measured against.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import lightning
import pandas as pd
import torch
import yaml

from segpl.data.cache import Cache, default_folder
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Volume
from segpl.data.splits import training_cases
from segpl.foundation.files import write_text
from segpl.foundation.named import merged
from segpl.inference.windows import predict_volume
from segpl.metrics.overlap import iou
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.training.loop import train

WATCHED = 6
"""Unlabelled subjects whose hidden truth the pseudo-labels are held against."""

VARIANTS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("understanding.yaml").read_text()
)
"""Settings by name; what they do not say is the default."""


class Truth(lightning.Callback):
    """Holds the masks of a few unlabelled subjects against their hidden truth at each validation."""

    def __init__(self, volumes: list[Volume], file: Path):
        self.volumes, self.file = volumes, file
        self.before: list[torch.Tensor] = []
        """Where the pseudo-labels were wrong last time."""

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: lightning.Trainer, learner: Any) -> None:
        """IoU, and the share of last time's mistakes that are still there."""
        run: Run = learner.run
        learner.model.eval()
        scores: list[float] = []
        wrong: list[torch.Tensor] = []
        for volume in self.volumes:
            assert volume.y is not None, "watched subjects are labelled"
            p = predict_volume(
                lambda window: run.method.predict(learner.model, window)[0], volume.x, run.patch
            )
            scores.append(float(iou((p > 0.5), volume.y).nanmean()))
            wrong.append((p > 0.5) != volume.y)
        learner.model.train()
        kept = [
            float((now & then).sum() / then.sum())
            for now, then in zip(wrong, self.before, strict=False)
        ]
        row = {
            "step": trainer.global_step,
            "pseudo_iou": sum(scores) / len(scores),
            "mistakes_kept": sum(kept) / len(kept) if kept else float("nan"),
        }
        self.before = wrong
        rows = json.loads(self.file.read_text()) if self.file.is_file() else []
        write_text(
            self.file, json.dumps([*(each for each in rows if each["step"] < row["step"]), row])
        )


def main() -> None:
    """Train what is not trained yet and collect what all of them logged."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="for all of them")
    options = parser.parse_args()
    common = {
        key: yaml.safe_load(value)
        for key, _, value in (each.partition("=") for each in options.set)
    }
    for seed in options.seeds:
        for name in options.only:
            given = {"seed": seed, **common, **VARIANTS[name]}
            run = plan_run(
                options.data, merged({}, dict(sorted(given.items())))
            )  # method before method.alpha
            _train(run, options.out / f"{name}-{seed}")
    _collect(options.out)


def _train(run: Run, directory: Path) -> None:
    cache, dataset = Cache(default_folder()), read_dataset(run.data)
    cases = training_cases(dataset, run.labelled, run.seed, run.validation, run.test)
    if not cases.validation:
        raise SystemExit(
            "Variants are compared on validation subjects: ask for some, as in --set validation=12."
        )
    hidden = {case.name for case in cases.unlabelled}
    watched = [case for case in dataset.training if case.name in hidden and case.label][:WATCHED]
    volumes = cache.volumes(watched, dataset.task, run.preparation)
    file = directory.with_suffix(".truth.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    train(run, directory, resume=True, cache=cache, watchers=[Truth(volumes, file)])


def _collect(out: Path) -> None:
    rows = []
    for file in sorted(out.glob("*.truth.json")):
        name = file.name.removesuffix(".truth.json")
        log = pd.read_csv(out / name / "log.csv", usecols=["step", "validation_iou"]).dropna()
        truth = pd.DataFrame(json.loads(file.read_text()))
        variant, _, seed = name.rpartition("-")
        rows.append(log.merge(truth, on="step", how="left").assign(variant=variant, seed=int(seed)))
    columns = ["variant", "seed", "step", "validation_iou", "pseudo_iou", "mistakes_kept"]
    write_text(
        out / "understanding.csv", pd.concat(rows)[columns].to_csv(index=False, float_format="%.4f")
    )


if __name__ == "__main__":
    main()
