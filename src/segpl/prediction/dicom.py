"""Masks as DICOM Segmentation objects, which refer to the series that they belong to."""

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
    "PatientID",
    "PatientName",
    "PatientBirthDate",
    "PatientSex",
    "StudyDate",
    "StudyTime",
    "StudyID",
    "AccessionNumber",
)
"""Tags that a segmentation repeats from its series. They may be empty, but not missing."""
SERIES_NUMBER_OFFSET = 1000
"""Added to the number of the series for that of its segmentation."""


def save_dicom_seg(file: Path, series: Path, prediction: Prediction) -> None:
    """Write a binary segment per region, with a frame per slice of the series.

    `series` is a folder with one DICOM series.
    """
    if not series.is_dir() or not holds_dicom(series):
        raise UserError(
            f"{series} is no DICOM series, which --format dicom-seg needs: leave --format out."
        )
    _require_highdicom()
    slices = _read_headers(series, spacing(prediction.affine)[2])
    try:
        segmentation = _segmentation(slices, prediction)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{series} cannot carry a DICOM Segmentation ({reason}): leave --format out."
        ) from None
    with draft(file) as path:
        segmentation.save_as(path)


def is_complete_seg(file: Path) -> bool:
    """Whether a DICOM Segmentation has all its bytes: one bit for each voxel of each frame."""
    _require_highdicom()
    import pydicom

    try:
        header = pydicom.dcmread(file)
        bits = header.Rows * header.Columns * int(header.NumberOfFrames)
        return len(header.PixelData) >= bits / 8
    except (pydicom.errors.InvalidDicomError, AttributeError, EOFError, ValueError):
        return False


def _require_highdicom() -> None:
    try:
        import highdicom  # noqa: F401
    except ImportError:
        raise UserError(
            "--format dicom-seg needs highdicom: pip install '.[dicom]' in segpl's folder."
        ) from None


def _read_headers(series: Path, slice_thickness: float) -> list[Any]:
    """The slices without their pixels, with all tags that a segmentation repeats.

    Not every series has the thickness of its slices, and anonymisation may have removed tags.
    """
    import pydicom

    slices = []
    for file in series_files(series):
        header = pydicom.dcmread(file, stop_before_pixels=True)
        header.SliceThickness = header.get("SliceThickness") or slice_thickness
        for tag in MAY_BE_EMPTY:
            setattr(header, tag, header.get(tag, ""))
        slices.append(header)
    return slices


def _segmentation(slices: list[Any], prediction: Prediction) -> Any:
    import highdicom

    pixels = _pixel_array(prediction)
    segments = []
    for number, region in enumerate(prediction.regions, start=1):
        segments.append(_segment_description(number, region.name))
    return highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=pixels,
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=segments,
        series_instance_uid=highdicom.UID(),
        series_number=int(slices[0].get("SeriesNumber") or 0) + SERIES_NUMBER_OFFSET,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="segpl",
        manufacturer_model_name="segpl",
        software_versions=version("segpl"),
        device_serial_number="0",
        omit_empty_frames=bool(pixels.any()),  # an empty mask still needs a frame
    )


def _pixel_array(prediction: Prediction) -> Bool[np.ndarray, "Z Y X K"]:
    """The masks of all regions with the axes of DICOM: slice, row, column, segment."""
    masks = [levels > HALF for levels in prediction.mask_levels]
    stacked = np.stack(masks, axis=-1)
    return np.ascontiguousarray(stacked.transpose(2, 1, 0, 3))


def _segment_description(number: int, name: str) -> Any:
    """The user's name of a region. Its code is just "tissue", as segpl does not know more."""
    import highdicom
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
