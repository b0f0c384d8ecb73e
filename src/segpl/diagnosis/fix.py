"""A repaired copy of a data folder, where the remedy is certain; the original is never touched."""

from pathlib import Path

import numpy as np
from nibabel.orientations import (
    apply_orientation,
    axcodes2ornt,
    inv_ornt_aff,
    io_orientation,
    ornt_transform,
)

from segpl.data.cases import Case, Dataset
from segpl.data.layouts.nnunet_writer import subjects_entry, write_case, write_description
from segpl.data.preparation import channels_of, complaints, read
from segpl.diagnosis import Diagnosis, common_orientation
from segpl.foundation.errors import UserError
from segpl.foundation.progress import track


def write_fixed(diagnosis: Diagnosis, target: Path) -> list[str]:
    """Write the cases that can be saved in the nnU-Net layout, and say which were left out.

    Certain remedies: every image and label gets the axes that most have, which moves voxels and changes none;
    a label lies on its image's very grid; empty labels are dropped, so that the scan is unlabelled; of the same image
    in two places only one is kept, the labelled one if there is one.
    """
    dataset = diagnosis.dataset
    if dataset is None:
        raise UserError(
            f"{diagnosis.folder} cannot be read as a data set, so nothing can be mended: see above."
        )
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty: choose another folder for --fix.")
    digests = {finding.case.name: finding.digest for finding in diagnosis.findings}
    axes = common_orientation(diagnosis.findings)
    written, left_out, training = set[str](), [], 0
    parts = [("Tr", case) for case in dataset.training] + [("Ts", case) for case in dataset.test]
    parts.sort(
        key=lambda each: each[1].label is None
    )  # of two copies the labelled one is worth more
    for part, case in track(parts, "Writing"):
        if case.name not in digests or digests[case.name] in written:
            left_out.append(case.name)
            continue
        written.add(digests[case.name])
        training += part == "Tr"
        _write(target, part, case, dataset, axes)
    subjects = subjects_entry(dataset.training + dataset.test)
    write_description(target, dataset.task, training, **subjects)
    return left_out


def _write(target: Path, part: str, case: Case, dataset: Dataset, axes: str) -> None:
    """Write a sound case with its axes as `axes` says; an empty label is left out."""
    scan = read(case)
    assert not list(complaints(scan, dataset.task)), "only sound cases have a digest"
    grid = scan.images[0].affine
    turn = ornt_transform(io_orientation(grid), axcodes2ornt(axes))
    affine = grid @ inv_ornt_aff(turn, scan.images[0].values.shape[1:])
    channels = []
    for channel in channels_of(scan.images):
        channels.append(apply_orientation(_storable(channel), turn))
    label = None
    if scan.label and np.any(scan.label.values):
        label = apply_orientation(_whole(scan.label.values[0]), turn)
    write_case(target, part, case.name, channels, label, affine)


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
