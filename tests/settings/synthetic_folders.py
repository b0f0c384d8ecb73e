"""Small data folders whose plan can be worked out by hand."""

import json

import numpy as np

from segpl.data.layouts import read_dataset
from segpl.data.splits import TrainingCases
from segpl.foundation.files import write_nifti, write_text


def write_noise(folder, shapes, spacings, channel="MR", mean=0.0):
    """A data set of noise, whose brightest voxels are labelled: specks everywhere."""
    for number, (shape, spacing) in enumerate(zip(shapes, spacings, strict=True)):
        rng = np.random.default_rng(number)
        image = rng.normal(mean, 100, shape).astype(np.float32)
        write_case(folder, number, image, image > mean + 150, spacing)
    write_description(folder, [channel], {"background": 0, "thing": 1})
    return read_dataset(folder)


def write_balls(folder, shape, spacing, diameter, count=3):
    """A data set with a ball of `diameter` mm in the middle, the same in every case."""
    ball = distance_from_centre(shape, spacing) <= diameter / 2
    for number in range(count):
        write_case(folder, number, ball.astype(np.float32), ball, spacing)
    write_description(folder, ["MR"], {"background": 0, "thing": 1})
    return read_dataset(folder)


def write_case(folder, number, image, label, spacing):
    affine = np.diag([*spacing, 1.0])
    write_nifti(folder / f"imagesTr/c{number}_0000.nii.gz", image, affine)
    write_nifti(folder / f"labelsTr/c{number}.nii.gz", label.astype(np.uint8), affine)


def distance_from_centre(shape, spacing):
    """In mm, for every voxel."""
    squares = []
    for size, step in zip(shape, spacing, strict=True):
        positions = (np.arange(size) - (size - 1) / 2) * step
        squares.append(positions**2)
    x, y, z = np.meshgrid(*squares, indexing="ij", sparse=True)
    return np.sqrt(x + y + z)


def write_description(folder, channels, labels):
    names = {str(number): name for number, name in enumerate(channels)}
    description = {"channel_names": names, "labels": labels, "file_ending": ".nii.gz"}
    write_text(folder / "dataset.json", json.dumps(description))


def visible(labelled, validation=()):
    """The cases of a training that sees these labels."""
    return TrainingCases(tuple(labelled), (), tuple(validation))
