"""Boxes exchanged between images."""

import pytest
import torch

from segpl.em.exchange import (
    Sides,
    choose_images,
    draw_boxes,
    exchange,
    invert_half,
    partner_indices,
)

SEEDS = torch.arange(300)


def test_one_image_is_inside_the_box_and_the_other_outside():
    sevens = torch.full((1, 2, 4, 4), 7.0)
    zeros = torch.zeros(1, 2, 4, 4)
    box = torch.zeros(1, 1, 4, 4)
    box[:, :, 1:3, 2:4] = 1
    expected = zeros.clone()
    expected[:, :, 1:3, 2:4] = 7
    assert torch.equal(exchange(sevens, zeros, box), expected)


@pytest.mark.parametrize("space", [(20, 30), (16, 20, 24)])
def test_boxes_have_sides_within_the_limits_and_reach_every_border(space):
    boxes = draw_boxes(SEEDS, torch.Size(space), Sides(0.3, 0.6))
    touched = torch.zeros(space)
    for box in boxes[:, 0]:
        voxels = box.nonzero()
        lengths = voxels.amax(0) - voxels.amin(0) + 1
        assert box.sum() == lengths.prod(), "the box is whole"
        for length, size in zip(lengths.tolist(), space, strict=True):
            assert round(0.3 * size) <= length <= round(0.6 * size)
        touched += box
    for axis, size in enumerate(space):
        assert touched.select(axis, 0).any()
        assert touched.select(axis, size - 1).any()


def test_a_box_spans_a_thin_axis():
    boxes = draw_boxes(SEEDS, torch.Size((16, 16, 5)), Sides(0.3, 0.6))
    assert torch.equal(boxes, boxes[..., :1].expand_as(boxes))


def test_a_box_depends_on_the_seed_of_its_image_only():
    space = torch.Size((16, 16))
    all_boxes = draw_boxes(SEEDS, space, Sides(0.3, 0.6))
    last_boxes = draw_boxes(SEEDS[7:], space, Sides(0.3, 0.6))
    assert torch.equal(all_boxes[7:], last_boxes)


def test_half_of_the_boxes_are_inverted():
    boxes = draw_boxes(SEEDS, torch.Size((16, 16)), Sides(0.3, 0.3))
    area = invert_half(boxes, SEEDS).sum((1, 2, 3))
    assert set(area.tolist()) == {25.0, 256.0 - 25.0}
    assert (area == 25).float().mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_given_share_of_images_is_chosen(share):
    boxes = torch.ones(300, 1, 4, 4)
    chosen = boxes * choose_images(SEEDS, share, like=boxes)
    assert chosen.mean() == pytest.approx(share, abs=0.08)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_an_image_and_its_partner_are_in_the_same_process(processes):
    """8 unlabelled images, their 4 labelled partners, and processes that take every Nth of each."""
    in_one_process = partner_indices(8, partners=4)
    for process in range(processes):
        unlabelled = torch.arange(process, 8, processes)
        labelled = torch.arange(process, 4, processes)
        partner = labelled[partner_indices(len(unlabelled), partners=len(labelled))]
        assert torch.equal(partner, in_one_process[unlabelled])
