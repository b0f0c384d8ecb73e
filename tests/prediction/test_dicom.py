"""DICOM Segmentation: the object refers to its series and holds the mask, slice by slice."""

import highdicom
import numpy as np
import pydicom
import pytest
import SimpleITK
from series import write_series

from segpl.data.itk import to_itk
from segpl.foundation.errors import UserError
from segpl.prediction.dicom import MAY_BE_EMPTY, save_dicom_seg


@pytest.fixture
def series(canonical, tmp_path):
    values = np.asarray(canonical.dataobj)
    image = to_itk((values - values.min()).astype(np.uint16), canonical.affine)
    return write_series(tmp_path / "series", SimpleITK.Cast(image, SimpleITK.sitkInt16))


@pytest.fixture
def prediction(series, shifted):
    return shifted.predict(series)


def remove_tags(series, *tags):
    for file in series.iterdir():
        header = pydicom.dcmread(file)
        for tag in tags:
            header.pop(tag, None)
        header.save_as(file)


def height(header):
    return float(header.ImagePositionPatient[2])


def test_the_segmentation_names_its_series_and_its_regions(series, prediction, tmp_path):
    save_dicom_seg(tmp_path / "mask.dcm", series, prediction)
    segmentation = highdicom.seg.segread(tmp_path / "mask.dcm")
    assert list(segmentation.segment_numbers) == [1]
    assert segmentation.get_segment_description(1).segment_label == "lesion"
    first = pydicom.dcmread(next(series.iterdir()))
    assert segmentation.StudyInstanceUID == first.StudyInstanceUID
    assert segmentation.FrameOfReferenceUID == first.FrameOfReferenceUID


def test_the_segmentation_holds_the_mask_on_the_slices_of_its_series(series, prediction, tmp_path):
    save_dicom_seg(tmp_path / "mask.dcm", series, prediction)
    segmentation = highdicom.seg.segread(tmp_path / "mask.dcm")
    slices = sorted((pydicom.dcmread(file) for file in series.iterdir()), key=height)
    frames = segmentation.get_pixels_by_source_instance(
        [header.SOPInstanceUID for header in slices],
        ignore_spatial_locations=True,
        assert_missing_frames_are_empty=True,
    )
    np.testing.assert_array_equal(frames[..., 0].transpose(2, 1, 0) > 0, prediction.mask == 5)


def test_tags_that_anonymisation_removed_stay_empty(series, prediction, tmp_path):
    remove_tags(series, *MAY_BE_EMPTY)
    save_dicom_seg(tmp_path / "mask.dcm", series, prediction)
    assert highdicom.seg.segread(tmp_path / "mask.dcm").PatientBirthDate == ""


def test_a_series_without_a_frame_of_reference_is_refused(series, prediction, tmp_path):
    remove_tags(series, "FrameOfReferenceUID")
    message = r"series cannot carry a DICOM Segmentation \(.*\): leave --format out"
    with pytest.raises(UserError, match=message):
        save_dicom_seg(tmp_path / "mask.dcm", series, prediction)


def test_a_scan_that_is_no_series_is_refused(shifted, canonical, tmp_path):
    prediction = shifted.predict(canonical)
    with pytest.raises(UserError, match=r"is no DICOM series.*leave --format out"):
        save_dicom_seg(tmp_path / "mask.dcm", tmp_path / "scan.nii.gz", prediction)
    assert not (tmp_path / "mask.dcm").exists()
