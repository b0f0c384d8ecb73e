"""Boxes exchanged between images: by hand, and as a property of every box that is drawn."""

import pytest
import torch

from segpl.em.exchange import Sides, draw_boxes, exchange, one_way_or_other, partners, some_images

SEEDS = torch.arange(300)


def test_inside_the_box_one_image_and_outside_the_other():
    a = torch.full((1, 2, 4, 4), 7.0)
    b = torch.zeros(1, 2, 4, 4)
    box = torch.zeros(1, 1, 4, 4)
    box[:, :, 1:3, 2:4] = 1
    mixed = exchange(a, b, box)
    assert mixed.sum() == 2 * 4 * 7
    assert (mixed[:, :, 1:3, 2:4] == 7).all()


@pytest.mark.parametrize("space", [(20, 30), (16, 20, 24)])
def test_boxes_have_sides_within_the_limits_and_lie_anywhere(space):
    boxes = draw_boxes(SEEDS, torch.Size(space), Sides(0.3, 0.6))
    touched = torch.zeros(space)
    for box in boxes[:, 0]:
        places = box.nonzero()
        lengths = places.amax(0) - places.amin(0) + 1
        assert box.sum() == lengths.prod(), "the box is whole"
        for length, n in zip(lengths.tolist(), space, strict=True):
            assert round(0.3 * n) <= length <= round(0.6 * n)
        touched += box
    for axis, n in enumerate(space):
        assert touched.select(axis, 0).any()
        assert touched.select(axis, n - 1).any()


def test_thin_axes_are_not_cut():
    boxes = draw_boxes(SEEDS, torch.Size((16, 16, 5)), Sides(0.3, 0.6))
    assert torch.equal(boxes, boxes[..., :1].expand_as(boxes))


def test_a_box_belongs_to_the_seed_of_the_image():
    space = torch.Size((16, 16))
    whole = draw_boxes(SEEDS, space, Sides(0.3, 0.6))
    assert torch.equal(whole[7:], draw_boxes(SEEDS[7:], space, Sides(0.3, 0.6)))


def test_half_of_the_images_are_the_box_and_half_the_surroundings():
    boxes = draw_boxes(SEEDS, torch.Size((16, 16)), Sides(0.3, 0.3))
    area = one_way_or_other(boxes, SEEDS).sum((1, 2, 3))
    assert set(area.tolist()) == {25.0, 256.0 - 25.0}
    assert (area == 25).float().mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_as_many_images_are_mixed_as_asked(share):
    boxes = torch.ones(300, 1, 4, 4)
    chosen = boxes * some_images(SEEDS, share, like=boxes)
    assert chosen.mean() == pytest.approx(share, abs=0.08)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_partners_meet_in_one_process(processes):
    """Of 4 labelled and 8 unlabelled images, processes are dealt every second or fourth."""
    alone = partners(8, of=4)
    for process in range(processes):
        mine = torch.arange(process, 8, processes)
        labelled = torch.arange(process, 4, processes)
        there = labelled[partners(len(mine), of=len(labelled))]
        assert torch.equal(there, alone[mine])
