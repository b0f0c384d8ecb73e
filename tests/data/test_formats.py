from collections.abc import Callable
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

VALUES = np.random.default_rng(3).integers(-900, 900, (7, 6, 5)).astype(np.int16) * 2  # [X, Y, Z]
COLOURS = (
    np.random.default_rng(4).integers(0, 255, (6, 7, 3)).astype(np.uint8)
)  # [row, column, channel]
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


def turned(degrees: float) -> np.ndarray:
    """A proper rotation about an oblique axis."""
    axis = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    cross = np.cross(np.eye(3), axis)
    angle = np.deg2rad(degrees)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


DIRECTIONS = {
    "plain": np.eye(3),
    "negative": np.diag([-1.0, 1.0, -1.0]),
    "oblique": turned(35),
    "upside down": turned(160),
}


@pytest.fixture(params=DIRECTIONS.values(), ids=DIRECTIONS)
def scan(request: pytest.FixtureRequest) -> SimpleITK.Image:
    image = SimpleITK.GetImageFromArray(VALUES.T)
    image.SetSpacing(SPACING)
    image.SetOrigin((-12.5, 30.0, 104.25))
    image.SetDirection(request.param.ravel().tolist())
    return image


def ras(image: SimpleITK.Image) -> np.ndarray:
    """The affine from the physical points of four voxels, in which ITK itself has the say."""
    origin = np.array(image.TransformIndexToPhysicalPoint((0, 0, 0)))
    steps = [
        np.array(image.TransformIndexToPhysicalPoint(index)) - origin
        for index in np.eye(3, dtype=int).tolist()
    ]
    return np.diag([-1, -1, 1, 1]) @ np.vstack([np.column_stack([*steps, origin]), [0, 0, 0, 1]])


def write_slices(
    folder: Path, image: SimpleITK.Image, series: str = "1.2.3.4", intercept: int = -1000
) -> list[Path]:
    """A DICOM series whose file names say nothing about the order."""
    folder.mkdir(exist_ok=True)
    writer = SimpleITK.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    direction = np.reshape(image.GetDirection(), (3, 3))
    files = [
        folder / f"{series}_{name}.dcm"
        for name in np.random.default_rng(5).permutation(image.GetDepth())
    ]
    for z, file in enumerate(files):
        tags = {
            "0008|0060": "CT",
            "0020|000d": "1.2.3",
            "0020|000e": series,
            "0020|0032": "\\".join(
                f"{v:.9g}" for v in image.TransformIndexToPhysicalPoint((0, 0, z))
            ),
            "0020|0037": "\\".join(f"{v:.9g}" for v in (*direction[:, 0], *direction[:, 1])),
            "0028|1052": str(intercept),
            "0028|1053": "2",
        }
        section = image[:, :, z]
        for tag, value in tags.items():
            section.SetMetaData(tag, value)
        writer.SetFileName(str(file))
        writer.Execute(section)
    return files


def write(file: Path) -> Path:
    """Some image, in whatever format the ending asks for."""
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


def same(
    file: Path, values: np.ndarray, affine: np.ndarray | None = None, atol: float = 1e-4
) -> None:
    """The file holds `values` [C, X, Y, Z] of exactly this type, and its grid is the image's."""
    image, grid = read_image(file), read_grid(file)
    assert image.file == file
    assert image.values.dtype == values.dtype
    np.testing.assert_array_equal(image.values, values)
    np.testing.assert_allclose(image.affine, np.eye(4) if affine is None else affine, atol=atol)
    assert (grid.channels, *grid.shape) == image.values.shape
    np.testing.assert_allclose(grid.spacing, nibabel.affines.voxel_sizes(image.affine))


def sentence(file: Path, reader: Callable = read_image) -> str:
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
    same(file.rename(tmp_path / f"a{ending}"), VALUES[None], ras(scan))


def test_a_dicom_series_is_the_same_scan(scan: SimpleITK.Image, tmp_path: Path):
    write_slices(tmp_path / "series", scan)
    (tmp_path / "series" / "readme.txt").write_text("not an image")
    same(tmp_path / "series", VALUES[None].astype(np.int32), ras(scan))


