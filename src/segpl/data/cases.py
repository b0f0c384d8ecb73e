"""What a data folder holds: cases of subjects, the channels of an image and the regions of a label."""

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Region:
    """One binary problem: the voxels whose label value is among `values`."""

    name: str
    values: tuple[int, ...]
    paint: int
    """The value that stands for the region when masks are folded back into one label map."""


@dataclass(frozen=True)
class Task:
    """What a model is given and what it finds."""

    channels: tuple[str, ...]
    regions: tuple[Region, ...]
    """In painting order: a later region covers an earlier one, so nested regions come from large to small."""


@dataclass(frozen=True)
class Case:
    """One scan: its channels as files, and its label where there is one."""

    name: str
    subject: str
    images: tuple[Path, ...]
    label: Path | None = None

    def unlabelled(self) -> "Case":
        """The same scan without the way to its label."""
        return replace(self, label=None)


@dataclass(frozen=True)
class Dataset:
    """Everything a layout reads off a folder, before any image is loaded."""

    folder: Path
    task: Task
    training: tuple[Case, ...]
    test: tuple[Case, ...]
    slices: bool = False
    """Whether the organisers' task, as the paper takes it, is one of 2D slices."""
    layout: str = ""
    """The name of the layout, for the user."""
