"""A run as one ONNX file, checked against PyTorch before it gets its name."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from segpl import __version__
from segpl.exporting.places import free_file
from segpl.exporting.program import (
    TRACED,
    Trained,
    check,
    prediction,
    read_trained,
    tracing,
    windows,
)
from segpl.exporting.substitutes import ONNX
from segpl.exporting.words import preparation
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_bytes
from segpl.foundation.named import plain
from segpl.foundation.progress import console

if TYPE_CHECKING:
    import onnx

OPSET = 17
"""Old enough for every runtime of the last years; nothing here needs a newer one."""


def export_onnx(directory: Path, file: Path) -> Path:
    """Write the run's prediction for windows of its patch size, any number of them at once."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError:
        raise UserError(
            "ONNX files need onnx and onnxruntime: pip install '.[export]' in segpl's folder."
        ) from None
    trained = read_trained(directory)
    free_file(file)
    content = _described(_converted(trained), trained).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def theirs(image: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"image": image.numpy()})[0])

    apart = check(trained, theirs, "ONNX")
    write_bytes(file, content)
    console.print(f"onnxruntime agrees with PyTorch to {apart:.1g}.")
    return file


def _converted(trained: Trained) -> bytes:
    """By a trace: torch's newer exporter takes ten times as long, and knows neither 3D pooling nor all priors."""
    content = io.BytesIO()
    batch = {0: "batch"}
    with tracing(ONNX):
        torch.onnx.export(
            prediction(trained),
            (next(windows(trained, TRACED)),),
            content,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=OPSET,
            input_names=["image"],
            output_names=["probabilities"],
            dynamic_axes={"image": batch, "probabilities": batch},
        )
    return content.getvalue()


def _described(content: bytes, trained: Trained) -> "onnx.ModelProto":
    """The model with the sizes of its output, which a trace forgets, and what whoever runs it must know, as JSON."""
    import onnx

    run, task = trained.run, trained.task
    notes = {
        "channels": task.channels,
        "regions": task.regions,
        "patch": run.patch,
        "spacing": run.spacing,
        "window": run.window,
        "orientation": run.orientation,
        "preparation": preparation(trained),
        "method": run.method.name(),
        "segpl": __version__,
    }
    model = onnx.load_model_from_string(content)
    sizes = model.graph.output[0].type.tensor_type.shape.dim[1:]
    for axis, size in zip(sizes, (len(task.regions), *run.patch), strict=True):
        axis.dim_value = size
    model.doc_string = (
        "Prepared windows in, a probability per region out; the mask is where it exceeds 0.5."
    )
    onnx.helper.set_model_props(
        model, {name: json.dumps(plain(value)) for name, value in notes.items()}
    )
    onnx.checker.check_model(model)
    return model
