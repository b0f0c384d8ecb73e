"""An ONNX file says what PyTorch says, for every method, and never takes its name unless it does."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.stats
import torch

import segpl
from segpl.em.thresholds import BetaPosterior
from segpl.exporting.onnx import export_onnx
from segpl.exporting.program import prediction, read_trained, windows
from segpl.exporting.substitutes import ONNX, average_pool, beta_quantile, erfinv
from segpl.foundation.errors import UserError
from segpl.methods import METHODS
from segpl.settings.planning import plan_run
from segpl.training.loop import train

FLAT, DEEP = (16, 16), (16, 16, 4)
EVERY = [(method, FLAT) for method in METHODS] + [
    (method, DEEP) for method in ("segpl", "segpl-em", "deep-ensemble")
]
"""All methods in 2D; in 3D, where thresholds are tested too, one network, an averaged one, and several."""
THRESHOLDS = [
    {"name": "segpl-vi", "prior": {"name": name}}
    for name in ("normal", "confident", "categorical", "beta")
]


def outputs(file, image):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"image": image.numpy()})[0])


def assert_same_prediction(directory, file):
    """On images that the export itself was not checked with."""
    trained = read_trained(directory)
    for size in (1, 2, 5):
        image = 3 * torch.rand(size, 2, *trained.run.patch) - 1
        torch.testing.assert_close(
            outputs(file, image), prediction(trained)(image), atol=1e-4, rtol=0
        )


@pytest.mark.parametrize(
    ("method", "patch"), EVERY, ids=lambda value: value if value in METHODS else f"{len(value)}D"
)
def test_every_method_predicts_in_onnxruntime_what_it_predicts_here(method, patch, drawn, tmp_path):
    members = {"members": 2} if method == "deep-ensemble" else {}
    directory = drawn({"name": method, **members}, patch)
    assert_same_prediction(directory, export_onnx(directory, tmp_path / "model.onnx"))


@pytest.mark.parametrize("patch", [[32, 32], [32, 32, 8]], ids=["2D", "3D"])
def test_trained_weights_are_exported_too(patch, tumours, tmp_path):
    """Trained norms amplify rounding more than fresh ones: the check must not mistake that for a difference."""
    settings = {"method": "segpl-em", "steps": 30, "channels": 4, "patch": patch, "validation": 0}
    directory = train(plan_run(tumours, settings), tmp_path / "run")
    file = export_onnx(directory, tmp_path / "model.onnx")
    trained = read_trained(directory)
    image = next(windows(trained, [5]))
    torch.testing.assert_close(outputs(file, image), prediction(trained)(image), atol=1e-4, rtol=0)


@pytest.mark.parametrize("method", THRESHOLDS, ids=lambda method: method["prior"]["name"])
def test_thresholds_are_learnt_ones_whatever_the_prior(method, drawn, tmp_path):
    """With a patch that phi's grid does not divide evenly."""
    patch = (12, 20, 10)
    directory = drawn(method, patch)
    trained = read_trained(directory)
    image = torch.randn(3, 2, *patch)
    plain = trained.model["theta"](image).sigmoid()
    assert (prediction(trained)(image) - plain).abs().max() > 0.01, (
        "the threshold does not matter, so nothing is shown"
    )
    assert_same_prediction(directory, export_onnx(directory, tmp_path / "model.onnx"))


def test_the_file_says_what_it_takes_and_gives(drawn, tmp_path):
    directory = drawn(
        "cps", (16, 16, 4), spacing=(1.0, 1.0, 3.0), window=(-100, 300), orientation="LPS"
    )
    model = onnx.load(export_onnx(directory, tmp_path / "new/model.onnx"))
    notes = {each.key: json.loads(each.value) for each in model.metadata_props}
    assert "resampled to 1 x 1 x 3 mm" in notes.pop("preparation")
    assert notes == {
        "channels": ["T1", "FLAIR"],
        "regions": [
            {"name": "whole", "values": [1, 2], "paint": 1},
            {"name": "core", "values": [2], "paint": 2},
        ],
        "patch": [16, 16, 4],
        "spacing": [1.0, 1.0, 3.0],
        "window": [-100, 300],
        "orientation": "LPS",
        "method": "cps",
        "segpl": segpl.__version__,
    }
    image, p = model.graph.input[0], model.graph.output[0]
    assert (image.name, p.name) == ("image", "probabilities")
    sizes = [
        [d.dim_param or d.dim_value for d in each.type.tensor_type.shape.dim] for each in (image, p)
    ]
    assert sizes == [["batch", 2, 16, 16, 4], ["batch", 2, 16, 16, 4]]


def test_a_model_that_differs_leaves_no_file(drawn, tmp_path, monkeypatch):
    directory = drawn("segpl-vi")
    monkeypatch.setitem(ONNX, torch.erfinv, lambda y: 0 * y)
    with pytest.raises(
        RuntimeError, match=r"ONNX program differs from the run by 0\.\d+, so it was not written"
    ):
        export_onnx(directory, tmp_path / "out/model.onnx")
    assert not any((tmp_path / "out").iterdir())


def test_without_the_extra_one_sentence_says_what_to_install(drawn, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"pip install '.\[export\]'"):
        export_onnx(drawn("segpl"), tmp_path / "model.onnx")


def test_beta_quantiles_are_scipys():
    shapes = torch.tensor([0.3, 1.0, 2.0, 12.0, 150.0, 3000.0])
    a, b = torch.meshgrid(shapes, shapes, indexing="ij")
    posterior = BetaPosterior(a, b, torch.distributions.Beta(12.0, 12.0))
    for level in (0.1, 0.5, 0.9):
        expected = scipy.stats.beta.ppf(level, a.numpy(), b.numpy()).clip(1e-4, 1 - 1e-4)
        found = beta_quantile(posterior, torch.full_like(a, level)).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-6)


def test_erfinv_is_torchs():
    y = torch.linspace(-0.99, 0.99, 199)
    torch.testing.assert_close(erfinv(y), torch.erfinv(y), atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("size", [(8, 8), (5, 3), (20, 1)])
def test_average_pooling_is_torchs(size):
    x = torch.randn(2, 3, 20, 9)
    torch.testing.assert_close(
        average_pool(x, size), torch.nn.functional.adaptive_avg_pool2d(x, size)
    )
