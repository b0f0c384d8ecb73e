"""A trained run for other tools: ONNX, a MONAI bundle, or a data set for nnU-Net."""

from collections.abc import Callable
from pathlib import Path

from segpl.exporting.bundle import export_bundle
from segpl.exporting.nnunet import export_nnunet
from segpl.exporting.onnx import export_onnx
from segpl.foundation.errors import UserError
from segpl.rundir import check_format

FORMATS: dict[str, Callable[[Path, Path], Path]] = {
    "onnx": export_onnx,
    "bundle": export_bundle,
    "nnunet": export_nnunet,
}


def export(directory: Path, format: str, out: Path) -> Path:
    """Write a run directory in one of FORMATS to `out`, a new file or folder, and return `out`."""
    if format not in FORMATS:
        raise UserError(
            f"there is no format {format!r} to export to: choose one of {', '.join(FORMATS)}."
        )
    check_format(directory)
    write = FORMATS[format]
    return write(directory, out)
