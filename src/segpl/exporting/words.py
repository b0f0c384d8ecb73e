"""What a bundle says about itself to people."""

from segpl import __version__
from segpl.exporting.program import Trained

LICENCE = f"""The weights in models/ belong to whoever trained them, who decides how they may be used, and has not yet.

scripts/segmentation.py is part of segpl {__version__}, under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
"""

README = """# {name}

Segments {regions} in {channels}: a {dimensions}D network that segpl {version} trained with {method}.
It is a MONAI bundle. It needs monai, torch, nibabel and fire (`pip install monai nibabel fire`), and not segpl.

## Run it

From this folder, on a folder of NIfTI scans:

    python -m monai.bundle run --config_file configs/inference.json --dataset_dir SCANS --output_dir MASKS

From elsewhere, give `--bundle_root` too. {files}
Every mask has the name and the geometry of its scan. Its values: {values}; 0 elsewhere.

## What happens to a scan

1. MONAI reads it.
2. `scripts/segmentation.py` prepares it by the very code that prepared the training scans:
   {preparation}.
3. MONAI slides windows of {patch} voxels over it, a quarter overlapping, blended by a Gaussian; `models/model.ts`
   gives the probability of each region, with the thresholds and ensembles that the method has learnt.
4. A voxel belongs to a region where its probability exceeds 0.5; a later region covers an earlier one.

`models/model.pt` holds the weights of `models/model.ts` by name.

## What it is not

A medical device. It was trained on a few labelled scans of one kind, and scans of another kind may fail without a sign.
"""


def readme(trained: Trained, name: str) -> str:
    """How to run the bundle, and what it does."""
    run, task = trained.run, trained.task
    many = len(task.channels) > 1
    return README.format(
        name=name,
        regions=", ".join(region.name for region in task.regions),
        channels=", ".join(task.channels),
        dimensions=len(run.patch),
        version=__version__,
        method=run.method.name(),
        files="The channels of a scan lie in files numbered a_0000.nii.gz, a_0001.nii.gz and so on, or in one 4D file."
        if many
        else "Each file is a scan.",
        values=", ".join(f"{region.paint} {region.name}" for region in task.regions),
        preparation=preparation(trained),
        patch=" x ".join(map(str, run.patch)),
    )


def preparation(trained: Trained) -> str:
    """What is done to a scan before the network sees it."""
    run = trained.run
    clip = [f"CT channels clipped to {run.window[0]:g} to {run.window[1]:g}"] if run.window else []
    grid = (
        [f"resampled to {' x '.join(f'{step:g}' for step in run.spacing)} mm"]
        if run.spacing
        else []
    )
    axes = [f"axes turned to {run.orientation}"] if run.orientation else []
    return ", ".join([*axes, *clip, "channels normalised over the body", *grid])
