"""The numbers of one predicted case: scores per region, scores per image, confidence curves."""

from collections.abc import Iterator, Sequence
from itertools import product

import pandas as pd
import torch
from jaxtyping import Bool, Float, Shaped
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

Masks = Bool[Tensor, "K X Y Z"]
Probabilities = Float[Tensor, "K X Y Z"]
Ignored = Bool[Tensor, "1 X Y Z"]
"""Voxels that no score counts."""
RegionScores = dict[str, Float[Tensor, " K"]]
"""The values of each metric, one per region."""

COVERAGES = torch.arange(1, 21, dtype=torch.float64) / 20


def counted_voxels(
    values: Shaped[Tensor, "K X Y Z"],
    ignored: Ignored | None,
) -> Shaped[Tensor, "K N Y_ Z_"]:
    """The values of the voxels that count, as one column; all values if every voxel counts."""
    if ignored is None:
        return values
    return values[:, ~ignored[0]][..., None, None]


def mask_scores(
    masks: Masks,
    truth: Masks,
    spacing: tuple[float, float, float],
    tolerance: float,
    ignored: Ignored | None = None,
) -> RegionScores:
    """How well masks agree with the truth; volumes in ml, distances and `tolerance` in mm.

    Ignored voxels belong to no surface and to no volume.
    """
    if ignored is not None:
        masks = masks & ~ignored
    surfaces = surface_scores(masks, truth, spacing, tolerance)
    masks = counted_voxels(masks, ignored)
    truth = counted_voxels(truth, ignored)
    scores = overlap_scores(masks, truth)
    scores["hd95"] = surfaces.hd95
    scores["surface_dice"] = surfaces.dice
    scores["volume"] = overlap.volume(masks, spacing)
    scores["volume_error"] = overlap.volume_error(masks, truth, spacing)
    return scores


def overlap_scores(masks: Masks, truth: Masks) -> RegionScores:
    """The headline (IoU), the mean IoU of the paper's tables, and Dice."""
    return {
        "iou": overlap.iou(masks, truth),
        "mean_iou": overlap.mean_iou(masks, truth),
        "dice": overlap.dice(masks, truth),
    }


def certainty_scores(
    p: Probabilities,
    truth: Masks,
    bins: Reliability,
    mistakes: Mistakes,
) -> RegionScores:
    """Calibration and error detection; lower is better for all."""
    return {
        "brier": brier(p, truth),
        "nll": negative_log_likelihood(p, truth),
        "ece": ece(bins),
        "ece_classwise": classwise_ece(bins),
        "aurc": aurc(mistakes),
    }


def score_rows(scores: RegionScores, regions: Sequence[str]) -> pd.DataFrame:
    """A row per metric and region."""
    rows = []
    for metric, values in scores.items():
        for region, value in zip(regions, values.tolist(), strict=True):
            rows.append({"region": region, "metric": metric, "value": value})
    return pd.DataFrame(rows)


def image_scores(
    masks: Masks,
    truth: Masks,
    patch: tuple[int, ...],
    regions: Sequence[str],
    ignored: Ignored | None = None,
) -> pd.DataFrame:
    """The overlaps of each image as the paper counts them, and the true share of foreground."""
    masks = _planes_contiguous(masks)
    truth = _planes_contiguous(truth)
    tables = []
    for index, image in enumerate(_images(truth.shape[1:], patch)):
        ignored_here = None if ignored is None else ignored[image]
        masks_here = counted_voxels(masks[image], ignored_here)
        truth_here = counted_voxels(truth[image], ignored_here)
        table = score_rows(overlap_scores(masks_here, truth_here), regions)
        shares = truth_here.flatten(1).double().mean(1).tolist()
        share_of_region = dict(zip(regions, shares, strict=True))
        foreground = table["region"].map(share_of_region)
        tables.append(table.assign(image=index, foreground=foreground))
    return pd.concat(tables, ignore_index=True)


def _planes_contiguous(masks: Masks) -> Masks:
    """The same masks, stored plane by plane: reading one slice is then fast."""
    return masks.movedim(3, 1).contiguous().movedim(1, 3)


def _images(shape: Sequence[int], patch: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield the index of each image in a volume of K regions.

    Images are slices where the network sees slices. Otherwise they are adjacent crops of the
    patch's size, the last ones smaller.
    """
    size = patch
    if len(patch) == 2:
        size = (shape[0], shape[1], 1)
    x_starts = range(0, shape[0], size[0])
    y_starts = range(0, shape[1], size[1])
    z_starts = range(0, shape[2], size[2])
    for x, y, z in product(x_starts, y_starts, z_starts):
        yield (
            slice(None),
            slice(x, x + size[0]),
            slice(y, y + size[1]),
            slice(z, z + size[2]),
        )


def reliability_rows(bins: Reliability, curve: str, regions: Sequence[str]) -> pd.DataFrame:
    """Mean probability (x) against the frequency of foreground (y), per bin that has voxels."""
    tables = []
    for index, region in enumerate(regions):
        voxels = bins.voxels[index].numpy()
        probability_sum = bins.confidence[index].numpy()
        foreground = bins.foreground[index].numpy()
        columns = {
            "region": region,
            "curve": curve,
            "x": probability_sum / voxels.clip(1),
            "y": foreground / voxels.clip(1),
            "voxels": voxels,
        }
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    return table[table["voxels"] > 0]


def risk_coverage_rows(mistakes: Mistakes, regions: Sequence[str]) -> pd.DataFrame:
    """The share of wrong voxels (y) among the given share of most confident ones (x)."""
    voxels = len(mistakes[0])
    coverages = COVERAGES.tolist()
    risks_by_region = risk_coverage(mistakes, COVERAGES).tolist()
    rows = []
    for region, risks in zip(regions, risks_by_region, strict=True):
        for coverage, risk in zip(coverages, risks, strict=True):
            rows.append(
                {
                    "region": region,
                    "curve": "risk-coverage",
                    "x": coverage,
                    "y": risk,
                    "voxels": coverage * voxels,
                }
            )
    return pd.DataFrame(rows)
