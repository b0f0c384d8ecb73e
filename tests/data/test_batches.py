from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from segpl.data.batches import REMEMBERED, Steps, crop, keep_slices, turn
from segpl.data.cases import Case
from segpl.data.preparation import Volume, normalise
from segpl.foundation.draws import Purpose, Stream, uniform
from segpl.foundation.errors import UserError


def volume(number, shape=(40, 36, 5), labelled=True):
    x = torch.full((2, *shape), float(number)) + torch.rand(
        2, *shape, generator=torch.Generator().manual_seed(number)
    )
    y = torch.zeros(2, *shape, dtype=torch.bool)
    y[0, 30:33, 30:33, 4] = True
    y[1, 31, 31, 4] = True
    return Volume(Case(f"c{number}", f"s{number}", (Path("x"),)), x, y if labelled else None)


def steps(patch=(16, 16), seed=0, foreground=0.5, unlabelled=5):
    labelled = [volume(n) for n in range(3)]
    return Steps(
        labelled,
        [volume(n, labelled=False) for n in range(10, 10 + unlabelled)],
        seed,
        patch,
        2,
        3,
        foreground,
    )


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 3), (48, 16, 8)])
def test_a_step_is_a_function_of_seed_and_number(patch):
    forwards = [steps(patch)[s] for s in range(6)]
    backwards = [steps(patch)[s] for s in reversed(range(6))][::-1]
    assert all(map(equal, forwards, backwards))
    assert not equal(forwards[0], forwards[1])
    assert not equal(forwards[0], steps(patch, seed=1)[0])
    assert forwards[0].x_l.shape == (2, 2, *patch)
    assert forwards[0].x_u.shape == (6, 2, *patch)


def test_all_volumes_have_their_turn_before_one_comes_again():
    walk = [turn(0, Stream.LABELLED_TURN, index, 5) for index in range(20)]
    assert all(sorted(walk[lap : lap + 5]) == list(range(5)) for lap in range(0, 20, 5))
    assert walk[:5] != walk[5:10] or walk[:5] != walk[10:15]


def test_foreground_share_centres_patches_on_regions_of_any_size():
    always, never = (
        [steps((8, 8), foreground=share)[s].y_l for s in range(20)] for share in (1.0, 0.0)
    )
    assert all(y[:, 0].any() for y in always)
    assert sum(y.any().item() for y in never) < 10


def test_without_unlabelled_images_the_batch_is_empty_but_well_formed():
    batch = steps(unlabelled=0)[0]
    assert batch.x_u.shape == (0, 2, 16, 16)
    assert batch.seeds_u.shape == (0,)


def test_crop_fills_up_with_background():
    x = torch.ones(1, 4, 6, 1)
    piece = crop(x, [0, 1, 0], (8, 4))
    assert piece.shape == (1, 8, 4)
    assert piece.sum() == 4 * 4
    assert piece[0, 0].sum() == piece[0, -1].sum() == 0


def test_normalise_leaves_a_background_of_zeros():
    values = np.zeros((8, 4, 4), np.float32)
    values[3:5] = np.arange(1, 33).reshape(2, 4, 4)
    result = normalise(values)
    assert (result[:3] == 0).all()
    assert result[3:5].mean() == pytest.approx(0, abs=1e-5)
    assert result[3:5].std() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("darkness", [2, 10])
def test_normalise_keeps_the_order_of_dark_voxels(darkness):
    """Of a noisy 8-bit picture whose darkest voxels are 0, a few or most of them: no background was put there."""
    noise = np.random.default_rng(0).normal(8 - darkness, 6, (64, 64, 1))
    values = np.clip(noise.round(), 0, 255).astype(np.float32)
    assert (values == 0).mean() > (0.01 if darkness == 2 else 0.5)
    greys, places = np.unique(values, return_index=True)
    assert (np.diff(normalise(values).ravel()[places]) > 0).all()
    assert len(greys) > 10


def test_normalise_takes_all_voxels_where_there_is_no_background():
    values = np.random.default_rng(0).normal(-800, 50, (8, 8, 8)).astype(np.float32)
    assert normalise(values).std() == pytest.approx(1, abs=1e-4)


def test_normalise_takes_water_for_tissue_in_ct():
    values = np.random.default_rng(0).normal(0, 30, (16, 16, 16)).round().astype(np.float32)
    assert (values == 0).mean() > 0.01
    result = normalise(values)
    neighbours = [result[values == hounsfield].mean() for hounsfield in (-1, 0, 1)]
    assert neighbours[1] == pytest.approx((neighbours[0] + neighbours[2]) / 2, abs=1e-5)


def test_normalise_survives_a_constant_image():
    assert np.isfinite(normalise(np.full((3, 3, 3), 7, np.float32))).all()


def test_uniform_numbers_belong_to_the_seed():
    both = uniform(torch.tensor([5, 6]), 3, purpose=Purpose.VIEW)
    assert torch.equal(both[1:], uniform(torch.tensor([6]), 3, purpose=Purpose.VIEW))
    assert not torch.equal(both, uniform(torch.tensor([5, 6]), 3, purpose=Purpose.THRESHOLD))
    assert both.min() >= 0
    assert both.max() < 1


def many_slices(number):
    one = volume(number, shape=(40, 36, 12))
    one.y[0, 5, 5, 3:9] = True  # with slice 4: slices 3 to 8 show a region
    return one


def test_kept_slices_show_a_region_and_are_nested():
    volumes = [many_slices(n) for n in range(3)]
    few, more = keep_slices(volumes, 4, seed=1), keep_slices(volumes, 9, seed=1)
    assert sum(one.x.shape[-1] for one in few) == 4
    assert sum(one.x.shape[-1] for one in more) == 9
    assert all(one.y.flatten(0, 2).any(0).all() for one in few + more)

    def planes(kept):
        return {plane.numpy().tobytes() for one in kept for plane in one.x.unbind(-1)}

    assert planes(few) < planes(more) < planes(volumes)
    assert planes(few) != planes(keep_slices(volumes, 4, seed=2))


def test_more_slices_than_there_are():
    with pytest.raises(UserError, match="have 18 slices that show a region"):
        keep_slices([many_slices(n) for n in range(3)], 19, seed=0)


def test_shares_make_up_the_batch():
    whole, shares = steps()[4], [replace(steps(), process=rank, processes=2)[4] for rank in (0, 1)]
    for part, first, second in zip(whole, *shares, strict=True):
        assert torch.equal(part[0::2], first)
        assert torch.equal(part[1::2], second)


def test_patches_are_centred_on_all_of_a_large_region_and_little_is_remembered():
    """More voxels than are remembered: those that are lie anywhere in it."""
    large = volume(0, shape=(40, 36, 5))
    large.y[0] = True
    road = Steps([large], [], 0, (8, 8), 2, 1, foreground=1.0)
    for step in range(50):
        road[step]
    ((whole, _),) = road.found.values()
    assert len(whole) == REMEMBERED < large.y[0].sum()
    assert (whole.min(0) == 0).all()
    assert (whole.max(0) == (39, 35, 4)).all()
    assert len(np.unique(whole, axis=0)) == REMEMBERED
