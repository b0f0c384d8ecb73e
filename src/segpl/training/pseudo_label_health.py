"""The health of pseudo-labels: how much foreground they hold, against what the labels hold."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.em.types import Batch, Losses

PerRegion = Float[Tensor, " K"]
"""One number per region."""

EMPTY = 0.01
"""Pseudo-labels are empty below this share of the foreground in the labels."""
ENOUGH_PATCHES = 5
"""If this many patches should meet a region, the chance that none does is below 1 % (exp(-5))."""


class Reference(NamedTuple):
    """What the labelled volumes hold, region by region, to judge pseudo-labels by."""

    foreground: PerRegion
    """The foreground's share of the voxels."""
    meeting_probability: PerRegion
    """The probability that a patch drawn anywhere meets the region."""


def health(losses: Losses, batch: Batch) -> dict[str, Tensor]:
    """What is logged of one step's pseudo-labels and thresholds; empty for methods without any."""
    values = {}
    if losses.y_u is not None:
        values["pseudo_foreground"] = losses.y_u.mean()
        values["labelled_foreground"] = batch.y_l.mean()
        values["unlabelled_to_labelled"] = losses.unlabelled_to_labelled
    if losses.threshold is not None:
        values["threshold"] = losses.threshold.mean()
        values["threshold_spread"] = losses.threshold.std(correction=0)
    return values


def foreground_share(y: Float[Tensor, "B K *space"]) -> PerRegion:
    """The foreground's share of the voxels, region by region."""
    return y.flatten(2).mean((0, 2))


def reference(labels: Sequence[Bool[Tensor, "K X Y Z"]], patch: tuple[int, ...]) -> Reference:
    """The means over the labelled volumes."""
    shares = [foreground_share(y[None].float()) for y in labels]
    probabilities = [meeting_probability(y, patch) for y in labels]
    return Reference(
        foreground=torch.stack(shares).mean(0),
        meeting_probability=torch.stack(probabilities).mean(0),
    )


def meeting_probability(y: Bool[Tensor, "K X Y Z"], patch: tuple[int, ...]) -> PerRegion:
    """The share of all patches of a volume that meet each region.

    Axis by axis, y becomes true at each patch position whose patch holds a true voxel.
    """
    size = (*patch, 1)[:3]
    for axis, wanted_length in enumerate(size, start=1):
        length = min(wanted_length, y.shape[axis])
        positions = y.shape[axis] - length + 1
        zero = torch.zeros_like(y.narrow(axis, 0, 1), dtype=torch.int16)
        cumulated = y.cumsum(axis, dtype=torch.int16)
        count_before = torch.cat([zero, cumulated], axis)
        at_start = count_before.narrow(axis, 0, positions)
        at_end = count_before.narrow(axis, length, positions)
        y = at_end > at_start
    return y.flatten(1).float().mean(1)


def collapse(
    pseudo_labelled: PerRegion,
    labelled: PerRegion,
    expected_patches: PerRegion,
) -> str | None:
    """What is wrong with the pseudo-labels of any region: "empty", "full" or None.

    The first two arguments are the shares of foreground. Empty means under a hundredth of what the
    labels hold, although enough patches should have met the region: `expected_patches` is their
    number if unlabelled scans are like labelled ones. Full means nearer to everything than to what
    the labels hold.
    """
    is_expected = (labelled > 0) & (expected_patches >= ENOUGH_PATCHES)
    is_empty = pseudo_labelled < EMPTY * labelled
    if (is_expected & is_empty).any():
        return "empty"
    is_full = pseudo_labelled > (1 + labelled) / 2
    if is_full.any():
        return "full"
    return None
