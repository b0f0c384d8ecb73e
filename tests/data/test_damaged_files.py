"""Damaged and hostile image files are refused with one sentence, before memory is taken."""

import gzip
import tracemalloc

import h5py
import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image as Pictures
from series import write_series

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import read_grid, read_image
from segpl.data.preparation import Preparation, prepare
from segpl.data.scans import read_scan
from segpl.foundation.errors import UserError

VALUES = (np.indices((12, 10, 6)).sum(0) * 9 + 3).astype(np.int16)
AFFINE = np.diag([1.0, 1.0, 2.0, 1.0])
TASK = Task(("MR",), (Region("lesion", (1,), 1),))


def refusal(file, read=read_image):
    with pytest.raises(UserError) as caught:
        read(file)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def save_nifti(file, values=VALUES, affine=AFFINE):
    nibabel.save(nibabel.Nifti1Image(values, affine), file)
    return file


def save_itk(file, compressed=False):
    image = SimpleITK.GetImageFromArray(VALUES.T)
    SimpleITK.WriteImage(image, file, useCompression=compressed)
    return file


def save_series(folder):
    image = SimpleITK.GetImageFromArray(VALUES.T)
    image.SetSpacing((1, 1, 2))
    return sorted(write_series(folder, image).iterdir())


@pytest.mark.parametrize("end", [-8, -4])
def test_the_checksum_and_the_length_of_gzip_are_verified(tmp_path, end):
    file = save_nifti(tmp_path / "a.nii.gz")
    content = bytearray(file.read_bytes())
    content[end] ^= 1
    file.write_bytes(content)
    assert "cannot be read" in refusal(file)


@pytest.mark.parametrize("name", ["a.mha", "a.nrrd"])
def test_the_checksum_of_compressed_voxels_is_verified(tmp_path, name):
    file = save_itk(tmp_path / name, compressed=True)
    content = bytearray(file.read_bytes())
    checksum = -1 if name == "a.mha" else -8
    content[checksum] ^= 1
    file.write_bytes(content)
    assert "cannot be read" in refusal(file)


def test_the_checksum_of_npz_is_verified(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, image=VALUES)
    content = bytearray(file.read_bytes())
    content[content.index(VALUES.tobytes()) + 100] ^= 1
    file.write_bytes(content)
    assert "Bad CRC-32" in refusal(file)


def test_the_checksums_of_png_are_verified(tmp_path):
    file = tmp_path / "a.png"
    Pictures.fromarray(VALUES[..., 0].astype(np.uint8)).save(file)
    content = bytearray(file.read_bytes())
    content[content.index(b"IEND") - 5] ^= 1  # the last byte of the checksum of the pixels
    file.write_bytes(content)
    assert "cannot be read" in refusal(file)


@pytest.mark.parametrize("name", ["a.nii", "a.mha", "a.nrrd", "a.mhd", "a.nhdr", "a.npy"])
@pytest.mark.parametrize("change", [-3, 5000])
def test_the_size_of_uncompressed_voxels_is_verified(tmp_path, name, change):
    file = tmp_path / name
    if name == "a.nii":
        save_nifti(file)
    elif name == "a.npy":
        np.save(file, VALUES)
    else:
        save_itk(file)
    voxels = tmp_path / "a.raw" if name in ("a.mhd", "a.nhdr") else file
    content = voxels.read_bytes()
    voxels.write_bytes(content[:change] if change < 0 else content + bytes(change))
    assert str(file) in refusal(file)


def test_a_header_that_claims_more_than_any_compression_holds_takes_no_memory(tmp_path):
    file = tmp_path / "a.nii.gz"
    header = nibabel.Nifti1Header()
    header.set_data_shape((900, 900, 900))
    header.set_data_dtype(np.int16)
    file.write_bytes(gzip.compress(header.binaryblock + bytes(1000)))
    tracemalloc.start()
    assert "claims more voxels than the file holds" in refusal(file)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_a_limit_on_the_voxels_can_be_raised(tmp_path, monkeypatch):
    file = save_nifti(tmp_path / "a.nii.gz")
    monkeypatch.setenv("SEGPL_MAX_VOXELS", "719")
    sentence = refusal(file, read_grid)
    assert "has 1 x 12 x 10 x 6 voxels by its header, and at most 719 are read" in sentence
    assert "SEGPL_MAX_VOXELS" in sentence
    monkeypatch.setenv("SEGPL_MAX_VOXELS", "720")
    read_image(file)
    monkeypatch.setenv("SEGPL_MAX_VOXELS", "many")
    assert "set it to a number above 0" in refusal(file)


def test_ten_gigabytes_are_refused_by_default(tmp_path):
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as content:
        content.create_dataset("image", (2000, 2000, 2500), "u1", chunks=(100, 100, 100))
    assert "SEGPL_MAX_VOXELS" in refusal(file, read_grid)


def test_voxels_that_were_never_written_are_not_made_up(tmp_path):
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as content:
        content.create_dataset("image", (20, 20, 20), "u1", chunks=(10, 10, 10))
    assert "never written" in refusal(file)


@pytest.mark.parametrize("distance", [1000.0, 0.0, 1e-9])
def test_an_implausible_spacing_is_refused(tmp_path, distance, monkeypatch):
    affine = np.eye(4)
    image = nibabel.Nifti1Image(VALUES, affine)
    image.set_sform(np.diag([1, 1, distance, 1]), code=1)
    nibabel.save(image, tmp_path / "a.nii")
    assert f"has a spacing of 1 x 1 x {distance:g} mm" in refusal(tmp_path / "a.nii", read_grid)
    monkeypatch.setenv("SEGPL_MAX_SPACING", "2000")
    if distance > 1:
        read_image(tmp_path / "a.nii")


