"""What an export says about itself in prose: the bundle's README and licence, and a summary."""

from segpl import __version__
from segpl.exporting.trained import Trained

LICENCE = f"""The weights in models/ belong to whoever trained them.
Their licence is still to be chosen.

scripts/segmentation.py is part of segpl {__version__}, under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
"""

README = """# {name}

Segments {regions} in {channels}: a {dimensions}D network trained by segpl {version} with {method}.
It is a MONAI bundle. It needs monai, torch, nibabel and fire (`pip install monai nibabel fire`).
It does not need segpl.

## How to run it

From this folder, on a folder of NIfTI scans:

    python -m monai.bundle run --config_file configs/inference.json --dataset_dir SCANS \\
        --output_dir MASKS

From another folder, give `--bundle_root` too.
{files}
Every mask has the name and the geometry of its scan. Its values are {values}, and 0 elsewhere.

## How a scan is processed

1. MONAI reads it.
2. `scripts/segmentation.py` prepares it with the code that prepared the training scans:
   {preparation}.
3. MONAI slides windows of {patch} voxels over it. They overlap by a quarter and are blended by a
   Gaussian. `models/model.ts` returns the probability of each region; the ensembles that the
   method has learnt are part of it.
4. A voxel belongs to a region where {masks} exceeds 0.5. A later region covers an earlier one.

`models/model.pt` holds the weights of `models/model.ts` by name.

## Limitations

This is not a medical device. The network was trained on a few labelled scans of one kind. On scans
of another kind it may fail without warning.
"""

PROBABILITY = "its probability"
THRESHOLDED = """its mask channel
   (`models/model.ts` returns one per region after the probabilities, because the method has learnt
   the threshold that cuts a mask)"""
ONE_FILE_PER_SCAN = "Each file is a scan."
SEVERAL_CHANNELS = (
    "The channels of a scan are files numbered a_0000.nii.gz, a_0001.nii.gz and so on, "
    "or one 4D file."
)


def bundle_readme(trained: Trained, name: str) -> str:
    """The README of a bundle called `name`: how to run it, and what it does to a scan."""
    run = trained.run
    task = trained.task
    names = [region.name for region in task.regions]
    values = [f"{region.paint} {region.name}" for region in task.regions]
    return README.format(
        name=name,
        regions=", ".join(names),
        channels=", ".join(task.channels),
        dimensions=len(run.patch),
        version=__version__,
        method=run.method.name(),
        files=SEVERAL_CHANNELS if len(task.channels) > 1 else ONE_FILE_PER_SCAN,
        values=", ".join(values),
        preparation=describe_preparation(trained),
        patch=" x ".join(map(str, run.patch)),
        masks=PROBABILITY if run.method.cuts_at_half() else THRESHOLDED,
    )


def describe_preparation(trained: Trained) -> str:
    """What is done to a scan before the network sees it, as a list in one sentence."""
    run = trained.run
    steps = []
    if run.orientation:
        steps.append(f"axes reoriented to {run.orientation}")
    if run.centre_crop:
        size = " x ".join(map(str, run.centre_crop))
        steps.append(f"cropped around the centre to {size} voxels")
    if run.window:
        low, high = run.window
        steps.append(f"CT channels clipped to {low:g} to {high:g}")
    steps.append("channels normalised over the body")
    if run.spacing:
        spacing = " x ".join(f"{step:g}" for step in run.spacing)
        steps.append(f"resampled to {spacing} mm")
    return ", ".join(steps)
