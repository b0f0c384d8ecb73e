"""Search of settings on the validation subjects: trials of Optuna, which machines can share, and the best as a run."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import lightning
from pydantic import ConfigDict, NonNegativeInt, PositiveInt

from segpl.data import splits
from segpl.data.cache import Cache, default_folder
from segpl.data.layouts import read_dataset
from segpl.data.splits import training_cases
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.named import merged, validated
from segpl.foundation.progress import console
from segpl.rundir import LAST_CHECKPOINT, LOG_FILE, RUN_FILE, read_table
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.study.schema import STRICT
from segpl.study.source import Source
from segpl.training.loop import train

if TYPE_CHECKING:
    import optuna

METRIC = "validation_iou"


@dataclass(frozen=True)
class Choice:
    """What a setting may be: one of `choices`, or a number from `low` to `high`."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False
    """Whether to step by factors, as suits weights and rates."""

    def __post_init__(self) -> None:
        """Refuse what leaves nothing to choose."""
        if bool(self.choices) == (self.low is not None and self.high is not None):
            raise UserError("give choices, as in 'choices: [1, 2]', or low and high, and not both.")
        if (
            self.low is not None
            and self.high is not None
            and (self.low >= self.high or (self.log and self.low <= 0))
        ):
            raise UserError(
                "low must be below high, and above 0 where log is true.", where=("low",)
            )

    def examples(self) -> tuple[Any, ...]:
        """Values to see whether a run takes them: a fraction shows whether the setting is a whole number."""
        if self.choices:
            return self.choices
        assert self.low is not None
        assert self.high is not None
        return self.low, self.low + 0.37 * (self.high - self.low), self.high

    def suggest(self, trial: "optuna.Trial", key: str) -> Any:
        """What Optuna tries next."""
        if self.choices:
            return trial.suggest_categorical(key, self.choices)
        assert self.low is not None
        assert self.high is not None
        return trial.suggest_float(key, self.low, self.high, log=self.log)


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched, and on what."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    data: Path
    """A data folder, as seen from the file."""
    settings: dict[str, Any]
    """Settings of every run, `method` among them."""
    space: dict[str, Choice]
    """By key, as `segpl train --set` takes it: `method.alpha: {low: 0.005, high: 1, log: true}`."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """A trial trains once with each and counts the mean."""
    trials: PositiveInt = 20


def search(
    file: Path,
    out: Path,
    data: Path | None = None,
    trials: int | None = None,
    storage: str | None = None,
) -> Path:
    """Try settings until there are enough trials, however many machines try; the best ones as `run.yaml`.

    A trial's score is the best validation IoU of its runs. Test subjects are never read.
    """
    optuna = _optuna()
    source = Source(file)
    wanted = _read(source, data)
    study = _study(optuna, file.stem, out, storage)
    _check_same(study, wanted, source, f"--storage {storage}" if storage else str(out))
    # All trials have as many images a step as the first, however much memory is free where and when they begin.
    batch = study.user_attrs.get("batch") or _run(wanted, {}, wanted.seeds[0]).batch
    study.set_user_attr("batch", batch)
    wanted = replace(wanted, settings={"batch": batch, **wanted.settings})
    ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    count, done = trials or wanted.trials, len(study.get_trials(states=ended))
    console.print(f"{done} of {count} trials are done -> {out}")
    if done < count:
        study.optimize(
            _objective(wanted, out),
            callbacks=[optuna.study.MaxTrialsCallback(count, states=ended), _say],
        )
    if not study.get_trials(states=ended[:1]):
        raise UserError(
            f"no trial was trained to its end, all fell behind: ask for more than --trials {count}."
        )
    table = study.trials_dataframe(attrs=("number", "state", "value", "params"))
    write_text(out / "trials.csv", table.to_csv(index=False))
    console.print(
        f"trial {study.best_trial.number} is best: validation IoU {study.best_value:.3f}, {study.best_params}"
    )
    _run(wanted, study.best_params, wanted.seeds[0]).save(out)
    return out / RUN_FILE


def _study(optuna: Any, name: str, out: Path, storage: str | None) -> "optuna.Study":
    """The trials so far, of all machines: in a database, or in a file that they share."""
    out.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal
    try:
        backend = storage or optuna.storages.JournalStorage(
            journal.JournalFileBackend(str(out / "journal.log"))
        )
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5)
        study = optuna.create_study(
            study_name=name,
            storage=backend,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
    except Exception as error:  # whatever the database's driver raises
        raise UserError(
            f"--storage {storage} cannot be used ({' '.join(str(error).split())}): correct it."
        ) from None
    study.sampler = (
        optuna.samplers.TPESampler()
    )  # without a seed: machines that begin together must not try the same
    return study


def _check_same(study: "optuna.Study", wanted: Search, source: Source, place: str) -> None:
    """Trials of other settings, on other cases, or from another space would count as this search's."""
    dataset = read_dataset(wanted.data)
    cases = [
        (case.name, case.subject, bool(case.label)) for case in dataset.training + dataset.test
    ]
    parts = source.values["settings"], wanted.seeds, repr(wanted.space), cases, splits.VERSION
    mine = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    if study.user_attrs.get("searched", mine) != mine:
        raise UserError(
            f"{place} holds trials of another search called {study.study_name}, with other settings, seeds, space or "
            "cases: give another --out, and with --storage the file another name."
        )
    study.set_user_attr("searched", mine)


