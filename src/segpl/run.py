"""A run: everything that determines one training. Its YAML is its identity."""

from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
import yaml
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from segpl.data.cases import Task
from segpl.data.context import SMALLEST
from segpl.data.layouts import read_dataset
from segpl.data.loading import Preparation, is_ct
from segpl.data.plan import CHOSEN, plan
from segpl.data.planned import Planned
from segpl.data.splits import training_cases
from segpl.errors import UserError
from segpl.files import write_text
from segpl.methods import METHODS
from segpl.methods.base import Method
from segpl.named import plain, validated
from segpl.networks import UNet

RUN_FILE, TASK_FILE, SPLIT_FILE, WEIGHTS_FILE = "run.yaml", "task.yaml", "split.json", "model.safetensors"
METHOD_SETTINGS = ("single_component", "nested", "mirror")
"""What is planned for the methods that have settings of these names."""
PAPERS_OWN = ("segpl", "segpl-vi", "segpl-elbo")
"""The forms that the paper describes, in which its settings are to be read."""


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
        if len(self.patch) not in (2, 3) or min(self.patch[:2]) < 8:
            raise UserError(f"patch is {list(self.patch)}, but it takes 2 or 3 numbers, the first two 8 or more.")
        if self.strides is not None and not self._divides(self.strides):
            raise UserError("strides must have 3 levels or more, a number for each axis, and divide the patch evenly.")
        if self.spacing is not None and len(self.spacing) not in (2, 3):
            raise UserError(f"spacing is {list(self.spacing)}, but it takes 2 or 3 numbers, in millimetres.")
        if self.window is not None and self.window[0] >= self.window[1]:
            raise UserError(f"window is {list(self.window)}, but it takes the lower value first.")
        axes = self.orientation or "RAS"
        if len(axes) != 3 or not all(len({*axes} & {*pair}) == 1 for pair in ("LR", "PA", "IS")):
            raise UserError(f"orientation is {axes}, but it takes a letter of LR, one of PA and one of IS, as in RAS.")
        if any(axis >= len(self.patch) for axis in self.mirror):
            raise UserError(f"mirror is {list(self.mirror)}, but the axes of the patch are 0 to {len(self.patch) - 1}.")
        if self.slices and len(self.patch) == 3:
            raise UserError(f"slices is {self.slices}, but the patch {list(self.patch)} is a volume: give labelled.")

    def _divides(self, strides: tuple[tuple[int, ...], ...]) -> bool:
        if len(strides) < 3 or any(len(step) != len(self.patch) for step in strides):
            return False
        return all(size % prod(axis) == 0 for size, axis in zip(self.patch, zip(*strides, strict=True), strict=True))

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


def plan_run(data: Path, settings: dict[str, Any], source: str = "the settings") -> Run:
    """A run on a data folder: what the data suggest, and the user's `settings` before that (DATA goes before both)."""
    return finish_run(data, settings, plan_settings(data, settings, source), source)


def plan_settings(data: Path, settings: dict[str, Any], source: str = "the settings") -> dict[str, Planned]:
    """What the data suggest for runs with these settings, whichever their method.

    Of labels, it opens only those that the training of such a run learns from or validates on. If the
    user gives a patch but no spacing, or a spacing but no patch, the other one is planned to fit.
    """
    draft = _draft(data, settings, source)
    dataset = read_dataset(draft.data)
    if not dataset.training:
        raise UserError(f"{dataset.folder} has no training image: add some.")
    if settings.get("window") and not any(map(is_ct, dataset.task.channels)):
        raise UserError(
            f"window is for CT, and {draft.data} has no channel called CT, CTA or HU: name it so, or leave it out."
        )
    cases = training_cases(dataset, draft.labelled, draft.seed, draft.validation, draft.test)
    given: dict[str, Any] = {key: getattr(draft, key) for key in ("patch", "spacing") if key in settings}
    if len(given) == 2:
        given = {}  # nothing is left to fit; the plan of the data alone tells whether they differ from it
    return plan(dataset, cases, given)


