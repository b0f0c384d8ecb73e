"""How uncertain a network is about a scan."""

import nibabel
import numpy as np
import pytest
import torch
from untrained import untrained

from segpl.data.cases import Region, Task
from segpl.inference.levels import ENTROPY, FULL
from segpl.inference.predictor import MapOptions, Predictor, load
from segpl.methods import METHODS
from segpl.networks.unet import UNet
from segpl.ranking.features import recorded_features
from segpl.ranking.uncertainty import disagreement, uncertainty

SPACING = (1.0, 1.0, 3.0)
TASK = Task(("MR",), (Region("lesion", (1,), 1),))


def blob(p, shape=(30, 30, 6), background=0.0):
    """A region of 8 x 8 x 2 voxels with this probability."""
    levels = np.full((1, *shape), round(background * FULL), dtype=np.uint16)
    levels[0, 10:18, 10:18, 2:4] = round(p * FULL)
    return levels


def mean_entropy(levels):
    value, _ = uncertainty(levels, levels, SPACING)
    return value


def test_it_is_the_mean_of_the_regions_entropies_as_predict_reports_them(run_directory, tumours):
    channel = nibabel.load(tumours / "imagesTs/tumour_004_0000.nii.gz").get_fdata()
    prediction = load(run_directory).predict(channel[None].repeat(4, 0), spacing=(1, 1, 1))
    expected = [numbers.uncertainty for numbers in prediction.numbers.values()]
    assert not np.isnan(expected).any()
    value, _ = uncertainty(prediction.levels, prediction.mask_levels, (1.0, 1.0, 1.0))
    assert value == pytest.approx(np.mean(expected))


def test_a_mask_nearer_to_one_half_is_more_uncertain():
    values = [mean_entropy(blob(p)) for p in (0.99, 0.9, 0.6)]
    assert values == sorted(values)
    assert values[0] < 0.1


def test_entropy_is_averaged_around_the_mask_and_not_around_p_above_one_half():
    levels = blob(0.4)
    value, _ = uncertainty(levels, blob(0.6), SPACING)
    assert value == pytest.approx(mean_entropy(blob(0.6)), rel=1e-3), "0.4 is as unsure as 0.6"


def test_the_size_of_the_background_does_not_matter():
    large = blob(0.6, shape=(90, 90, 30))
    assert mean_entropy(blob(0.6)) == pytest.approx(mean_entropy(large))


def test_a_region_just_below_one_half_is_as_uncertain_as_one_just_above():
    assert mean_entropy(blob(0.45)) == pytest.approx(mean_entropy(blob(0.55)), rel=1e-3)


def test_the_entropy_of_one_voxel_is_averaged_over_5_mm():
    """5 mm around a voxel are 81 voxels of its plane and 49 of each plane that is 3 mm away."""
    levels = np.zeros_like(blob(0.45))
    levels[0, 10, 10, 2] = round(0.45 * FULL)
    assert mean_entropy(levels) == pytest.approx(ENTROPY[levels.max()] / (81 + 2 * 49))


def test_a_region_that_is_surely_absent_is_certain():
    absent = blob(0.001, background=0.001)
    assert mean_entropy(absent) == pytest.approx(ENTROPY[absent.max()])
    nothing = np.zeros_like(absent)
    assert uncertainty(nothing, nothing, SPACING) == (0.0, 0)


def test_regions_count_alike_whatever_their_size():
    both = np.concatenate([blob(0.6), blob(0.0)])
    both[1, 2, 2, 5] = FULL
    assert mean_entropy(both) == pytest.approx(mean_entropy(both[:1]) / 2)


def test_the_worst_slice_has_the_most_entropy_near_a_mask():
    levels = blob(0.99)
    levels[0, 10:18, 10:18, 3] = round(0.6 * FULL)
    levels[0, 0, :, 5] = round(0.5 * FULL)  # far away
    _, worst_slice = uncertainty(levels, levels, SPACING)
    assert worst_slice == 3


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


def predictor_with(network):
    return Predictor(untrained(), TASK, network(1, 1, 4, (32, 32)).eval(), torch.device("cpu"))


def disagreement_of(network):
    """On an image with a bright box."""
    predictor = predictor_with(network)
    x = torch.zeros(1, 32, 32, 3)
    x[:, 8:20, 12:22] = 1
    maps = predictor.maps(x, MapOptions())
    return disagreement(predictor, x, maps.mask_levels, samples=1)


def test_a_network_that_follows_the_image_agrees_with_itself():
    assert disagreement_of(Bright) < 0.15


def test_a_network_that_ignores_the_image_disagrees_with_itself():
    assert disagreement_of(Stubborn) > 2 * disagreement_of(Bright)


def test_empty_masks_agree():
    assert disagreement_of(Blind) == 0


@pytest.mark.parametrize("network", [Bright, Stubborn])
def test_unchanged_views_agree(network, monkeypatch):
    monkeypatch.setattr("segpl.ranking.uncertainty.VIEW_STRENGTH", 0.0)
    assert disagreement_of(network) == 0


def test_features_are_the_mean_of_the_encoders_output():
    predictor = predictor_with(UNet)
    x = torch.randn(1, 32, 32, 5, generator=torch.Generator().manual_seed(0))
    with recorded_features(predictor.model) as features:
        predictor.maps(x, MapOptions())
    expected = predictor.model.encode(x.permute(3, 0, 1, 2)).mean((0, 2, 3)).detach()
    assert np.allclose(features.mean(), expected, atol=1e-5)
    predictor.maps(2 * x, MapOptions())
    assert np.allclose(features.mean(), expected, atol=1e-5), "the recording has ended"


@pytest.mark.parametrize("method", METHODS)
def test_the_features_of_all_networks_that_predict_are_recorded(method):
    run = untrained(method)
    model = run.build(TASK).eval()
    with torch.no_grad(), recorded_features(model) as features:
        run.method.predict(model, torch.zeros(2, 1, 32, 32))
    networks = {"cps": 2, "deep-ensemble": 5}.get(method, 1)
    width = next(module for module in model.modules() if isinstance(module, UNet)).widths[-1]
    assert len(features.mean()) == networks * width
