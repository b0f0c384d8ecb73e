"""`segpl predict`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from segpl import api
from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import AsJson, RunOrRuns, parse_temperature, print_json

MOST_FLAGGED = 10
"""Flagged scans that the summary names."""


@when_stopped("The masks written so far are complete.")
def predict(
    run: RunOrRuns,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="SCAN...", help="Files, folders or DICOM series.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for masks, maps and cases.csv.")],
    samples: Annotated[
        int,
        typer.Option(
            min=1, metavar="S", help="Samples per mask; 2 or more also write uncertainty maps."
        ),
    ] = 1,
    temperature: Annotated[
        str,
        typer.Option(
            parser=parse_temperature,
            metavar="T",
            help="Number that divides the logits, or fit: estimate it on the validation subjects.",
        ),
    ] = "1",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of each region.")
    ] = False,
    format: Annotated[
        Literal["nifti", "same", "dicom-seg", "seg-nrrd"],
        typer.Option(help="Format of the masks; seg-nrrd is for 3D Slicer."),
    ] = "nifti",
    json: AsJson = False,
) -> None:
    """Write the masks of new scans in each scan's own geometry."""
    predictions = api.predict(
        run,
        inputs,
        out,
        samples=samples,
        temperature="fit" if temperature == "fit" else float(temperature),
        probabilities=probabilities,
        format=format,
    )
    if json:
        print_json(predictions.record())
        return
    scans = predictions.scans
    print(f"{len(scans)} masks in {out}; pictures in {out / 'overview.html'}")
    flagged = predictions.flagged
    if flagged:
        print(f"{len(flagged)} of them to check first:")
    for name, reason in list(flagged.items())[:MOST_FLAGGED]:
        print(f"  {name}: {reason}")
    if len(flagged) > MOST_FLAGGED:
        print(f"  and {len(flagged) - MOST_FLAGGED} more: see the column check in {out}/cases.csv")
    show_next(["segpl", "rank", run, *inputs, "--out", out / "rank.csv"])
