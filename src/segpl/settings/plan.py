"""What the data say about how to train: each setting with the reason for it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segpl.data.cases import Case, Dataset, Region
from segpl.data.formats import Grid, read_grid
from segpl.data.formats.image import split
from segpl.data.preparation import channels_of, is_ct, read
from segpl.data.splits import TrainingCases
from segpl.foundation import memory
from segpl.foundation.device import has_gpu
from segpl.foundation.progress import track
from segpl.networks.unet import strides
from segpl.settings.context import (
    PLANE,
    VOLUME,
    Surroundings,
    plan_patch,
    plan_spacing,
    step_to_fit,
    surroundings,
)
from segpl.settings.objects import (
    ENOUGH_SUBJECTS,
    MARGIN,
    WHOLE_SLICES,
    Components,
    Label,
    components,
    nested,
    read_label,
    single_component,
)
from segpl.settings.planned import Planned

CHOSEN = "chosen by the user"
"""The reason for what was given."""
BYTES = 115
"""What a training step holds for each voxel of an image and each of the U-Net's first channels (83 to 113 measured)."""
CHECKPOINT_EVERY = 100
"""Steps between checkpoints, and the fewest between validations."""
STEPS = 2000
"""Optimiser steps on a processor."""
STEPS_ON_GPU = 10_000
"""Optimiser steps on a GPU."""
LOOKED_AT = 5
"""How many images are opened to learn their grey values; the headers of all are read."""
LABELS_READ = 20
"""How many labels are opened, evenly chosen: objects differ less than their number costs time."""


def plan(
    dataset: Dataset, cases: TrainingCases, given: Mapping[str, Any] | None = None
) -> dict[str, Planned]:
    """The settings of a run that depend on the data; a user's own settings go before them.

    Headers of all training images are read, but only the labels that training sees. `given` may hold
    a `patch` or a `spacing` that the user has chosen: the other one is then planned to fit.
    """
    given = given or {}
    regions = dataset.task.regions
    grids = [read_grid(case.images[0]) for case in track(dataset.training, "Reading headers")]
    flat, dimensions = _flat(dataset, grids)
    if "patch" in given:
        flat = len(given["patch"]) == 2
    voxels = prod(given.get("patch", [PLANE if flat else VOLUME]))
    labels = _read_labels(cases.labelled + cases.validation, surroundings(grids, [], flat), voxels)
    around = surroundings(grids, labels, flat)
    spacing = _settled(given, "spacing") or plan_spacing(grids, around, labels, regions, voxels)
    grid = _complete(spacing.value, around.native)
    patch = _settled(given, "patch") or plan_patch(around, grid, dimensions)
    channels = 16 if flat else 8
    ratio = 1
    batch = _batch(patch.value, channels * (1 + ratio))
    single = _single_component(labels, regions, patch.value, grid)
    return {
        "patch": patch,
        "strides": _strides(patch.value),
        "channels": Planned(channels, f"the paper's for {'2D' if flat else '3D'}"),
        "batch": batch,
        "ratio": Planned(ratio, "as many unlabelled as labelled ones: the cheapest"),
        "learning_rate": _learning_rate(flat),
        "spacing": spacing,
        "steps": _steps(),
        "validate_every": _validate_every(
            cases.validation, patch.value, grid, batch.value * (1 + ratio)
        ),
        "window": _window(dataset),
        "orientation": _orientation(grids),
        "exchange": _exchange(single.value, regions),
        "mirror": _mirror(grids, regions),
        "single_component": single,
        "nested": _nested(regions),
    }


def _settled(given: Mapping[str, Any], key: str) -> Planned | None:
    """What the user has chosen, if anything."""
    if key not in given:
        return None
    value = given[key]
    return Planned(None if value is None else list(value), CHOSEN)


def _complete(spacing: Sequence[float] | None, native: Sequence[float]) -> list[float]:
    """The spacing along all axes that are planned, the images' own where it does not say."""
    chosen = list(spacing or [])[: len(native)]
    return [*chosen, *native[len(chosen) :]]


def _read_labels(labelled: Sequence[Case], around: Surroundings, voxels: int) -> list[Label]:
    """Those of at most `LABELS_READ` cases that are not empty, cropped to their foreground."""
    cases = [case for case in labelled if case.label]
    if len(cases) > LABELS_READ:
        chosen = np.linspace(0, len(cases) - 1, LABELS_READ).round().astype(int)
        cases = [cases[number] for number in chosen]
    # No coarser grid than this will be considered, so no more background than this is needed.
    margin = (MARGIN + 1) * step_to_fit(around.native, around.view, voxels)
    labels = [read_label(case, margin) for case in track(cases, "Reading labels")]
    return [label for label in labels if label is not None]


