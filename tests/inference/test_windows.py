import numpy as np
import pytest
import torch
from reference import reference_volume

from segpl.data.cases import Region
from segpl.inference.windows import fold, predict_slabs, predict_volume, slabs


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 4)])
@pytest.mark.parametrize("shape", [(16, 16, 4), (40, 23, 9), (9, 30, 2)])
def test_windows_put_every_voxel_back_in_its_place(patch, shape):
    x = torch.rand(2, *shape)

    def pointwise(window):  # three maps, each a function of the voxel alone
        return torch.cat([window, window[:, :1] / 4], dim=1)

    p = predict_volume(pointwise, x, patch)
    assert p.shape == (3, *shape)
    torch.testing.assert_close(p[:2], x, atol=1e-5, rtol=0)
    torch.testing.assert_close(p[2], x[0] / 4, atol=1e-5, rtol=0)


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 1), (16, 16, 3), (16, 16, 4), (16, 16, 12)])
@pytest.mark.parametrize("shape", [(40, 23, 33), (16, 16, 4), (9, 30, 2)])
@pytest.mark.parametrize("voxels", [1, 5000, 10**9])
def test_slabs_are_what_monai_finds_in_the_volume_cut_into_pieces(patch, shape, voxels):
    """Of a network that answers differently in every window, so that the blending shows."""
    x = torch.rand(2, *shape)

    def window(piece):
        return piece + 3 * piece.flatten(1).mean(1).reshape(-1, *[1] * (piece.ndim - 1))

    (whole,) = reference_volume(lambda piece: window(piece)[None], x, patch)
    rows = slabs(shape, patch, voxels=voxels)
    pieces = list(predict_slabs(window, x, patch, rows))
    assert len(pieces) == len(rows)
    torch.testing.assert_close(torch.cat(pieces, dim=3), whole, atol=2e-6, rtol=0)


@pytest.mark.parametrize(("patch", "shown"), [((16, 16, 4), [4, 2]), ((16, 16), [4, 4, 4, 4, 4])])
def test_no_volume_is_shown_alone(patch, shown):
    """Five windows in a row; a batch of one volume has a slow convolution, one of one plane has not."""
    counts = []

    def window(piece):
        counts.append(len(piece))
        return piece

    x = torch.rand(1, 64, 16, 4)
    torch.testing.assert_close(predict_volume(window, x, patch), x, atol=1e-6, rtol=0)
    assert counts == shown


def test_slabs_are_as_thin_as_windows_allow():
    assert slabs((512, 512, 10), (176, 176, 3), voxels=1) == [(0,), (2,), (4,), (6,), (7,)]
    assert slabs((512, 512, 10), (176, 176, 3), voxels=5 * 512**2) == [(0, 2), (4, 6), (7,)]
    assert slabs((64, 64, 3), (32, 32), voxels=2 * 64**2) == [(0, 1), (2,)]
    assert slabs((64, 64, 3), (32, 32, 8)) == [(0,)]


def test_a_later_region_covers_an_earlier_one():
    regions = (
        Region("whole", (1, 2, 4), 2),
        Region("core", (1, 4), 1),
        Region("enhancing", (4,), 4),
    )
    found = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=torch.bool)
    assert fold(found, regions).tolist() == [2, 1, 4, 1, 0]
    assert fold(found, regions).dtype == np.uint8
    assert fold(found[:1], (Region("whole", (300,), 300),)).max() == 300


def test_a_mask_may_have_negative_values():
    regions = (Region("unknown", (-5,), -5), Region("vessel", (3,), 3))
    found = torch.tensor([[True, False, False], [False, True, False]])
    assert fold(found, regions).tolist() == [-5, 3, 0]
