"""The contents of a data folder: cases of subjects, channels of images and regions of labels."""

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Region:
    """One binary problem: the voxels whose label value is among `values`."""

    name: str
    values: tuple[int, ...]
    paint: int
    """The value of the region in a label map that combines the masks of all regions."""


@dataclass(frozen=True)
class Task:
    """The input channels of a model and the regions that it segments."""

    channels: tuple[str, ...]
    regions: tuple[Region, ...]
    """In painting order: a later region covers an earlier one, so the largest region is first."""


@dataclass(frozen=True)
class Case:
    """One scan: the files of its channels, and its label if there is one."""

    name: str
    subject: str
    images: tuple[Path, ...]
    label: Path | None = None
    grade: str | None = None
    """The grade of a glioma, HGG or LGG, if the data set gives it."""

    def unlabelled(self) -> "Case":
        """The same scan without the path of its label."""
        return replace(self, label=None)


Cases = tuple[Case, ...]


@dataclass(frozen=True)
class Dataset:
    """What a layout finds in a folder, before any image is loaded."""

    folder: Path
    task: Task
    training: Cases
    test: Cases
    use_slices: bool = False
    """Whether a model is trained on 2D slices, as the paper does with BRATS."""
    layout: str = ""
    """The name of the layout, for messages."""
    subject_rule: str = ""
    """How the subjects were found, for messages; empty if the data describe them."""