def _strides(patch: Sequence[int]) -> Planned:
    return Planned(
        [list(step) for step in strides(patch)], "an axis is halved while even and 8 or more"
    )


def _flat(dataset: Dataset, grids: list[Grid]) -> tuple[bool, str]:
    """Whether to go by 2D slices."""
    steps = np.median([grid.spacing for grid in grids], axis=0)
    if dataset.slices:
        return True, "2D: the task is one of slices"
    if all(grid.shape[2] == 1 for grid in grids):
        return True, "2D: the images are"
    if steps[2] >= 2.5 * steps[:2].max():
        return (
            True,
            f"2D: slices are {steps[2]:g} mm apart, so the next one says little about this one",
        )
    return False, "3D: slices lie close enough to help each other"


def _learning_rate(flat: bool) -> Planned:
    """What validation subjects preferred (docs/understanding.md)."""
    if flat:
        return Planned(0.003, "planes: 0.01 was 2 to 4 IoU points behind on brain tumours")
    return Planned(
        0.005,
        "volumes: 0.003 left one of two runs on the hippocampus with little learnt; 0.005 was not compared with others",
    )


def _steps() -> Planned:
    """As many as a user will wait for: at 1000 steps validation curves still rise (docs/training.md).

    Longer trainings were not compared, and none was made on a GPU.
    """
    if has_gpu():
        return Planned(STEPS_ON_GPU, "more than on a processor, where a step takes longer")
    return Planned(
        STEPS, "curves still rise at 1000 steps, and twice as many take minutes on planes"
    )


def _validate_every(
    validation: Sequence[Case], patch: Sequence[int], spacing: Sequence[float], images: int
) -> Planned:
    """The steps between validations, chosen so that these take a tenth of the time of training or less."""
    if not validation:
        return Planned(
            CHECKPOINT_EVERY, "a checkpoint is kept as often; there is no validation subject"
        )
    windows = sum(_windows(read_grid(case.images[0]), patch, spacing) for case in validation)
    # A window goes forwards; an image of a step goes forwards, and backwards at twice the cost.
    in_steps = windows / (3 * images)
    every = max(CHECKPOINT_EVERY, 50 * round(10 * in_steps / 50))
    share = 100 * in_steps / every
    return Planned(every, f"validation then takes about {share:.2g} % of the time of training")


def _windows(grid: Grid, patch: Sequence[int], spacing: Sequence[float]) -> int:
    """How many windows cover an image, where each overlaps the next by a quarter."""
    count = grid.shape[2] if len(patch) == 2 else 1
    for n, own, wanted, side in zip(grid.shape, grid.spacing, spacing, patch, strict=False):
        beyond = max(0.0, n * own / wanted - side)
        count *= 1 + ceil(beyond / (0.75 * side))
    return count


def _orientation(grids: list[Grid]) -> Planned:
    """What new scans are turned to before the network sees them."""
    found = {grid.orientation for grid in grids}
    if found == {None}:
        return Planned(None, "the training images do not say how they lie")
    if len(found) == 1:
        return Planned(found.pop(), "the training images lie so, and new scans are turned to it")
    return Planned(
        None, "the training images lie in several ways, so new scans are left as they are"
    )


def _exchange(single: Sequence[int], regions: Sequence[Region]) -> Planned:
    """Whether labelled images exchange boxes: organs in one piece gain by it, lesions are cut up.

    Validation IoU of supervised training without exchange, in half of the images and in all (1000
    steps, one seed): brain tumours 50, 39, 26; hippocampus 72.7 without and 73.3 in all; ACDC 47, 57
    and 56.
    """
    if len(single) < len(regions):
        return Planned(
            0.0, "not every region is known to be in one piece, and boxes would cut objects up"
        )
    return Planned(1.0, "every region is in one piece in the labelled images, as organs are")


def _mirror(grids: Sequence[Grid], regions: Sequence[Region]) -> Planned:
    """Mirroring suits images that could have been taken mirrored: photographs and microscopy, not bodies."""
    if any(grid.orientation for grid in grids):
        return Planned(
            [], "the images say how they are oriented, and a mirrored body is another one"
        )
    for region in regions:
        if any(side in region.name.lower() for side in ("left", "right")):
            return Planned([], f"a mirrored {region.name} would be the other one")
    parents = Counter(parent for _, parent in nested(regions))
    if len(regions) > 1 and max(parents.values(), default=0) < len(regions) - 1:
        return Planned([], f"the {len(regions)} regions may be told apart by where they are")
    return Planned(
        [0, 1], "the images have no orientation, and no region has a mirrored counterpart"
    )


