"""Loss curves that a refactor must reproduce: `python tests/methods/golden.py NAME` records one anew, on purpose."""

import json
import sys
from pathlib import Path

import torch

from segpl.em.types import Batch
from segpl.methods import METHODS, Method
from segpl.networks.unet import UNet

FOLDER = Path(__file__).parent / "golden"


def curve(kind: type[Method], steps: int = 8) -> list[float]:
    """The total loss of a few steps on a made-up batch."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(5, 1, 16, 16, generator=draw)
    batch = Batch(
        x[:2],
        (x[:2] > 0.5).float(),
        x[:2].flip(0),
        (x[:2] > 0.5).float().flip(0),
        x[2:],
        torch.tensor([4, 5]),
        torch.tensor([1, 2, 3]),
    )
    torch.manual_seed(0)
    method = kind()
    model = method.build(lambda: UNet(inputs=1, regions=1, channels=4, patch=(16, 16)))
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
        totals = [round(value, 6) for value in curve(METHODS[name])]
        (FOLDER / f"{name}.json").write_text(json.dumps(totals) + "\n")
