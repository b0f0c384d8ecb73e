"""Losses as functions of the threshold: against the objectives themselves, cut by cut."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from segpl.em.objectives import IMAGE_OBJECTIVES, OBJECTIVES
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.threshold_losses import CELLS, cut_losses, cut_losses_on_grid, label_losses

MIDDLES = (torch.arange(CELLS) + 0.5) / CELLS


def probabilities(space=(7, 9)):
    """Many values near 0, some in between, and a few voxels at exactly 0, 1 and a cell's middle."""
    p = torch.rand(3, 2, *space, generator=torch.Generator().manual_seed(0)) ** 3
    voxels = p.flatten(2)
    voxels[..., 0] = 0
    voxels[..., 1] = 1
    voxels[..., 2] = MIDDLES[100]
    return p


def losses_one_by_one(p, thresholds, name):
    """The objective of a batch of one image and one class, for each image, class and threshold."""
    losses = torch.zeros(*p.shape[:2], len(thresholds))
    for image in range(p.shape[0]):
        for region in range(p.shape[1]):
            alone = p[image, region][None, None]
            for index, threshold in enumerate(thresholds):
                y = pseudo_label(alone, threshold.item())
                losses[image, region, index] = OBJECTIVES[name](alone, y)
    return losses


@pytest.mark.parametrize("space", [(7, 9), (4, 5, 3)])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loss_of_a_cut_is_the_objective_of_one_image_and_class(name, space):
    p = probabilities(space)
    thresholds = torch.tensor([0.01, 0.2, 0.5, 0.77])
    losses = cut_losses(p, thresholds, IMAGE_OBJECTIVES[name])
    torch.testing.assert_close(losses, losses_one_by_one(p, thresholds, name))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_grid_gives_the_loss_of_every_cut(name):
    p = probabilities()
    objective = IMAGE_OBJECTIVES[name]
    losses = cut_losses(p, MIDDLES, objective)
    torch.testing.assert_close(cut_losses_on_grid(p, objective), losses)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_image_without_any_doubt_has_finite_losses(value):
    p = torch.full((1, 1, 8), value)
    for objective in IMAGE_OBJECTIVES.values():
        assert cut_losses_on_grid(p, objective).isfinite().all()
    for label in (0.0, 1.0):
        y = torch.full((1, 1, 8), label)
        assert label_losses(p, y, MIDDLES).isfinite().all()


def test_the_loss_of_a_label_is_the_cross_entropy_of_logits_shifted_by_t():
    p = probabilities((40, 40)).clamp(1e-4, 1 - 1e-4)
    y = (torch.rand(p.shape, generator=torch.Generator().manual_seed(1)) < p).float()
    thresholds = MIDDLES[8:-8]
    by_voxel = []
    for threshold in thresholds:
        logits = p.logit() - threshold.logit()
        loss = binary_cross_entropy_with_logits(logits, y, reduction="none")
        by_voxel.append(loss.flatten(2).mean(2))
    expected = torch.stack(by_voxel, dim=-1)
    torch.testing.assert_close(label_losses(p, y, thresholds), expected, atol=2e-4, rtol=0)


def test_losses_carry_no_gradient():
    p = probabilities().requires_grad_()
    objective = IMAGE_OBJECTIVES["dice"]
    assert not cut_losses(p, MIDDLES[:2], objective).requires_grad
    assert not cut_losses_on_grid(p, objective).requires_grad
    assert not label_losses(p, (p > 0.5).float(), MIDDLES[:2]).requires_grad
