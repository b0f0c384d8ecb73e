"""A study as data: methods, data, numbers of labels, seeds and shifts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt

from segpl.data.phantoms import write_phantoms
from segpl.foundation.named import Settings

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Entry:
    """A method with its own settings: a row of the tables."""

    label: str
    method: Settings
    """Its name and hyper-parameters, as in `run.yaml`."""
    settings: Settings = field(default_factory=dict)
    """Settings of its runs, which take precedence over those of the study."""


@dataclass(frozen=True)
class Budget:
    """How many labels there are: a label and settings of a run such as `labelled`."""

    label: str
    settings: Settings


@dataclass(frozen=True)
class Phantoms:
    """Synthetic data, which the study draws itself."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    phantom: Literal["tumour", "vessels"]
    subjects: PositiveInt = 24
    """A third labelled, a third unlabelled, a third for testing."""
    seed: NonNegativeInt = 0

    def write(self, folder: Path) -> Path:
        """The data folder below `folder`; it is written unless it exists already."""
        data = folder / f"{self.phantom}-{self.subjects}-{self.seed}"
        if data.is_dir():
            return data
        return write_phantoms(self.phantom, data, self.subjects, self.seed)


@dataclass(frozen=True)
class PaperCost:
    """What a method costs according to the paper."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    seconds: NonNegativeFloat
    gigaflops: NonNegativeFloat
    parameters: NonNegativeFloat


@dataclass(frozen=True)
class Paper:
    """Figures of the paper, shown beside ours."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    source: str
    """The table or section of the paper."""
    scores: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """Mean and standard deviation of the IoU in per cent, by budget and method."""
    cost: dict[str, PaperCost] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every method with every budget and every seed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    title: str
    """The title of the tables."""
    data: Path | Phantoms
    """A data folder, relative to the file; or phantoms to draw, such as `{phantom: tumour}`."""
    preset: str | None = None
    """Settings to start from, by name: brats or carve, the paper's."""
    settings: Settings = field(default_factory=dict)
    """Settings of all runs; those under `method` go to each method that has them."""
    methods: tuple[Entry, ...]
    """Names, or mappings of a name and hyper-parameters, optionally with `settings` and `label`."""
    budgets: tuple[Budget, ...] = (Budget("all", {}),)
    """Numbers of labelled subjects, or mappings of settings, optionally with a `label`."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """Each seed draws its own split, initial weights and batches."""
    shifts: tuple[str, ...] = ()
    """In the form of `segpl evaluate --shift`."""
    fit_to_data: bool = False
    """Reduce `test`, then `unlabelled`, of `settings` if the data have too few subjects.

    A note below the tables gives the numbers. Without it, too few subjects are an error.
    """
    samples: PositiveInt = 1
    """How many thresholds or ensemble members a scored mask is the mean of."""
    baselines: tuple[str, ...] = ()
    """Labels of the methods that the others are tested against; the first method by default."""
    paper: Paper | None = None
    """Results of the paper."""