@pytest.mark.parametrize("spacing", [[1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [0.0, 1.0, 1.0]])
def test_an_hdf5_spacing_must_be_above_zero(tmp_path, spacing):
    with h5py.File(tmp_path / "a.h5", "w") as content:
        content["image"] = VALUES
        content["image"].attrs["spacing"] = spacing
    assert "three numbers above 0" in refusal(tmp_path / "a.h5")


def test_resampling_to_too_many_voxels_is_refused(tmp_path):
    file = save_nifti(tmp_path / "a.nii", affine=np.diag([90.0, 90.0, 90.0, 1.0]))
    scan = read_scan(Case("a", "a", (file,)))
    with pytest.raises(UserError, match=r"SEGPL_MAX_VOXELS"):
        prepare(scan, TASK, Preparation(spacing=(0.1, 0.1, 0.1)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e38, 1e300])
def test_values_that_no_network_can_take_are_refused(tmp_path, value):
    values = VALUES.astype(np.float64)
    values[3, 4, 5] = value
    file = save_nifti(tmp_path / "a.nii.gz", values)
    with pytest.raises(UserError, match=str(file)):
        prepare(read_scan(Case("a", "a", (file,))), TASK, Preparation())


@pytest.mark.parametrize("place", ["/etc/passwd", "../secret.raw", "sub/../../secret.raw"])
@pytest.mark.parametrize("name", ["a.mhd", "a.nhdr"])
def test_voxels_outside_the_folder_of_the_header_are_refused(tmp_path, name, place):
    folder = tmp_path / "scans"
    folder.mkdir()
    file = save_itk(folder / name)
    (folder / "a.raw").rename(tmp_path / "secret.raw")
    file.write_text(file.read_text().replace("a.raw", place))
    assert "which is outside its own folder" in refusal(file)
    assert "which is outside its own folder" in refusal(file, read_grid)


def test_a_field_that_crashes_itk_is_refused_before(tmp_path):
    file = save_itk(tmp_path / "a.nrrd")
    content = file.read_bytes()
    for value in (b"x" * 5000, b":=" + b"[ " * 5000):
        file.write_bytes(content.replace(b"little", value))
        assert "a field that is too long" in refusal(file)


def test_listed_voxel_files_outside_the_folder_are_refused(tmp_path):
    file = save_itk(tmp_path / "a.mhd")
    lines = "LIST\n" + "/etc/passwd\n" * 6
    file.write_text(file.read_text().replace("a.raw", lines))
    assert "which is outside its own folder" in refusal(file)


def test_voxels_in_a_folder_below_the_header_are_read(tmp_path):
    file = save_itk(tmp_path / "a.mhd")
    (tmp_path / "raw").mkdir()
    (tmp_path / "a.raw").rename(tmp_path / "raw/a.raw")
    file.write_text(file.read_text().replace("a.raw", "raw/a.raw"))
    np.testing.assert_array_equal(read_image(file).values[0], VALUES)


def test_hdf5_does_not_read_other_files(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as content:
        content["image"] = VALUES
    (tmp_path / "secret.raw").write_bytes(VALUES.tobytes())
    layout = h5py.VirtualLayout(VALUES.shape, VALUES.dtype)
    layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "image", VALUES.shape)
    with h5py.File(tmp_path / "a.h5", "w") as content:
        content["link"] = h5py.ExternalLink("secret.h5", "/image")
        content["soft"] = h5py.SoftLink("/link")
        raw = [(str(tmp_path / "secret.raw"), 0, h5py.h5f.UNLIMITED)]
        content.create_dataset("storage", VALUES.shape, VALUES.dtype, external=raw)
        content.create_virtual_dataset("virtual", layout)
    for name in ("link", "soft", "storage", "virtual"):
        assert "takes its voxels from another file" in refusal(tmp_path / f"a.h5#{name}")


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("length", [0, 100, 140, 500, -10])
def test_a_cut_first_or_last_slice_is_not_left_out(tmp_path, number, length):
    file = save_series(tmp_path / "series")[number]
    file.write_bytes(file.read_bytes()[:length])
    sentence = refusal(tmp_path / "series")
    assert str(tmp_path / "series") in sentence


def test_the_sentence_about_a_cut_slice_names_the_file(tmp_path):
    file = save_series(tmp_path / "series")[0]
    file.write_bytes(file.read_bytes()[:500])
    assert refusal(tmp_path / "series").startswith(f"{file} is damaged or no slice of the series")


def test_a_cut_slice_without_an_ending_is_noticed(tmp_path):
    files = [file.rename(file.with_suffix("")) for file in save_series(tmp_path / "series")]
    files[0].write_bytes(files[0].read_bytes()[:60])
    assert str(files[0]) in refusal(tmp_path / "series")


def test_slices_of_another_size_or_orientation_are_named(tmp_path):
    sagittal = SimpleITK.GetImageFromArray(VALUES.T)
    sagittal.SetDirection((0, 0, 1, 1, 0, 0, 0, 1, 0))
    smaller = SimpleITK.GetImageFromArray(VALUES.T[:, :-2])
    for name, image in [("orientation", sagittal), ("size", smaller)]:
        files = save_series(tmp_path / name)
        other = write_series(tmp_path / f"other-{name}", image)
        files[2].write_bytes((other / files[2].name).read_bytes())
        sentence = refusal(tmp_path / name)
        assert str(tmp_path / name) in sentence
        assert ".dcm" in sentence
