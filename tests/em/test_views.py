"""Views: image and label move together, strength 0 changes nothing, and each operation does what it says."""

from dataclasses import replace

import pytest
import torch

from segpl.em.views import OPERATIONS, add_noise, draw_view

SEEDS = torch.arange(6)
SPACES = [(32, 32), (32, 40), (32, 32, 4), (24, 24, 20)]


def blobs(*space):
    """Images of a bright off-centre box on zeros; the box is also the label."""
    x = torch.zeros(6, 1, *space)
    x[:, :, 6:16, 12:22] = 1
    return x


def still(motion):
    """The motion without any movement."""
    return replace(
        motion,
        rotation=torch.zeros(6),
        tilt=torch.zeros(6, 2),
        scale=torch.ones(6),
        shift=torch.zeros(6, 3),
        warp=torch.zeros(6),
        sign=torch.ones(6, 3),
    )


@pytest.mark.parametrize("space", SPACES)
def test_strength_0_changes_nothing_bit_for_bit(space):
    x = torch.randn(6, 2, *space)
    view = draw_view(SEEDS, strength=0.0)
    assert view.image(x) is x
    assert view.label(x) is x
    assert add_noise(x, SEEDS, 0.0) is x


@pytest.mark.parametrize("space", SPACES)
def test_a_view_moves_image_and_label_together(space):
    x = blobs(*space)
    view = draw_view(SEEDS, strength=1.0)
    seen = view.image(3 * x)
    moved = view.label(x)
    assert not torch.equal(moved, x)
    for image, label in zip(seen, moved, strict=True):
        inside = image[label > 0].mean()
        outside = image[label == 0].mean()
        assert inside > outside + 1
        bright = image > (inside + outside) / 2
        overlap = (bright & (label > 0)).sum() / (bright | (label > 0)).sum()
        assert overlap > 0.75
    assert set(moved.unique().tolist()) <= {0.0, 1.0}


def test_a_rotation_keeps_the_size_of_things_in_oblong_images():
    """Angles are in voxels, not in the grid's unit square: a box keeps its area."""
    x = blobs(32, 48)
    drawn = draw_view(SEEDS, strength=1.0).motion
    turned = replace(still(drawn), rotation=drawn.rotation).apply(x, "nearest")
    assert turned.sum((1, 2, 3)).tolist() == pytest.approx([100] * 6, rel=0.12)
    assert not torch.equal(turned, x)


def test_scale_2_makes_things_twice_as_large_in_the_plane():
    x = torch.zeros(6, 1, 32, 32, 8)
    x[:, :, 12:20, 12:20, 2:6] = 1
    motion = replace(still(draw_view(SEEDS, 1.0).motion), scale=torch.full((6,), 2.0))
    expected = torch.zeros_like(x)
    expected[:, :, 8:24, 8:24, 2:6] = 1
    assert torch.equal(motion.apply(x, "nearest"), expected)


def test_a_tilt_by_a_right_angle_swaps_axes():
    x = torch.zeros(6, 1, 16, 16, 16)
    x[:, :, 2:14, 7:9, 7:9] = 1  # a rod along the first axis
    tilt = torch.tensor([[0.0, torch.pi / 2]]).repeat(6, 1)
    turned = replace(still(draw_view(SEEDS, 1.0).motion), tilt=tilt).apply(x, "nearest")
    assert torch.equal(turned, x.transpose(2, 4).flip(2)) or torch.equal(turned, x.transpose(2, 4))


def test_slices_of_a_thin_volume_stay_slices():
    x = torch.zeros(6, 1, 24, 24, 5)
    x[..., 2] = 1
    moved = draw_view(SEEDS, strength=1.0).label(x)
    assert moved[..., [0, 1, 3, 4]].sum() == 0
    assert moved[..., 2].sum() > 0


