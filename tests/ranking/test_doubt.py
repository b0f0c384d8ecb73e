"""How unsure a network is of a scan."""

import nibabel
import numpy as np
import pytest
import torch
from untrained import untrained

from segpl.data.cases import Region, Task
from segpl.inference.levels import ENTROPY, FULL
from segpl.inference.predictor import Predictor, Wanted, load
from segpl.methods import METHODS
from segpl.networks.unet import UNet
from segpl.ranking import doubt
from segpl.ranking.doubt import disagreement, uncertainty
from segpl.ranking.features import listening

SPACING = (1.0, 1.0, 3.0)


def blob(p, shape=(30, 30, 6), background=0.0):
    """A region of 8 x 8 x 2 voxels with this probability."""
    levels = np.full((1, *shape), round(background * FULL), dtype=np.uint16)
    levels[0, 10:18, 10:18, 2:4] = round(p * FULL)
    return levels


def test_it_is_the_mean_of_the_regions_entropies_as_predict_reports_them(run_directory, tumours):
    predictor = load(run_directory)
    found = predictor.predict(
        nibabel.load(tumours / "imagesTs/tumour_004_0000.nii.gz").get_fdata()[None].repeat(4, 0)
    )
    expected = [numbers.uncertainty for numbers in found.numbers.values()]
    assert not np.isnan(expected).any()
    assert uncertainty(found.levels, (1.0, 1.0, 1.0))[0] == pytest.approx(np.mean(expected))


def test_the_more_doubtful_mask_is_the_more_uncertain_one():
    values = [uncertainty(blob(p), SPACING)[0] for p in (0.99, 0.9, 0.6)]
    assert values == sorted(values)
    assert values[0] < 0.1


def test_a_large_background_does_not_drown_it():
    small, large = blob(0.6), blob(0.6, shape=(90, 90, 30))
    assert uncertainty(small, SPACING)[0] == pytest.approx(uncertainty(large, SPACING)[0])


def test_a_region_that_is_nearly_found_is_uncertain_and_one_that_is_surely_absent_is_not():
    """Around one voxel 5 mm reach 81 voxels of its plane and 49 of each plane that is 3 mm away."""
    nearly, just, absent = blob(0.45), blob(0.55), blob(0.001, background=0.001)
    alone = np.zeros_like(nearly)
    alone[0, 10, 10, 2] = round(0.45 * FULL)
    assert uncertainty(nearly, SPACING)[0] == pytest.approx(uncertainty(just, SPACING)[0], rel=1e-3)
    assert uncertainty(alone, SPACING)[0] == pytest.approx(ENTROPY[alone.max()] / (81 + 2 * 49))
    assert uncertainty(absent, SPACING)[0] == pytest.approx(ENTROPY[absent.max()])
    assert uncertainty(np.zeros_like(absent), SPACING) == (0.0, 0)


def test_regions_count_alike_whatever_their_size():
    both = np.concatenate([blob(0.6), blob(0.0)])
    both[1, 2, 2, 5] = FULL
    assert uncertainty(both, SPACING)[0] == pytest.approx(uncertainty(both[:1], SPACING)[0] / 2)


def test_the_worst_slice_has_the_most_entropy_near_a_mask():
    levels = blob(0.99)
    levels[0, 10:18, 10:18, 3] = round(0.6 * FULL)
    levels[0, 0, :, 5] = round(0.5 * FULL)  # far away
    assert uncertainty(levels, SPACING)[1] == 3


class Bright(UNet):
    """Finds what is bright, wherever it is."""

    def forward(self, x):
        return 8 * (x[:, :1] - 0.5)


class Stubborn(UNet):
    """Finds something in the same corner of every image."""

    def forward(self, x):
        logits = torch.full_like(x[:, :1], -9.0)
        logits[:, :, 2:9, 3:15] = 9
        return logits


class Blind(UNet):
    """Finds nothing."""

    def forward(self, x):
        return torch.full_like(x[:, :1], -9.0)


def predictor(network):
    run = untrained()
    task = Task(("MR",), (Region("lesion", (1,), 1),))
    return Predictor(run, task, network(1, 1, 4, (32, 32)).eval(), torch.device("cpu"))


def disagreed(network):
    one = predictor(network)
    x = torch.zeros(1, 32, 32, 3)
    x[:, 8:20, 12:22] = 1
    return disagreement(one, x, one.maps(x, Wanted()), samples=1)


def test_a_network_that_follows_the_image_agrees_with_itself_and_one_that_does_not_disagrees():
    assert disagreed(Bright) < 0.15
    assert disagreed(Stubborn) > 2 * disagreed(Bright)
    assert disagreed(Blind) == 0


@pytest.mark.parametrize("network", [Bright, Stubborn])
def test_who_looks_twice_from_the_same_side_agrees(network, monkeypatch):
    monkeypatch.setattr(doubt, "STRENGTH", 0.0)
    assert disagreed(network) == 0


def test_features_are_the_mean_of_what_the_encoder_gives():
    one = predictor(UNet)
    x = torch.randn(1, 32, 32, 5, generator=torch.Generator().manual_seed(0))
    with listening(one.model) as heard:
        one.maps(x, Wanted())
    expected = one.model.encode(x.permute(3, 0, 1, 2)).mean((0, 2, 3))
    assert np.allclose(heard.features(), expected.detach(), atol=1e-5)
    one.maps(2 * x, Wanted())
    assert np.allclose(heard.features(), expected.detach(), atol=1e-5), "nobody listens any more"


@pytest.mark.parametrize("method", METHODS)
def test_all_networks_that_predict_are_heard(method):
    run = untrained(method)
    task = Task(("MR",), (Region("lesion", (1,), 1),))
    model = run.build(task).eval()
    with torch.no_grad(), listening(model) as heard:
        run.method.predict(model, torch.zeros(2, 1, 32, 32))
    voices = {"cps": 2, "deep-ensemble": 5}.get(method, 1)
    width = next(module for module in model.modules() if isinstance(module, UNet)).widths[-1]
    assert len(heard.features()) == voices * width
