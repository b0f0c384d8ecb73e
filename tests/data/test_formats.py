"""Every file format gives the same voxels and geometry, and one clear sentence on a failure."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image as Pictures

from segpl.data.formats import ENDINGS, is_image, read_grid, read_image, stem
from segpl.foundation.errors import UserError

VALUES = np.random.default_rng(3).integers(-900, 900, (7, 6, 5)).astype(np.int16) * 2
"""[X, Y, Z]"""
COLOURS = np.random.default_rng(4).integers(0, 255, (6, 7, 3)).astype(np.uint8)
"""[row, column, channel]"""
SPACING = (0.5, 0.75, 2.5)
ITK = ["a.mha", "a.mhd", "a.nrrd", "a.nhdr"]
ONE_OF_EACH = [
    "a.nii",
    "a.nii.gz",
    *ITK,
    "a.dcm",
    "a.npy",
    "a.npz",
    "a.h5",
    "a.png",
    "a.tif",
    "a.gif",
    "a.jpg",
    "a.bmp",
]


def rotation(degrees: float) -> np.ndarray:
    """A proper rotation about an oblique axis."""
    axis = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    cross = np.cross(np.eye(3), axis)
    angle = np.deg2rad(degrees)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


DIRECTIONS = {
    "plain": np.eye(3),
    "negative": np.diag([-1.0, 1.0, -1.0]),
    "oblique": rotation(35),
    "upside down": rotation(160),
}


@pytest.fixture(params=DIRECTIONS.values(), ids=DIRECTIONS)
def scan(request: pytest.FixtureRequest) -> SimpleITK.Image:
    image = SimpleITK.GetImageFromArray(VALUES.T)
    image.SetSpacing(SPACING)
    image.SetOrigin((-12.5, 30.0, 104.25))
    image.SetDirection(request.param.ravel().tolist())
    return image


def ras_affine(image: SimpleITK.Image) -> np.ndarray:
    """The affine from the physical positions of four voxels, as ITK itself computes them."""
    origin = np.array(image.TransformIndexToPhysicalPoint((0, 0, 0)))
    affine = np.eye(4)
    affine[:3, 3] = origin
    for axis, index in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 1)]):
        affine[:3, axis] = np.array(image.TransformIndexToPhysicalPoint(index)) - origin
    return np.diag([-1, -1, 1, 1]) @ affine


def dicom_numbers(numbers: Iterable[float]) -> str:
    return "\\".join(f"{number:.9g}" for number in numbers)


def write_slices(folder: Path, image: SimpleITK.Image, series: str = "1.2.3.4") -> list[Path]:
    """Write a DICOM series whose file names do not follow the order of the slices."""
    folder.mkdir(exist_ok=True)
    writer = SimpleITK.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    direction = np.reshape(image.GetDirection(), (3, 3))
    numbers = np.random.default_rng(5).permutation(image.GetDepth())
    files = [folder / f"{series}_{number}.dcm" for number in numbers]
    for z, file in enumerate(files):
        tags = {
            "0008|0060": "CT",
            "0020|000d": "1.2.3",
            "0020|000e": series,
            "0020|0032": dicom_numbers(image.TransformIndexToPhysicalPoint((0, 0, z))),
            "0020|0037": dicom_numbers([*direction[:, 0], *direction[:, 1]]),
            "0028|1052": "-1000",
            "0028|1053": "2",
        }
        section = image[:, :, z]
        for tag, value in tags.items():
            section.SetMetaData(tag, value)
        writer.SetFileName(str(file))
        writer.Execute(section)
    return files


def write(file: Path) -> Path:
    """Write an image in the format of the ending."""
    if file.suffix == ".dcm":
        image = SimpleITK.GetImageFromArray(VALUES.T[:1])
        return write_slices(file.parent, image)[0].rename(file)
    if file.name.endswith((".nii", ".nii.gz")):
        nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4)), file)
    elif file.name in ITK:
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(VALUES.T), file)
    elif file.suffix == ".npy":
        np.save(file, VALUES)
    elif file.suffix == ".npz":
        np.savez(file, image=VALUES)
    elif file.suffix == ".h5":
        write_hdf5(file, image=VALUES)
    else:
        Pictures.fromarray(COLOURS).save(file)
    return file


def write_hdf5(file: Path, spacing: object = None, **arrays: np.ndarray) -> Path:
    with h5py.File(file, "w") as content:
        for name, values in arrays.items():
            content[name] = values
        if spacing is not None:
            content["image"].attrs["spacing"] = spacing
    return file


def assert_holds(file: Path, values: np.ndarray, affine: np.ndarray | None = None) -> None:
    """The file holds `values` [C, X, Y, Z] of exactly this type, and its grid is the image's."""
    image = read_image(file)
    grid = read_grid(file)
    expected_affine = np.eye(4) if affine is None else affine
    assert image.file == file
    assert image.values.dtype == values.dtype
    np.testing.assert_array_equal(image.values, values)
    np.testing.assert_allclose(image.affine, expected_affine, atol=1e-4)
    assert (grid.channels, *grid.shape) == image.values.shape
    np.testing.assert_allclose(grid.spacing, nibabel.affines.voxel_sizes(image.affine))


