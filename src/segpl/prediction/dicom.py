"""Masks as DICOM Segmentation objects, which name the series that they belong to."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from segpl.data.formats.image import spacing
from segpl.data.formats.itk import holds_dicom, series_files
from segpl.foundation.errors import UserError
from segpl.foundation.files import draft
from segpl.inference.levels import HALF
from segpl.inference.result import Prediction

MAY_BE_EMPTY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex"),
    *("StudyDate", "StudyTime", "StudyID", "AccessionNumber"),
)
"""Tags that a segmentation repeats from its series; empty is allowed, missing is not."""


def save_dicom_seg(file: Path, series: Path, found: Prediction) -> None:
    """A binary segment per region, frame by frame over the slices of `series`, a folder with one DICOM series."""
    if not series.is_dir() or not holds_dicom(series):
        raise UserError(
            f"{series} is no DICOM series, which --format dicom-seg must refer to: leave --format out."
        )
    highdicom, pydicom = _libraries()
    slices = [pydicom.dcmread(each, stop_before_pixels=True) for each in series_files(series)]
    for each in slices:  # not every series says how thick its slices are, and whoever hid the patient may have cut tags
        each.SliceThickness = each.get("SliceThickness") or spacing(found.affine)[2]
        for tag in MAY_BE_EMPTY:
            setattr(each, tag, each.get(tag, ""))
    regions = np.stack([levels > HALF for levels in found.levels], axis=-1)
    try:
        segmentation = _segmentation(highdicom, slices, regions, found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{series} cannot carry a DICOM Segmentation ({reason}): leave --format out."
        ) from None
    with draft(file) as place:
        segmentation.save_as(place)


def _segmentation(
    highdicom: Any, slices: list[Any], regions: Bool[np.ndarray, "X Y Z K"], found: Prediction
) -> Any:
    return highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=np.ascontiguousarray(
            regions.transpose(2, 1, 0, 3)
        ),  # slice, row, column, segment
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=[
            _described(highdicom, number, region.name) for number, region in _numbered(found)
        ],
        series_instance_uid=highdicom.UID(),
        series_number=int(slices[0].get("SeriesNumber") or 0) + 1000,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="segpl",
        manufacturer_model_name="segpl",
        software_versions=version("segpl"),
        device_serial_number="0",
        omit_empty_frames=bool(regions.any()),  # an empty mask still needs a frame
    )


def _numbered(found: Prediction) -> list[tuple[int, Any]]:
    return list(enumerate(found.regions, start=1))


def _described(highdicom: Any, number: int, name: str) -> Any:
    """What a segment is: its name is the user's; what kind of tissue that is segpl cannot know."""
    from pydicom.sr.codedict import codes

    algorithm = highdicom.AlgorithmIdentificationSequence(
        name="segpl", version=version("segpl"), family=codes.cid7162.ArtificialIntelligence
    )
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=name[:64],
        segmented_property_category=codes.SCT.Tissue,
        segmented_property_type=codes.SCT.Tissue,
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=algorithm,
    )


def _libraries() -> tuple[Any, Any]:
    try:
        import highdicom
        import pydicom
    except ImportError:
        raise UserError(
            "--format dicom-seg needs highdicom: pip install '.[dicom]' in segpl's folder."
        ) from None
    return highdicom, pydicom
