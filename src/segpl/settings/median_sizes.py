"""The typical image and object of a data set, and how much of them a patch should cover."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from segpl.data.formats import Grid
from segpl.settings.objects import Label

IMAGE_SHARE = 0.8
"""Share of the median image's sides that a patch should cover."""
OBJECT_MULTIPLE = 3
"""A patch need not cover more than this many times the object: its width again on either side.

So a small organ in a large scan is not blurred for the sake of distant surroundings.
"""


class MedianSizes(NamedTuple):
    """The median image and object of a data set, along two axes for 2D and three for 3D."""

    spacing: list[float]
    """Millimetres between voxels."""
    image: list[float]
    """Sides in mm."""
    objects: list[float] | None
    """Sides in mm of the box around the foreground; None without a foreground in any label."""

    @property
    def view(self) -> list[float]:
        """The sides in mm that a patch should cover."""
        return wanted_view(self.image, self.objects)

    def describe_view(self) -> str:
        """What a patch should cover, in words."""
        image = "slice" if len(self.image) == 2 else "volume"
        share = f"{100 * IMAGE_SHARE:.0f} % of the median {image}"
        if self.view == wanted_view(self.image, None):
            return share
        return f"{share}, or {OBJECT_MULTIPLE} times the object where that is less"


def wanted_view(image: Sequence[float], objects: Sequence[float] | None) -> list[float]:
    """The sides in mm that a patch should cover, from those of the median image and object."""
    from_image = [IMAGE_SHARE * side for side in image]
    if objects is None:
        return from_image
    from_objects = [OBJECT_MULTIPLE * side for side in objects]
    return [min(sides) for sides in zip(from_image, from_objects, strict=True)]


def median_sizes(grids: Sequence[Grid], labels: Sequence[Label], dimensions: int) -> MedianSizes:
    """The medians over all images and over the labels that were read."""
    spacings = spacings_of(grids, dimensions)
    shapes = np.array([grid.shape for grid in grids])[:, :dimensions]
    objects = None
    if labels:
        extents = [label.extent()[:dimensions] for label in labels]
        objects = np.median(extents, axis=0).tolist()
    return MedianSizes(
        spacing=np.median(spacings, axis=0).tolist(),
        image=np.median(shapes * spacings, axis=0).tolist(),
        objects=objects,
    )


def spacings_of(grids: Sequence[Grid], dimensions: int) -> Float[np.ndarray, "N D"]:
    """The spacing of each image in mm, along the first axes."""
    spacings = [grid.spacing for grid in grids]
    return np.array(spacings)[:, :dimensions]


def in_voxels(sides: Sequence[float], spacing: Sequence[float]) -> list[float]:
    """Sides in mm as numbers of voxels; these need not be whole."""
    return [side / step for side, step in zip(sides, spacing, strict=True)]
