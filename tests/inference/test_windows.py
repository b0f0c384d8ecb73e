"""Windows: every voxel returns to its place, slab by slab as in the whole volume."""

import pytest
import torch
from reference import reference_volume

from segpl.inference.windows import predict_slabs, predict_volume, slabs


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 4)])
@pytest.mark.parametrize("shape", [(16, 16, 4), (40, 23, 9), (9, 30, 2)])
def test_windows_put_every_voxel_back_in_its_place(patch, shape):
    x = torch.rand(2, *shape)

    def pointwise(window):
        """Three maps, each a function of the voxel alone."""
        return torch.cat([window, window[:, :1] / 4], dim=1)

    p = predict_volume(pointwise, x, patch)
    assert p.shape == (3, *shape)
    torch.testing.assert_close(p[:2], x, atol=1e-5, rtol=0)
    torch.testing.assert_close(p[2], x[0] / 4, atol=1e-5, rtol=0)


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 1), (16, 16, 3), (16, 16, 4), (16, 16, 12)])
@pytest.mark.parametrize("shape", [(40, 23, 33), (16, 16, 4), (9, 30, 2)])
@pytest.mark.parametrize("voxels", [1, 5000, 10**9])
def test_slabs_are_pieces_of_the_volume_that_monai_predicts(patch, shape, voxels):
    """With a network that answers differently in every window, so that the blending shows."""
    x = torch.rand(2, *shape)

    def add_mean(windows):
        mean = windows.flatten(1).mean(1)
        trailing = [1] * (windows.ndim - 1)
        return windows + 3 * mean.reshape(-1, *trailing)

    (expected,) = reference_volume(lambda windows: add_mean(windows)[None], x, patch)
    rows = slabs(shape, patch, voxels=voxels)
    pieces = list(predict_slabs(add_mean, x, patch, rows))
    assert len(pieces) == len(rows)
    torch.testing.assert_close(torch.cat(pieces, dim=3), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("patch", "expected"), [((16, 16, 4), [4, 2]), ((16, 16), [4, 4, 4, 4, 4])]
)
def test_a_batch_is_never_one_volume(patch, expected):
    """Five windows in a row. Convolution is slow for a batch of one volume, not of one plane."""
    batch_sizes = []

    def record_batch_size(windows):
        batch_sizes.append(len(windows))
        return windows

    x = torch.rand(1, 64, 16, 4)
    predicted = predict_volume(record_batch_size, x, patch)
    torch.testing.assert_close(predicted, x, atol=1e-6, rtol=0)
    assert batch_sizes == expected


def test_slabs_are_as_thin_as_windows_allow():
    assert slabs((512, 512, 10), (176, 176, 3), voxels=1) == [(0,), (2,), (4,), (6,), (7,)]
    assert slabs((512, 512, 10), (176, 176, 3), voxels=5 * 512**2) == [(0, 2), (4, 6), (7,)]
    assert slabs((64, 64, 3), (32, 32), voxels=2 * 64**2) == [(0, 1), (2,)]
    assert slabs((64, 64, 3), (32, 32, 8)) == [(0,)]
