"""A run: everything that determines one training. Its YAML is its identity."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
import yaml
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import nn

from segpl.data.cases import Task, check_task
from segpl.data.preparation import Preparation
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.named import plain, validated
from segpl.foundation.plain_files import read_yaml_values
from segpl.methods.base import Method
from segpl.networks.unet import UNet
from segpl.rundir import RUN_FILE, TASK_FILE, check_format
from segpl.settings import checks


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that determines one training."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    data: Path
    """The data folder."""
    method: Method
    """The learning method, with its hyper-parameters."""
    labelled: PositiveInt | None = None
    """How many labelled subjects training may use, to learn from and to choose weights.

    All by default. The other training subjects serve as unlabelled scans.
    """
    slices: PositiveInt | None = None
    """How many slices of the labelled subjects keep their label; only these are learnt from.

    All by default. Those that show a region are drawn first.
    """
    crops: PositiveInt | None = None
    """How many crops of the labelled subjects keep their label; only these are learnt from.

    They have the size of the patch and show a region. By default the whole scans are learnt from.
    """
    unlabelled: PositiveInt | None = None
    """How many unlabelled subjects are used. All by default."""
    validation: NonNegativeInt | None = None
    """How many labelled subjects, in addition to `labelled`, only choose the weights; 0 for none.

    By default a tenth of the labelled subjects does so. With fewer than 10, all are learnt from,
    and the weights of the last step are kept.
    """
    test: NonNegativeInt | None = None
    """How many labelled subjects are held out for testing if there is no test folder; 0 for none.

    A quarter by default.
    """
    split: Path | None = None
    """A file that names the subjects to learn from, to validate and to test on, or folds of them.

    See docs/data.md. By default the seed draws them.
    """
    fold: NonNegativeInt | None = None
    """Which of the folds in `split` is tested on, counted from 0; the others are learnt from."""
    start_from: Path | None = None
    """A trained run whose weights are the first ones, as with `--from`. By default they are drawn.

    The two runs have the same method, network, channels and regions. No subject that the earlier
    run has seen is tested on.
    """
    grade: Literal["HGG", "LGG"] | None = None
    """Use only gliomas of high (HGG) or low grade (LGG).

    BRATS data give it by folders HGG and LGG or by name_mapping.csv. Cases of unknown grade are
    used.
    """
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Determines the split, the first weights, and every batch."""
    steps: Annotated[int, Field(ge=1, le=10**9)]
    """Optimiser steps."""
    learning_rate: PositiveFloat
    """Of Adam; decays to 0 as (1 - progress)^0.9."""
    batch: Annotated[int, Field(ge=1, le=10**4)] = 2
    """Labelled images per step; a deep ensemble has as many for each member."""
    ratio: Annotated[int, Field(ge=1, le=10**4)]
    """Unlabelled images per labelled one in each step."""
    patch: tuple[Annotated[int, Field(ge=1, le=10**4)], ...]
    """Size of the crops in voxels: two numbers for 2D slices, three for 3D."""
    channels: Annotated[int, Field(ge=1, le=1024)]
    """Channels of the U-Net's first level; each further level doubles them."""
    strides: tuple[tuple[PositiveInt, ...], ...] | None = None
    """How much each level of the U-Net shrinks each axis; null derives it from the patch."""
    foreground: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the crops that are centred on foreground.

    In unlabelled scans these are centred where a labelled scan has foreground.
    """
    augment: NonNegativeFloat = 1.0
    """Strength of the augmented views: rotation, scale, deformation, grey values and noise."""
    exchange: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the labelled images that show a box of another labelled image."""
    box: tuple[PositiveFloat, PositiveFloat] = (0.3, 0.7)
    """Shortest and longest side of that box, as shares of the image's."""
    guard: bool = True
    """Step in when the pseudo-labels become empty or full while the labels are not."""
    validate_every: PositiveInt = 100
    """Steps between validations; a checkpoint is saved after each."""
    compile: bool | None = None
    """Compile the networks, which takes up to a minute and then saves time.

    null does so in long runs, in 3D or on a GPU.
    """
    spacing: tuple[PositiveFloat, ...] | None = None
    """Millimetres between voxels that images are resampled to; null does not resample."""
    window: tuple[float, float] | None = None
    """Grey values outside are clipped, as CT needs; null clips nothing."""
    orientation: str | None = None
    """Orientation of the training images, as in RAS, to which new scans are reoriented.

    null reorients none.
    """
    centre_crop: tuple[PositiveInt, ...] | None = None
    """Crop every scan around its centre to this many of its voxels, before it is resampled.

    Two numbers crop in the plane, three also along Z. Nothing is segmented outside. null crops
    none.
    """
    mirror: tuple[NonNegativeInt, ...] = ()
    """Axes along which views may be mirrored: 0 and 1 are in the plane.

    None where left and right differ.
    """
    why: dict[str, str] = field(default_factory=dict)
    """The reasons for the settings that were derived from the data."""

    def __post_init__(self) -> None:
        """Reject settings that do not fit together."""
        checks.check_patch(self.patch)
        checks.check_strides(self.strides, self.patch)
        checks.check_spacing(self.spacing)
        checks.check_window(self.window)
        checks.check_orientation(self.orientation)
        checks.check_mirror(self.mirror, self.patch)
        checks.check_slices(self.slices, self.patch)
        checks.check_crops(self.crops, self.slices)
        checks.check_centre_crop(self.centre_crop)
        checks.check_split(self.split is not None, self.fold, self.test)

    @property
    def preparation(self) -> Preparation:
        """What is done to every image before a network sees it."""
        return Preparation(self.spacing, self.window, self.orientation, self.centre_crop)

    @property
    def labelled_per_step(self) -> int:
        """Labelled images of a step, over all batches that the method asks for."""
        return self.batch * self.method.batches_per_step

    @property
    def unlabelled_per_step(self) -> int:
        """Unlabelled images of a step; 0 if the method does not use them."""
        if not self.method.uses_unlabelled():
            return 0
        return self.labelled_per_step * self.ratio

    def build(self, task: Task) -> nn.Module:
        """The model with its first weights, drawn from the seed."""

        def new_network() -> UNet:
            return UNet(
                len(task.channels), len(task.regions), self.channels, self.patch, self.strides
            )

        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return self.method.build(new_network)

    def mapping(self) -> dict[str, Any]:
        """The run as plain values, the method by its name."""
        return plain(self)

    def save(self, directory: Path) -> None:
        """Write `run.yaml`."""
        text = yaml.safe_dump(self.mapping(), sort_keys=False)
        write_text(directory / RUN_FILE, text)


def read_run(directory: Path) -> Run:
    """The run that `run.yaml` describes."""
    check_format(directory)
    file = directory / RUN_FILE
    return run_from(read_yaml(file), source=str(file))


def read_yaml(file: Path) -> dict[str, Any]:
    """A mapping from a YAML file."""
    try:
        values = read_yaml_values(file)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise UserError(f"{file} is not a file: give a YAML file of settings.") from None
    except ValueError as error:
        raise UserError(f"{file} is not valid YAML ({error}): fix it.") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} must contain settings such as 'steps: 200', one per line.")
    return values


def run_from(values: dict[str, Any], source: str) -> Run:
    """A run from plain values; `source` names their file in error messages."""
    try:
        return validated(Run, values)
    except UserError as error:
        raise error.prefixed_with(source) from None


def save_task(directory: Path, task: Task) -> None:
    """Write `task.yaml`, so that the model can be used where its training data are missing."""
    text = yaml.safe_dump(plain(task), sort_keys=False)
    write_text(directory / TASK_FILE, text)


def read_task(directory: Path) -> Task:
    """The channels and regions that a run was trained on."""
    file = directory / TASK_FILE
    task = validated(Task, read_yaml(file), f"{file}: ")
    check_task(task, file)
    return task
