"""A run: everything that determines one training. Its YAML is its identity."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
import yaml
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import nn

from segpl.data.cases import Task
from segpl.data.preparation import Preparation
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.named import plain, validated
from segpl.methods.base import Method
from segpl.networks.unet import UNet
from segpl.rundir import RUN_FILE, TASK_FILE, check_format


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that determines one training."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    data: Path
    """The data folder."""
    method: Method
    """How to learn, with its hyper-parameters."""
    labelled: PositiveInt | None = None
    """How many labelled subjects the training may look at, to learn from and to choose weights.

    All by default. The other training subjects serve as unlabelled scans.
    """
    slices: PositiveInt | None = None
    """How many slices of the labelled subjects, among those that show a region, keep their label. All by default."""
    validation: NonNegativeInt | None = None
    """How many further labelled subjects, beside `labelled`, only choose the best weights; 0 for none.

    By default a tenth of the labelled subjects does so, none where there are fewer than 10: these
    are all learnt from, and the weights of the last step are kept.
    """
    test: PositiveInt | None = None
    """How many labelled subjects are kept for the test where no test folder is; a quarter by default."""
    seed: NonNegativeInt = 0
    """Draws the split, the first weights, and every batch."""
    steps: PositiveInt
    """Optimiser steps."""
    learning_rate: PositiveFloat
    """Of Adam; decays to 0 as (1 - progress)^0.9."""
    batch: PositiveInt = 2
    """Labelled images a step."""
    ratio: PositiveInt
    """Unlabelled images a step for each labelled one."""
    patch: tuple[PositiveInt, ...]
    """Size of the crops in voxels: two numbers for 2D slices, three for 3D."""
    channels: PositiveInt
    """Channels of the U-Net's first level; each further level doubles them."""
    strides: tuple[tuple[PositiveInt, ...], ...] | None = None
    """How much each level of the U-Net shrinks each axis, and so its depth; null derives it from the patch."""
    foreground: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the crops that are centred on foreground; in unlabelled scans, where a labelled one has it."""
    augment: NonNegativeFloat = 1.0
    """Strength of the views (rotated, scaled, deformed, other grey values, noisy) that every method learns from."""
    exchange: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the labelled images that show a box of another labelled image."""
    box: tuple[PositiveFloat, PositiveFloat] = (0.3, 0.7)
    """Shortest and longest side of that box, as shares of the image's."""
    guard: bool = True
    """Step in when the pseudo-labels go empty or full while the labels are not."""
    validate_every: PositiveInt = 100
    """Steps between validations; a checkpoint is kept after each."""
    compile: bool | None = None
    """Compile the networks: takes up to a minute and then saves time; null does so in long runs, if 3D or on a GPU."""
    spacing: tuple[PositiveFloat, ...] | None = None
    """Millimetres between voxels that images are resampled to; null leaves them as they are."""
    window: tuple[float, float] | None = None
    """Grey values outside are clipped, as CT needs; null clips nothing."""
    orientation: str | None = None
    """The way the axes of the training images point, as in RAS: new scans are turned to it; null turns none."""
    mirror: tuple[NonNegativeInt, ...] = ()
    """Axes along which views may be mirrored: 0 and 1 lie in the plane. None where left and right differ."""
    why: dict[str, str] = field(default_factory=dict)
    """Why the settings that were derived from the data are what they are."""

    def __post_init__(self) -> None:
        """Refuse patches and strides that no U-Net can take."""
        for name, sentence in self._mistakes():
            raise UserError(sentence, where=(name,))

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        """The settings whose values do not fit together, and why."""
        patch = list(self.patch)
        if len(patch) not in (2, 3) or min(patch[:2]) < 8:
            yield (
                "patch",
                f"patch is {patch}, but it takes 2 or 3 numbers, the first two 8 or more.",
            )
        if self.strides is not None and not self._divides(self.strides):
            sentence = "strides must have 3 levels or more, a number for each axis, and divide the patch evenly."
            yield "strides", sentence
        if self.spacing is not None and len(self.spacing) not in (2, 3):
            sentence = (
                f"spacing is {list(self.spacing)}, but it takes 2 or 3 numbers, in millimetres."
            )
            yield "spacing", sentence
        if self.window is not None and self.window[0] >= self.window[1]:
            yield "window", f"window is {list(self.window)}, but it takes the lower value first."
        axes = self.orientation or "RAS"
        if len(axes) != 3 or not all(len({*axes} & {*pair}) == 1 for pair in ("LR", "PA", "IS")):
            sentence = f"orientation is {axes}, but it takes a letter of LR, one of PA and one of IS, as in RAS."
            yield "orientation", sentence
        if any(axis >= len(patch) for axis in self.mirror):
            sentence = f"mirror is {list(self.mirror)}, but the axes of the patch are 0 to {len(patch) - 1}."
            yield "mirror", sentence
        if self.slices and len(patch) == 3:
            yield (
                "slices",
                f"slices is {self.slices}, but the patch {patch} is a volume: give labelled.",
            )

    def _divides(self, strides: tuple[tuple[int, ...], ...]) -> bool:
        if len(strides) < 3 or any(len(step) != len(self.patch) for step in strides):
            return False
        return all(
            size % prod(axis) == 0
            for size, axis in zip(self.patch, zip(*strides, strict=True), strict=True)
        )

    @property
    def preparation(self) -> Preparation:
        """What is done to every image before a network sees it."""
        return Preparation(self.spacing, self.window, self.orientation)

    def build(self, task: Task) -> nn.Module:
        """The model with its first weights, drawn from the seed."""
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return self.method.build(lambda: self._network(task))

    def _network(self, task: Task) -> UNet:
        return UNet(len(task.channels), len(task.regions), self.channels, self.patch, self.strides)

    def mapping(self) -> dict[str, Any]:
        """The run as plain values, the method by its name."""
        return plain(self)

    def save(self, directory: Path) -> None:
        """Write `run.yaml`."""
        write_text(directory / RUN_FILE, yaml.safe_dump(self.mapping(), sort_keys=False))


def read_run(directory: Path) -> Run:
    """The run that `run.yaml` describes."""
    check_format(directory)
    file = directory / RUN_FILE
    return run_from(read_yaml(file), source=str(file))


def read_yaml(file: Path) -> dict[str, Any]:
    """A mapping from a YAML file."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise UserError(f"{file} is not a file: give a YAML file of settings.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file} is not valid YAML ({' '.join(str(error).split())}): mend it."
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{file} must hold settings such as 'steps: 200', one a line.")
    return values


def run_from(values: dict[str, Any], source: str) -> Run:
    """A run from plain values."""
    try:
        return validated(Run, values)
    except UserError as error:
        raise error.said_of(source) from None


def save_task(directory: Path, task: Task) -> None:
    """Keep what the model takes and gives beside it: it must work where its training data are not."""
    write_text(directory / TASK_FILE, yaml.safe_dump(plain(task), sort_keys=False))


def read_task(directory: Path) -> Task:
    """The channels and regions that a run was trained on."""
    return validated(Task, read_yaml(directory / TASK_FILE), f"{directory / TASK_FILE}: ")
