"""Reads a search from a YAML file: which settings to vary, between which values, on which data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict, NonNegativeInt, PositiveInt

from segpl.data.layouts import read_dataset
from segpl.foundation.errors import KeyPath, UserError
from segpl.foundation.named import Settings, merged, validated
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.settings.subjects import training_cases_of
from segpl.study.schema import STRICT
from segpl.study.yaml_source import YamlSource

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Choice:
    """The values a setting may take: one of `choices`, or a number from `low` to `high`."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False
    """Whether to draw on a logarithmic scale, as suits weights and learning rates."""

    def __post_init__(self) -> None:
        """Check that there is something to choose from."""
        has_range = self.low is not None and self.high is not None
        if bool(self.choices) == has_range:
            raise UserError("give choices, as in 'choices: [1, 2]', or low and high, and not both.")
        if has_range:
            low, high = self._range()
            if low >= high or (self.log and low <= 0):
                message = "low must be below high, and above 0 where log is true."
                raise UserError(message, where=("low",))

    def _range(self) -> tuple[float, float]:
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def examples(self) -> tuple[Any, ...]:
        """Values to test whether a run accepts them.

        Those of a range include a fraction, which a setting that takes whole numbers rejects.
        """
        if self.choices:
            return self.choices
        low, high = self._range()
        return low, low + 0.37 * (high - low), high

    def suggest(self, trial: "optuna.Trial", key: str) -> Any:
        """The value that Optuna tries next."""
        if self.choices:
            return trial.suggest_categorical(key, self.choices)
        low, high = self._range()
        return trial.suggest_float(key, low, high, log=self.log)


@dataclass(frozen=True, kw_only=True)
class Search:
    """What to search, and on which data."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    data: Path
    """A data folder, relative to the file."""
    settings: Settings
    """Settings of every run, including `method`."""
    space: dict[str, Choice]
    """By key, as in `segpl train --set`: `method.alpha: {low: 0.005, high: 1, log: true}`."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """A trial trains once with each seed; its score is the mean."""
    trials: PositiveInt = 20

    def run(self, chosen: Settings, seed: int) -> Run:
        """The run with the settings that a trial has chosen."""
        settings = merged(self.settings, chosen | {"seed": seed})
        return plan_run(self.data, settings)


def read_search(source: YamlSource, data: Path | None) -> Search:
    """The search in a file, on its own data or on `data`.

    It is checked with example values before anything is trained.
    """
    values = dict(source.values)
    values["space"] = _read_space(source)
    given_data = str(values.get("data", ""))
    values["data"] = data or source.file.parent / given_data
    with source.locate_errors(()):
        search = validated(Search, values)
        if not search.data.exists():
            raise UserError(
                f"data: {search.data} does not exist: correct the path, or give --data."
            )
    with source.locate_errors(("settings",)):
        _check_validation(search.run({}, search.seeds[0]))
    _check_space(search, source)
    return search


def _read_space(source: YamlSource) -> dict[str, Choice]:
    space = source.values.get("space")
    if not isinstance(space, dict) or not space:
        with source.locate_errors(("space",)):
            raise UserError(
                "space is missing or empty: add what to search, "
                "as in 'learning_rate: {low: 0.001, high: 0.1}'."
            )
    choices = {}
    for key, value in space.items():
        with source.locate_errors(("space", key)):
            if not isinstance(value, dict):
                raise UserError(f"{key} is {value!r}: give choices, or low and high.")
            choices[key] = validated(Choice, value)
    return choices


def _check_space(search: Search, source: YamlSource) -> None:
    """Plan a run for each example of each setting, with the first examples of the others."""
    first_examples = {}
    for key, choice in search.space.items():
        first_examples[key] = choice.examples()[0]
    for key, choice in search.space.items():
        with source.locate_errors(("space", key), _within_space):
            for value in choice.examples():
                chosen = first_examples | {key: value}
                _check_validation(search.run(chosen, search.seeds[0]))


def _within_space(where: KeyPath) -> list[KeyPath]:
    """Where the file gives a setting of a trial."""
    return [("space", *where)]


def _check_validation(run: Run) -> None:
    """Trials are compared by their validation IoU, so every run needs validation subjects."""
    dataset = read_dataset(run.data)
    cases = training_cases_of(run, dataset)
    if not cases.validation:
        raise UserError(
            f"these settings leave {run.data} without validation subjects, by which a search "
            "compares trials: add 'validation: K' to settings for K further labelled subjects."
        )
