"""A scan as a network wants it, from files or from what a program holds in memory, and the frame it came in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import torch
from jaxtyping import Float
from nibabel.spatialimages import SpatialImage
from torch import Tensor

from segpl.data.cases import Case, Task
from segpl.data.formats import Image
from segpl.data.formats.image import array_shape, channels
from segpl.data.frames import Frame
from segpl.data.preparation import Scan, _shape, channels_of, complaints, is_ct, normalise, read, resample
from segpl.foundation.errors import UserError
from segpl.prediction.itk import from_itk
from segpl.settings.run import Run


class Prepared(NamedTuple):
    """What a network is given, and where its answer belongs."""

    x: Float[Tensor, "C X Y Z"]
    shape: tuple[int, ...]
    """Of the turned scan, before it was resampled to the spacing of the run."""
    frame: Frame


def from_files(case: Case, orientation: str | None) -> tuple[Scan, Frame]:
    """The channels of a case, whose files say where it lies."""
    scan = read(case.unlabelled())
    file, values, affine = scan.images[0]
    header = nibabel.load(file).header if file.name.lower().endswith((".nii", ".nii.gz")) else None
    return scan, Frame(values.shape[1:], affine, orientation, header)


def from_memory(image: Any, spacing: Sequence[float] | None, orientation: str | None) -> tuple[Scan, Frame]:
    """An array is taken to lie as the training images do; images of nibabel and SimpleITK say how they lie."""
    name, header = Path(f"the {type(image).__name__}"), None
    if isinstance(image, np.ndarray):
        steps = [*(() if spacing is None else spacing), 1.0, 1.0, 1.0][:3]
        values, affine, orientation = image.reshape(array_shape(name, image.shape)), np.diag([*steps, 1.0]), None
    elif isinstance(image, SpatialImage):
        x, y, z, *others = (*image.shape, 1, 1)[: max(image.ndim, 3)]
        voxels = np.asanyarray(image.dataobj).reshape(x, y, z, channels(name, others))
        values, affine = np.moveaxis(voxels, -1, 0), image.affine
        header = image.header if isinstance(image.header, nibabel.Nifti1Header) else None
    elif hasattr(image, "GetDirection"):  # of SimpleITK, which is slow to import
        values, affine = from_itk(image)
    else:
        kind = type(image).__name__
        raise UserError(f"a {kind} is no scan: give one file, array, nibabel image or SimpleITK image at a time.")
    scan = Scan(Case("scan", "scan", (name,)), [Image(name, values, affine)], None)
    return scan, Frame(values.shape[1:], affine, orientation, header)


def prepare(scan: Scan, frame: Frame, task: Task, run: Run) -> Prepared:
    """Turned, normalised channel by channel and resampled, as the training images were."""
    for sentence in complaints(scan, task):
        raise UserError(sentence)
    turned = scan._replace(images=[frame.turned(image) for image in scan.images])
    before = turned.images[0].values.shape[1:]
    if 1 in before[: len(run.patch)]:
        wrong = "a 2D image, but the run was trained on volumes" if len(run.patch) == 3 else "seen from the side"
        raise UserError(f"{scan.images[0].file} is {wrong}: give scans like those that it was trained on.")
    x, y, z = _shape(turned.images[0], run.preparation)
    prepared = torch.empty(len(task.channels), z, y, x).permute(0, 3, 2, 1)  # planes lie together: slabs are cut off
    for place, values in enumerate(channels_of(turned)):
        window = run.preparation.window if is_ct(task.channels[place]) else None
        prepared[place] = resample(torch.from_numpy(normalise(values.astype(np.float32), window)), (x, y, z))
    return Prepared(prepared, before, frame)
