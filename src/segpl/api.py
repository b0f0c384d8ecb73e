"""The public functions, such as `segpl.train` and `segpl.predict`. The commands call them too.

Each function imports what it needs when it is called: importing torch takes seconds, and a report
does not need it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ipyniivue import NiiVue

    from segpl.diagnosis import Diagnosis
    from segpl.inference.predictor import Predictor
    from segpl.prediction.request import MaskFormat
    from segpl.results import (
        Comparison,
        Export,
        Predictions,
        Ranking,
        Report,
        Scores,
        TrainedRun,
    )
    from segpl.workflow import Answer

PathLike = str | os.PathLike[str]


def __getattr__(name: str) -> Any:
    """Import the classes `Predictor` and `Prediction` when they are used."""
    if name == "Predictor":
        from segpl.inference.predictor import Predictor

        return Predictor
    if name == "Prediction":
        from segpl.inference.result import Prediction

        return Prediction
    raise AttributeError(f"segpl.api has no {name}")


def doctor(data: PathLike) -> "Diagnosis":
    """Read a data folder: what it contains, what is wrong with it and what a training would use.

    `segpl.diagnosis.fix.write_fixed(diagnosis, folder)` writes a repaired copy.
    """
    from segpl.diagnosis import examine

    return examine(Path(data))


def run(
    data: PathLike,
    out: PathLike,
    *,
    method: str = "segpl-em",
    seeds: int = 3,
    labelled: int | None = None,
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> "Answer":
    """Do everything on a data folder, leave it in `out`, and return the answer.

    Checks the data, trains `method` and supervised training with several seeds, and compares them.
    The runs of the better side then predict together: masks of the unlabelled scans, and a list of
    which to label next. `minutes` bounds the whole. The same call continues what was stopped.
    `settings` are those of `segpl train --set`, for all trainings.
    """
    from segpl.workflow import Options
    from segpl.workflow import run as run_workflow

    options = Options(Path(data), method, seeds, labelled, minutes, dict(settings or {}))
    return run_workflow(options, Path(out), quiet)


def train(
    data: PathLike,
    out: PathLike,
    *,
    method: str | None = None,
    config: PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    start_from: PathLike | None = None,
    resume: bool = False,
    cache: PathLike | None = None,
    cache_limit: float = 20.0,
    devices: int | None = None,
    nodes: int | None = None,
    **named_settings: Any,
) -> "TrainedRun":
    """Train on a data folder and return the run directory, `out`.

    The default method is segpl-em. `config` is a YAML file of settings, or the name of a preset,
    brats or carve. `settings` take precedence over it; their keys are those of `segpl train --set`.
    Settings can also be keyword arguments, with two underscores for a dot: `method__alpha=0.1`.
    With `minutes`, the run has as many steps as this machine makes in that time. With `start_from`,
    the first weights, the network and the method are those of a trained run, and no subject that
    this run has seen is tested on: train again so after scans were labelled. To resume a run,
    its settings need not be repeated. Prepared images are cached in the folder `cache`, which holds
    at most `cache_limit` GB.

    >>> import numpy, segpl
    >>> settings = {"steps": 2, "channels": 4, "method.alpha": 0.1}
    >>> run = segpl.train(data_folder, folder / "run", method="segpl-vi", settings=settings)
    >>> segpl.load(run).predict(numpy.zeros((4, 40, 40, 6)), spacing=(1, 1, 3)).mask.shape
    (40, 40, 6)
    """
    from segpl.data.cache import Cache, default_folder
    from segpl.data.layouts import read_dataset
    from segpl.foundation.named import merged
    from segpl.foundation.processes import is_first, requested_processes
    from segpl.foundation.progress import console
    from segpl.results import TrainedRun
    from segpl.settings.planning import plan_run
    from segpl.settings.run import read_yaml
    from segpl.settings.sources import initial_settings, preset_file, settings_for_method
    from segpl.training.checkpoints import has_begun
    from segpl.training.loop import train as train_run
    from segpl.training.timing import within_minutes

    data = Path(data)
    out = Path(out)
    base = initial_settings(out, resume, _path(start_from))
    if config is not None:
        base |= read_yaml(preset_file(Path(config)))
    base["method"] = settings_for_method(base["method"], method)
    given = dict(settings or {})
    for name, value in named_settings.items():
        given[name.replace("__", ".")] = value
    source = "the settings" if config is None else str(config)

    console.print(f"Reading {data}")
    dataset = read_dataset(data.resolve())
    console.print("Planning the training from the labelled scans")
    run = plan_run(data, merged(base, given), source, dataset)
    if minutes and not has_begun(out):
        run = within_minutes(run, dataset.task, minutes)
    cache_folder = Path(cache) if cache else default_folder()
    prepared_images = Cache(cache_folder, 1e9 * cache_limit)
    processes = requested_processes(devices, nodes)
    train_run(run, out, resume, prepared_images, processes, dataset=dataset)
    if is_first():
        prepared_images.report()
    return TrainedRun(out)


def evaluate(
    run: PathLike,
    *,
    data: PathLike | None = None,
    shifts: Sequence[str] = (),
    samples: int = 1,
    tolerance: float = 1.0,
    out: PathLike | None = None,
) -> "Scores":
    """Score a trained run on its test cases, or on those of `data`, and return the file of scores.

    `shifts` have the form of `segpl evaluate --shift`, such as `"ood=0.1"`; unchanged scans are
    always scored. A mask is the mean of `samples` thresholds or ensemble members. `tolerance` is
    that of the surface Dice in millimetres.
    """
    from segpl.evaluation import evaluate as evaluate_run
    from segpl.evaluation.shifts import parse_shifts
    from segpl.results import Scores

    file = evaluate_run(
        Path(run),
        data=_path(data),
        shifts=parse_shifts(shifts),
        out=_path(out),
        samples=samples,
        tolerance=tolerance,
    )
    return Scores(file)


def load(run: PathLike, device: str = "auto") -> "Predictor":
    """The predictor of a trained run, on `device`; by default on the GPU if there is one.

    The runs in a folder of runs predict together: their probabilities are averaged.
    """
    from segpl.inference.predictor import load as load_run

    return load_run(Path(run), device)


def predict(
    run: PathLike,
    inputs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    samples: int = 1,
    temperature: float | Literal["fit"] = 1.0,
    probabilities: bool = False,
    format: "MaskFormat" = "nifti",
) -> "Predictions":
    """Write masks of scans (files, folders or DICOM series) to the folder `out`, and return it.

    `run` is a run directory, or a folder of runs that predict together. With 2 or more `samples` or
    runs, the masks come from their mean, and maps of probability, uncertainty and variance are
    written too. Sampled thresholds never change the probability. The temperature `"fit"` is the one
    that `evaluate` fitted on the validation subjects. `out` also gets a picture of each scan,
    `overview.html` with all of them, and `cases.csv`, which says which scans to check and why.
    For a scan in memory use `segpl.load(run).predict(image)`.
    """
    from segpl.inference.temperature import fitted_temperature
    from segpl.prediction import predict_files
    from segpl.prediction.request import Request
    from segpl.reporting.prediction_sheet import TABLE_FILE, write_prediction_sheet
    from segpl.results import Predictions

    run = Path(run)
    if temperature == "fit":
        temperature = fitted_temperature(run)
    request = Request(Path(out), samples, temperature, probabilities, format)
    try:
        predict_files(run, _paths(inputs), request)
    finally:  # some scans may have failed
        if (request.out / TABLE_FILE).is_file():
            write_prediction_sheet(request.out)
    return Predictions(request.out)


def rank(
    run: PathLike,
    inputs: PathLike | Sequence[PathLike] = (),
    *,
    out: PathLike | None = None,
    count: int | None = None,
    order: Literal["diverse", "uncertain"] = "diverse",
    samples: int = 1,
    show: bool = False,
) -> "Ranking":
    """Write a list of the scans to label next, the most useful first, and return its file.

    The scans are those in `inputs` or, by default, the unlabelled ones of the run. The list has
    `count` scans, all by default. With `show`, it is printed too.
    """
    from segpl.ranking import rank as rank_scans
    from segpl.results import Ranking

    file = rank_scans(Path(run), _paths(inputs), _path(out), count, order, samples, show)
    return Ranking(file)


def view(path: PathLike, scan: str | None = None) -> "NiiVue":
    """Show a scan in a notebook, with the model's mask, its uncertainty and the label, if any.

    `path` is a run, a folder of runs, the folder of `segpl run`, or a data folder. `scan` is the
    name of a case; by default it is the one to label next. Returns ipyniivue's widget: the first
    of its `volumes` is the scan, and the `cal_min` of a region's volume is its threshold in per
    cent. To accept or correct masks use the command `segpl view`.
    """
    from segpl.viewer.notebook import show_in_notebook

    return show_in_notebook(Path(path), scan)


def compare(runs: PathLike | Sequence[PathLike], *, baseline: str = "supervised") -> "Comparison":
    """Whether the unlabelled scans helped: compares evaluated runs with a baseline method."""
    from segpl.results import Comparison

    comparison = Comparison(tuple(_paths(runs)), baseline)
    comparison.record()  # what cannot be compared is an error now, not when it is shown
    return comparison


def report(
    folders: PathLike | Sequence[PathLike],
    *,
    baseline: str | None = None,
    out: PathLike | None = None,
) -> "Report":
    """Write an HTML report on a run, several runs or a study, and return its file.

    Methods are compared with `baseline`, by default with one that learns from labels only.
    """
    from segpl.reporting.page import write_report
    from segpl.results import Report

    return Report(write_report(_paths(folders), _path(out), baseline))


def export(run: PathLike, format: Literal["onnx", "bundle", "nnunet"], out: PathLike) -> "Export":
    """Export a trained run for other tools to a new file or folder `out`, and return it."""
    from segpl.exporting import export as export_run
    from segpl.results import Export

    return Export(export_run(Path(run), format, Path(out)))


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)


def _paths(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """One path or several, as a list."""
    if isinstance(paths, str | os.PathLike):
        return [Path(paths)]
    return [Path(path) for path in paths]
