import json

import pytest
import torch

from segpl.em.types import Batch
from segpl.methods.cps import CPS
from segpl.methods.fixmatch import FixMatch
from segpl.methods.segpl import SegPL
from segpl.methods.supervised import Supervised
from segpl.networks.unet import UNet
from segpl.settings.planning import plan_run
from segpl.training.cost import counted, flops, parameters
from segpl.training.loop import train

CONVOLUTIONS = [  # inputs, outputs, kernel, side of the output; three levels of a 16 x 16 image
    (2, 4, 3, 16), (4, 4, 3, 16),
    (4, 8, 3, 8), (8, 8, 3, 8),
    (8, 16, 3, 4), (16, 16, 3, 4),
    (16, 8, 3, 8), (8, 8, 3, 8),
    (8, 4, 3, 16), (4, 4, 3, 16),
    (4, 1, 1, 16),
]  # fmt: skip
UPWARDS = [(16, 8, 4), (8, 4, 8)]  # transposed 2 x 2: inputs, outputs, side of the input


def tiny():
    return UNet(inputs=2, regions=1, channels=4, patch=(16, 16))


def batch():
    x = torch.randn(3, 2, 16, 16)
    return Batch(
        x[:1],
        (x[:1, :1] > 0).float(),
        x[:1],
        (x[:1, :1] > 0).float(),
        x[1:],
        torch.tensor([1]),
        torch.tensor([2, 3]),
    )


def test_parameters_agree_with_a_hand_count():
    weights = sum(i * o * k * k for i, o, k, _ in CONVOLUTIONS) + sum(
        i * o * 4 for i, o, _ in UPWARDS
    )
    norms = sum(2 * o for _, o, k, _ in CONVOLUTIONS if k == 3)
    assert parameters(tiny()) == weights + norms + 1  # the head alone has a bias


def test_flops_agree_with_a_hand_count():
    forward = sum(2 * i * o * k * k * side**2 for i, o, k, side in CONVOLUTIONS)
    forward += sum(2 * i * o * 4 * side**2 for i, o, side in UPWARDS)
    model = tiny()
    assert counted(lambda: model(torch.randn(1, 2, 16, 16))) == forward
    expected = {"flops_labelled": forward, "flops_unlabelled": forward, "flops_prediction": forward}
    assert flops(SegPL(), model, batch()) == expected
    assert flops(Supervised(), model, batch()) == expected | {"flops_unlabelled": 0}
    assert flops(FixMatch(), model, batch()) == expected | {"flops_unlabelled": 2 * forward}
    twice = {name: 2 * value for name, value in expected.items()}
    assert flops(CPS(), CPS().build(tiny), batch()) == twice


def test_a_run_says_what_it_cost(tumours, tmp_path):
    small = {"steps": 3, "patch": [32, 32], "channels": 4, "batch": 2, "ratio": 1, "labelled": 1}
    train(plan_run(tumours, {"method": "segpl", **small}), tmp_path / "run")
    cost = json.loads((tmp_path / "run/cost.json").read_text())
    assert cost["seconds_per_step"] > 0
    assert cost["peak_memory_bytes"] > 10**8
    assert cost["images_per_step"] == {"labelled": 2, "unlabelled": 2}
    assert cost["steps_timed"] == 3
    facts = json.loads((tmp_path / "run/facts.json").read_text())
    assert facts["seconds"] == pytest.approx(3 * cost["seconds_per_step"])
    assert facts["uses_unlabelled"] is True
    assert facts["guard"] == {"on": True, "acts": []}
    assert facts["finished"] is True
