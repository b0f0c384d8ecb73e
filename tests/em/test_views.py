"""Views: image and label move together, and each operation does what it says."""

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


def test_noise_0_changes_nothing_bit_for_bit():
    x = torch.randn(6, 2, 32, 32)
    assert add_noise(x, SEEDS, 0.0) is x


@pytest.mark.parametrize("space", SPACES)
def test_a_view_moves_image_and_label_together(space):
    x = blobs(*space)
    view = draw_view(SEEDS, strength=1.0)
    seen = view.image(3 * x)
    moved = view.label(x)
    assert not torch.equal(moved, x)
    assert set(moved.unique().tolist()) <= {0.0, 1.0}
    for image, label in zip(seen, moved > 0, strict=True):
        inside = image[label].mean()
        outside = image[~label].mean()
        assert inside > outside + 1
        is_bright = image > (inside + outside) / 2
        overlap = (is_bright & label).sum() / (is_bright | label).sum()
        assert overlap > 0.75


def test_a_rotation_keeps_the_size_of_objects_in_oblong_images():
    """Rotations are in voxels, not in the grid's unit square: a box keeps its area."""
    x = blobs(32, 48)
    drawn = draw_view(SEEDS, strength=1.0).motion
    rotated = replace(still(drawn), rotation=drawn.rotation).apply(x, "nearest")
    assert rotated.sum((1, 2, 3)).tolist() == pytest.approx([100] * 6, rel=0.12)
    assert not torch.equal(rotated, x)


def test_scale_2_makes_objects_twice_as_large_in_the_plane():
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
    tilted = replace(still(draw_view(SEEDS, 1.0).motion), tilt=tilt).apply(x, "nearest")
    swapped = x.transpose(2, 4)
    assert torch.equal(tilted, swapped) or torch.equal(tilted, swapped.flip(2))


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
    """The sense of rotation (1 or -1) from the mark of channel 0 to that of channel 1."""
    signs = []
    for first_mark, second_mark in y:
        a = first_mark.nonzero().float().mean(0) - 15.5
        b = second_mark.nonzero().float().mean(0) - 15.5
        cross_product = a[0] * b[1] - a[1] * b[0]
        signs.append(float(cross_product.sign()))
    return signs


def two_marks():
    marks = torch.zeros(6, 2, 32, 32)
    marks[:, 0, 4:8, 14:18] = 1
    marks[:, 1, 14:18, 4:8] = 1
    return marks


def test_no_image_is_mirrored_unless_an_axis_is_given():
    view = draw_view(SEEDS, 1.0)
    assert handedness(view.label(two_marks())) == [1.0] * 6


def test_some_images_are_mirrored_along_the_given_axis():
    view = draw_view(SEEDS, 1.0, mirror=[0])
    assert set(handedness(view.label(two_marks()))) == {1.0, -1.0}


def test_a_view_depends_on_the_seed_of_its_image_only():
    x = blobs(32, 32)
    of_all = draw_view(SEEDS, 1.0).image(x)
    of_last = draw_view(SEEDS[3:], 1.0).image(x[3:])
    assert torch.equal(of_all[3:], of_last)


def number_of_changes(view):
    """How many operations change each image."""
    motion = view.motion
    appearance = view.appearance
    is_changed = torch.stack(
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
    )
    assert is_changed.shape[1] == len(OPERATIONS)
    return is_changed.sum(1)


def test_randaugment_picks_the_given_number_of_operations():
    changes = number_of_changes(draw_view(torch.arange(400), 1.0, operations=2))
    assert changes.max() == 2
    assert changes.float().mean() > 1.5  # blur and lower resolution leave most images alone


def test_all_operations_are_picked_by_default():
    view = draw_view(torch.arange(400), 1.0)
    assert view.motion.rotation.abs().min() > 0


def neutral_appearance():
    """The appearance that changes no grey value."""
    return replace(
        draw_view(SEEDS, 1.0).appearance,
        gamma=torch.ones(6),
        contrast=torch.ones(6),
        brightness=torch.zeros(6),
        blur=torch.zeros(6),
        coarseness=torch.ones(6),
        noise=torch.zeros(6),
    )


def noisy_volumes():
    return torch.randn(6, 1, 32, 32, 3, generator=torch.Generator().manual_seed(0))


def test_no_blur_and_full_resolution_change_nothing_bit_for_bit():
    x = noisy_volumes()
    assert torch.equal(neutral_appearance().after_motion(x), x)


SMOOTHING = pytest.mark.parametrize(
    "change",
    [{"blur": torch.full((6,), 1.0)}, {"coarseness": torch.full((6,), 2.0)}],
    ids=["blur", "resolution"],
)


@SMOOTHING
def test_blur_and_lower_resolution_smooth_the_image_and_keep_its_mean(change):
    x = noisy_volumes()
    smooth = replace(neutral_appearance(), **change).after_motion(x)
    assert smooth.std() < 0.6 * x.std()
    assert smooth.mean().item() == pytest.approx(x.mean().item(), abs=0.02)


@SMOOTHING
def test_blur_and_lower_resolution_do_not_mix_slices(change):
    x = noisy_volumes()
    appearance = replace(neutral_appearance(), **change)
    middle_slice = appearance.after_motion(x[..., 1:2])
    torch.testing.assert_close(middle_slice, appearance.after_motion(x)[..., 1:2])


def test_gamma_keeps_the_range():
    x = torch.randn(6, 2, 16, 16)
    curved = replace(neutral_appearance(), gamma=torch.full((6,), 2.0)).before_motion(x)
    assert not torch.allclose(curved, x)
    torch.testing.assert_close(curved.amin((2, 3)), x.amin((2, 3)))
    torch.testing.assert_close(curved.amax((2, 3)), x.amax((2, 3)))


def test_contrast_and_brightness_are_linear():
    x = torch.randn(6, 2, 16, 16)
    appearance = replace(
        neutral_appearance(),
        contrast=torch.full((6,), 2.0),
        brightness=torch.full((6,), 3.0),
    )
    torch.testing.assert_close(appearance.before_motion(x), 2 * x + 3)
