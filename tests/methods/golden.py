"""Loss curves that a refactoring must reproduce.

`python tests/methods/golden.py NAME` records the curve of a method again, for intended changes.
"""

import json
import sys
from pathlib import Path

import torch

from segpl.em.types import Batch
from segpl.methods import METHODS, Method
from segpl.networks.unet import UNet

FOLDER = Path(__file__).parent / "golden"


def synthetic_batch() -> Batch:
    """Two labelled and three unlabelled images of noise, whose bright pixels are the label."""
    x = torch.randn(5, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    x_l = x[:2]
    y_l = (x_l > 0.5).float()
    return Batch(
        x_l=x_l,
        y_l=y_l,
        x_p=x_l.flip(0),
        y_p=y_l.flip(0),
        x_u=x[2:],
        seeds_l=torch.tensor([4, 5]),
        seeds_u=torch.tensor([1, 2, 3]),
    )


def small_network() -> UNet:
    return UNet(inputs=1, regions=1, channels=4, patch=(16, 16))


def curve(kind: type[Method], steps: int = 8) -> list[float]:
    """The total loss of each of a few training steps on one batch."""
    method = kind()
    batch = Batch.join([synthetic_batch()] * method.batches_per_step)
    torch.manual_seed(0)
    model = method.build(small_network)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    totals = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = method.losses(model, batch, progress=step / steps).total
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        method.after_step(model)
        totals.append(loss.item())
    return totals


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        totals = [round(total, 6) for total in curve(METHODS[name])]
        (FOLDER / f"{name}.json").write_text(json.dumps(totals) + "\n")
