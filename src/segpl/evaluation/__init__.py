"""How good a trained run is on cases it has never met: masks and `scores.csv`."""

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.data.cases import Case, Region
from segpl.data.layouts import read_dataset
from segpl.data.loading import Truth, Volume, load, load_truth, resample
from segpl.data.splits import cases_for_test
from segpl.errors import UserError
from segpl.evaluation.shifts import Clean, Shift
from segpl.files import write_nifti, write_text
from segpl.progress import track
from segpl.run import SPLIT_FILE, load_model, read_run, read_task
from segpl.scores import dice, iou
from segpl.windows import Predict, mask, predict_volume

METRICS = {"iou": iou, "dice": dice}


def evaluate(
    directory: Path, data: Path | None = None, shifts: Sequence[Shift] = (Clean(0.0),), out: Path | None = None
) -> Path:
    """Score a run on the test cases of its own data, or of `data`; write the scores and the clean masks."""
    run, task = read_run(directory), read_task(directory)
    dataset = read_dataset(data or run.data)
    if dataset.task != task:
        raise UserError(
            f"{dataset.folder} has other channels or regions than {directory} was trained on: give the same."
        )
    seen = set() if data else set(json.loads((directory / SPLIT_FILE).read_text(encoding="utf-8"))["subjects"])
    # Labels that were added since may have moved the split: whoever the run has seen is never a test subject.
    cases = [case for case in cases_for_test(dataset, run.seed) if case.subject not in seen]
    if not cases:
        raise UserError(f"{dataset.folder} has no labelled test case: add some to its test part.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(directory, run).to(device).requires_grad_(False)

    def predict(x: Float[Tensor, "B C *space"]) -> Float[Tensor, "S B K *space"]:
        return run.method.predict(model, x)

    suffix = f"-{data.resolve().name}" if data else ""
    origin = {"run": directory.name, "method": run.method.name(), "seed": run.seed, "labelled": run.labelled}
    rows = []
    for case in track(cases, f"Scoring {directory.name}"):
        volume, truth = load(case, task, run.preparation), load_truth(case, task)
        for shift in shifts:
            p = _segment(volume, shift, predict, run.patch, device)
            found = mask(resample(p, truth.y.shape[1:]))
            if isinstance(shift, Clean):
                save_mask(directory / f"masks{suffix}" / f"{case.name}.nii.gz", found, task.regions, truth.affine)
            rows += [origin | row for row in _score(found, truth, case, shift, task.regions)]
    file = out or directory / f"scores{suffix}.csv"
    write_text(file, pd.DataFrame(rows).to_csv(index=False))
    return file


def _segment(
    volume: Volume, shift: Shift, predict: Predict, patch: tuple[int, ...], device: torch.device
) -> Float[Tensor, "S K X Y Z"]:
    """The probabilities of the shifted volume. An attack works window by window, so that its memory stays bounded."""
    assert volume.y is not None, "test cases are labelled"
    x, y, seed = volume.x.to(device), volume.y.to(device), zlib.crc32(volume.case.name.encode())

    def attacked(both: Tensor) -> Tensor:
        return shift(both[:, : len(x)], both[:, len(x) :], predict, seed)[None]

    if shift.level and shift.by_window:
        (x,) = predict_volume(attacked, torch.cat([x, y.to(x)]), patch, overlap=0)
    elif shift.level:
        (x,) = shift(x[None], y[None].to(x), predict, seed)
    return predict_volume(predict, x, patch).cpu()


def _score(
    found: Bool[Tensor, "K X Y Z"], truth: Truth, case: Case, shift: Shift, regions: tuple[Region, ...]
) -> Iterator[dict[str, object]]:
    for metric, function in METRICS.items():
        for region, value in zip(regions, function(found, truth.y), strict=True):
            yield {
                "subject": case.subject,
                "case": case.name,
                "region": region.name,
                "shift": shift.name,
                "level": shift.level,
                "metric": metric,
                "value": float(value),
            }


def save_mask(
    file: Path, found: Bool[Tensor, "K X Y Z"], regions: tuple[Region, ...], affine: Float[np.ndarray, "4 4"]
) -> None:
    """Fold the regions back into one label map, in the geometry of the image."""
    label = np.zeros(found.shape[1:], dtype=np.min_scalar_type(max(region.paint for region in regions)))
    for region, part in zip(regions, found.numpy(), strict=True):
        label[part] = region.paint
    write_nifti(file, label, affine)