def complaint(file: Path, reader: Callable = read_image) -> str:
    """The message without the name of the file, which must be its start."""
    with pytest.raises(UserError) as caught:
        reader(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert message.endswith(".")
    assert "\n" not in message
    return message.removeprefix(str(file)).strip()


@pytest.mark.parametrize(
    "ending", [".nii", ".nii.gz", ".mha", ".mhd", ".nrrd", ".nhdr", ".MHA", ".NRRD"]
)
def test_the_same_scan_is_the_same_in_every_format(
    scan: SimpleITK.Image, ending: str, tmp_path: Path
):
    file = tmp_path / f"a{ending.lower()}"
    SimpleITK.WriteImage(scan, file)
    assert_holds(file.rename(tmp_path / f"a{ending}"), VALUES[None], ras_affine(scan))


def test_a_dicom_series_is_the_same_scan(scan: SimpleITK.Image, tmp_path: Path):
    write_slices(tmp_path / "series", scan)
    (tmp_path / "series" / "readme.txt").write_text("not an image")
    assert_holds(tmp_path / "series", VALUES[None].astype(np.int32), ras_affine(scan))


def test_dicom_slices_need_no_ending(scan: SimpleITK.Image, tmp_path: Path):
    for file in write_slices(tmp_path / "series", scan):
        file.rename(file.with_suffix(""))
    assert is_image(tmp_path / "series")
    assert_holds(tmp_path / "series", VALUES[None].astype(np.int32), ras_affine(scan))


def test_one_dicom_slice_is_an_image(scan: SimpleITK.Image, tmp_path: Path):
    file = write_slices(tmp_path / "series", scan[:, :, :1])[0]
    for path in (file, file.parent):
        image = read_image(path)
        np.testing.assert_array_equal(image.values, VALUES[None, :, :, :1])
        assert read_grid(path).shape == image.values.shape[1:]
        np.testing.assert_allclose(image.affine[:, 3], ras_affine(scan)[:, 3], atol=1e-4)


@pytest.mark.parametrize("ending", [".nii.gz", ".mha", ".nrrd"])
def test_components_and_a_fourth_axis_are_channels(ending: str, tmp_path: Path):
    values = np.random.default_rng(6).random((3, 7, 6, 5)).astype(np.float32)
    components = SimpleITK.GetImageFromArray(values.transpose(3, 2, 1, 0), isVector=True)
    stack = SimpleITK.GetImageFromArray(values.transpose(0, 3, 2, 1), isVector=False)
    for name, image in [("components", components), ("stack", stack)]:
        file = tmp_path / f"{name}{ending}"
        SimpleITK.WriteImage(image, file)
        assert_holds(file, values, np.diag([-1.0, -1.0, 1.0, 1.0]))


@pytest.mark.parametrize("ending", [".nii.gz", ".mha", ".nrrd"])
def test_a_flat_image_has_one_slice(ending: str, tmp_path: Path):
    file = tmp_path / f"a{ending}"
    image = SimpleITK.GetImageFromArray(VALUES[:, :, 0].T)
    image.SetSpacing(SPACING[:2])
    SimpleITK.WriteImage(image, file)
    assert_holds(file, VALUES[None, :, :, :1], np.diag([-0.5, -0.75, 1.0, 1.0]))


@pytest.mark.parametrize(
    "shape",
    [(7, 6), (7, 6, 5), (7, 6, 5, 1), (7, 6, 5, 1, 1), (7, 6, 5, 3), (7, 6, 1, 3), (7, 1, 5, 1, 3)],
)
def test_nifti_axes_after_the_third_are_channels(shape: tuple[int, ...], tmp_path: Path):
    values = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "a.nii")
    x, y, z = (*shape, 1)[:3]
    channels_last = values.reshape(x, y, z, -1)
    assert_holds(tmp_path / "a.nii", np.moveaxis(channels_last, -1, 0), affine)


