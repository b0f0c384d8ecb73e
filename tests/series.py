"""Writes a DICOM series as scanners do."""

import numpy as np
import SimpleITK


def write_series(folder, image):
    """Write a SimpleITK image as a DICOM series whose first file is the last slice."""
    folder.mkdir()
    direction = np.reshape(image.GetDirection(), (3, 3))
    row_and_column = (*direction[:, 0], *direction[:, 1])
    writer = SimpleITK.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    for z in range(image.GetDepth()):
        position = image.TransformIndexToPhysicalPoint((0, 0, z))
        tags = {
            "0008|0060": "MR",
            "0008|0018": f"1.2.3.4.{z + 1}",
            "0020|000d": "1.2.3",
            "0020|0052": "1.2.3.5",
            "0020|000e": "1.2.3.4",
            "0020|0032": dicom_numbers(position),
            "0020|0037": dicom_numbers(row_and_column),
        }
        plane = image[:, :, z]
        for tag, value in tags.items():
            plane.SetMetaData(tag, value)
        writer.SetFileName(str(folder / f"{image.GetDepth() - z:03}.dcm"))
        writer.Execute(plane)
    return folder


def dicom_numbers(values):
    return "\\".join(f"{value:.9g}" for value in values)
