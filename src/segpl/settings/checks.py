"""Checks of single settings of a run. Each raises an error that says what is allowed."""

from collections.abc import Sequence
from math import prod

from segpl.foundation.errors import UserError

FEWEST_LEVELS = 3
"""Levels that the U-Net needs at least."""
MOST_LEVELS = 10
"""Each level doubles the channels."""
SMALLEST_SPACING = 1e-6
LARGEST_SPACING = 1e3
"""In millimetres."""
OPPOSITES = ("LR", "PA", "IS")
"""Letters of opposite directions: an orientation such as RAS has one of each pair."""


def check_patch(patch: Sequence[int]) -> None:
    """Two or three sides, those in the plane large enough for a U-Net."""
    if len(patch) not in (2, 3) or min(patch[:2]) < 8:
        raise UserError(
            f"patch is {list(patch)}, but it takes 2 or 3 numbers, the first two 8 or more.",
            where=("patch",),
        )


def check_strides(strides: Sequence[Sequence[int]] | None, patch: Sequence[int]) -> None:
    """Enough levels, a number for each axis, and a patch that can be divided by them."""
    if strides is None:
        return
    is_complete = all(len(level) == len(patch) for level in strides)
    has_levels = FEWEST_LEVELS <= len(strides) <= MOST_LEVELS
    if not has_levels or not is_complete or not _divide(strides, patch):
        raise UserError(
            f"strides must have {FEWEST_LEVELS} to {MOST_LEVELS} levels, a number for each axis, "
            "and divide the patch evenly.",
            where=("strides",),
        )


def _divide(strides: Sequence[Sequence[int]], patch: Sequence[int]) -> bool:
    """Whether the levels together divide each side of the patch without remainder."""
    for axis, side in enumerate(patch):
        divisor = prod(level[axis] for level in strides)
        if side % divisor != 0:
            return False
    return True


def check_spacing(spacing: Sequence[float] | None) -> None:
    """Two or three numbers of a plausible size."""
    if spacing is None:
        return
    is_plausible = all(SMALLEST_SPACING <= distance <= LARGEST_SPACING for distance in spacing)
    if len(spacing) not in (2, 3) or not is_plausible:
        raise UserError(
            f"spacing is {list(spacing)}, but it takes 2 or 3 numbers, in millimetres.",
            where=("spacing",),
        )


def check_window(window: tuple[float, float] | None) -> None:
    """The lower value first."""
    if window is not None and window[0] >= window[1]:
        raise UserError(
            f"window is {list(window)}, but it takes the lower value first.", where=("window",)
        )


def check_orientation(orientation: str | None) -> None:
    """Three letters, one of each pair of opposite directions."""
    if not orientation:
        return
    letters = set(orientation)
    has_each_axis = all(len(letters & set(pair)) == 1 for pair in OPPOSITES)
    if len(orientation) != 3 or not has_each_axis:
        raise UserError(
            f"orientation is {orientation}, but it takes a letter of LR, one of PA and one of IS, "
            "as in RAS.",
            where=("orientation",),
        )


def check_mirror(mirror: Sequence[int], patch: Sequence[int]) -> None:
    """Axes that the patch has."""
    last_axis = len(patch) - 1
    if any(axis > last_axis for axis in mirror):
        raise UserError(
            f"mirror is {list(mirror)}, but the axes of the patch are 0 to {last_axis}.",
            where=("mirror",),
        )


def check_slices(slices: int | None, patch: Sequence[int]) -> None:
    """Only 2D training can be given single labelled slices."""
    if slices and len(patch) == 3:
        raise UserError(
            f"slices is {slices}, but the patch {list(patch)} is a volume: "
            "use crops or labelled instead.",
            where=("slices",),
        )


def check_crops(crops: int | None, slices: int | None) -> None:
    """Labels are given for slices or for crops."""
    if crops and slices:
        raise UserError(
            f"crops is {crops} and slices is {slices}, but labels are limited to one of them: "
            "set the other one to null.",
            where=("crops",),
        )


def check_centre_crop(centre_crop: Sequence[int] | None) -> None:
    """Two or three sides, those in the plane large enough for a U-Net."""
    if centre_crop is None:
        return
    if len(centre_crop) not in (2, 3) or min(centre_crop[:2]) < 8:
        raise UserError(
            f"centre_crop is {list(centre_crop)}, but it takes 2 or 3 numbers of voxels, the first "
            "two 8 or more.",
            where=("centre_crop",),
        )


def check_split(has_file: bool, fold: int | None, test: int | None) -> None:
    """A fold is one of a split file, which also names the test subjects."""
    if fold is not None and not has_file:
        raise UserError(
            f"fold is {fold}, but no file lists folds: add --set split=FILE.", where=("fold",)
        )
    if has_file and test is not None:
        raise UserError(
            f"test is {test}, but the split file names the test subjects: leave out one of them.",
            where=("test",),
        )
