"""Batches: pure functions of seed and step, with patches that find the foreground."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from segpl.data.batches import (
    MAX_CENTRES,
    Steps,
    crop,
    join_steps,
    keep_crops,
    keep_slices,
    volume_index,
)
from segpl.data.cases import Case
from segpl.data.preparation import Volume
from segpl.foundation.draws import Purpose, Stream, uniform
from segpl.foundation.errors import UserError


def make_volume(number, shape=(40, 36, 5), labelled=True):
    """Noise around `number`, with two small nested regions in the last slice."""
    rng = torch.Generator().manual_seed(number)
    x = number + torch.rand(2, *shape, generator=rng)
    y = torch.zeros(2, *shape, dtype=torch.bool)
    y[0, 30:33, 30:33, 4] = True
    y[1, 31, 31, 4] = True
    case = Case(f"c{number}", f"s{number}", (Path("x"),))
    return Volume(case, x, y if labelled else None)


def make_steps(patch=(16, 16), seed=0, foreground=0.5, unlabelled=5):
    return Steps(
        labelled=[make_volume(number) for number in range(3)],
        unlabelled=[make_volume(10 + number, labelled=False) for number in range(unlabelled)],
        seed=seed,
        patch=patch,
        batch=2,
        ratio=3,
        foreground=foreground,
    )


def are_equal(first, second):
    """Whether two batches hold the same; both lack the voxels to ignore."""
    pairs = zip(tensors_of(first), tensors_of(second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def tensors_of(batch):
    return [tensor for tensor in batch if tensor is not None]


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 3), (48, 16, 8)])
def test_a_step_is_a_function_of_seed_and_number(patch):
    forwards = make_steps(patch)
    in_order = [forwards[step] for step in range(6)]
    backwards = make_steps(patch)
    for step in reversed(range(6)):
        assert are_equal(backwards[step], in_order[step])
    assert not are_equal(in_order[0], in_order[1])
    assert not are_equal(in_order[0], make_steps(patch, seed=1)[0])


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 3), (48, 16, 8)])
def test_patches_have_the_shape_that_was_asked_for(patch):
    batch = make_steps(patch)[0]
    assert batch.x_l.shape == (2, 2, *patch)
    assert batch.x_u.shape == (6, 2, *patch)


def test_all_volumes_are_used_before_one_is_used_again():
    order = [volume_index(0, Stream.LABELLED_ORDER, number, 5) for number in range(20)]
    laps = [order[start : start + 5] for start in range(0, 20, 5)]
    for lap in laps:
        assert sorted(lap) == [0, 1, 2, 3, 4]
    assert laps[0] != laps[1] or laps[0] != laps[2]


def test_all_patches_are_centred_on_foreground_if_asked():
    steps = make_steps((8, 8), foreground=1.0)
    for step in range(20):
        assert steps[step].y_l[:, 0].any()


def test_few_patches_show_a_small_region_by_chance():
    steps = make_steps((8, 8), foreground=0.0)
    with_foreground = [step for step in range(20) if steps[step].y_l.any()]
    assert len(with_foreground) < 10


def test_without_unlabelled_images_the_batch_is_empty_but_well_formed():
    batch = make_steps(unlabelled=0)[0]
    assert batch.x_u.shape == (0, 2, 16, 16)
    assert batch.seeds_u.shape == (0,)


def test_a_crop_is_padded_with_background_on_both_sides():
    piece = crop(torch.ones(1, 4, 6, 1), [0, 1, 0], (8, 4))
    assert piece.shape == (1, 8, 4)
    assert piece.sum() == 4 * 4
    assert piece[0, 0].sum() == 0
    assert piece[0, -1].sum() == 0


def test_uniform_numbers_depend_on_the_images_seed_and_on_the_purpose():
    both = uniform(torch.tensor([5, 6]), 3, purpose=Purpose.VIEW)
    assert torch.equal(both[1:], uniform(torch.tensor([6]), 3, purpose=Purpose.VIEW))
    assert not torch.equal(both, uniform(torch.tensor([5, 6]), 3, purpose=Purpose.THRESHOLD))
    assert both.min() >= 0
    assert both.max() < 1


def test_one_batch_per_step_is_the_sequence_itself():
    steps = make_steps()
    assert are_equal(join_steps(steps, 1)[3], steps[3])


def test_each_batch_of_a_step_has_its_own_images_and_seeds():
    steps = make_steps()
    parts = join_steps(steps, 3)[0].parts(3)
    assert are_equal(parts[0], steps[0])
    for first, second in combinations(parts, 2):
        assert not torch.equal(first.x_l, second.x_l)
        assert not torch.equal(first.x_u, second.x_u)
        assert not set(first.seeds_u.tolist()) & set(second.seeds_u.tolist())


def test_each_batch_of_a_step_has_its_own_order_of_all_volumes():
    """One volume per step and batch: each three steps show all three, in orders that differ."""
    steps = replace(make_steps(), batch=1)
    orders = []
    for sequence in join_steps(steps, 4).sequences:
        volumes = [int(sequence[step].x_l.min()) for step in range(3)]
        assert sorted(volumes) == [0, 1, 2]
        orders.append(tuple(volumes))
    assert len(set(orders)) > 1


def test_joined_steps_are_a_function_of_seed_and_number():
    forwards = join_steps(make_steps(), 3)
    in_order = [forwards[step] for step in range(4)]
    backwards = join_steps(make_steps(), 3)
    for step in reversed(range(4)):
        assert are_equal(backwards[step], in_order[step])


def test_processes_share_each_batch_of_a_step():
    steps = join_steps(make_steps(), 3)
    whole = steps[2].parts(3)
    for process in range(2):
        shares = steps.of_process(process, processes=2)[2].parts(3)
        for share, batch in zip(shares, whole, strict=True):
            assert are_equal(share, [tensor[process::2] for tensor in tensors_of(batch)])


def test_parts_of_a_batch_without_unlabelled_images_are_well_formed():
    first, second = join_steps(make_steps(unlabelled=0), 2)[0].parts(2)
    assert first.x_u.shape == second.x_u.shape == (0, 2, 16, 16)


@pytest.fixture
def thick_volumes():
    """Three volumes of 12 slices, of which slices 3 to 8 show a region."""
    volumes = [make_volume(number, shape=(40, 36, 12)) for number in range(3)]
    for volume in volumes:
        volume.y[0, 5, 5, 3:9] = True
    return volumes


def slices_of(volumes):
    """The content of all slices."""
    contents = set()
    for volume in volumes:
        for plane in volume.x.unbind(-1):
            contents.add(plane.numpy().tobytes())
    return contents


@pytest.mark.parametrize("count", [4, 9])
def test_as_many_slices_are_kept_as_were_asked_for_and_all_show_a_region(thick_volumes, count):
    kept = keep_slices(thick_volumes, count, seed=1)
    assert sum(volume.x.shape[-1] for volume in kept) == count
    for volume in kept:
        assert volume.y.flatten(0, 2).any(0).all()


def test_the_slices_of_a_smaller_count_are_among_those_of_a_larger(thick_volumes):
    few = slices_of(keep_slices(thick_volumes, 4, seed=1))
    more = slices_of(keep_slices(thick_volumes, 9, seed=1))
    assert few < more < slices_of(thick_volumes)


def test_another_seed_keeps_other_slices(thick_volumes):
    first = slices_of(keep_slices(thick_volumes, 4, seed=1))
    assert first != slices_of(keep_slices(thick_volumes, 4, seed=2))


def test_slices_without_a_region_are_drawn_when_all_others_are(thick_volumes):
    kept = keep_slices(thick_volumes, 30, seed=1)
    shown = [volume.y.flatten(0, 2).any(0) for volume in kept]
    assert sum(len(slices) for slices in shown) == 30
    assert sum(int(slices.sum()) for slices in shown) == 18
    assert slices_of(keep_slices(thick_volumes, 18, seed=1)) < slices_of(kept)


def test_more_slices_than_there_are_is_an_error(thick_volumes):
    with pytest.raises(UserError, match="slices is 37, but the labelled subjects have 36 slices"):
        keep_slices(thick_volumes, 37, seed=0)


@pytest.fixture
def scattered():
    """Two volumes of 40 x 36 x 12 with foreground voxels all over."""
    volumes = []
    for number in range(2):
        volume = make_volume(number, shape=(40, 36, 12))
        rng = torch.Generator().manual_seed(number)
        foreground = torch.rand(volume.x.shape[1:], generator=rng) < 0.02
        volumes.append(volume._replace(y=torch.stack([foreground, foreground])))
    return volumes


def places_of(crops):
    return {(crop.case.name, crop.place.corner) for crop in crops}


@pytest.mark.parametrize("patch", [(16, 16, 3), (16, 16)])
def test_crops_have_the_patchs_size_and_show_a_region(scattered, patch):
    crops = keep_crops(scattered, 8, patch, seed=1)
    assert len(crops) == len(places_of(crops)) == 8
    for piece in crops:
        assert piece.x.shape[1:] == (*patch, 1)[:3]
        assert piece.y.any()


def test_a_crop_is_the_scan_at_its_place_and_holds_nothing_else(scattered):
    scans = {volume.case.name: volume for volume in scattered}
    for piece in keep_crops(scattered, 5, (16, 16, 3), seed=1):
        scan = scans[piece.case.name]
        x, y, z = piece.place.corner
        assert torch.equal(piece.x, scan.x[:, x : x + 16, y : y + 16, z : z + 3])
        assert torch.equal(piece.y, scan.y[:, x : x + 16, y : y + 16, z : z + 3])
        assert piece.place.scan_shape == (40, 36, 12)
        assert piece.y.untyped_storage().nbytes() == piece.y.nbytes


def test_the_crops_of_a_smaller_count_are_among_those_of_a_larger(scattered):
    few = places_of(keep_crops(scattered, 4, (16, 16, 3), seed=1))
    many = places_of(keep_crops(scattered, 60, (16, 16, 3), seed=1))
    assert few < many
    assert few != places_of(keep_crops(scattered, 4, (16, 16, 3), seed=2))


def test_crops_overlap_only_if_there_is_no_other_place(scattered):
    crops = keep_crops(scattered, 6, (16, 16, 3), seed=1)
    covered = {volume.case.name: torch.zeros(40, 36, 12) for volume in scattered}
    for piece in crops:
        x, y, z = piece.place.corner
        covered[piece.case.name][x : x + 16, y : y + 16, z : z + 3] += 1
    assert all(count.max() <= 1 for count in covered.values())
    assert len(keep_crops(scattered, 300, (16, 16, 3), seed=1)) == 300


def test_more_crops_than_there_are_places_is_an_error():
    volume = make_volume(0, shape=(40, 36, 5))
    with pytest.raises(UserError, match=r"crops is 3, but .* at 1 places for a crop of"):
        keep_crops([volume], 3, (40, 36, 5), seed=0)


def test_labelled_patches_are_the_crops_and_unlabelled_ones_are_centred_where_they_lie():
    """The only foreground is in the last corner, and so are the unlabelled patches."""
    volumes = [make_volume(number) for number in range(2)]
    crops = keep_crops(volumes, 2, (8, 8, 3), seed=0)
    unlabelled = make_volume(10, shape=(80, 72, 10), labelled=False)
    steps = Steps(crops, [unlabelled], 0, (8, 8, 3), batch=2, ratio=1, foreground=1.0)
    batch = steps[0]
    expected = {piece.x.numpy().tobytes() for piece in crops}
    assert {x.numpy().tobytes() for x in batch.x_l} <= expected
    for x in batch.x_u:
        in_last_corner = unlabelled.x[:, 50:, 50:, 5:].unfold(1, 8, 1).unfold(2, 8, 1)
        windows = in_last_corner.unfold(3, 3, 1).flatten(0, 0)
        matches = (windows == x[:, None, None, None]).flatten(4).all(-1).all(0)
        assert matches.any()


def test_the_images_of_two_processes_make_up_the_batch():
    whole = make_steps()[4]
    first = replace(make_steps(), process=0, processes=2)[4]
    second = replace(make_steps(), process=1, processes=2)[4]
    for name in whole._fields:
        if name.startswith("ignored"):
            continue
        assert torch.equal(getattr(whole, name)[0::2], getattr(first, name))
        assert torch.equal(getattr(whole, name)[1::2], getattr(second, name))


def test_of_a_large_region_some_voxels_from_everywhere_are_kept_as_centres():
    volume = make_volume(0, shape=(40, 36, 5))
    volume.y[0] = True
    steps = Steps([volume], [], 0, (8, 8), batch=2, ratio=1, foreground=1.0)
    steps[0]
    centres = steps.centres[0][0]
    assert len(centres) == MAX_CENTRES < volume.y[0].sum()
    assert len(np.unique(centres, axis=0)) == MAX_CENTRES
    assert centres.min(0).tolist() == [0, 0, 0]
    assert centres.max(0).tolist() == [39, 35, 4]
