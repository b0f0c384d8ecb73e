"""How a label becomes nested binary regions."""

import numpy as np
import pytest

from segpl.data.cases import Case, Region
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_nifti
from segpl.reporting.label_fusion import draw_label_fusion, draw_planes, slice_with_most_values

BRATS = (
    Region("whole tumour", (1, 2, 4), 2),
    Region("tumour core", (1, 4), 1),
    Region("enhancing core", (4,), 4),
)
LABEL = np.array([[0, 2, 2], [2, 1, 4], [0, 0, 4]], np.uint8)


def test_every_region_is_drawn_as_a_binary_mask():
    figure = draw_planes(np.full(LABEL.shape, 0.5), LABEL, BRATS)
    image, label, regions, *binary = figure.axes
    for axis, mask in zip(binary, (LABEL > 0, np.isin(LABEL, (1, 4)), LABEL == 4), strict=True):
        picture = np.asarray(axis.images[0].get_array())
        np.testing.assert_array_equal(picture.any(-1), mask)
    titles = [axis.get_title() for axis in binary]
    assert titles[1] == "tumour core\nlabel 1 or 4"
    # Nested regions, painted one over the other, are the label in other colours.
    painted = np.asarray(regions.images[0].get_array())
    original = np.asarray(label.images[0].get_array())
    for value in (0, 1, 2, 4):
        inside = value == LABEL
        assert len(np.unique(painted[inside], axis=0)) == 1
        assert len(np.unique(original[inside], axis=0)) == 1
    assert len(np.unique(painted.reshape(-1, 3), axis=0)) == 4
    assert len(np.unique(image.images[0].get_array())) == 1


def test_the_slice_with_the_most_values_is_shown():
    volume = np.stack([np.full((3, 3), 2), LABEL, LABEL * (LABEL < 4)], axis=-1)
    assert slice_with_most_values(volume) == 1


def test_a_case_is_drawn_from_its_files(tmp_path):
    volume = np.stack([LABEL, 0 * LABEL], axis=-1)
    write_nifti(tmp_path / "image.nii.gz", volume.astype(np.int16), np.eye(4))
    write_nifti(tmp_path / "label.nii.gz", volume, np.eye(4))
    case = Case("a", "a", (tmp_path / "image.nii.gz",), tmp_path / "label.nii.gz")
    figure = draw_label_fusion(case, BRATS)
    core = np.asarray(figure.axes[-1].images[0].get_array()).any(-1)
    assert core.sum() == (LABEL == 4).sum()
    with pytest.raises(UserError, match="a has no label: choose a labelled case"):
        draw_label_fusion(case.unlabelled(), BRATS)