def test_nifti_scaling_is_applied(tmp_path: Path):
    image = nibabel.Nifti1Image(VALUES, np.eye(4))
    image.header.set_slope_inter(0.5, 10)
    nibabel.save(image, tmp_path / "a.nii.gz")
    np.testing.assert_allclose(read_image(tmp_path / "a.nii.gz").values[0], 0.5 * VALUES + 10)


def test_foreign_byte_order_becomes_native(tmp_path: Path):
    header = nibabel.Nifti1Header(endianness=">")
    header.set_data_dtype(np.int16)
    nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4), header), tmp_path / "a.nii")
    np.save(tmp_path / "a.npy", VALUES.astype(">i2"))
    for name in ("a.nii", "a.npy"):
        assert_holds(tmp_path / name, VALUES[None])
        assert read_image(tmp_path / name).values.dtype.isnative


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int64, np.float16, np.float64])
@pytest.mark.parametrize(
    ("shape", "full"),
    [((7, 6), (1, 7, 6, 1)), ((7, 6, 5), (1, 7, 6, 5)), ((2, 7, 6, 5), (2, 7, 6, 5))],
)
def test_arrays_without_a_header_keep_their_values_and_type(
    dtype: type, shape: tuple[int, ...], full: tuple[int, ...], tmp_path: Path
):
    values = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(values))
    np.savez_compressed(tmp_path / "a.npz", image=values)
    write_hdf5(tmp_path / "a.h5", image=values)
    for name in ("a.npy", "fortran.npy", "a.npz", "a.h5", "a.h5#image", "a.npz#image"):
        assert_holds(tmp_path / name, values.reshape(full))


def test_npz_takes_image_before_label_before_the_only_one(tmp_path: Path):
    np.savez(tmp_path / "both.npz", other=VALUES, label=VALUES > 0, image=VALUES)
    np.savez(tmp_path / "label.npz", other=VALUES, label=VALUES > 0)
    np.savez(tmp_path / "only.npz", VALUES)
    assert_holds(tmp_path / "both.npz", VALUES[None])
    assert_holds(tmp_path / "label.npz", VALUES[None] > 0)
    assert_holds(tmp_path / "only.npz", VALUES[None])
    assert_holds(tmp_path / "both.npz#label", VALUES[None] > 0)


def test_hdf5_takes_the_spacing_of_the_dataset_before_that_of_the_file(tmp_path: Path):
    file = write_hdf5(tmp_path / "a#1.h5", spacing=SPACING, image=VALUES, label=VALUES > 0)
    assert_holds(file, VALUES[None], np.diag([*SPACING, 1.0]))
    assert_holds(tmp_path / "a#1.h5#label", VALUES[None] > 0)
    with h5py.File(file, "a") as content:
        content.attrs["spacing"] = [1, 2, 3]
    assert_holds(tmp_path / "a#1.h5#label", VALUES[None] > 0, np.diag([1.0, 2.0, 3.0, 1.0]))


@pytest.mark.parametrize("name", ["a.npy", "a.nii"])
def test_voxels_are_mapped_into_memory(name: str, tmp_path: Path):
    values = read_image(write(tmp_path / name)).values
    while not isinstance(values, np.memmap) and values.base is not None:
        values = values.base
    assert isinstance(values, np.memmap)


@pytest.mark.parametrize(
    "ending",
    [".nii", ".nii.gz", ".mha", ".nrrd", ".npy", ".npz", ".h5", ".png", ".tif", ".gif", ".bmp"],
)
def test_label_values_survive_exactly(ending: str, tmp_path: Path):
    label = np.random.default_rng(7).choice([0, 1, 2, 4, 255], (7, 6)).astype(np.uint8)
    file = tmp_path / f"a{ending}"
    if ending in (".nii", ".nii.gz"):
        nibabel.save(nibabel.Nifti1Image(label, np.eye(4)), file)
    elif ending in (".mha", ".nrrd"):
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(label.T), file)
    elif ending == ".npy":
        np.save(file, label)
    elif ending == ".npz":
        np.savez(file, label=label)
    elif ending == ".h5":
        write_hdf5(file, image=label)
    else:
        Pictures.fromarray(label.T).save(file)
    image = read_image(file)
    assert image.values.dtype == np.uint8
    np.testing.assert_array_equal(image.values, label[None, :, :, None])


