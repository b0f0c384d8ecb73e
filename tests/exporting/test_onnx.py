"""An ONNX file predicts what PyTorch predicts, for every method; otherwise it is not written."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.stats
import torch

import segpl
from segpl.em.posteriors import BetaPosterior
from segpl.exporting.onnx import export_onnx
from segpl.exporting.substitutes import ONNX, average_pool, beta_quantile, erfinv
from segpl.exporting.trained import prediction_module, read_trained
from segpl.exporting.verification import phantom_windows
from segpl.foundation.errors import UserError
from segpl.methods import METHODS
from segpl.settings.planning import plan_run
from segpl.training.loop import train

IN_3D = ("segpl", "segpl-em", "deep-ensemble")
"""One network, an averaged one, and several. Thresholds in 3D have a test of their own."""
METHODS_AND_PATCHES = [
    *((method, (16, 16)) for method in METHODS),
    *((method, (16, 16, 4)) for method in IN_3D),
]


def outputs(file, image):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"image": image.numpy()})[0])


def assert_same_prediction(directory, file):
    """On images that the export itself was not checked with."""
    trained = read_trained(directory)
    for size in (1, 2, 5):
        image = 3 * torch.rand(size, 2, *trained.run.patch) - 1
        expected = prediction_module(trained)(image)
        torch.testing.assert_close(outputs(file, image), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("method", "patch"),
    METHODS_AND_PATCHES,
    ids=lambda value: value if value in METHODS else f"{len(value)}D",
)
def test_every_method_predicts_the_same_in_onnxruntime(method, patch, make_run, tmp_path):
    members = {"members": 2} if method == "deep-ensemble" else {}
    directory = make_run({"name": method, **members}, patch)
    assert_same_prediction(directory, export_onnx(directory, tmp_path / "model.onnx"))


@pytest.mark.parametrize("patch", [[32, 32], [32, 32, 8]], ids=["2D", "3D"])
def test_trained_weights_are_exported_too(patch, tumours, tmp_path):
    """Trained norms amplify rounding more than fresh ones, and the check must tolerate that."""
    settings = {"method": "segpl-em", "steps": 30, "channels": 4, "patch": patch, "validation": 0}
    directory = train(plan_run(tumours, settings), tmp_path / "run")
    file = export_onnx(directory, tmp_path / "model.onnx")
    trained = read_trained(directory)
    image = next(phantom_windows(trained, [5]))
    expected = prediction_module(trained)(image)
    torch.testing.assert_close(outputs(file, image), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("prior", ["normal", "confident", "categorical", "beta"])
def test_learnt_thresholds_are_exported_whatever_the_prior(prior, make_run, tmp_path):
    """With a patch that phi's grid does not divide evenly."""
    patch = (12, 20, 10)
    # With a cross-entropy in the objective, the most likely threshold is 1/2 and has no effect.
    method = {"name": "segpl-vi", "objective": "dice", "prior": {"name": prior}}
    directory = make_run(method, patch)
    trained = read_trained(directory)
    image = torch.randn(3, 2, *patch)
    p, for_masks = prediction_module(trained)(image).split(2, dim=1)
    torch.testing.assert_close(p, trained.model["theta"](image).sigmoid())
    assert (for_masks - p).abs().max() > 0.01, "the threshold must matter, or nothing is shown"
    assert_same_prediction(directory, export_onnx(directory, tmp_path / "model.onnx"))


@pytest.fixture
def model(make_run, tmp_path):
    """An ONNX model with all settings that its metadata name."""
    settings = {"spacing": (1.0, 1.0, 3.0), "window": (-100, 300), "orientation": "LPS"}
    directory = make_run("cps", (16, 16, 4), **settings)
    return onnx.load(export_onnx(directory, tmp_path / "new/model.onnx"))


def test_the_metadata_say_how_scans_are_prepared(model):
    metadata = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert "resampled to 1 x 1 x 3 mm" in metadata.pop("preparation")
    assert metadata == {
        "channels": ["T1", "FLAIR"],
        "regions": [
            {"name": "whole", "values": [1, 2], "paint": 1},
            {"name": "core", "values": [2], "paint": 2},
        ],
        "outputs": ["whole", "core"],
        "patch": [16, 16, 4],
        "spacing": [1.0, 1.0, 3.0],
        "window": [-100, 300],
        "orientation": "LPS",
        "method": "cps",
        "segpl": segpl.__version__,
    }


def test_input_and_output_have_names_and_sizes(model):
    tensors = [model.graph.input[0], model.graph.output[0]]
    assert [tensor.name for tensor in tensors] == ["image", "probabilities"]
    for tensor in tensors:
        axes = tensor.type.tensor_type.shape.dim
        sizes = [axis.dim_param or axis.dim_value for axis in axes]
        assert sizes == ["batch", 2, 16, 16, 4]


def test_the_channels_of_a_model_with_thresholds_are_named(make_run, tmp_path):
    model = onnx.load(export_onnx(make_run("segpl-vi"), tmp_path / "model.onnx"))
    metadata = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert metadata["outputs"] == ["whole", "core", "whole, mask", "core, mask"]
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 4
    assert "learnt threshold" in model.doc_string


def test_a_model_that_differs_leaves_no_file(make_run, tmp_path, monkeypatch):
    directory = make_run("segpl-vi")
    monkeypatch.setitem(ONNX, torch.erfinv, lambda y: 0 * y)
    message = r"ONNX program differs from the run by 0\.\d+, so it was not written"
    with pytest.raises(RuntimeError, match=message):
        export_onnx(directory, tmp_path / "out/model.onnx")
    assert not any((tmp_path / "out").iterdir())


def test_without_the_extra_the_error_says_what_to_install(make_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"pip install '.\[export\]'"):
        export_onnx(make_run("segpl"), tmp_path / "model.onnx")


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_beta_quantiles_are_scipys(level):
    shapes = torch.tensor([0.3, 1.0, 2.0, 12.0, 150.0, 3000.0])
    a, b = torch.meshgrid(shapes, shapes, indexing="ij")
    posterior = BetaPosterior(a, b, torch.distributions.Beta(12.0, 12.0))
    expected = scipy.stats.beta.ppf(level, a.numpy(), b.numpy()).clip(1e-4, 1 - 1e-4)
    quantile = beta_quantile(posterior, torch.full_like(a, level)).numpy()
    np.testing.assert_allclose(quantile, expected, rtol=2e-3, atol=2e-6)


def test_erfinv_is_torchs():
    y = torch.linspace(-0.99, 0.99, 199)
    torch.testing.assert_close(erfinv(y), torch.erfinv(y), atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("size", [(8, 8), (5, 3), (20, 1)])
def test_average_pooling_is_torchs(size):
    x = torch.randn(2, 3, 20, 9)
    expected = torch.nn.functional.adaptive_avg_pool2d(x, size)
    torch.testing.assert_close(average_pool(x, size), expected)
