"""A run: everything that determines one training. Its YAML is its identity."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
import yaml
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter, ValidationError
from safetensors.torch import load_file
from torch import nn

from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.data.plan import plan
from segpl.errors import UserError
from segpl.files import write_text
from segpl.methods import METHODS, Method
from segpl.networks import UNet

RUN_FILE, WEIGHTS_FILE = "run.yaml", "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that determines one training."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    data: Path
    """The data folder."""
    method: Method
    """How to learn, with its hyper-parameters."""
    labelled: PositiveInt | None = None
    """How many subjects keep their label; the other training subjects serve as unlabelled. All by default."""
    seed: NonNegativeInt = 0
    """Draws the split, the first weights, and every batch."""
    steps: PositiveInt = 200
    """Optimiser steps."""
    learning_rate: PositiveFloat = 0.003
    """Of Adam; decays to 0 as (1 - progress)^0.9."""
    batch: PositiveInt = 2
    """Labelled images a step."""
    ratio: PositiveInt = 5
    """Unlabelled images a step for each labelled one."""
    patch: tuple[PositiveInt, ...]
    """Size of the crops in voxels: two numbers for 2D slices, three for 3D."""
    channels: PositiveInt
    """Channels of the U-Net's first level; each further level doubles them."""
    foreground: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the labelled crops that are centred on a foreground voxel."""
    validate_every: PositiveInt = 50
    """Steps between validations; a checkpoint is kept after each."""

    def build(self, dataset: Dataset) -> nn.Module:
        """The model with its first weights, drawn from the seed."""
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return self.method.build(
                lambda: UNet(len(dataset.channels), len(dataset.regions), self.channels, self.patch)
            )

    def mapping(self) -> dict[str, Any]:
        """The run as plain values, the method by its name."""
        values = asdict(self) | {"data": str(self.data), "patch": list(self.patch)}
        return values | {"method": {"name": self.method.name(), **asdict(self.method)}}

    def save(self, directory: Path) -> None:
        """Write `run.yaml`."""
        write_text(directory / RUN_FILE, yaml.safe_dump(self.mapping(), sort_keys=False))


def plan_run(data: Path, settings: dict[str, Any]) -> Run:
    """A run on a data folder: what the data suggest, and the user's `settings` before that (DATA goes before both)."""
    data = data.resolve()
    return run_from({**plan(read_dataset(data)), **settings, "data": str(data)}, source="the settings")


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
    except FileNotFoundError:
        raise UserError(f"{file} does not exist: give a YAML file of settings.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid YAML ({' '.join(str(error).split())}): mend it.") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} must hold settings such as 'steps: 200', one a line.")
    return values


def run_from(values: dict[str, Any], source: str) -> Run:
    """A run from plain values. The method is chosen by its name, and an unknown key is an error, never ignored."""
    method = values.get("method")
    method = {"name": method} if isinstance(method, str) else dict(method or {})
    name = method.pop("name", None)
    if name not in METHODS:
        raise UserError(f"{source}: there is no method {name!r}: choose one of {', '.join(METHODS)}.")
    return _validated(Run, values | {"method": _validated(METHODS[name], method, source, "method.")}, source)


def _validated(kind: type[Any], values: dict[str, Any], source: str, prefix: str = "") -> Any:
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(map(str, first["loc"]))
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(each.name for each in fields(kind))
            raise UserError(f"{source}: unknown setting {key!r}: it takes {known}.") from None
        reason = first["msg"].replace("Input", "it")
        raise UserError(f"{source}: {key} is {first['input']!r}, but {reason}.") from None


def load_model(directory: Path, run: Run, dataset: Dataset) -> nn.Module:
    """The trained model of a run directory: the weights that were best on the validation cases."""
    file = directory / WEIGHTS_FILE
    if not file.is_file():
        raise UserError(
            f"{directory} has no {WEIGHTS_FILE}: its training has not ended; go on with segpl train --resume."
        )
    model = run.build(dataset)
    model.load_state_dict(load_file(file))
    return model.eval()