def test_dicom_slices_need_no_ending(scan: SimpleITK.Image, tmp_path: Path):
    for file in write_slices(tmp_path / "series", scan):
        file.rename(file.with_suffix(""))
    assert is_image(tmp_path / "series")
    same(tmp_path / "series", VALUES[None].astype(np.int32), ras(scan))


def test_one_dicom_slice_is_an_image(scan: SimpleITK.Image, tmp_path: Path):
    file = write_slices(tmp_path / "series", scan[:, :, :1])[0]
    for each in (file, file.parent):
        values = read_image(each).values
        np.testing.assert_array_equal(values, VALUES[None, :, :, :1])
        assert read_grid(each).shape == values.shape[1:]
        np.testing.assert_allclose(read_image(each).affine[:, 3], ras(scan)[:, 3], atol=1e-4)


@pytest.mark.parametrize("ending", [".nii.gz", ".mha", ".nrrd"])
def test_components_and_a_fourth_axis_are_channels(ending: str, tmp_path: Path):
    values = np.random.default_rng(6).random((3, 7, 6, 5)).astype(np.float32)
    components = SimpleITK.GetImageFromArray(values.transpose(3, 2, 1, 0), isVector=True)
    stack = SimpleITK.GetImageFromArray(values.transpose(0, 3, 2, 1), isVector=False)
    for name, image in [("components", components), ("stack", stack)]:
        file = tmp_path / f"{name}{ending}"
        SimpleITK.WriteImage(image, file)
        same(file, values, np.diag([-1.0, -1.0, 1.0, 1.0]))


@pytest.mark.parametrize("ending", [".nii.gz", ".mha", ".nrrd"])
def test_a_flat_image_has_one_slice(ending: str, tmp_path: Path):
    image = SimpleITK.GetImageFromArray(VALUES[:, :, 0].T)
    image.SetSpacing(SPACING[:2])
    SimpleITK.WriteImage(image, tmp_path / f"a{ending}")
    same(tmp_path / f"a{ending}", VALUES[None, :, :, :1], np.diag([-0.5, -0.75, 1.0, 1.0]))


@pytest.mark.parametrize(
    "shape",
    [(7, 6), (7, 6, 5), (7, 6, 5, 1), (7, 6, 5, 1, 1), (7, 6, 5, 3), (7, 6, 1, 3), (7, 1, 5, 1, 3)],
)
def test_nifti_axes(shape: tuple[int, ...], tmp_path: Path):
    values = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([2.0, 3.0, 4.0, 1.0])), tmp_path / "a.nii")
    expected = values.reshape(*(*shape, 1, 1)[:3], -1)
    same(tmp_path / "a.nii", np.moveaxis(expected, -1, 0), np.diag([2.0, 3.0, 4.0, 1.0]))


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
        same(tmp_path / name, VALUES[None])
        assert read_image(tmp_path / name).values.dtype.isnative


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int64, np.float16, np.float64])
@pytest.mark.parametrize(
    ("shape", "full"),
    [((7, 6), (1, 7, 6, 1)), ((7, 6, 5), (1, 7, 6, 5)), ((2, 7, 6, 5), (2, 7, 6, 5))],
)
def test_bare_arrays(dtype: type, shape: tuple[int, ...], full: tuple[int, ...], tmp_path: Path):
    values = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(values))
    np.savez_compressed(tmp_path / "a.npz", image=values)
    write_hdf5(tmp_path / "a.h5", image=values)
    for name in ("a.npy", "fortran.npy", "a.npz", "a.h5", "a.h5#image", "a.npz#image"):
        same(tmp_path / name, values.reshape(full))


def test_npz_takes_image_before_label_before_the_only_one(tmp_path: Path):
    np.savez(tmp_path / "both.npz", other=VALUES, label=VALUES > 0, image=VALUES)
    np.savez(tmp_path / "label.npz", other=VALUES, label=VALUES > 0)
    np.savez(tmp_path / "only.npz", VALUES)
    same(tmp_path / "both.npz", VALUES[None])
    same(tmp_path / "label.npz", VALUES[None] > 0)
    same(tmp_path / "only.npz", VALUES[None])
    same(tmp_path / "both.npz#label", VALUES[None] > 0)


