"""A run as one ONNX file, checked against PyTorch before it is written."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from segpl import __version__
from segpl.exporting.documentation import describe_preparation
from segpl.exporting.model_card import CARD_FILE, model_card
from segpl.exporting.output_paths import check_new_file
from segpl.exporting.substitutes import ONNX, tracing
from segpl.exporting.trained import Trained, prediction_module, read_trained
from segpl.exporting.verification import tracing_example, verify
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_bytes, write_text
from segpl.foundation.named import plain
from segpl.foundation.progress import console

if TYPE_CHECKING:
    import onnx

OPSET = 17
"""Old enough for every runtime of the last years; nothing here needs a newer one."""
INPUT = "image"
OUTPUT = "probabilities"
DESCRIPTION = "Prepared windows in, a probability per region out; the mask is where it exceeds 0.5."
DESCRIPTION_WITH_THRESHOLDS = (
    "Prepared windows in; a probability per region out, then a channel per region that exceeds 0.5 "
    "inside the mask, which is cut at a learnt threshold."
)


def export_onnx(directory: Path, file: Path) -> Path:
    """Write the run's prediction for any number of windows of its patch size, and return `file`."""
    _require_onnx()
    trained = read_trained(directory)
    card = file.with_name(f"{file.stem}-{CARD_FILE}")
    check_new_file(file)
    check_new_file(card)
    model = onnx_model(trained)
    content = model.SerializeToString()
    difference = _verify_in_onnxruntime(trained, content)
    write_bytes(file, content)
    write_text(card, model_card(trained, file.stem))
    console.print(f"onnxruntime agrees with PyTorch to {difference:.1g}.")
    return file


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise UserError(
            "ONNX files need onnx and onnxruntime: pip install '.[export]' in segpl's folder."
        ) from None


def _verify_in_onnxruntime(trained: Trained, content: bytes) -> float:
    """The largest difference between onnxruntime and PyTorch; an error if it is too large."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def predict(image: Tensor) -> Tensor:
        outputs = session.run(None, {INPUT: image.numpy()})
        return torch.from_numpy(outputs[0])

    return verify(trained, predict, "ONNX")


def onnx_model(trained: Trained) -> "onnx.ModelProto":
    """The prediction as an ONNX model, with what its user must know in its metadata."""
    import onnx

    model = onnx.load_model_from_string(_trace(trained))
    _set_output_shape(model, (len(trained.outputs), *trained.run.patch))
    model.doc_string = DESCRIPTION
    if not trained.run.method.cuts_at_half():
        model.doc_string = DESCRIPTION_WITH_THRESHOLDS
    properties = {}
    for name, value in _metadata(trained).items():
        properties[name] = json.dumps(plain(value))
    onnx.helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    return model


def _trace(trained: Trained) -> bytes:
    """Convert by a trace.

    torch's newer exporter takes ten times as long, and supports neither 3D pooling nor all priors.
    """
    content = io.BytesIO()
    batch_axis = {0: "batch"}
    example = tracing_example(trained)
    with tracing(ONNX):
        torch.onnx.export(
            prediction_module(trained),
            (example,),
            content,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes={INPUT: batch_axis, OUTPUT: batch_axis},
        )
    return content.getvalue()


def _set_output_shape(model: "onnx.ModelProto", shape: tuple[int, ...]) -> None:
    """Set the sizes after the batch axis, which a trace does not keep."""
    axes = model.graph.output[0].type.tensor_type.shape.dim[1:]
    for axis, size in zip(axes, shape, strict=True):
        axis.dim_value = size


def _metadata(trained: Trained) -> dict[str, Any]:
    """What one must know to prepare scans for the model and to read its output."""
    run = trained.run
    task = trained.task
    return {
        "channels": task.channels,
        "regions": task.regions,
        "outputs": trained.outputs,
        "patch": run.patch,
        "spacing": run.spacing,
        "window": run.window,
        "orientation": run.orientation,
        "preparation": describe_preparation(trained),
        "method": run.method.name(),
        "segpl": __version__,
    }
