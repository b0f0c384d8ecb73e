"""Run by torchrun: the gradients of two processes that share a batch, against those of one that has all of it."""

import copy
import os
import sys
from itertools import product

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from segpl.em.types import Batch
from segpl.methods import METHODS
from segpl.methods.base import Method
from segpl.networks.unet import UNet


class Step(nn.Module):
    """A method's loss as the forward pass of a module, which is what gradients are averaged through."""

    def __init__(self, method, model):
        super().__init__()
        self.method, self.model = method, model

    def forward(self, batch):
        return self.method.losses(self.model, batch, progress=0.7).total


def joined(patch):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(6, 2, *patch, generator=draw)
    return Batch(
        x[:2],
        (x[:2] > 0.3).float(),
        x[:2] + 1,
        (x[:2] > 0.3).float(),
        x[2:],
        torch.tensor([21, 22]),
        torch.tensor([11, 12, 13, 14]),
    )


def gradients_of_one(method, patch):
    """The model, and its gradients where one process has the whole batch."""
    torch.manual_seed(5)
    model = method.build(lambda: UNet(inputs=2, regions=2, channels=4, patch=patch))
    alone = Step(method, copy.deepcopy(model))
    alone(joined(patch)).backward()
    return model, [weight.grad for weight in alone.parameters()]


def difference(method, patch, model, gradients):
    """The largest difference between the gradients of one and of two processes, as a share of the largest."""
    together = Step(method, model)
    shared = DistributedDataParallel(together, find_unused_parameters=True)
    shared(Batch(*(part[dist.get_rank() :: 2] for part in joined(patch)))).backward()
    largest = 0.0
    furthest = 0.0
    for one, weight in zip(gradients, together.parameters(), strict=True):
        if one is not None:
            largest = max(largest, one.abs().max().item())
            furthest = max(furthest, (one - weight.grad).abs().max().item())
    return furthest / largest


def precise(name):
    """In single precision a voxel may fall on the other side of a rectifier's kink, which is no mistake of the
    processes. An ensemble has five times as many voxels for it to happen to.
    """
    torch.set_default_dtype(torch.float64 if name == "deep-ensemble" else torch.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    expected = {}
    for name, patch in product(METHODS, ((32, 32), (32, 32, 8))):
        precise(name)
        expected[name, patch] = gradients_of_one(Method.choose(name), patch)
    dist.init_process_group("gloo")  # only now: losses add up over all processes of a group
    for (name, patch), (model, gradients) in expected.items():
        precise(name)
        found = difference(Method.choose(name), patch, model, gradients)
        if dist.get_rank() == 0:
            print(name, len(patch), found, flush=True)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may outlive the group