def test_hdf5_names_and_spacing(tmp_path: Path):
    file = write_hdf5(tmp_path / "a#1.h5", spacing=SPACING, image=VALUES, label=VALUES > 0)
    same(file, VALUES[None], np.diag([*SPACING, 1.0]))
    same(tmp_path / "a#1.h5#label", VALUES[None] > 0)
    with h5py.File(file, "a") as content:
        content.attrs["spacing"] = [1, 2, 3]
    same(tmp_path / "a#1.h5#label", VALUES[None] > 0, np.diag([1.0, 2.0, 3.0, 1.0]))


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
    same(tmp_path / f"a{ending}", COLOURS.transpose(2, 1, 0)[..., None])


def test_jpeg(tmp_path: Path):
    Pictures.new("RGB", (8, 5), (10, 20, 30)).save(tmp_path / "a.JPG")
    assert read_grid(tmp_path / "a.JPG") == ((8, 5, 1), (1.0, 1.0, 1.0), 3, None)
    assert read_image(tmp_path / "a.JPG").values.shape == (3, 8, 5, 1)


def test_transparency_is_dropped(tmp_path: Path):
    alpha = np.full((6, 7, 1), 17, np.uint8)
    Pictures.fromarray(np.concatenate([COLOURS, alpha], axis=-1)).save(tmp_path / "a.png")
    same(tmp_path / "a.png", COLOURS.transpose(2, 1, 0)[..., None])
    Pictures.fromarray(np.concatenate([COLOURS[..., :1], alpha], axis=-1), "LA").save(
        tmp_path / "grey.png"
    )
    same(tmp_path / "grey.png", COLOURS[..., 0].T[None, ..., None])


@pytest.mark.parametrize("ending", [".png", ".tif", ".gif"])
def test_one_bit_is_black_and_white(ending: str, tmp_path: Path):
    mask = COLOURS[..., 0] > 99
    Pictures.fromarray(mask).save(tmp_path / f"a{ending}")
    same(tmp_path / f"a{ending}", (255 * mask.T[None, ..., None]).astype(np.uint8))


def test_a_palette_is_read_as_displayed(tmp_path: Path):
    mask = (COLOURS[..., 0] > 99).astype(np.uint8)
    palette = [
        255,
        255,
        255,
        0,
        0,
        0,
        200,
        10,
        10,
        4,
        2,
        4,
    ]  # 0 is shown white, 1 black, 2 red, 3 as good as black
    for name, indices in [("grey", mask), ("red", 2 * mask), ("DRIVE", 3 * mask)]:
        picture = Pictures.fromarray(indices, "P")
        picture.putpalette(palette)
        picture.save(tmp_path / f"{name}.gif", optimize=False)
    same(tmp_path / "grey.gif", (255 * (1 - mask.T[None, ..., None])).astype(np.uint8))
    same(tmp_path / "DRIVE.gif", np.where(mask.T, 3, 255)[None, ..., None].astype(np.uint8))
    assert read_grid(tmp_path / "red.gif").channels == 3


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_sixteen_bits_are_kept(ending: str, tmp_path: Path):
    values = np.random.default_rng(8).integers(0, 65535, (6, 7)).astype(np.uint16)
    Pictures.fromarray(values).save(tmp_path / f"a{ending}")
    same(tmp_path / f"a{ending}", values.T[None, ..., None])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_pages_of_a_tiff_are_slices(dtype: type, tmp_path: Path):
    pages = np.random.default_rng(9).integers(0, 99, (4, 6, 7)).astype(dtype)
    first, *others = [Pictures.fromarray(page) for page in pages]
    first.save(tmp_path / "a.tiff", save_all=True, append_images=others)
    same(tmp_path / "a.tiff", pages.T[None])


@pytest.mark.parametrize("name", ["a.nii", "a.mha", "a.nrrd", "a.npy"])
def test_the_grid_needs_no_voxels(name: str, tmp_path: Path):
    file = write(tmp_path / name)
    grid = read_grid(file)
    content = file.read_bytes()
    file.write_bytes(content[:-50])
    assert read_grid(file) == grid
    assert "cannot be read" in sentence(file)


