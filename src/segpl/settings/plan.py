"""The settings that the data suggest, each with the reason for it."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from segpl.data.cases import Case, Dataset
from segpl.data.formats import Grid, read_grid
from segpl.data.splits import TrainingCases
from segpl.foundation.progress import track
from segpl.networks.unet import strides
from segpl.settings.images import plan_dimensions, plan_mirror, plan_orientation, plan_window
from segpl.settings.median_sizes import MedianSizes, median_sizes
from segpl.settings.objects import MARGIN, Label, read_label
from segpl.settings.patch import patch_voxels, plan_patch
from segpl.settings.planned import CHOSEN, Planned
from segpl.settings.regions import (
    plan_exchange,
    plan_match_size,
    plan_nested,
    plan_single_component,
)
from segpl.settings.schedule import (
    plan_batch,
    plan_channels,
    plan_learning_rate,
    plan_ratio,
    plan_steps,
    plan_validate_every,
)
from segpl.settings.spacing import plan_spacing, step_to_fit

LABELS_READ = 20
"""How many labels are read, evenly chosen. More would take time and change the medians little."""


def plan(
    dataset: Dataset,
    cases: TrainingCases,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Planned]:
    """The settings of a run that depend on the data. A user's own settings override them.

    Reads the headers of all training images, but only the labels that training may see. `given` may
    hold a `patch` or a `spacing` that the user has chosen: the other one is then planned to fit.
    """
    given = given or {}
    regions = dataset.task.regions
    grids = [read_grid(case.images[0]) for case in track(dataset.training, "Reading headers")]
    dimensions = _dimensions(dataset, grids, given)
    voxels = _voxels_of_patch(dimensions.value, given)
    labels = _read_labels(cases, median_sizes(grids, [], dimensions.value), voxels)
    sizes = median_sizes(grids, labels, dimensions.value)

    if "spacing" in given:
        spacing = _chosen(given["spacing"])
    else:
        spacing = plan_spacing(grids, sizes, labels, regions, voxels)
    full_spacing = _fill_up(spacing.value, sizes.spacing)
    if "patch" in given:
        patch = _chosen(given["patch"])
    else:
        patch = plan_patch(sizes, full_spacing, dimensions.why)

    channels = plan_channels(dimensions.value)
    ratio = plan_ratio()
    batch = plan_batch(patch.value, channels.value, ratio.value)
    images_per_step = batch.value * (1 + ratio.value)
    single_component = plan_single_component(labels, regions, patch.value, full_spacing)
    return {
        "patch": patch,
        "strides": _plan_strides(patch.value),
        "channels": channels,
        "batch": batch,
        "ratio": ratio,
        "learning_rate": plan_learning_rate(dimensions.value),
        "spacing": spacing,
        "steps": plan_steps(),
        "validate_every": plan_validate_every(
            cases.validation, patch.value, full_spacing, images_per_step
        ),
        "window": plan_window(dataset),
        "orientation": plan_orientation(grids),
        "exchange": plan_exchange(single_component.value, regions),
        "mirror": plan_mirror(grids, regions),
        "single_component": single_component,
        "match_size": plan_match_size(labels, regions),
        "nested": plan_nested(regions),
    }


def _dimensions(dataset: Dataset, grids: Sequence[Grid], given: Mapping[str, Any]) -> Planned:
    """2 or 3: those of the user's patch, or what suits the images."""
    if "patch" in given:
        return Planned(len(given["patch"]), CHOSEN)
    return plan_dimensions(dataset, grids)


def _voxels_of_patch(dimensions: int, given: Mapping[str, Any]) -> int:
    """Voxels of the user's patch, or those that a patch of so many dimensions should have."""
    if "patch" in given:
        return prod(given["patch"])
    return patch_voxels(dimensions)


def _chosen(value: Sequence[float] | None) -> Planned:
    """A setting that the user gave; None stays None."""
    if value is None:
        return Planned(None, CHOSEN)
    return Planned(list(value), CHOSEN)


def _fill_up(spacing: Sequence[float] | None, native: Sequence[float]) -> list[float]:
    """The spacing along all planned axes: the images' own where none is set."""
    if spacing is None:
        return list(native)
    chosen = list(spacing)[: len(native)]
    missing = native[len(chosen) :]
    return [*chosen, *missing]


def _read_labels(cases: TrainingCases, sizes: MedianSizes, voxels: int) -> list[Label]:
    """The non-empty labels among at most `LABELS_READ`, cropped to their foreground.

    The margin around it is enough for the coarsest grid that will be considered.
    """
    coarsest_step = step_to_fit(sizes.spacing, sizes.view, voxels)
    margin = (MARGIN + 1) * coarsest_step
    labels = []
    for case in track(_evenly_chosen(cases), "Reading labels"):
        label = read_label(case, margin)
        if label is not None:
            labels.append(label)
    return labels


def _evenly_chosen(cases: TrainingCases) -> list[Case]:
    """At most `LABELS_READ` of the cases whose label training may see."""
    labelled = [case for case in cases.labelled + cases.validation if case.label]
    if len(labelled) <= LABELS_READ:
        return labelled
    indices = np.linspace(0, len(labelled) - 1, LABELS_READ).round().astype(int)
    return [labelled[index] for index in indices]


def _plan_strides(patch: Sequence[int]) -> Planned:
    levels = [list(level) for level in strides(patch)]
    return Planned(levels, "an axis is halved while even and 8 or more")
