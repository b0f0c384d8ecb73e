"""Semi-supervised segmentation of medical images by Bayesian pseudo-labels."""

import os
from typing import TYPE_CHECKING, Any

# Idle threads should sleep, not spin: beside other busy processes, spinning made a training step on
# two cores up to 20 times slower. OpenMP reads this variable when torch is loaded, so set it here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from segpl.api import (
        compare,
        doctor,
        evaluate,
        export,
        load,
        predict,
        rank,
        report,
        run,
        train,
        view,
    )
    from segpl.inference.predictor import Predictor
    from segpl.inference.result import Prediction

__version__ = "0.2.0"
__all__ = [
    "Prediction",
    "Predictor",
    "compare",
    "doctor",
    "evaluate",
    "export",
    "load",
    "predict",
    "rank",
    "report",
    "run",
    "train",
    "view",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing torch takes seconds, `--help` must not."""
    if name not in __all__:
        raise AttributeError(f"segpl has no {name}")
    from segpl import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """The public names, including those that are not imported yet."""
    return sorted([*__all__, "__version__"])