def _single_component(
    labels: Sequence[Label], regions: Sequence[Region], patch: Sequence[int], grid: Sequence[float]
) -> Planned:
    """Numbers of the regions that are one connected component in every patch that shows them."""
    flat = len(patch) == 2
    subjects = len({label.subject for label in labels})
    if subjects < ENOUGH_SUBJECTS:
        return Planned(
            [], f"{subjects} labelled subjects are too few to tell: {ENOUGH_SUBJECTS} needed"
        )
    chosen = []
    shares = []
    for number, region in enumerate(regions):
        counts = _components_by_subject(labels, region, patch, grid)
        shown = sum(count.shown for count in counts)
        single = sum(count.single for count in counts)
        if single_component(counts, flat):
            chosen.append(number)
        shares.append(f"{region.name} in {single} of {shown}")
    images = "slices" if flat else "volumes"
    needed = f"{100 * WHOLE_SLICES:.0f} %" if flat else "all"
    return Planned(
        chosen, f"one component in {needed} of the labelled {images}: {', '.join(shares)}"
    )


def _components_by_subject(
    labels: Sequence[Label], region: Region, patch: Sequence[int], grid: Sequence[float]
) -> list[Components]:
    counts: dict[str, Components] = {}
    for label in labels:
        sizes = []
        for size, step, own in zip(patch, grid, label.spacing, strict=False):
            sizes.append(max(1, round(size * step / own)))
        (found,) = components(label.mask(region), len(patch) == 2, sizes)
        before = counts.get(label.subject, Components(0, 0))
        counts[label.subject] = Components(before.shown + found.shown, before.single + found.single)
    return list(counts.values())


def _nested(regions: Sequence[Region]) -> Planned:
    pairs = nested(regions)
    names = [f"{regions[child].name} in {regions[parent].name}" for child, parent in pairs]
    why = f"by their label values: {', '.join(names)}" if names else "no region is part of another"
    return Planned([list(pair) for pair in pairs], why)


def _batch(patch: Sequence[int], channels: int) -> Planned:
    """Labelled images a step: 4, or 2 of large volumes, halved until half of the free memory holds them."""
    voxels = prod(patch)
    wanted = 2 if len(patch) == 3 and voxels > VOLUME / 2 else 4
    batch = wanted
    while batch > 1 and _gigabytes(batch, voxels * channels) > free_memory() / 2e9:
        batch //= 2
    needs = f"a step takes about {_gigabytes(batch, voxels * channels):.2g} GB of memory"
    if batch < wanted:
        return Planned(batch, f"less than {wanted}: memory is scarce, and {needs}")
    if wanted == 2:
        return Planned(batch, f"2 patches of {voxels} voxels: they are large; {needs}")
    return Planned(
        batch, f"4 patches of {voxels} {'pixels' if len(patch) == 2 else 'voxels'}; {needs}"
    )


def _gigabytes(batch: int, numbers: int) -> float:
    return BYTES * batch * numbers / 1e9


def free_memory() -> int:
    """Bytes that are free now, on the GPU if there is one."""
    if has_gpu():
        return int(torch.cuda.mem_get_info()[0])
    return memory.free()


def _window(dataset: Dataset) -> Planned:
    """The range of CT values worth telling apart, from the 0.5 % darkest to the 0.5 % brightest."""
    channel = next(
        (number for number, name in enumerate(dataset.task.channels) if is_ct(name)), None
    )
    if channel is None:
        return Planned(None, "no channel is called CT: z-score of the body, nothing clipped")
    cases = tuple(case.unlabelled() for case in dataset.training[:LOOKED_AT])
    window = _grey_range(
        cases, channel, tuple(_version(file) for case in cases for file in case.images)
    )
    if window is None:
        return Planned(None, "the CT channel is missing from the first images")
    return Planned(list(window), "CT: clipped to the middle 99 % of the values, then z-score")


@lru_cache(maxsize=8)
def _grey_range(
    cases: tuple[Case, ...], channel: int, versions: tuple[int, ...]
) -> tuple[float, float] | None:
    """The mean range of a channel. A study plans the same images for each seed: they are read once."""
    lows = []
    highs = []
    for case in cases:
        channels = channels_of(read(case).images)
        if len(channels) > channel:
            lows.append(np.percentile(channels[channel], 0.5))
            highs.append(np.percentile(channels[channel], 99.5))
    if not lows:
        return None
    return round(float(np.mean(lows)), 1), round(float(np.mean(highs)), 1)


def _version(file: Path) -> int:
    """Another number once the file has been written again."""
    path = split(file)[0]
    return path.stat().st_mtime_ns if path.exists() else 0
