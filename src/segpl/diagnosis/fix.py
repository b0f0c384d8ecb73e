"""A repaired copy of a data folder, where the remedy is certain. The original is not changed."""

from collections.abc import Sequence
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
from segpl.data.formats import read_image, stores_geometry
from segpl.data.layouts.nnunet_writer import subjects_entry, write_case, write_description
from segpl.data.scans import channels_of, complaints, read_scan
from segpl.diagnosis import Diagnosis, cases_with_split
from segpl.diagnosis.findings import Finding, common_orientation
from segpl.foundation.errors import UserError
from segpl.foundation.progress import track

FOLDER_ENDING = {"training": "Tr", "test": "Ts"}
"""As in imagesTr and imagesTs."""

IRREPARABLE = (
    "nothing is written, because --fix leaves out no labelled case. Repair or remove these first:"
)


def write_fixed(diagnosis: Diagnosis, target: Path) -> list[str]:
    """Write the cases that can be repaired in the nnU-Net layout.

    Return one sentence for each case that is left out, and for each label that is, with the reason.
    No label that somebody drew is lost: a labelled case that cannot be repaired is an error, and
    so are two copies of an image with different labels.

    - Every image and label gets the orientation that most have. This moves voxels and changes none.
    - Labels get exactly the grid of their image.
    - Empty labels are dropped, so that the scan is unlabelled.
    - Of two copies of an image one is kept, the labelled one if there is one.
    """
    dataset = diagnosis.dataset
    if dataset is None:
        raise UserError(
            f"{diagnosis.folder} cannot be read as a data set, so it cannot be repaired: "
            "fix the problem above first."
        )
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty: choose another folder for --fix.")
    orientation = common_orientation(diagnosis.findings)
    kept, left_out = _cases_to_keep(diagnosis, dataset)
    for case, split in track(kept, "Writing"):
        _write(target, FOLDER_ENDING[split], case, dataset, orientation)
    training = [case for case, split in kept if split == "training"]
    subjects = subjects_entry(dataset.training + dataset.test)
    write_description(target, dataset.task, len(training), **subjects)
    return left_out + _empty_labels(kept, diagnosis)


def _cases_to_keep(
    diagnosis: Diagnosis,
    dataset: Dataset,
) -> tuple[list[tuple[Case, str]], list[str]]:
    """The cases to write, each with its split, and a sentence about each one to leave out."""
    digests = {}
    for finding in diagnosis.findings:
        digests[finding.case.name] = finding.digest
    first_with_digest: dict[str, Case] = {}
    kept = []
    left_out = []
    irreparable = []
    for case, split in _labelled_first(cases_with_split(dataset)):
        if case.name not in digests:
            problem = diagnosis.unusable[case.name]
            if case.label:
                irreparable.append(f"labelled case {case.name}: {problem}")
            else:
                left_out.append(f"unlabelled case {case.name} is left out: {problem}")
            continue
        first = first_with_digest.setdefault(digests[case.name], case)
        if first is case:
            kept.append((case, split))
        elif _differ(first, case):
            irreparable.append(
                f"labelled case {case.name}: its image is the same as that of case {first.name}, "
                "but the labels differ: keep one of them."
            )
        else:
            left_out.append(
                f"{_describe(case)} is left out: its image is the same as that of case "
                f"{first.name}, which is kept."
            )
    if irreparable:
        raise UserError("\n  ".join([IRREPARABLE, *irreparable]))
    return kept, left_out


def _differ(first: Case, copy: Case) -> bool:
    """Whether two cases with the same image have different labels."""
    if not first.label or not copy.label:
        return False
    label_of_first = read_image(first.label).values
    label_of_copy = read_image(copy.label).values
    return not np.array_equal(label_of_first, label_of_copy)


def _describe(case: Case) -> str:
    kind = "labelled case" if case.label else "unlabelled case"
    return f"{kind} {case.name}"


def _empty_labels(kept: Sequence[tuple[Case, str]], diagnosis: Diagnosis) -> list[str]:
    """A sentence about each written case that loses its label."""
    names = {case.name for case, _ in kept}
    sentences = []
    for finding in diagnosis.findings:
        if finding.case.name in names and _is_label_empty(finding):
            sentences.append(
                f"case {finding.case.name} is written without its label: "
                f"{finding.case.label} is empty."
            )
    return sentences


def _is_label_empty(finding: Finding) -> bool:
    return finding.case.label is not None and not any(finding.values)


def _labelled_first(cases: Sequence[tuple[Case, str]]) -> list[tuple[Case, str]]:
    labelled = [(case, split) for case, split in cases if case.label]
    unlabelled = [(case, split) for case, split in cases if not case.label]
    return labelled + unlabelled


def _write(
    target: Path,
    ending: str,
    case: Case,
    dataset: Dataset,
    orientation: str | None,
) -> None:
    """Write a case in `orientation`, without its label if that is empty.

    An image that does not store its orientation keeps its axes.
    """
    scan = read_scan(case)
    assert not list(complaints(scan, dataset.task)), "only cases without complaints have a digest"
    image = scan.images[0]
    shape = image.values.shape[1:]
    stored = io_orientation(image.affine)
    is_oriented = orientation is not None and stores_geometry(image.file)
    wanted = axcodes2ornt(orientation) if is_oriented else stored
    transform = ornt_transform(stored, wanted)
    affine = image.affine @ inv_ornt_aff(transform, shape)
    channels = []
    for channel in channels_of(scan.images):
        channels.append(apply_orientation(_storable(channel), transform))
    label = None
    if scan.label and np.any(scan.label.values):
        integers = _as_smallest_integers(scan.label.values[0])
        label = apply_orientation(integers, transform)
    write_case(target, ending, case.name, channels, label, affine)


def _storable(channel: np.ndarray) -> np.ndarray:
    """The same values in a type that every NIfTI reader supports.

    That is no booleans, half floats or 64-bit integers; integers beyond 32 bits become float64.
    """
    dtype = channel.dtype
    if dtype.kind == "f":
        return channel.astype(np.promote_types(dtype, np.float32))
    is_bool = dtype.kind == "b"
    is_64_bit = dtype.itemsize > 4
    if not is_bool and not is_64_bit:
        return channel
    integers = _as_smallest_integers(channel)
    if integers.dtype.itemsize > 4:
        return integers.astype(np.float64)
    return integers


def _as_smallest_integers(values: np.ndarray) -> np.ndarray:
    """The values in the smallest integer type that holds them."""
    type_of_smallest = np.min_scalar_type(int(values.min()))
    type_of_largest = np.min_scalar_type(int(values.max()))
    return values.astype(np.result_type(type_of_smallest, type_of_largest))