def test_missing_voxels_of_a_header_file(tmp_path: Path):
    file = write(tmp_path / "a.mhd")
    (tmp_path / "a.raw").unlink()
    assert read_grid(file).shape == (7, 6, 5)
    assert "cannot be read" in sentence(file)


def test_the_grid_of_compressed_images_needs_no_voxels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    np.savez_compressed(tmp_path / "a.npz", image=VALUES)
    write(tmp_path / "a.h5")
    monkeypatch.setattr(np, "load", None)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
    assert read_grid(tmp_path / "a.npz").shape == read_grid(tmp_path / "a.h5").shape == (7, 6, 5)


def test_broken_compressed_voxels_are_an_error(tmp_path: Path):
    """ITK itself only prints "Uncompress failed" and hands out whatever was in memory."""
    for name in ("a.mha", "a.nrrd"):
        SimpleITK.WriteImage(
            SimpleITK.GetImageFromArray(VALUES.T), tmp_path / name, useCompression=True
        )
        content = bytearray((tmp_path / name).read_bytes())
        content[-60:-30] = b"abc" * 10
        (tmp_path / name).write_bytes(content)
        assert "cannot be read" in sentence(tmp_path / name)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, about broken TIFF files
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_files_that_cannot_be_read(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    file = write(tmp_path / name)
    content = file.read_bytes()
    for broken in (
        b"hello",
        b"\0" * 2000,
        content[: len(content) // 4],
        content[:20],
        content[:129],
    ):
        file.write_bytes(broken)
        for reader in (read_image, read_grid) if broken == b"hello" else (read_image,):
            message = sentence(file, reader)
            assert message.startswith("cannot be read (")
            assert message.endswith("): copy or export the file again.")
    file.write_bytes(b"")
    assert sentence(file) == "cannot be read (it is empty): copy or export the file again."
    file.unlink()
    assert sentence(file) == "does not exist: correct the path or put the file there."
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_noise_in_a_file_is_a_sentence_or_an_image(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    draw = np.random.default_rng(10)
    for name in ONE_OF_EACH:
        content = write(tmp_path / name).read_bytes()
        for _ in range(15):
            noisy = bytearray(content)
            for place in draw.integers(0, min(len(content), 400), 4):
                noisy[place] = draw.integers(256)
            (tmp_path / name).write_bytes(noisy)
            with suppress(UserError):
                read_image(tmp_path / name)
    assert capfd.readouterr().err == ""


def test_unknown_endings(tmp_path: Path):
    (tmp_path / "a.docx").write_text("words")
    assert (
        sentence(tmp_path / "a.docx")
        == f"is of no format that segpl reads: use one of {', '.join(ENDINGS)}."
    )


@pytest.mark.parametrize(
    "dtype",
    [np.complex64, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])],
    ids=["complex", "RGB"],
)
def test_values_that_are_no_plain_numbers(dtype: np.dtype, tmp_path: Path):
    values = np.zeros((7, 6, 5), dtype)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "a.nii.gz")
    np.save(tmp_path / "a.npy", values)
    for name in ("a.nii.gz", "a.npy"):
        assert sentence(tmp_path / name) == "holds no plain numbers: export it as grey values."


def test_too_many_or_too_few_dimensions(tmp_path: Path):
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 4, 2, 2)), np.eye(4)), tmp_path / "a.nii")
    SimpleITK.WriteImage(
        SimpleITK.GetImageFromArray(np.zeros((2, 4, 4, 4, 2)), isVector=True), tmp_path / "a.mha"
    )
    for name in ("a.nii", "a.mha"):
        assert (
            sentence(tmp_path / name)
            == "has 5 dimensions: give each channel as a 3D file of its own."
        )
    np.save(tmp_path / "a.npy", np.zeros(4))
    message = "has an array of shape (4,): save it as [X, Y], [X, Y, Z] or [C, X, Y, Z]."
    assert sentence(tmp_path / "a.npy") == message


