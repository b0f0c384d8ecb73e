"""The public functions: `segpl.train`, `segpl.predict` and so on, which the commands call too.

Each imports what it needs when it is called: torch takes seconds, and a report needs none of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from segpl.diagnosis import Diagnosis
    from segpl.inference.predictor import Predictor

PathLike = str | Path


def __getattr__(name: str) -> Any:
    """`Predictor` and `Prediction`, which the functions return, are imported when they are asked for."""
    if name == "Predictor":
        from segpl.inference.predictor import Predictor

        return Predictor
    if name == "Prediction":
        from segpl.inference.result import Prediction

        return Prediction
    raise AttributeError(f"segpl.api has no {name}")


def doctor(data: PathLike) -> "Diagnosis":
    """Read a data folder and say what is in it, what is wrong with it and what a training would use.

    `segpl.diagnosis.fix.write_fixed(diagnosis, folder)` writes a repaired copy.
    """
    from segpl.diagnosis import examine

    return examine(Path(data))


def train(
    data: PathLike,
    out: PathLike,
    *,
    method: str | None = None,
    config: PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    resume: bool = False,
    cache: PathLike | None = None,
    cache_limit: float = 20.0,
    devices: int | None = None,
    nodes: int | None = None,
    **named_settings: Any,
) -> Path:
    """Train on a data folder and return the run directory, `out`.

    The method is segpl-em unless another is named. `config` is a YAML file of settings, or brats or
    carve. `settings` go before it, with the keys of `segpl train --set`; they can also be given by
    name, with two underscores for a dot: `method__alpha=0.1`. With `minutes` the run has as many
    steps as this machine makes in that time. A run that goes on (`resume`) needs no setting again.
    Prepared images are kept in the folder `cache`, of at most `cache_limit` GB.

    >>> import numpy, segpl
    >>> settings = {"steps": 2, "channels": 4, "method.alpha": 0.1}
    >>> run = segpl.train(data_folder, folder / "run", method="segpl-vi", settings=settings)
    >>> segpl.load(run).predict(numpy.zeros((4, 40, 40, 6))).mask.shape
    (40, 40, 6)
    """
    from segpl.data.cache import Cache, default_folder
    from segpl.data.layouts import read_dataset
    from segpl.foundation.named import merged
    from segpl.foundation.processes import is_first, taking_part
    from segpl.settings.choices import asked_before, for_method, preset
    from segpl.settings.planning import plan_run
    from segpl.settings.run import read_yaml
    from segpl.training.checkpoints import begun
    from segpl.training.loop import train as train_run
    from segpl.training.pace import within_minutes

    data = Path(data)
    out = Path(out)
    start = asked_before(out, resume)
    if config is not None:
        start |= read_yaml(preset(Path(config)))
    start["method"] = for_method(start["method"], method)
    given = dict(settings or {})
    for name, value in named_settings.items():
        given[name.replace("__", ".")] = value
    source = "the settings" if config is None else str(config)

    dataset = read_dataset(data.resolve())
    run = plan_run(data, merged(start, given), source, dataset)
    if minutes and not begun(out):
        run = within_minutes(run, dataset.task, minutes)
    prepared = Cache(Path(cache) if cache else default_folder(), 1e9 * cache_limit)
    train_run(run, out, resume, prepared, taking_part(devices, nodes), dataset=dataset)
    if is_first():
        prepared.report()
    return out


def evaluate(
    run: PathLike,
    *,
    data: PathLike | None = None,
    shifts: Sequence[str] = (),
    samples: int = 1,
    tolerance: float = 1.0,
    out: PathLike | None = None,
) -> Path:
    """Score a trained run on its test cases, or on those of `data`, and return the file of scores.

    `shifts` are written as for `segpl evaluate --shift`, such as `"ood=0.1"`; the scans as they are
    are always scored. `samples` predictions of an uncertain method are averaged. `tolerance` is that
    of the surface Dice in millimetres.
    """
    from segpl.evaluation import evaluate as evaluate_run
    from segpl.evaluation.shifts import parse_shifts

    return evaluate_run(
        Path(run),
        data=_path(data),
        shifts=parse_shifts(shifts),
        out=_path(out),
        samples=samples,
        tolerance=tolerance,
    )


def load(run: PathLike, device: str = "auto") -> "Predictor":
    """The predictor of a trained run, on the GPU if there is one, or where `device` says."""
    from segpl.inference.predictor import load as load_run

    return load_run(run, device)


def predict(
    run: PathLike,
    inputs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    samples: int = 1,
    temperature: float | Literal["fit"] = 1.0,
    probabilities: bool = False,
    format: Literal["nifti", "same", "dicom-seg"] = "nifti",
) -> Path:
    """Write the masks of scans (files, folders or DICOM series) to `out` and return `cases.csv` there.

    With 2 or more `samples`, their mean is taken and maps of uncertainty are written too. The
    temperature `"fit"` is the one that `evaluate` fitted on the validation subjects.
    For a scan in memory use `segpl.load(run).predict(image)`.
    """
    from segpl.inference.temperature import fitted_temperature
    from segpl.prediction import predict_files
    from segpl.prediction.orders import Order

    run = Path(run)
    chosen = fitted_temperature(run) if temperature == "fit" else temperature
    order = Order(Path(out), samples, chosen, probabilities, format)
    return predict_files(run, _paths(inputs), order)


def rank(
    run: PathLike,
    inputs: PathLike | Sequence[PathLike] = (),
    *,
    out: PathLike | None = None,
    count: int | None = None,
    order: Literal["diverse", "uncertain"] = "diverse",
    samples: int = 1,
) -> Path:
    """List which scans to label next, the most useful first, and return the file of the list.

    The scans are those in `inputs`, or else the run's own unlabelled ones. `count` of them are
    listed, all by default.
    """
    from segpl.ranking import rank as rank_scans

    return rank_scans(Path(run), _paths(inputs), _path(out), count, order, samples)


def compare(runs: PathLike | Sequence[PathLike], *, baseline: str = "supervised") -> None:
    """Print whether the unlabelled scans helped: scored runs against those of a baseline method."""
    from segpl.reporting.comparison import print_comparison

    print_comparison(_paths(runs), baseline)


def report(folders: PathLike | Sequence[PathLike], *, out: PathLike | None = None) -> Path:
    """Write one HTML file about a run, several runs or a study, and return it."""
    from segpl.reporting.page import write_report

    return write_report(_paths(folders), _path(out))


def export(run: PathLike, format: Literal["onnx", "bundle", "nnunet"], out: PathLike) -> Path:
    """Write a trained run for other tools, as a new file or folder `out`, and return it."""
    from segpl.exporting import export as export_run

    return export_run(Path(run), format, Path(out))


def _path(place: PathLike | None) -> Path | None:
    return None if place is None else Path(place)


def _paths(places: PathLike | Sequence[PathLike]) -> list[Path]:
    """One path or several, as a list."""
    if isinstance(places, str | Path):
        return [Path(places)]
    return [Path(place) for place in places]