@pytest.mark.parametrize("ending", [".png", ".tif", ".bmp"])
def test_colours_are_three_channels(ending: str, tmp_path: Path):
    Pictures.fromarray(COLOURS).save(tmp_path / f"a{ending}")
    assert_holds(tmp_path / f"a{ending}", COLOURS.transpose(2, 1, 0)[..., None])


def test_jpeg_has_three_channels(tmp_path: Path):
    Pictures.new("RGB", (8, 5), (10, 20, 30)).save(tmp_path / "a.JPG")
    assert read_grid(tmp_path / "a.JPG") == ((8, 5, 1), (1.0, 1.0, 1.0), 3, None)
    assert read_image(tmp_path / "a.JPG").values.shape == (3, 8, 5, 1)


def test_transparency_is_dropped(tmp_path: Path):
    alpha = np.full((6, 7, 1), 17, np.uint8)
    colours = np.concatenate([COLOURS, alpha], axis=-1)
    Pictures.fromarray(colours).save(tmp_path / "a.png")
    assert_holds(tmp_path / "a.png", COLOURS.transpose(2, 1, 0)[..., None])
    grey = np.concatenate([COLOURS[..., :1], alpha], axis=-1)
    Pictures.fromarray(grey, "LA").save(tmp_path / "grey.png")
    assert_holds(tmp_path / "grey.png", COLOURS[..., 0].T[None, ..., None])


@pytest.mark.parametrize("ending", [".png", ".tif", ".gif"])
def test_one_bit_is_black_and_white(ending: str, tmp_path: Path):
    mask = COLOURS[..., 0] > 99
    Pictures.fromarray(mask).save(tmp_path / f"a{ending}")
    assert_holds(tmp_path / f"a{ending}", (255 * mask.T[None, ..., None]).astype(np.uint8))


def test_a_palette_is_read_as_displayed(tmp_path: Path):
    mask = (COLOURS[..., 0] > 99).astype(np.uint8)
    white = [255, 255, 255]
    black = [0, 0, 0]
    red = [200, 10, 10]
    almost_black = [4, 2, 4]
    palette = white + black + red + almost_black
    for name, indices in [("grey", mask), ("red", 2 * mask), ("DRIVE", 3 * mask)]:
        picture = Pictures.fromarray(indices, "P")
        picture.putpalette(palette)
        picture.save(tmp_path / f"{name}.gif", optimize=False)
    assert_holds(tmp_path / "grey.gif", (255 * (1 - mask.T[None, ..., None])).astype(np.uint8))
    assert_holds(tmp_path / "DRIVE.gif", np.where(mask.T, 3, 255)[None, ..., None].astype(np.uint8))
    assert read_grid(tmp_path / "red.gif").channels == 3


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_sixteen_bits_are_kept(ending: str, tmp_path: Path):
    values = np.random.default_rng(8).integers(0, 65535, (6, 7)).astype(np.uint16)
    Pictures.fromarray(values).save(tmp_path / f"a{ending}")
    assert_holds(tmp_path / f"a{ending}", values.T[None, ..., None])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_pages_of_a_tiff_are_slices(dtype: type, tmp_path: Path):
    pages = np.random.default_rng(9).integers(0, 99, (4, 6, 7)).astype(dtype)
    first, *others = [Pictures.fromarray(page) for page in pages]
    first.save(tmp_path / "a.tiff", save_all=True, append_images=others)
    assert_holds(tmp_path / "a.tiff", pages.T[None])


@pytest.mark.parametrize("name", ["a.nii", "a.mha", "a.nrrd", "a.npy"])
def test_the_grid_needs_no_voxels(name: str, tmp_path: Path):
    file = write(tmp_path / name)
    grid = read_grid(file)
    content = file.read_bytes()
    file.write_bytes(content[:-50])
    assert read_grid(file) == grid
    assert "cannot be read" in complaint(file)


def test_a_header_without_its_voxel_file_has_a_grid_but_no_image(tmp_path: Path):
    file = write(tmp_path / "a.mhd")
    (tmp_path / "a.raw").unlink()
    assert read_grid(file).shape == (7, 6, 5)
    assert "cannot be read" in complaint(file)


