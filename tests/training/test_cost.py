import json

import pytest
import torch

from segpl.em.types import Batch
from segpl.methods.cps import CPS
from segpl.methods.deep_ensemble import DeepEnsemble
from segpl.methods.fixmatch import FixMatch
from segpl.methods.segpl import SegPL
from segpl.methods.supervised import Supervised
from segpl.networks.unet import UNet
from segpl.settings.planning import plan_run
from segpl.training.cost import count_flops, count_parameters, flops
from segpl.training.loop import train

CONVOLUTIONS = [  # inputs, outputs, kernel, side of the output; three levels of a 16 x 16 image
    (2, 4, 3, 16), (4, 4, 3, 16),
    (4, 8, 3, 8), (8, 8, 3, 8),
    (8, 16, 3, 4), (16, 16, 3, 4),
    (16, 8, 3, 8), (8, 8, 3, 8),
    (8, 4, 3, 16), (4, 4, 3, 16),
    (4, 1, 1, 16),
]  # fmt: skip
TRANSPOSED = [(16, 8, 4), (8, 4, 8)]  # 2 x 2 kernels: inputs, outputs, side of the input


def tiny_unet():
    return UNet(inputs=2, regions=1, channels=4, patch=(16, 16))


@pytest.fixture
def tiny_batch():
    """One labelled and two unlabelled images."""
    x = torch.randn(3, 2, 16, 16)
    y_l = (x[:1, :1] > 0).float()
    return Batch(
        x_l=x[:1],
        y_l=y_l,
        x_p=x[:1],
        y_p=y_l,
        x_u=x[1:],
        seeds_l=torch.tensor([1]),
        seeds_u=torch.tensor([2, 3]),
    )


def forward_flops():
    """The operations of one forward pass, counted by hand."""
    flops = 0
    for inputs, outputs, kernel, side in CONVOLUTIONS:
        flops += 2 * inputs * outputs * kernel**2 * side**2
    for inputs, outputs, side in TRANSPOSED:
        flops += 2 * inputs * outputs * 4 * side**2
    return flops


def test_parameters_agree_with_a_hand_count():
    expected = 1  # the bias of the head, the only one
    for inputs, outputs, kernel, _ in CONVOLUTIONS:
        expected += inputs * outputs * kernel**2
        if kernel == 3:
            expected += 2 * outputs  # the normalisation
    for inputs, outputs, _ in TRANSPOSED:
        expected += inputs * outputs * 4
    assert count_parameters(tiny_unet()) == expected


def test_the_flops_of_a_network_agree_with_a_hand_count():
    model = tiny_unet()
    assert count_flops(lambda: model(torch.randn(1, 2, 16, 16))) == forward_flops()


@pytest.mark.parametrize(
    ("method", "labelled", "unlabelled", "prediction"),
    [
        (SegPL(), 1, 1, 1),
        (Supervised(), 1, 0, 1),
        (FixMatch(), 1, 2, 1),
        (CPS(), 2, 2, 2),
        (DeepEnsemble(base=SegPL(), members=3), 1, 1, 3),
    ],
    ids=["segpl", "supervised", "fixmatch", "cps", "deep-ensemble"],
)
def test_the_flops_of_a_method_are_its_forward_passes_per_image(
    method, labelled, unlabelled, prediction, tiny_batch
):
    assert flops(method, method.build(tiny_unet), tiny_batch) == {
        "flops_labelled": labelled * forward_flops(),
        "flops_unlabelled": unlabelled * forward_flops(),
        "flops_prediction": prediction * forward_flops(),
    }


@pytest.fixture(scope="module")
def trained(tumours, tmp_path_factory):
    settings = {"steps": 3, "patch": [32, 32], "channels": 4, "batch": 2, "ratio": 1, "labelled": 1}
    run = plan_run(tumours, {"method": "segpl", **settings})
    return train(run, tmp_path_factory.mktemp("trained") / "run")


def test_a_run_records_what_it_cost(trained):
    cost = json.loads((trained / "cost.json").read_text())
    assert cost["seconds_per_step"] > 0
    assert cost["peak_memory_bytes"] > 10**8
    assert cost["images_per_step"] == {"labelled": 2, "unlabelled": 2}
    assert cost["steps_timed"] == 3


def test_a_run_records_the_facts_that_a_report_needs(trained):
    cost = json.loads((trained / "cost.json").read_text())
    facts = json.loads((trained / "facts.json").read_text())
    assert facts["seconds"] == pytest.approx(3 * cost["seconds_per_step"])
    assert facts["uses_unlabelled"] is True
    assert facts["guard"] == {"on": True, "acts": []}
    assert facts["finished"] is True
