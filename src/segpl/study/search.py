"""Searches settings on the validation subjects: Optuna trials, which machines can share."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning

from segpl.data import splits
from segpl.data.cache import Cache, default_folder
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console
from segpl.foundation.tables import write_frame
from segpl.rundir import LAST_CHECKPOINT, LOG_FILE, RUN_FILE, read_table
from segpl.study.search_file import Search, read_search
from segpl.study.yaml_source import YamlSource
from segpl.training.loop import train

if TYPE_CHECKING:
    import optuna

METRIC = "validation_iou"


def search(
    file: Path,
    out: Path,
    data: Path | None = None,
    trials: int | None = None,
    storage: str | None = None,
) -> Path:
    """Try settings until all machines together have made enough trials; return the best run's YAML.

    A trial's score is the best validation IoU of its run, averaged over seeds. Test subjects are
    never read.
    """
    optuna = _import_optuna()
    source = YamlSource(file)
    wanted = read_search(source, data)
    study = _open_study(optuna, file.stem, out, storage)
    location = f"--storage {storage}" if storage else str(out)
    _check_same_search(study, wanted, source, location)
    wanted = _with_common_batch(wanted, study)
    _make_trials(optuna, study, wanted, trials or wanted.trials, out)
    table = study.trials_dataframe(attrs=("number", "state", "value", "params"))
    write_frame(out / "trials.csv", table)
    console.print(
        f"trial {study.best_trial.number} is best: "
        f"validation IoU {study.best_value:.3f}, {study.best_params}"
    )
    best = wanted.run(study.best_params, wanted.seeds[0])
    best.save(out)
    return out / RUN_FILE


def _import_optuna() -> Any:
    """Optuna, an optional dependency."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            "segpl search needs Optuna: pip install '.[search]' in segpl's folder."
        ) from None
    # Its warning about a failed trial is a traceback, which the user's error message replaces.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _open_study(
    optuna: Any,
    name: str,
    out: Path,
    storage: str | None,
) -> "optuna.Study":
    """All trials so far, from a database or from a file in `out` that machines can share."""
    out.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal
    try:
        backend = storage or optuna.storages.JournalStorage(
            journal.JournalFileBackend(str(out / "journal.log"))
        )
        study = optuna.create_study(
            study_name=name,
            storage=backend,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
            direction="maximize",
            load_if_exists=True,
        )
    except Exception as error:  # every database driver raises its own
        reason = " ".join(str(error).split())
        raise UserError(f"--storage {storage} cannot be used ({reason}): correct it.") from None
    # Without a seed: machines that begin at the same time must not try the same settings.
    study.sampler = optuna.samplers.TPESampler()
    return study


def _check_same_search(
    study: "optuna.Study",
    wanted: Search,
    source: YamlSource,
    location: str,
) -> None:
    """Refuse to continue with trials that had other settings, seeds, cases or another space."""
    digest = _search_digest(wanted, source)
    if study.user_attrs.get("searched", digest) != digest:
        raise UserError(
            f"{location} holds trials of another search called {study.study_name}, with other "
            "settings, seeds, space or cases: "
            "give another --out, and with --storage the file another name."
        )
    study.set_user_attr("searched", digest)


def _search_digest(wanted: Search, source: YamlSource) -> str:
    dataset = read_dataset(wanted.data)
    cases = []
    for case in dataset.training + dataset.test:
        cases.append((case.name, case.subject, bool(case.label)))
    contents = [
        source.values["settings"],
        wanted.seeds,
        repr(wanted.space),
        cases,
        splits.VERSION,
    ]
    text = json.dumps(contents, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _with_common_batch(wanted: Search, study: "optuna.Study") -> Search:
    """The search with the batch size of its first trial.

    The planned batch size depends on the free memory, which differs between machines and moments.
    """
    batch = study.user_attrs.get("batch")
    if not batch:
        batch = wanted.run({}, wanted.seeds[0]).batch
    study.set_user_attr("batch", batch)
    return replace(wanted, settings={"batch": batch, **wanted.settings})


def _make_trials(
    optuna: Any,
    study: "optuna.Study",
    wanted: Search,
    count: int,
    out: Path,
) -> None:
    """Make trials until there are `count`, those of other machines included."""
    complete = optuna.trial.TrialState.COMPLETE
    ended = (complete, optuna.trial.TrialState.PRUNED)
    done = len(study.get_trials(states=ended))
    console.print(f"{done} of {count} trials are done -> {out}")
    if done < count:
        enough = optuna.study.MaxTrialsCallback(count, states=ended)
        study.optimize(_objective(wanted, out), callbacks=[enough, _print_trial])
    if not study.get_trials(states=(complete,)):
        raise UserError(
            "no trial was trained to its end, because all were pruned: "
            f"ask for more than --trials {count}."
        )


def _print_trial(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    score = "pruned"
    if trial.value is not None:
        score = f"validation IoU {trial.value:.3f}"
    console.print(f"trial {trial.number}: {score}, {trial.params}")


def _objective(wanted: Search, out: Path) -> Callable[["optuna.Trial"], float]:
    """The function that Optuna maximises: trains a trial and returns its score."""
    cache = Cache(default_folder())

    def validate(trial: "optuna.Trial") -> float:
        chosen = {}
        for key, choice in wanted.space.items():
            chosen[key] = choice.suggest(trial, key)
        scores = []
        for index, seed in enumerate(wanted.seeds):
            run = wanted.run(chosen, seed)
            directory = out / "trials" / f"{trial.number:04}-seed{seed}"
            pruning = Pruning(trial, earlier_steps=index * run.steps)
            try:
                train(run, directory, cache=cache, watchers=[pruning])
            finally:
                # The log is all that a trial needs to leave; checkpoints take much space.
                checkpoints = directory / LAST_CHECKPOINT.parent
                shutil.rmtree(checkpoints, ignore_errors=True)
            scores.append(_best_validation_iou(directory))
        return sum(scores) / len(scores)

    return validate


def _best_validation_iou(directory: Path) -> float:
    column = read_table(directory / LOG_FILE)[METRIC]
    values = column.replace("", "nan").astype(float)  # only some steps are validated
    return float(values.max())


@dataclass
class Pruning(lightning.Callback):
    """Ends a trial that is worse than the others at the same step."""

    trial: "optuna.Trial"
    earlier_steps: int
    """Steps of the trial's runs with earlier seeds."""

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, learner: lightning.LightningModule
    ) -> None:
        """Report the validation IoU to Optuna, and stop if Optuna prunes the trial."""
        score = float(trainer.callback_metrics[METRIC])
        self.trial.report(score, self.earlier_steps + trainer.global_step)
        if self.trial.should_prune():
            raise _import_optuna().TrialPruned
