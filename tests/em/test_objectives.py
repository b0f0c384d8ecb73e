import pytest
import torch
from monai.losses import DiceLoss
from torch import nn

from segpl.em.objectives import batch_dice_loss, bce_loss, dice_bce_loss, dice_loss, ramp
from segpl.em.pseudo_labels import pseudo_label
from segpl.networks.unet import Head, UNet


def test_eq_1_pseudo_label_by_hand():
    p = torch.tensor([[[0.2, 0.5, 0.51, 0.9]]])
    assert pseudo_label(p, 0.5).tolist() == [[[0, 0, 1, 1]]]


def test_eq_1_takes_one_threshold_per_image_and_class():
    p = torch.full((2, 2, 3), 0.5)
    y = pseudo_label(p, torch.tensor([[0.4, 0.6], [0.6, 0.4]]))
    assert y[..., 0].tolist() == [[1, 0], [0, 1]]


def test_eq_1_passes_no_gradient():
    p = torch.rand(1, 1, 4, requires_grad=True)
    assert not pseudo_label(p, 0.5).requires_grad


def test_eq_3_dice_by_hand():
    p = torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.5, 0.0, 0.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]]])
    by_hand = (
        (1 - 2 * 1 / 3) + (1 - 2 * 0.5 / 1.5)
    ) / 2  # the mean over images, not one Dice of them all
    assert dice_loss(p, y).item() == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("space", [(8, 8), (6, 6, 4)])
def test_dice_agrees_with_monai(space):
    p, y = torch.rand(3, 2, *space), (torch.rand(3, 2, *space) > 0.5).float()
    torch.testing.assert_close(dice_loss(p, y), DiceLoss()(p, y))
    torch.testing.assert_close(
        batch_dice_loss(p, y), DiceLoss(batch=True, smooth_nr=1, smooth_dr=1)(p, y)
    )


def test_weights_count_voxels_as_often_as_they_say():
    """A voxel of weight 2 is a voxel that is there twice."""
    p, y = torch.rand(2, 1, 4), (torch.rand(2, 1, 4) > 0.5).float()
    twice = torch.tensor([1.0, 1.0, 2.0, 1.0]).expand(2, 1, 4)
    longer = [0, 1, 2, 2, 3]
    for loss in (dice_loss, batch_dice_loss):
        torch.testing.assert_close(loss(p, y, twice), loss(p[..., longer], y[..., longer]))


def test_dice_of_a_batch_by_hand():
    """One Dice of both images together: false foreground in an image without the region counts."""
    p = torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.5, 0.0, 0.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0]]])
    by_hand = 1 - (2 * 1 + 1) / (2.5 + 1 + 1)
    assert batch_dice_loss(p, y).item() == pytest.approx(by_hand)
    nowhere = torch.zeros(2, 1, 4)
    assert batch_dice_loss(p, y, nowhere).item() == pytest.approx(0)


def test_false_foreground_has_a_gradient_where_the_region_is_absent():
    p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.3]]], requires_grad=True)
    y = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]]])
    (per_image,) = torch.autograd.grad(dice_loss(p, y), p)
    (per_batch,) = torch.autograd.grad(batch_dice_loss(p, y), p)
    assert per_image[1].abs().max() < 1e-4
    assert per_batch[1].min() > 0.1


def test_dice_of_two_empty_masks_is_no_loss():
    assert dice_loss(torch.zeros(1, 1, 8), torch.zeros(1, 1, 8)).item() == pytest.approx(
        0, abs=1e-6
    )


def test_dice_bce_by_hand():
    p, y = torch.tensor([[[0.8, 0.4]]]), torch.tensor([[[1.0, 0.0]]])
    bce = -(torch.log(torch.tensor(0.8)) + torch.log(torch.tensor(0.6))) / 2
    dice = 1 - 2 * 0.8 / (1.2 + 1)
    assert dice_bce_loss(p, y).item() == pytest.approx(0.5 * dice + 0.5 * bce.item(), abs=1e-4)


def test_half_precision_leaves_the_loss_in_full_precision():
    """torch refuses binary cross-entropy under autocast on a GPU, so ours steps out of it."""
    p, y = torch.rand(2, 1, 8, 8), torch.ones(2, 1, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        halved = dice_bce_loss(p.bfloat16(), y)
    assert halved.dtype == torch.float32
    assert halved.item() == pytest.approx(dice_bce_loss(p, y).item(), rel=0.02)


class HalfPrecision(nn.Module):
    """Returns what it is given in bfloat16, as a layer under autocast does, without a convolution."""

    def forward(self, x):
        return x.bfloat16()


def test_a_confident_mistake_keeps_its_gradient_in_half_precision():
    """In bfloat16 the sigmoid of 10 is exactly 1 and has no slope, so the head returns float32 logits.

    No convolution or matrix product runs in bfloat16 here: on processors that list AMX, a virtual
    machine that traps it kills the process.
    """
    assert isinstance(UNet(inputs=1, regions=1, channels=4, patch=(16, 16)).head, Head)
    logits = torch.full((1, 1, 4, 4), 10.0, requires_grad=True)
    background = torch.zeros(1, 1, 4, 4)

    logits_of_head = Head(HalfPrecision())(logits)
    assert logits_of_head.dtype == torch.float32
    (gradient,) = torch.autograd.grad(bce_loss(logits_of_head.sigmoid(), background), logits)
    assert gradient.sum().item() == pytest.approx(1, rel=0.01)

    p = HalfPrecision()(logits).sigmoid()
    (gradient,) = torch.autograd.grad(bce_loss(p, background), logits)
    assert not gradient.any()


def test_losses_count_only_where_they_are_told():
    p, y = torch.rand(1, 1, 8), torch.ones(1, 1, 8)
    where = torch.tensor([[[1.0] * 4 + [0.0] * 4]])
    assert dice_loss(p, y, where).item() == pytest.approx(
        dice_loss(p[..., :4], y[..., :4]).item(), abs=1e-4
    )


@pytest.mark.parametrize(
    ("progress", "start", "length", "weight"),
    [
        (0, 0, 0, 1),
        (0.1, 0.2, 0.1, 0),
        (0.25, 0.2, 0.1, 0.5),
        (0.3, 0.2, 0.1, 1),
        (1, 0.2, 0.1, 1),
        (0.2, 0.2, 0, 1),
    ],
)
def test_ramp_is_a_straight_line(progress, start, length, weight):
    assert ramp(progress, start, length) == pytest.approx(weight)
