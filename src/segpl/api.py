"""The same from Python: `segpl.train` and `segpl.load`."""

from pathlib import Path
from typing import Any

from segpl.named import merged
from segpl.prediction import Prediction, Predictor, load
from segpl.run import plan_run
from segpl.training import train as train_run

__all__ = ["Prediction", "Predictor", "load", "train"]


def train(
    data: str | Path, out: str | Path, *, method: str = "segpl-em", resume: bool = False, **settings: Any
) -> Path:
    """Train on a data folder and return the run directory, `out`; `settings` are those of `segpl train --set`.

    A setting of the method is written with two underscores for the dot: `method__alpha=0.1`.

    >>> import segpl
    >>> run = segpl.train(data_folder, folder / "run", method="segpl-vi", steps=2, channels=4, method__alpha=0.1)
    >>> segpl.load(run).predict(data_folder / "imagesTs").mask.shape
    (64, 64, 12)
    """
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    run = plan_run(Path(data), merged({"method": method}, dotted))
    return train_run(run, Path(out), resume=resume)
