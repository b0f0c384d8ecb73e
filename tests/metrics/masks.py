"""Masks for tests."""

import torch


def random_masks(shape, share, seed=0):
    """Two masks, each with this share of foreground."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=draw) < share
    truth = torch.rand(shape, generator=draw) < share
    return mask, truth


def box(shape, first, end):
    """One region: a box from the corner `first` up to but not including the corner `end`."""
    mask = torch.zeros(1, *shape, dtype=torch.bool)
    sides = tuple(slice(*side) for side in zip(first, end, strict=True))
    mask[0][sides] = True
    return mask
