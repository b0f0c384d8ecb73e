"""Pseudo-labels and objectives: Eq. 1 and Eq. 3 by hand, and against MONAI."""

import pytest
import torch
from monai.losses import DiceLoss
from torch import nn

from segpl.em.objectives import batch_dice_loss, bce_loss, dice_bce_loss, dice_loss, ramp
from segpl.em.pseudo_labels import pseudo_label
from segpl.networks.unet import Head, UNet


def random_p_and_y(*shape):
    p = torch.rand(shape)
    y = (torch.rand(shape) > 0.5).float()
    return p, y


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


def test_eq_3_dice_by_hand_is_the_mean_over_images():
    p = torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.5, 0.0, 0.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]]])
    first = 1 - 2 * 1 / 3
    second = 1 - 2 * 0.5 / 1.5
    assert dice_loss(p, y).item() == pytest.approx((first + second) / 2, abs=1e-4)


@pytest.mark.parametrize("space", [(8, 8), (6, 6, 4)])
def test_dice_agrees_with_monai(space):
    p, y = random_p_and_y(3, 2, *space)
    torch.testing.assert_close(dice_loss(p, y), DiceLoss()(p, y))


@pytest.mark.parametrize("space", [(8, 8), (6, 6, 4)])
def test_dice_of_a_batch_agrees_with_monai(space):
    p, y = random_p_and_y(3, 2, *space)
    monai_loss = DiceLoss(batch=True, smooth_nr=1, smooth_dr=1)
    torch.testing.assert_close(batch_dice_loss(p, y), monai_loss(p, y))


@pytest.mark.parametrize("loss", [dice_loss, batch_dice_loss])
def test_a_voxel_of_weight_2_counts_as_two_voxels(loss):
    p, y = random_p_and_y(2, 1, 4)
    weights = torch.tensor([1.0, 1.0, 2.0, 1.0]).expand(2, 1, 4)
    third_voxel_twice = [0, 1, 2, 2, 3]
    expected = loss(p[..., third_voxel_twice], y[..., third_voxel_twice])
    torch.testing.assert_close(loss(p, y, weights), expected)


def test_a_voxel_of_weight_0_does_not_count():
    p, y = random_p_and_y(1, 1, 8)
    first_half = torch.tensor([[[1.0] * 4 + [0.0] * 4]])
    expected = dice_loss(p[..., :4], y[..., :4])
    torch.testing.assert_close(dice_loss(p, y, first_half), expected, atol=1e-4, rtol=0)


P_OF_TWO_IMAGES = torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.5, 0.0, 0.0, 0.0]]])
Y_OF_TWO_IMAGES = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0]]])


def test_dice_of_a_batch_by_hand():
    """One Dice of both images: false foreground counts in the image without the region too."""
    by_hand = 1 - (2 * 1 + 1) / (2.5 + 1 + 1)
    loss = batch_dice_loss(P_OF_TWO_IMAGES, Y_OF_TWO_IMAGES)
    assert loss.item() == pytest.approx(by_hand)


def test_dice_of_a_batch_is_no_loss_if_no_voxel_counts():
    nowhere = torch.zeros(2, 1, 4)
    loss = batch_dice_loss(P_OF_TWO_IMAGES, Y_OF_TWO_IMAGES, nowhere)
    assert loss.item() == pytest.approx(0)


def test_only_dice_of_a_batch_has_a_gradient_where_the_region_is_absent():
    p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.3]]], requires_grad=True)
    y = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]]])
    (per_image,) = torch.autograd.grad(dice_loss(p, y), p)
    (per_batch,) = torch.autograd.grad(batch_dice_loss(p, y), p)
    assert per_image[1].abs().max() < 1e-4
    assert per_batch[1].min() > 0.1


def test_dice_of_two_empty_masks_is_no_loss():
    empty = torch.zeros(1, 1, 8)
    assert dice_loss(empty, empty).item() == pytest.approx(0, abs=1e-6)


def test_dice_bce_by_hand():
    p = torch.tensor([[[0.8, 0.4]]])
    y = torch.tensor([[[1.0, 0.0]]])
    bce = -(torch.tensor(0.8).log() + torch.tensor(0.6).log()).item() / 2
    dice = 1 - 2 * 0.8 / (1.2 + 1)
    assert dice_bce_loss(p, y).item() == pytest.approx(0.5 * dice + 0.5 * bce, abs=1e-4)


def test_the_loss_of_half_precision_is_in_full_precision():
    """torch refuses binary cross-entropy under autocast on a GPU, so ours leaves autocast."""
    p = torch.rand(2, 1, 8, 8)
    y = torch.ones(2, 1, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = dice_bce_loss(p.bfloat16(), y)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(dice_bce_loss(p, y).item(), rel=0.02)


class HalfPrecision(nn.Module):
    """Returns its input in bfloat16, as a layer under autocast does, without a convolution."""

    def forward(self, x):
        return x.bfloat16()


def test_a_confident_mistake_keeps_its_gradient_in_half_precision():
    """In bfloat16 the sigmoid of 10 is exactly 1 and has no slope, so the head returns float32.

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
def test_ramp_is_0_then_a_straight_line_then_1(progress, start, length, weight):
    assert ramp(progress, start, length) == pytest.approx(weight)
