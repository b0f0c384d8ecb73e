"""One label map from the masks of all regions."""

import numpy as np
import torch

from segpl.data.cases import Region
from segpl.inference.label_map import merge_regions

NESTED = (
    Region("whole", (1, 2, 4), 2),
    Region("core", (1, 4), 1),
    Region("enhancing", (4,), 4),
)
MASKS = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=torch.bool)


def test_a_later_region_covers_an_earlier_one():
    assert merge_regions(MASKS, NESTED).tolist() == [2, 1, 4, 1, 0]


def test_the_type_is_the_smallest_that_holds_the_values():
    assert merge_regions(MASKS, NESTED).dtype == np.uint8
    assert merge_regions(MASKS[:1], (Region("whole", (300,), 300),)).max() == 300


def test_a_label_map_may_have_negative_values():
    regions = (Region("unknown", (-5,), -5), Region("vessel", (3,), 3))
    masks = torch.tensor([[True, False, False], [False, True, False]])
    assert merge_regions(masks, regions).tolist() == [-5, 3, 0]