def _say(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    value = "pruned" if trial.value is None else f"validation IoU {trial.value:.3f}"
    console.print(f"trial {trial.number}: {value}, {trial.params}")


def _read(source: Source, data: Path | None) -> Search:
    """The search that a file describes; that a run takes its settings is seen before anything is trained."""
    values = dict(source.values)
    space = values.get("space")
    if not isinstance(space, dict) or not space:
        with source.blame(("space",)):
            raise UserError(
                "space is missing or empty: add what to search, as in 'learning_rate: {low: 0.001, high: 0.1}'."
            )
    for key, choice in space.items():
        with source.blame(("space", key)):
            if not isinstance(choice, dict):
                raise UserError(f"{key} is {choice!r}: give choices, or low and high.")
            space[key] = validated(Choice, choice)
    values["data"] = data or source.file.parent / str(values.get("data", ""))
    with source.blame(()):
        wanted = validated(Search, values | {"space": space})
        if not wanted.data.exists():
            raise UserError(
                f"data: {wanted.data} does not exist: correct the path, or give --data."
            )
    with source.blame(("settings",)):
        _check_validation(_run(wanted, {}, wanted.seeds[0]))
    first = {key: choice.examples()[0] for key, choice in wanted.space.items()}
    for key, choice in wanted.space.items():
        with source.blame(("space", key), lambda where: [("space", *where)]):
            for value in choice.examples():
                _check_validation(_run(wanted, first | {key: value}, wanted.seeds[0]))
    return wanted


def _check_validation(run: Run) -> None:
    """A trial's score is its validation IoU, so every run of a search needs validation subjects."""
    cases = training_cases(read_dataset(run.data), run.labelled, run.seed, run.validation, run.test)
    if not cases.validation:
        raise UserError(
            f"these settings leave {run.data} without validation subjects, by which a search compares trials: "
            "add 'validation: K' to settings for K further labelled subjects."
        )


def _run(wanted: Search, chosen: dict[str, Any], seed: int) -> Run:
    return plan_run(wanted.data, merged(wanted.settings, chosen | {"seed": seed}))


def _objective(wanted: Search, out: Path) -> Callable[["optuna.Trial"], float]:
    cache = Cache(default_folder())

    def validate(trial: "optuna.Trial") -> float:
        chosen = {key: choice.suggest(trial, key) for key, choice in wanted.space.items()}
        values = []
        for number, seed in enumerate(wanted.seeds):
            run, directory = (
                _run(wanted, chosen, seed),
                out / "trials" / f"{trial.number:04}-seed{seed}",
            )
            pruning = Pruning(trial, before=number * run.steps)
            try:
                train(run, directory, cache=cache, watchers=[pruning])
            finally:  # a trial is remembered by its log, pruned or not; its weights weigh more
                shutil.rmtree(directory / LAST_CHECKPOINT.parent, ignore_errors=True)
            values.append(
                float(
                    read_table(directory / LOG_FILE)[METRIC].replace("", "nan").astype(float).max()
                )
            )
        return sum(values) / len(values)

    return validate


@dataclass
class Pruning(lightning.Callback):
    """Ends a trial that falls behind the others at the same step."""

    trial: "optuna.Trial"
    before: int
    """Steps of earlier runs of the trial."""

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, learner: lightning.LightningModule
    ) -> None:
        """Say how the validation went; stop if others did better."""
        self.trial.report(
            float(trainer.callback_metrics[METRIC]), self.before + trainer.global_step
        )
        if self.trial.should_prune():
            raise _optuna().TrialPruned


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise UserError(
            "segpl search needs Optuna: pip install '.[search]' in segpl's folder."
        ) from None
    optuna.logging.set_verbosity(
        optuna.logging.ERROR
    )  # its warning of a failed trial is a traceback
    return optuna