def test_the_grid_of_compressed_images_needs_no_voxels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    np.savez_compressed(tmp_path / "a.npz", image=VALUES)
    write(tmp_path / "a.h5")
    monkeypatch.setattr(np, "load", None)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
    assert read_grid(tmp_path / "a.npz").shape == (7, 6, 5)
    assert read_grid(tmp_path / "a.h5").shape == (7, 6, 5)


@pytest.mark.parametrize("name", ["a.mha", "a.nrrd"])
def test_corrupt_compressed_voxels_are_an_error(name: str, tmp_path: Path):
    """ITK itself only prints "Uncompress failed" and returns whatever was in memory."""
    file = tmp_path / name
    image = SimpleITK.GetImageFromArray(VALUES.T)
    SimpleITK.WriteImage(image, file, useCompression=True)
    content = bytearray(file.read_bytes())
    content[-60:-30] = b"abc" * 10
    file.write_bytes(content)
    assert "cannot be read" in complaint(file)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, about broken TIFF files
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_broken_files_get_a_sentence(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    file = write(tmp_path / name)
    content = file.read_bytes()
    truncated = [content[: len(content) // 4], content[:20], content[:129]]
    for broken in (b"hello", b"\0" * 2000, *truncated):
        file.write_bytes(broken)
        message = complaint(file)
        assert message.startswith("cannot be read (")
        assert message.endswith("): copy or export the file again.")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_grid_of_a_broken_file_gets_a_sentence(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    file = tmp_path / name
    file.write_bytes(b"hello")
    assert complaint(file, read_grid).startswith("cannot be read (")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_empty_file_is_named_as_such(name: str, tmp_path: Path):
    file = tmp_path / name
    file.touch()
    assert complaint(file) == "cannot be read (it is empty): copy or export the file again."


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_missing_file_is_named_as_such(name: str, tmp_path: Path):
    message = "does not exist: correct the path or put the file there."
    assert complaint(tmp_path / name) == message


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_noise_in_a_file_is_a_sentence_or_an_image(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    random = np.random.default_rng(10)
    for name in ONE_OF_EACH:
        file = write(tmp_path / name)
        content = file.read_bytes()
        for _ in range(15):
            noisy = bytearray(content)
            for position in random.integers(0, min(len(content), 400), 4):
                noisy[position] = random.integers(256)
            file.write_bytes(noisy)
            with suppress(UserError):
                read_image(file)
    assert capfd.readouterr().err == ""


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path: Path):
    file = tmp_path / "a.docx"
    file.write_text("words")
    message = f"has a format that segpl cannot read: use one of {', '.join(ENDINGS)}."
    assert complaint(file) == message


@pytest.mark.parametrize(
    "dtype",
    [np.complex64, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])],
    ids=["complex", "RGB"],
)
def test_values_must_be_plain_numbers(dtype: np.dtype, tmp_path: Path):
    values = np.zeros((7, 6, 5), dtype)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "a.nii.gz")
    np.save(tmp_path / "a.npy", values)
    for name in ("a.nii.gz", "a.npy"):
        message = "has values that are not plain numbers: export it as grey values."
        assert complaint(tmp_path / name) == message


def test_five_dimensions_are_too_many(tmp_path: Path):
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 4, 2, 2)), np.eye(4)), tmp_path / "a.nii")
    components = SimpleITK.GetImageFromArray(np.zeros((2, 4, 4, 4, 2)), isVector=True)
    SimpleITK.WriteImage(components, tmp_path / "a.mha")
    for name in ("a.nii", "a.mha"):
        message = "has 5 dimensions: save each channel as its own 3D file."
        assert complaint(tmp_path / name) == message


def test_one_dimension_is_too_few(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros(4))
    message = "has an array of shape (4,): save it as [X, Y], [X, Y, Z] or [C, X, Y, Z]."
    assert complaint(tmp_path / "a.npy") == message


def test_an_image_without_voxels_is_an_error(tmp_path: Path):
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 0, 4), np.uint8), np.eye(4)), tmp_path / "a.nii")
    np.save(tmp_path / "a.npy", np.zeros((4, 0)))
    write_hdf5(tmp_path / "a.h5", image=np.zeros((0, 4)))
    for name in ("a.nii", "a.npy", "a.h5"):
        for reader in (read_image, read_grid):
            assert complaint(tmp_path / name, reader) == "holds no voxels: export the file again."


def test_a_spacing_of_zero_is_an_error(tmp_path: Path):
    image = nibabel.Nifti1Image(VALUES, np.eye(4))
    image.set_sform(np.diag([1.0, 0.0, 2.0, 1.0]), code=1)
    nibabel.save(image, tmp_path / "a.nii")
    message = "has a spacing of 1 x 0 x 2 mm: correct its header or export the file again."
    assert complaint(tmp_path / "a.nii") == message


