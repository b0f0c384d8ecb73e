"""How good a trained run is on cases it has never met: masks and `scores.csv`."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.data.cases import Dataset, Region
from segpl.data.layouts import read_dataset
from segpl.data.loading import Volume, load
from segpl.data.splits import cases_for_test
from segpl.errors import UserError
from segpl.evaluation.shifts import Clean, Shift
from segpl.files import write_nifti, write_text
from segpl.progress import track
from segpl.run import load_model, read_run
from segpl.scores import dice, iou
from segpl.windows import Predict, mask, predict_volume

METRICS = {"iou": iou, "dice": dice}


def evaluate(
    directory: Path, data: Path | None = None, shifts: Sequence[Shift] = (Clean(0),), out: Path | None = None
) -> pd.DataFrame:
    """Score a run on the test cases of its own data, or of `data`; write `scores.csv` and the clean masks."""
    run = read_run(directory)
    dataset = read_dataset(data or run.data)
    model = load_model(directory, run, _same_task(dataset, read_dataset(run.data)))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).requires_grad_(False)

    def predict(x: Float[Tensor, "B C *space"]) -> Float[Tensor, "S B K *space"]:
        return run.method.predict(model, x)

    cases = cases_for_test(dataset, run.seed)
    if not cases:
        raise UserError(f"{dataset.folder} has no labelled test case: put some into imagesTs and labelsTs.")
    origin = {"run": directory.name, "method": run.method.name(), "seed": run.seed, "labelled": run.labelled}
    rows = []
    for case in track(cases, f"Scoring {directory.name}"):
        volume = load(case, dataset.regions)
        for shift in shifts:
            found = _segment(volume, shift, predict, run.patch, device)
            if isinstance(shift, Clean):
                save_mask(directory / "masks" / f"{case.name}.nii.gz", found, dataset.regions, volume.affine)
            rows += [origin | row for row in _score(found, volume, shift, dataset.regions)]
    scores = pd.DataFrame(rows)
    write_text(out or directory / "scores.csv", scores.to_csv(index=False))
    return scores


def _segment(
    volume: Volume, shift: Shift, predict: Predict, patch: tuple[int, ...], device: torch.device
) -> Bool[Tensor, "K X Y Z"]:
    """The mask of the shifted volume. The shift works window by window, so that an attack's memory stays bounded."""
    x, y = volume.x.to(device), _truth(volume)
    channels, seed = len(x), zlib.crc32(volume.case.name.encode())
    if not isinstance(shift, Clean):
        both = torch.cat([x, y.to(x)])
        x = predict_volume(
            lambda window: shift(window[:, :channels], window[:, channels:], predict, seed)[None],
            both,
            patch,
            overlap=0,
        )[0]
    return mask(predict_volume(predict, x, patch)).cpu()


def _score(
    found: Bool[Tensor, "K X Y Z"], volume: Volume, shift: Shift, regions: tuple[Region, ...]
) -> Iterator[dict[str, object]]:
    for metric, function in METRICS.items():
        for region, value in zip(regions, function(found, _truth(volume)), strict=True):
            yield {
                "subject": volume.case.subject,
                "case": volume.case.name,
                "region": region.name,
                "shift": shift.name,
                "level": shift.level,
                "metric": metric,
                "value": float(value),
            }


def _truth(volume: Volume) -> Bool[Tensor, "K X Y Z"]:
    assert volume.y is not None, "test cases are labelled"
    return volume.y


def save_mask(
    file: Path, found: Bool[Tensor, "K X Y Z"], regions: tuple[Region, ...], affine: Float[np.ndarray, "4 4"]
) -> None:
    """Fold the regions back into one label map, in the geometry of the image."""
    label = np.zeros(found.shape[1:], dtype=np.uint8)
    for region, part in zip(regions, found.numpy(), strict=True):
        label[part] = region.paint
    write_nifti(file, label, affine)


def _same_task(dataset: Dataset, trained_on: Dataset) -> Dataset:
    if (len(dataset.channels), dataset.regions) != (len(trained_on.channels), trained_on.regions):
        raise UserError(
            f"{dataset.folder} has other channels or regions than {trained_on.folder}: score on the same task."
        )
    return dataset