def finish_run(data: Path, settings: dict[str, Any], planned: dict[str, Planned], source: str = "the settings") -> Run:
    """A run of the user's settings and, where they do not say, of what was planned."""
    draft = _draft(data, settings, source)
    of_method = {key: planned[key] for key in METHOD_SETTINGS}
    own = {each.name for each in fields(Run)}
    planned = {key: each for key, each in planned.items() if key in own}
    if settings.get("patch", planned["patch"].value) != planned["patch"].value:
        planned["strides"] = Planned(None, "derived from the patch")
    why = {}
    for key, (value, reason) in planned.items():
        if settings.get(key, value) == value and reason != CHOSEN:
            why[key] = reason
    method = plain(draft.method)
    given = settings["method"] if isinstance(settings["method"], dict) else {}
    for key, (value, reason) in of_method.items():
        if key in method:
            method[key] = given.get(key, value)
            if method[key] == value:
                why[f"method.{key}"] = reason
    derived = {key: value for key, (value, _) in planned.items()}
    return run_from({**derived, **settings, "method": method, "data": str(draft.data), "why": why}, source)


def _draft(data: Path, settings: dict[str, Any], source: str) -> Run:
    """The user's settings, checked, with anything at all where they leave it to the plan."""
    anything = {"steps": 1, "learning_rate": 1.0, "ratio": 1, "patch": [SMALLEST, SMALLEST], "channels": 1}
    unplanned = {key: value for key, value in settings.items() if key not in ("strides", "mirror", "why")}
    return run_from({**anything, **unplanned, "data": str(data.resolve())}, source)


def read_run(directory: Path) -> Run:
    """The run that `run.yaml` describes."""
    file = directory / RUN_FILE
    if not file.is_file():
        raise UserError(
            f"{directory} is not a run directory (it has no {RUN_FILE}): give a folder made by segpl train."
        )
    return run_from(read_yaml(file), source=str(file))


def read_yaml(file: Path) -> dict[str, Any]:
    """A mapping from a YAML file."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise UserError(f"{file} is not a file: give a YAML file of settings.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid YAML ({' '.join(str(error).split())}): mend it.") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} must hold settings such as 'steps: 200', one a line.")
    return values


def preset(name: Path) -> Path:
    """The file that a name such as brats stands for, unless there is a file of that name."""
    known = Path(__file__).parent / "presets" / f"{name}.yaml"
    return known if known.is_file() and not name.is_file() else name


def asked_before(directory: Path, resume: bool) -> dict[str, Any]:
    """The settings to begin with: those of the run in this directory if it goes on, else the default method."""
    started = directory / RUN_FILE
    return read_yaml(started) if resume and started.is_file() else {"method": "segpl-em"}


def for_method(settings: Any, name: str | None) -> Any:
    """A method's settings where another one is asked for, or none is named: those that it has too.

    Under `paper` a preset has what suits the paper's own forms and would be a handicap for others.
    """
    if not isinstance(settings, dict):
        return name or settings
    paper, settings = settings.get("paper", {}), {key: value for key, value in settings.items() if key != "paper"}
    own = settings.get("name")
    if own and name in (None, own):
        return settings
    chosen = name or "segpl"
    if chosen == "deep-ensemble":  # which has no settings of its own but its members'
        return {"name": chosen, "base": for_method({**settings, "name": None}, "supervised")}
    known = {each.name for each in fields(METHODS[chosen])} if chosen in METHODS else set()
    given = {**paper, **settings} if chosen in PAPERS_OWN else settings
    return {"name": chosen} | {key: value for key, value in given.items() if key in known}


def run_from(values: dict[str, Any], source: str) -> Run:
    """A run from plain values."""
    try:
        return validated(Run, values)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None


def save_task(directory: Path, task: Task) -> None:
    """Keep what the model takes and gives beside it: it must work where its training data are not."""
    write_text(directory / TASK_FILE, yaml.safe_dump(plain(task), sort_keys=False))


def read_task(directory: Path) -> Task:
    """The channels and regions that a run was trained on."""
    return validated(Task, read_yaml(directory / TASK_FILE), f"{directory / TASK_FILE}: ")


def load_model(directory: Path, run: Run) -> nn.Module:
    """The trained model of a run: the best weights on its validation cases or, without any, the last."""
    file = directory / WEIGHTS_FILE
    if not file.is_file():
        raise UserError(f"{directory} has no {WEIGHTS_FILE}: its training has not ended; use segpl train --resume.")
    model = run.build(read_task(directory))
    try:
        model.load_state_dict(load_file(file))
    except (SafetensorError, RuntimeError):
        raise UserError(f"{file} does not hold the weights that {RUN_FILE} describes: train the run again.") from None
    return model.eval()
