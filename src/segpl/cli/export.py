"""`segpl export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from segpl import api
from segpl.cli.next_commands import show_next
from segpl.cli.options import RunDirectory

RUN_BUNDLE = ("python", "-m", "monai.bundle", "run", "--config_file")


def export(
    run: RunDirectory,
    format: Annotated[Literal["onnx", "bundle", "nnunet"], typer.Option(help="What to write.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="File or folder to make.")],
) -> None:
    """Export a run: an ONNX model, a MONAI bundle, or an nnU-Net data set with pseudo-labels.

    A model card, with data, scores and limits, goes with a model.
    """
    from segpl.rundir import SCORES_FILE

    print(f"{format}: {api.export(run, format, out)}")
    if format == "nnunet":
        show_next(["segpl", "doctor", out])
    elif not (run / SCORES_FILE).is_file():
        show_next(["segpl", "evaluate", run], comment="then export again: the card lacks scores")
    elif format == "bundle":
        config = out / "configs/inference.json"
        show_next([*RUN_BUNDLE, config, "--bundle_root", out, "--dataset_dir", "NEW_SCANS"])
    else:
        show_next(["segpl", "predict", run, "NEW_SCANS", "--out", run / "predictions"])
