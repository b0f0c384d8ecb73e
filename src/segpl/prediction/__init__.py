"""Scans in, masks out, each in the geometry of its scan: what `segpl predict` does, and the same for programs."""

from segpl.prediction.inputs import find_cases
from segpl.prediction.many import predict_files
from segpl.prediction.numbers import Numbers
from segpl.prediction.predictor import Predictor, load
from segpl.prediction.result import Prediction

__all__ = ["Numbers", "Prediction", "Predictor", "find_cases", "load", "predict_files"]
