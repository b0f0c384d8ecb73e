"""Scans on disk to masks and maps on disk, each in the geometry of its scan: `segpl predict`."""

from segpl.prediction.files import predict_cases, predict_files

__all__ = ["predict_cases", "predict_files"]
