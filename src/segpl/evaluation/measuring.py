"""The numbers of one predicted case: scores per region, scores per image, and the curves of its confidence."""

from collections.abc import Iterator, Sequence
from itertools import product

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.metrics import overlap
from segpl.metrics.calibration import (
    Mistakes,
    Reliability,
    aurc,
    brier,
    classwise_ece,
    ece,
    negative_log_likelihood,
    risk_coverage,
)
from segpl.metrics.surface import surface_scores

COVERAGES = torch.arange(1, 21, dtype=torch.float64) / 20


def mask_scores(
    mask: Bool[Tensor, "K X Y Z"],
    truth: Bool[Tensor, "K X Y Z"],
    spacing: tuple[float, float, float],
    tolerance: float,
) -> dict[str, Float[Tensor, " K"]]:
    """How well the mask lies on the truth, region by region; volumes in ml, distances in mm."""
    surfaces = surface_scores(mask, truth, spacing, tolerance)
    return {
        **overlaps(mask, truth),
        "hd95": surfaces.hd95,
        "surface_dice": surfaces.dice,
        "volume": overlap.volume(mask, spacing),
        "volume_error": overlap.volume_error(mask, truth, spacing),
    }


def overlaps(
    mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]
) -> dict[str, Float[Tensor, " K"]]:
    """The headline, what the paper's tables compare with, and what others report."""
    return {
        "iou": overlap.iou(mask, truth),
        "mean_iou": overlap.mean_iou(mask, truth),
        "dice": overlap.dice(mask, truth),
    }


def certainty_scores(
    p: Float[Tensor, "K X Y Z"], truth: Bool[Tensor, "K X Y Z"], binned: Reliability, made: Mistakes
) -> dict[str, Float[Tensor, " K"]]:
    """How far the probabilities can be believed."""
    return {
        "brier": brier(p, truth),
        "nll": negative_log_likelihood(p, truth),
        "ece": ece(binned),
        "ece_classwise": classwise_ece(binned),
        "aurc": aurc(made),
    }


def long(measured: dict[str, Float[Tensor, " K"]], regions: Sequence[str]) -> pd.DataFrame:
    """A row per metric and region."""
    rows = [
        {"region": region, "metric": metric, "value": value}
        for metric, values in measured.items()
        for region, value in zip(regions, values.tolist(), strict=True)
    ]
    return pd.DataFrame(rows)


def image_scores(
    mask: Bool[Tensor, "K X Y Z"],
    truth: Bool[Tensor, "K X Y Z"],
    patch: tuple[int, ...],
    regions: Sequence[str],
) -> pd.DataFrame:
    """The overlaps of each image as the paper counts them, with the share of it that is truly foreground."""
    tables = []
    # Slice by slice in memory: else each slice would be gathered from all over the volume.
    mask, truth = (each.movedim(3, 1).contiguous().movedim(1, 3) for each in (mask, truth))
    for number, place in enumerate(_images(truth.shape[1:], patch)):
        part = long(overlaps(mask[place], truth[place]), regions)
        share = truth[place].flatten(1).double().mean(1).tolist()
        tables.append(
            part.assign(
                image=number, foreground=part["region"].map(dict(zip(regions, share, strict=True)))
            )
        )
    return pd.concat(tables, ignore_index=True)


def _images(shape: Sequence[int], patch: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices where the network sees slices; else crops of the patch's size side by side, the last ones smaller."""
    size = (*shape[:2], 1) if len(patch) == 2 else patch
    starts = product(*(range(0, n, step) for n, step in zip(shape, size, strict=True)))
    for corner in starts:
        yield (
            slice(None),
            *(slice(start, start + step) for start, step in zip(corner, size, strict=True)),
        )


def reliability_rows(binned: Reliability, curve: str, regions: Sequence[str]) -> pd.DataFrame:
    """Mean probability against the frequency of foreground, bin by bin, with the voxels behind each."""
    tables = []
    for number, region in enumerate(regions):
        voxels, confidence, foreground = (part[number].numpy() for part in binned)
        x, y = confidence / voxels.clip(1), foreground / voxels.clip(1)
        tables.append(
            pd.DataFrame({"region": region, "curve": curve, "x": x, "y": y, "voxels": voxels})
        )
    table = pd.concat(tables, ignore_index=True)
    return table[table["voxels"] > 0]


def confidence_curves(binned: Reliability, made: Mistakes, regions: Sequence[str]) -> pd.DataFrame:
    """Reliability, and the share of wrong voxels among the surest ones."""
    risks = risk_coverage(made, COVERAGES).tolist()
    covered = [
        {"region": region, "curve": "risk-coverage", "x": x, "y": y, "voxels": x * len(made[0])}
        for region, row in zip(regions, risks, strict=True)
        for x, y in zip(COVERAGES.tolist(), row, strict=True)
    ]
    return pd.concat(
        [reliability_rows(binned, "reliability", regions), pd.DataFrame(covered)], ignore_index=True
    )
