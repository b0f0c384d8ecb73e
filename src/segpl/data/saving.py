"""Write masks and maps in the geometry of their scan. A file is never seen half written."""

from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
from jaxtyping import Shaped, UInt

from segpl.data.frames import Frame
from segpl.data.itk import to_itk
from segpl.foundation.files import draft

Mask = UInt[np.ndarray, "X Y Z"]
Save = Callable[[Path, Mask, Frame], None]
MaskFormat = tuple[str, Save]
"""The ending of a mask's file and the function that writes it."""

_FIELDS_OF_THE_SCAN = (
    "descrip",
    "aux_file",
    "intent_name",
    "intent_code",
    "cal_min",
    "cal_max",
)
"""Fields of a NIfTI header that describe the scan and are wrong for a mask."""


def save_nifti(
    file: Path, values: Shaped[np.ndarray, "X Y Z *others"], frame: Frame, step: float = 1.0
) -> None:
    """Write NIfTI, with the header of the scan if that was NIfTI.

    `step` is the scale factor in the header: readers multiply the stored values by it.
    """
    header = _new_header(frame) if frame.header is None else frame.header.copy()
    scan_is_2d = len(header.get_data_shape()) == 2
    if scan_is_2d and values.ndim == 3:
        values = values[..., 0]
    header.extensions.clear()  # they belong to the scan
    header.set_data_offset(0)
    header.set_data_dtype(values.dtype)
    for field in _FIELDS_OF_THE_SCAN:
        header[field] = np.zeros_like(header[field])
    is_nifti2 = isinstance(header, nibabel.Nifti2Header)
    image_type = nibabel.Nifti2Image if is_nifti2 else nibabel.Nifti1Image
    image = image_type(values, frame.affine, header)
    image.header.set_slope_inter(step, 0)
    with draft(file) as temporary:
        nibabel.save(image, temporary)


def _new_header(frame: Frame) -> nibabel.Nifti1Header:
    """A header for a scan that was not NIfTI, with the affine as scanner coordinates in mm."""
    header = nibabel.Nifti1Header()
    header.set_xyzt_units("mm")
    header.set_sform(frame.affine, "scanner")
    header.set_qform(frame.affine, "scanner")
    # The qform is a rotation, so it cannot express a sheared affine.
    if not np.allclose(header.get_qform(), frame.affine, atol=1e-4):
        header.set_qform(None)
    return header


def save_itk(file: Path, mask: Mask, frame: Frame) -> None:
    """Write MHA or NRRD, compressed."""
    import SimpleITK

    with draft(file) as temporary:
        try:
            image = to_itk(mask, frame.affine)  # fails for a sheared affine
            SimpleITK.WriteImage(image, str(temporary), useCompression=True)
        except RuntimeError as error:
            raise OSError("ITK failed") from error


def save_npy(file: Path, mask: Mask, frame: Frame) -> None:
    """Write the array without its geometry."""
    with draft(file) as temporary:
        np.save(temporary, mask)


def save_picture(file: Path, mask: Mask, frame: Frame) -> None:
    """Write PNG: X is the column, Y the row."""
    from PIL import Image

    with draft(file) as temporary:
        picture = Image.fromarray(mask[..., 0].T)
        picture.save(temporary)


NIFTI: MaskFormat = (".nii.gz", save_nifti)
_MHA: MaskFormat = (".mha", save_itk)
_NRRD: MaskFormat = (".nrrd", save_itk)
_NPY: MaskFormat = (".npy", save_npy)
_PNG: MaskFormat = (".png", save_picture)
_SAME_FORMAT = {
    ".mha": _MHA,
    ".mhd": _MHA,
    ".nrrd": _NRRD,
    ".nhdr": _NRRD,
    ".npy": _NPY,
    ".png": _PNG,
    ".tif": _PNG,
    ".tiff": _PNG,
    ".gif": _PNG,
    ".jpg": _PNG,
    ".jpeg": _PNG,
    ".bmp": _PNG,
}
"""How to write a mask in the format of its scan, by the ending of the scan."""


def same_format(scan: Path, slices: int) -> MaskFormat:
    """The format for the mask of a scan, which is the scan's own where possible.

    NIfTI if that format cannot be written, and for pictures with several slices.
    """
    mask_format = _SAME_FORMAT.get(scan.suffix.lower(), NIFTI)
    if mask_format == _PNG and slices > 1:
        return NIFTI
    return mask_format
