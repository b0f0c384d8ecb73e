"""A study as data: which methods, on what, with how many labels and seeds, under which shifts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt

from segpl.data.phantoms import write_phantoms

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Entry:
    """A method with settings of its own: a row of the tables."""

    label: str
    method: dict[str, Any]
    """Its name and hyper-parameters, as in `run.yaml`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of its runs, before those of the study."""


@dataclass(frozen=True)
class Budget:
    """How many labels there are: settings of a run such as `labelled`, under a name."""

    label: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Phantoms:
    """Data that the study writes itself."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    phantom: Literal["tumour", "vessels"]
    subjects: PositiveInt = 24
    """A third labelled, a third unlabelled, a third for testing."""
    seed: NonNegativeInt = 0

    def write(self, folder: Path) -> Path:
        """The data folder below `folder`, drawn now or before."""
        data = folder / f"{self.phantom}-{self.subjects}-{self.seed}"
        return (
            data if data.is_dir() else write_phantoms(self.phantom, data, self.subjects, self.seed)
        )


@dataclass(frozen=True)
class PaperCost:
    """What the paper says that a method costs."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    seconds: NonNegativeFloat
    gigaflops: NonNegativeFloat
    parameters: NonNegativeFloat


@dataclass(frozen=True)
class Paper:
    """Figures of the paper, to stand beside ours."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    source: str
    """Where in the paper they are."""
    scores: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """Mean and deviation of the IoU in per cent, by budget and method."""
    cost: dict[str, PaperCost] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every method with every budget and every seed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    title: str
    """What the tables are headed with."""
    data: Path | Phantoms
    """A data folder, as seen from the file; or `{phantom: tumour}`, which the study draws itself."""
    preset: str | None = None
    """Settings to begin with, by name: brats or carve, the paper's."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of all runs; those under `method` go to each method that knows them."""
    methods: tuple[Entry, ...]
    """Names, or mappings of a name with hyper-parameters, and perhaps `settings` of the run and a `label`."""
    budgets: tuple[Budget, ...] = (Budget("all", {}),)
    """Numbers of labelled subjects, or mappings of settings with perhaps a `label`."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """Each draws its own split, first weights and batches."""
    shifts: tuple[str, ...] = ()
    """As `segpl evaluate --shift` takes them."""
    samples: PositiveInt = 1
    """How many opinions of an uncertain method are averaged when it is scored."""
    baselines: tuple[str, ...] = ()
    """Labels of the methods that the others are tested against; the first method by default."""
    paper: Paper | None = None
    """What the paper reports."""