def test_a_shift_of_one_is_half_a_side():
    x = torch.zeros(6, 1, 16, 16)
    x[:, :, 10, 3] = 1
    shift = torch.tensor([[1.0, 0.0, 0.0]]).repeat(6, 1)
    moved = replace(still(draw_view(SEEDS, 1.0).motion), shift=shift).apply(x, "nearest")
    assert moved[:, 0, 2, 3].tolist() == [1.0] * 6


def handedness(y):
    """Which way one turns, seen from the middle, from the mark of channel 0 to that of channel 1."""
    signs = []
    for first, second in y:
        a = first.nonzero().float().mean(0) - 15.5
        b = second.nonzero().float().mean(0) - 15.5
        signs.append(float((a[0] * b[1] - a[1] * b[0]).sign()))
    return signs


def test_images_are_mirrored_only_where_it_is_allowed():
    marks = torch.zeros(6, 2, 32, 32)
    marks[:, 0, 4:8, 14:18] = 1
    marks[:, 1, 14:18, 4:8] = 1
    assert handedness(draw_view(SEEDS, 1.0).label(marks)) == [1.0] * 6
    assert set(handedness(draw_view(SEEDS, 1.0, mirror=[0]).label(marks))) == {1.0, -1.0}


def test_a_view_belongs_to_the_seed_of_the_image():
    x = blobs(32, 32)
    assert torch.equal(draw_view(SEEDS, 1.0).image(x)[3:], draw_view(SEEDS[3:], 1.0).image(x[3:]))


def test_randaugment_picks_as_many_operations_as_asked():
    seeds = torch.arange(400)
    view = draw_view(seeds, 1.0, operations=2)
    motion = view.motion
    appearance = view.appearance
    changed = torch.stack(
        [
            motion.rotation != 0,
            motion.scale != 1,
            motion.shift[:, 0] != 0,
            motion.warp != 0,
            appearance.contrast != 1,
            appearance.brightness != 0,
            appearance.gamma != 1,
            appearance.blur != 0,
            appearance.coarseness != 1,
            appearance.noise != 0,
        ],
        dim=1,
    ).sum(1)
    assert len(OPERATIONS) == 10
    assert changed.max() == 2
    assert changed.float().mean() > 1.5  # blur and lower resolution spare some images
    assert draw_view(seeds, 1.0).motion.rotation.abs().min() > 0


def test_blur_and_lower_resolution_smooth_the_plane_and_keep_the_mean():
    x = torch.randn(6, 1, 32, 32, 3, generator=torch.Generator().manual_seed(0))
    neutral = draw_view(SEEDS, 1.0).appearance
    neutral = replace(neutral, blur=torch.zeros(6), coarseness=torch.ones(6), noise=torch.zeros(6))
    assert torch.equal(neutral.after_motion(x), x)
    for change in ({"blur": torch.full((6,), 1.0)}, {"coarseness": torch.full((6,), 2.0)}):
        smooth = replace(neutral, **change).after_motion(x)
        assert smooth.std() < 0.6 * x.std()
        assert smooth.mean().item() == pytest.approx(x.mean().item(), abs=0.02)
        one_slice = replace(neutral, **change).after_motion(x[..., 1:2])
        torch.testing.assert_close(one_slice, smooth[..., 1:2])


def test_gamma_keeps_the_range_and_contrast_and_brightness_are_linear():
    x = torch.randn(6, 2, 16, 16)
    drawn = draw_view(SEEDS, 1.0).appearance
    one = torch.ones(6)
    curved = replace(drawn, gamma=2 * one, contrast=one, brightness=0 * one).before_motion(x)
    torch.testing.assert_close(curved.amin((2, 3)), x.amin((2, 3)))
    torch.testing.assert_close(curved.amax((2, 3)), x.amax((2, 3)))
    linear = replace(drawn, gamma=one, contrast=2 * one, brightness=3 * one).before_motion(x)
    torch.testing.assert_close(linear, 2 * x + 3)
