"""DICOM Segmentation: the object names its series and holds the mask, slice by slice."""

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
def series(phantom, canonical, tmp_path):
    values = np.asarray(canonical.dataobj)
    image = to_itk((values - values.min()).astype(np.uint16), canonical.affine)
    return write_series(tmp_path / "series", SimpleITK.Cast(image, SimpleITK.sitkInt16))


def test_the_segmentation_holds_the_mask_on_the_slices_of_its_series(series, shifted, tmp_path):
    found = shifted.predict(series)
    save_dicom_seg(tmp_path / "mask.dcm", series, found)
    read = highdicom.seg.segread(tmp_path / "mask.dcm")
    assert [
        read.get_segment_description(number).segment_label for number in read.segment_numbers
    ] == ["lesion"]
    slices = [pydicom.dcmread(file) for file in series.iterdir()]
    assert read.StudyInstanceUID == slices[0].StudyInstanceUID
    assert read.FrameOfReferenceUID == slices[0].FrameOfReferenceUID
    by_height = sorted(slices, key=lambda each: float(each.ImagePositionPatient[2]))
    frames = read.get_pixels_by_source_instance(
        [each.SOPInstanceUID for each in by_height],
        ignore_spatial_locations=True,
        assert_missing_frames_are_empty=True,
    )
    np.testing.assert_array_equal(frames[..., 0].transpose(2, 1, 0) > 0, found.mask == 5)


def without(series, *tags):
    for file in series.iterdir():
        read = pydicom.dcmread(file)
        for tag in tags:
            read.pop(tag, None)
        read.save_as(file)


def test_a_series_whose_patient_was_hidden(series, shifted, tmp_path):
    found = shifted.predict(series)
    without(series, *MAY_BE_EMPTY)
    save_dicom_seg(tmp_path / "mask.dcm", series, found)
    assert highdicom.seg.segread(tmp_path / "mask.dcm").PatientBirthDate == ""
    without(series, "FrameOfReferenceUID")
    with pytest.raises(
        UserError, match=r"series cannot carry a DICOM Segmentation \(.*\): leave --format out"
    ):
        save_dicom_seg(tmp_path / "other.dcm", series, found)


def test_a_scan_that_is_no_series(shifted, canonical, tmp_path):
    found = shifted.predict(canonical)
    with pytest.raises(UserError, match=r"is no DICOM series.*leave --format out"):
        save_dicom_seg(tmp_path / "mask.dcm", tmp_path / "scan.nii.gz", found)
    assert not (tmp_path / "mask.dcm").exists()
