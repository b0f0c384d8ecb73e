import pytest
import torch

from segpl.windows import mask, predict_volume


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 4)])
@pytest.mark.parametrize("shape", [(16, 16, 4), (40, 23, 9), (9, 30, 2)])
def test_windows_put_every_voxel_back_in_its_place(patch, shape):
    x = torch.rand(2, *shape)

    def pointwise(window):  # two samples, three regions, each a function of the voxel alone
        return torch.stack([torch.cat([window, window[:, :1] / 2], 1), torch.cat([window, window[:, :1] / 4], 1)])

    p = predict_volume(pointwise, x, patch)
    assert p.shape == (2, 3, *shape)
    torch.testing.assert_close(p[0, :2], x, atol=1e-5, rtol=0)
    torch.testing.assert_close(p[1, 2], x[0] / 4, atol=1e-5, rtol=0)


def test_mask_is_where_the_mean_of_the_samples_exceeds_one_half():
    p = torch.tensor([[[0.9, 0.9, 0.1]], [[0.2, 0.0, 0.3]]])
    assert mask(p).tolist() == [[True, False, False]]
