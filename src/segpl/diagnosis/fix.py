"""A repaired copy of a data folder, where the remedy is certain; the original is never touched."""

import json
from pathlib import Path

import nibabel
import numpy as np
from nibabel.orientations import axcodes2ornt, io_orientation, ornt_transform

from segpl.data.cases import Case, Dataset
from segpl.data.formats import Image
from segpl.data.preparation import complaints, read
from segpl.diagnosis import Diagnosis, common_orientation
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name, write_nifti, write_text
from segpl.foundation.progress import track


def write_fixed(diagnosis: Diagnosis, target: Path) -> list[str]:
    """Write the cases that can be saved in the nnU-Net layout, and say which were left out.

    Certain remedies: every image and label gets the axes that most have, which moves voxels and changes none;
    a label lies on its image's very grid; empty labels are dropped, so that the scan is unlabelled; of the same image
    in two places only one is kept, the labelled one if there is one.
    """
    dataset = diagnosis.dataset
    if dataset is None:
        raise UserError(f"{diagnosis.folder} cannot be read as a data set, so nothing can be mended: see above.")
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty: choose another folder for --fix.")
    digests = {finding.case.name: finding.digest for finding in diagnosis.findings}
    axes = common_orientation(diagnosis.findings)
    written, left_out, training = set[str](), [], 0
    parts = [("Tr", case) for case in dataset.training] + [("Ts", case) for case in dataset.test]
    parts.sort(key=lambda each: each[1].label is None)  # of two copies the labelled one is worth more
    for part, case in track(parts, "Writing"):
        if case.name not in digests or digests[case.name] in written:
            left_out.append(case.name)
            continue
        written.add(digests[case.name])
        training += part == "Tr"
        _write(target, part, case, dataset, axes)
    write_text(target / "dataset.json", json.dumps(_description(dataset, training), indent=2) + "\n")
    return left_out


def _write(target: Path, part: str, case: Case, dataset: Dataset, axes: str) -> None:
    scan = read(case)
    assert not list(complaints(scan, dataset.task)), "only sound cases have a digest"
    channels = [(image, channel) for image in scan.images for channel in image.values]
    for number, (image, channel) in enumerate(channels):
        _reoriented(target / f"images{part}/{file_name(case.name)}_{number:04}.nii.gz", _storable(channel), image, axes)
    if scan.label and np.any(scan.label.values):
        values = _whole(scan.label.values[0])
        _reoriented(target / f"labels{part}/{file_name(case.name)}.nii.gz", values, scan.images[0], axes)


def _storable(channel: np.ndarray) -> np.ndarray:
    """The same values in a type that readers of NIfTI know: no truth values, half floats or 64-bit integers."""
    if channel.dtype.kind == "f":
        return channel.astype(np.promote_types(channel.dtype, np.float32))
    whole = _whole(channel) if channel.dtype.kind == "b" or channel.dtype.itemsize > 4 else channel
    return whole if whole.dtype.itemsize <= 4 else whole.astype(np.float64)


def _whole(values: np.ndarray) -> np.ndarray:
    """As the smallest integers that hold them."""
    kinds = [np.min_scalar_type(int(edge)) for edge in (values.min(), values.max())]
    return values.astype(np.result_type(*kinds))


def _reoriented(file: Path, voxels: np.ndarray, grid: Image, axes: str) -> None:
    turn = ornt_transform(io_orientation(grid.affine), axcodes2ornt(axes))
    image = nibabel.Nifti1Image(voxels, grid.affine, dtype=voxels.dtype).as_reoriented(turn)
    write_nifti(file, np.asanyarray(image.dataobj), image.affine)


def _description(dataset: Dataset, training: int) -> dict[str, object]:
    regions = dataset.task.regions
    single = all(len(region.values) == 1 for region in regions)
    labels = {region.name: region.values[0] if single else list(region.values) for region in regions}
    cases = [(file_name(case.name), case.subject) for case in dataset.training + dataset.test]
    subjects = {name: subject for name, subject in cases if subject != name}
    return {
        "channel_names": {str(number): name for number, name in enumerate(dataset.task.channels)},
        "labels": {"background": 0, **labels},
        **({} if single else {"regions_class_order": [region.paint for region in regions]}),
        **({"subjects": subjects} if subjects else {}),
        "numTraining": training,
        "file_ending": ".nii.gz",
    }
