"""Masks and maps as files in the geometry of their scan, never seen half written."""

from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
from jaxtyping import Shaped, UInt

from segpl.data.frames import Frame
from segpl.data.itk import to_itk
from segpl.foundation.files import draft

Save = Callable[[Path, UInt[np.ndarray, "X Y Z"], Frame], None]


def save_nifti(
    file: Path, values: Shaped[np.ndarray, "X Y Z *others"], frame: Frame, step: float = 1.0
) -> None:
    """NIfTI, in the very geometry of a scan that was NIfTI itself; the numbers count in units of `step`."""
    header = nibabel.Nifti1Header() if frame.header is None else frame.header.copy()
    if values.ndim == 3 and len(header.get_data_shape()) == 2:
        values = values[..., 0]
    header.extensions.clear()  # they belong to the scan
    header.set_data_offset(0)
    header.set_data_dtype(values.dtype)
    if frame.header is None:
        header.set_xyzt_units("mm")
        header.set_sform(frame.affine, "scanner")
        header.set_qform(frame.affine, "scanner")
        if not np.allclose(
            header.get_qform(), frame.affine, atol=1e-4
        ):  # sheared, which a quaternion cannot say
            header.set_qform(None)
    for field in ("descrip", "aux_file", "intent_name", "intent_code", "cal_min", "cal_max"):
        header[field] = np.zeros_like(header[field])
    kind = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = kind(values, frame.affine, header)
    image.header.set_slope_inter(step, 0)
    with draft(file) as place:
        nibabel.save(image, place)


def save_itk(file: Path, mask: UInt[np.ndarray, "X Y Z"], frame: Frame) -> None:
    """MHA or NRRD, compressed."""
    import SimpleITK

    with draft(file) as place:
        try:
            SimpleITK.WriteImage(to_itk(mask, frame.affine), str(place), useCompression=True)
        except RuntimeError as error:
            raise OSError("ITK failed") from error


def save_npy(file: Path, mask: UInt[np.ndarray, "X Y Z"], frame: Frame) -> None:
    """A bare array."""
    with draft(file) as place:
        np.save(place, mask)


def save_picture(file: Path, mask: UInt[np.ndarray, "X Y Z"], frame: Frame) -> None:
    """PNG: X is the column, Y the row."""
    from PIL import Image

    with draft(file) as place:
        Image.fromarray(mask[..., 0].T).save(place)


SAME: dict[tuple[str, ...], tuple[str, Save]] = {
    (".mha", ".mhd"): (".mha", save_itk),
    (".nrrd", ".nhdr"): (".nrrd", save_itk),
    (".npy",): (".npy", save_npy),
    (".png", ".tif", ".tiff", ".gif", ".jpg", ".jpeg", ".bmp"): (".png", save_picture),
}
"""How masks are written in the format of their scan; scans of other formats, and stacks of pictures, become NIfTI."""
NIFTI: tuple[str, Save] = ".nii.gz", save_nifti


def same_format(scan: Path, slices: int) -> tuple[str, Save]:
    """The ending and the writer for the mask of a scan."""
    for endings, (ending, save) in SAME.items():
        if scan.name.lower().endswith(endings) and (save is not save_picture or slices == 1):
            return ending, save
    return NIFTI