def test_no_voxels(tmp_path: Path):
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 0, 4), np.uint8), np.eye(4)), tmp_path / "a.nii")
    np.save(tmp_path / "a.npy", np.zeros((4, 0)))
    write_hdf5(tmp_path / "a.h5", image=np.zeros((0, 4)))
    for name in ("a.nii", "a.npy", "a.h5"):
        for reader in (read_image, read_grid):
            assert sentence(tmp_path / name, reader) == "holds no voxels: export the file again."


def test_no_spacing(tmp_path: Path):
    image = nibabel.Nifti1Image(VALUES, np.eye(4))
    image.set_sform(np.diag([1.0, 0.0, 2.0, 1.0]), code=1)
    nibabel.save(image, tmp_path / "a.nii")
    message = "has a spacing of 1 x 0 x 2 mm: correct its header or export the file again."
    assert sentence(tmp_path / "a.nii") == message


def test_arrays_that_are_not_there(tmp_path: Path):
    np.savez(tmp_path / "a.npz", ct=VALUES, mask=VALUES > 0)
    write_hdf5(tmp_path / "a.h5", ct=VALUES)
    write_hdf5(tmp_path / "spacing.h5", image=VALUES, spacing=[1.0, 2.0])
    assert (
        sentence(tmp_path / "a.npz")
        == 'holds no array "image" but ct, mask: save it under that name.'
    )
    assert (
        sentence(tmp_path / "a.npz#label")
        == 'holds no array "label" but ct, mask: save it under that name.'
    )
    assert (
        sentence(tmp_path / "a.h5") == 'holds no data set "image" but ct: save it under that name.'
    )
    assert (
        sentence(tmp_path / "a.h5#label")
        == 'holds no data set "label" but ct: save it under that name.'
    )
    assert (
        sentence(tmp_path / "b.h5#label")
        == "does not exist: correct the path or put the file there."
    )
    message = 'has the "spacing" [1. 2.]: give three numbers, the millimetres along X, Y and Z.'
    assert sentence(tmp_path / "spacing.h5") == message


def test_dicom_folders_that_are_no_one_series(scan: SimpleITK.Image, tmp_path: Path):
    files = write_slices(tmp_path / "two", scan)
    write_slices(tmp_path / "two", scan, series="1.2.3.5")
    assert sentence(tmp_path / "two") == "holds 2 DICOM series: keep one series in each folder."
    (tmp_path / "none").mkdir()
    message = "holds no DICOM image: give an image file, or a folder with one DICOM series."
    assert sentence(tmp_path / "none") == message
    for file in (tmp_path / "two").glob("1.2.3.5*"):
        file.unlink()
    files[2].unlink()
    message = "has slices at uneven distances: export the series again, whole and without doubles."
    assert sentence(tmp_path / "two", read_grid) == message


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_colours_that_pillow_would_round(ending: str, tmp_path: Path):
    colours = SimpleITK.GetImageFromArray(COLOURS.astype(np.uint16), isVector=True)
    SimpleITK.WriteImage(colours, tmp_path / f"a{ending}")
    message = "has 16 bits per colour: save it as NRRD, or each channel as a grey picture."
    assert sentence(tmp_path / f"a{ending}") == message


def test_pages_of_different_size(tmp_path: Path):
    Pictures.new("L", (4, 5)).save(
        tmp_path / "a.tif", save_all=True, append_images=[Pictures.new("L", (3, 3))]
    )
    assert "cannot be read" in sentence(tmp_path / "a.tif")


def test_names(tmp_path: Path):
    assert all(
        is_image(tmp_path / f"a{ending}") and stem(Path(f"a{ending}")) == "a" for ending in ENDINGS
    )
    assert stem(Path("x/a.b.mha")) == "a.b"
    assert stem(Path("A.NII.GZ")) == "A"
    assert stem(Path("a.h5#label")) == "a"
    assert stem(Path("a#1.nii.gz")) == "a#1"
    assert stem(Path("series.1")) == "series.1"
    assert is_image(Path("a.h5#label"))
    assert not any(is_image(Path(name)) for name in ("a.txt", "a.raw", "nii", "a.gz", "._a.nii.gz"))
    assert not is_image(tmp_path)
    write(tmp_path / "a.dcm")
    assert is_image(tmp_path)
