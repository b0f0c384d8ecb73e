import pytest
import torch
from monai.metrics import compute_dice, compute_iou

from segpl.scores import dice, iou


@pytest.mark.parametrize("shape", [(3, 9, 8), (3, 5, 6, 7)])
def test_agree_with_monai_on_random_masks(shape):
    draw = torch.Generator().manual_seed(0)
    for share in (0.1, 0.5, 0.9):
        mask, truth = (torch.rand(shape, generator=draw) < share for _ in range(2))
        torch.testing.assert_close(iou(mask, truth), compute_iou(mask[None].float(), truth[None].float())[0])
        torch.testing.assert_close(dice(mask, truth), compute_dice(mask[None].float(), truth[None].float())[0])


def test_awkward_masks_by_hand():
    empty, full = torch.zeros(1, 4, 4, dtype=torch.bool), torch.ones(1, 4, 4, dtype=torch.bool)
    one = empty.clone()
    one[0, 0, 0] = True
    assert torch.isnan(iou(empty, empty)).all()
    assert torch.isnan(dice(empty, empty)).all()
    assert iou(empty, full) == dice(empty, one) == iou(one, empty) == 0
    assert iou(full, full) == dice(one, one) == 1
    assert iou(one, full).item() == pytest.approx(1 / 16)
    assert dice(one, full).item() == pytest.approx(2 / 17)
