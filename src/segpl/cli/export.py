"""`segpl export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from segpl import api
from segpl.cli.options import RunDirectory


def export(
    run: RunDirectory,
    format: Annotated[Literal["onnx", "bundle", "nnunet"], typer.Option(help="What to write.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="File or folder to make.")],
) -> None:
    """Export a run: an ONNX model, a MONAI bundle, or an nnU-Net data set with pseudo-labels."""
    print(f"{format}: {api.export(run, format, out)}")
