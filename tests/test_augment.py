import pytest
import torch

from segpl.augment import OPERATIONS, add_noise, draw_view

SEEDS = torch.arange(6)


def blobs(*space):
    """Images of a bright off-centre box on zeros; the box is also the label."""
    x = torch.zeros(6, 1, *space)
    x[:, :, 4:14, 16:26] = 1
    return x


@pytest.mark.parametrize("space", [(32, 32), (32, 40), (32, 32, 4)])
def test_strength_0_changes_nothing_bit_for_bit(space):
    x = torch.randn(6, 2, *space)
    view = draw_view(SEEDS, strength=0.0)
    assert view.image(x) is x
    assert view.label(x) is x
    assert add_noise(x, SEEDS, 0.0) is x


@pytest.mark.parametrize("space", [(32, 32), (32, 40), (32, 32, 4)])
def test_a_view_moves_image_and_label_together(space):
    x = blobs(*space)
    view = draw_view(SEEDS, strength=1.0)
    seen, moved = view.image(3 * x), view.label(x)
    assert not torch.equal(moved, x)
    for image, label in zip(seen, moved, strict=True):
        inside, outside = image[label > 0].mean(), image[label == 0].mean()
        assert inside > outside + 1
        low = (inside + outside) / 2
        overlap = ((image > low) & (label > 0)).sum() / ((image > low) | (label > 0)).sum()
        assert overlap > 0.8
    assert set(moved.unique().tolist()) <= {0.0, 1.0}


def test_a_turn_keeps_the_size_of_things_in_oblong_images():
    """Angles are in voxels, not in the grid's unit square: a box keeps its area."""
    x = blobs(32, 48)
    view = draw_view(SEEDS, strength=1.0)
    area = view.label(x).sum((1, 2, 3)) / view.zoom**2
    assert area.tolist() == pytest.approx([100] * 6, rel=0.12)


def test_slices_of_a_volume_stay_slices():
    x = torch.zeros(6, 1, 16, 16, 5)
    x[..., 2] = 1
    moved = draw_view(SEEDS, strength=1.0).label(x)
    assert moved[..., [0, 1, 3, 4]].sum() == 0
    assert moved[..., 2].sum() > 0


def test_nothing_is_mirrored():
    """Seen from the middle, one always turns the same way from the first mark to the second."""
    x = torch.zeros(6, 2, 32, 32)
    x[:, 0, 4:8, 14:18], x[:, 1, 14:18, 4:8] = 1, 1
    moved = draw_view(SEEDS, strength=1.0).label(x)
    for first, second in moved:
        a, b = (mark.nonzero().float().mean(0) - 15.5 for mark in (first, second))
        assert a[0] * b[1] - a[1] * b[0] > 0


def test_a_view_belongs_to_the_seed_of_the_image():
    x = blobs(32, 32)
    assert torch.equal(draw_view(SEEDS, 1.0).image(x)[3:], draw_view(SEEDS[3:], 1.0).image(x[3:]))


def test_randaugment_picks_as_many_operations_as_asked():
    seeds = torch.arange(200)
    view = draw_view(seeds, 1.0, operations=2)
    still = torch.stack([view.angle == 0, view.zoom == 1, view.contrast == 1, view.gamma == 1, view.noise == 0], 1)
    assert ((~still).sum(1) == 2).all()
    assert draw_view(seeds, 1.0, OPERATIONS).angle.abs().min() > 0
