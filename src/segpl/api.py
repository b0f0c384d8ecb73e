"""The same from Python: `segpl.train` and `segpl.load`."""

from pathlib import Path
from typing import Any

from segpl.data.layouts import read_dataset
from segpl.foundation.named import merged
from segpl.inference.predictor import Predictor, load
from segpl.inference.result import Prediction
from segpl.settings.choices import asked_before, for_method
from segpl.settings.planning import plan_run
from segpl.training.checkpoints import begun
from segpl.training.loop import train as train_run
from segpl.training.pace import within_minutes

__all__ = ["Prediction", "Predictor", "load", "train"]


def train(
    data: str | Path,
    out: str | Path,
    *,
    method: str | None = None,
    minutes: float | None = None,
    resume: bool = False,
    **settings: Any,
) -> Path:
    """Train on a data folder and return the run directory, `out`; `settings` are those of `segpl train --set`.

    The method is segpl-em unless another is named. With `minutes` the run has as many steps as this
    machine makes in that time. A run that goes on (`resume`) needs no setting again.
    A setting of the method is written with two underscores for the dot: `method__alpha=0.1`.

    >>> import segpl
    >>> run = segpl.train(data_folder, folder / "run", method="segpl-vi", steps=2, channels=4, method__alpha=0.1)
    >>> segpl.load(run).predict(data_folder / "imagesTs").mask.shape
    (64, 64, 12)
    """
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    before = asked_before(Path(out), resume)
    run = plan_run(Path(data), merged({**before, "method": for_method(before["method"], method)}, dotted))
    if minutes and not begun(Path(out)):
        run = within_minutes(run, read_dataset(run.data).task, minutes)
    return train_run(run, Path(out), resume=resume)