def test_a_missing_array_is_answered_with_the_available_ones(tmp_path: Path):
    np.savez(tmp_path / "a.npz", ct=VALUES, mask=VALUES > 0)
    message = 'has no array "image", only ct, mask: save the array as "image".'
    assert complaint(tmp_path / "a.npz") == message
    message = 'has no array "label", only ct, mask: save the array as "label".'
    assert complaint(tmp_path / "a.npz#label") == message


def test_a_missing_dataset_is_answered_with_the_available_ones(tmp_path: Path):
    write_hdf5(tmp_path / "a.h5", ct=VALUES)
    message = 'has no dataset "image", only ct: save the array as "image".'
    assert complaint(tmp_path / "a.h5") == message
    message = 'has no dataset "label", only ct: save the array as "label".'
    assert complaint(tmp_path / "a.h5#label") == message


def test_a_dataset_in_a_missing_file_is_a_missing_file(tmp_path: Path):
    message = "does not exist: correct the path or put the file there."
    assert complaint(tmp_path / "b.h5#label") == message


def test_an_hdf5_spacing_must_be_three_numbers(tmp_path: Path):
    file = write_hdf5(tmp_path / "a.h5", image=VALUES, spacing=[1.0, 2.0])
    message = (
        'has the attribute "spacing" [1. 2.]: '
        "set it to three numbers above 0, the millimetres along X, Y and Z."
    )
    assert complaint(file) == message


def test_a_folder_must_not_hold_two_dicom_series(scan: SimpleITK.Image, tmp_path: Path):
    write_slices(tmp_path / "two", scan)
    write_slices(tmp_path / "two", scan, series="1.2.3.5")
    message = "holds 2 DICOM series: keep one series in each folder."
    assert complaint(tmp_path / "two") == message


def test_a_folder_without_dicom_files_is_not_an_image(tmp_path: Path):
    (tmp_path / "none").mkdir()
    message = "holds no DICOM image: give an image file, or a folder with one DICOM series."
    assert complaint(tmp_path / "none") == message


def test_a_missing_dicom_slice_is_an_error(scan: SimpleITK.Image, tmp_path: Path):
    files = write_slices(tmp_path / "series", scan)
    files[2].unlink()
    with pytest.raises(UserError) as caught:
        read_grid(tmp_path / "series")
    assert str(caught.value) == (
        f"{files[3]} is at another distance from the slice before it than the other slices: "
        "export the series again, without missing or duplicate slices."
    )


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_colours_of_16_bits_are_refused(ending: str, tmp_path: Path):
    colours = SimpleITK.GetImageFromArray(COLOURS.astype(np.uint16), isVector=True)
    SimpleITK.WriteImage(colours, tmp_path / f"a{ending}")
    message = "has 16 bits per colour: save it as NRRD, or each channel as a grey picture."
    assert complaint(tmp_path / f"a{ending}") == message


def test_pages_must_have_the_same_size(tmp_path: Path):
    file = tmp_path / "a.tif"
    first = Pictures.new("L", (4, 5))
    second = Pictures.new("L", (3, 3))
    first.save(file, save_all=True, append_images=[second])
    assert "cannot be read" in complaint(file)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_marks_an_image_and_is_not_part_of_its_stem(ending: str):
    file = Path(f"a{ending}")
    assert is_image(file)
    assert stem(file) == "a"


def test_the_stem_is_the_name_without_the_ending_of_an_image():
    assert stem(Path("x/a.b.mha")) == "a.b"
    assert stem(Path("A.NII.GZ")) == "A"
    assert stem(Path("a.h5#label")) == "a"
    assert stem(Path("a#1.nii.gz")) == "a#1"
    assert stem(Path("series.1")) == "series.1"


def test_an_array_in_a_file_is_an_image():
    assert is_image(Path("a.h5#label"))


@pytest.mark.parametrize("name", ["a.txt", "a.raw", "nii", "a.gz", "._a.nii.gz"])
def test_other_files_are_not_images(name: str):
    assert not is_image(Path(name))


def test_a_folder_is_an_image_if_it_holds_dicom_files(tmp_path: Path):
    assert not is_image(tmp_path)
    write(tmp_path / "a.dcm")
    assert is_image(tmp_path)
