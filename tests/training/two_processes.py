"""Run by torchrun: the gradients of two processes that share a batch, against those of one.

Prints the name of each method, the number of axes, and the largest relative difference.
"""

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

PATCHES = ((32, 32), (32, 32, 8))


class Step(nn.Module):
    """A method's loss as a forward pass: gradients are averaged for modules only."""

    def __init__(self, method, model):
        super().__init__()
        self.method = method
        self.model = model

    def forward(self, batch):
        return self.method.losses(self.model, batch, progress=0.7).total


def whole_batch(method, patch):
    """All batches that a step of the method needs, each with other images."""
    batches = [one_batch(patch, seed) for seed in range(1, 1 + method.batches_per_step)]
    return Batch.join(batches)


def one_batch(patch, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 2, *patch, generator=generator)
    y = (x[:2] > 0.3).float()
    return Batch(
        x_l=x[:2],
        y_l=y,
        x_p=x[:2] + 1,
        y_p=y,
        x_u=x[2:],
        seeds_l=torch.tensor([21, 22]),
        seeds_u=torch.tensor([11, 12, 13, 14]),
    )


def gradients_of_one(method, patch):
    """The model, and its gradients where one process has the whole batch."""
    torch.manual_seed(5)
    model = method.build(lambda: UNet(inputs=2, regions=2, channels=4, patch=patch))
    step = Step(method, copy.deepcopy(model))
    step(whole_batch(method, patch)).backward()
    return model, [weight.grad for weight in step.parameters()]


def largest_difference(method, patch, model, expected):
    """Between the gradients of one and of two processes, relative to the largest gradient."""
    step = Step(method, model)
    shared = DistributedDataParallel(step, find_unused_parameters=True)
    whole = whole_batch(method, patch)
    share = [tensor[dist.get_rank() :: 2] for tensor in whole if tensor is not None]
    shared(Batch(*share)).backward()
    largest = 0.0
    difference = 0.0
    for gradient, weight in zip(expected, step.parameters(), strict=True):
        if gradient is not None:
            largest = max(largest, gradient.abs().max().item())
            difference = max(difference, (gradient - weight.grad).abs().max().item())
    return difference / largest


def set_precision(name):
    """Double precision for the ensemble.

    In single precision a voxel may fall on the other side of a rectifier's kink, which is no fault
    of the processes. The ensemble has five times as many voxels for it to happen to.
    """
    torch.set_default_dtype(torch.float64 if name == "deep-ensemble" else torch.float32)


def main():
    torch.set_num_threads(1)
    of_one = {}
    for name, patch in product(METHODS, PATCHES):
        set_precision(name)
        of_one[name, patch] = gradients_of_one(Method.choose(name), patch)
    dist.init_process_group("gloo")  # only now: losses add up over all processes of a group
    for (name, patch), (model, gradients) in of_one.items():
        set_precision(name)
        difference = largest_difference(Method.choose(name), patch, model, gradients)
        if dist.get_rank() == 0:
            print(name, len(patch), difference, flush=True)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may outlive the group


if __name__ == "__main__":
    main()
