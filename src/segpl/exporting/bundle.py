"""A run as a MONAI bundle, which MONAI runs where segpl is not installed."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch

from segpl import __version__
from segpl.data.preparation import is_ct
from segpl.exporting.documentation import LICENCE, bundle_readme
from segpl.exporting.model_card import CARD_FILE, model_card
from segpl.exporting.output_paths import new_folder
from segpl.exporting.standalone import module_source
from segpl.exporting.torchscript import to_torchscript
from segpl.exporting.trained import Trained, read_trained
from segpl.foundation.files import write_text
from segpl.foundation.named import plain

SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)
BUNDLE_VERSION = "0.1.0"
NOT_KNOWN = "Not named in the run: fill in."


def export_bundle(directory: Path, folder: Path) -> Path:
    """Write the bundle and return `folder`.

    `python -m monai.bundle run --config_file configs/inference.json` segments a folder of scans.
    """
    trained = read_trained(directory)
    with new_folder(folder) as draft:
        _write_models(draft / "models", trained)
        write_text(draft / "configs/inference.json", _json(inference_config(trained)))
        write_text(draft / "configs/metadata.json", _json(metadata(trained)))
        write_text(draft / "scripts/__init__.py", "")
        write_text(draft / "scripts/segmentation.py", module_source())
        name = folder.resolve().name
        write_text(draft / "docs/README.md", bundle_readme(trained, name))
        write_text(draft / "docs" / CARD_FILE, model_card(trained, name))
        write_text(draft / "LICENSE", LICENCE)
    return folder


def _write_models(folder: Path, trained: Trained) -> None:
    """Write the program, and its weights by name."""
    folder.mkdir()
    program = to_torchscript(trained)
    program.save(folder / "model.ts")
    torch.save(program.state_dict(), folder / "model.pt")


def inference_config(trained: Trained) -> dict[str, Any]:
    """What MONAI runs: read, prepare, segment window by window, make a label map and save it.

    It does without ignite, which few users have installed.
    """
    run = trained.run
    task = trained.task
    windows = [run.window if is_ct(name) else None for name in task.channels]
    reader = {
        "_target_": "LoadImaged",
        "keys": "image",
        "reader": "NibabelReader",
        "ensure_channel_first": True,
    }
    prepare = _script_object(
        "Prepare",
        orientation=run.orientation,
        spacing=run.spacing,
        windows=windows,
        centre_crop=run.centre_crop,
    )
    label_map = _script_object("LabelMap", regions=plain(task.regions))
    save = _script_object("Save", folder="@output_dir")
    return {
        "imports": ["$import collections", "$import torch"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/eval'",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": (
            "$torch.jit.load(@bundle_root + '/models/model.ts', map_location=@device).eval()"
        ),
        "network": "@network_def",
        "datalist": _script_object(
            "list_scans", folder="@dataset_dir", channels=len(task.channels)
        ),
        "preprocessing": _compose(reader, prepare),
        "dataset": {"_target_": "Dataset", "data": "@datalist", "transform": "@preprocessing"},
        "inferer": _inferer(run.patch),
        "segmentation": _script_object(
            "Segment", inferer="@inferer", network="@network", device="@device"
        ),
        "postprocessing": _compose(label_map, save),
        "workflow": _compose("@segmentation", "@postprocessing"),
        # A deque of length 0 takes scan after scan and keeps none of them.
        "run": ["$collections.deque(map(@workflow, @dataset), maxlen=0)"],
    }


def metadata(trained: Trained) -> dict[str, Any]:
    """What the bundle is, with the keys that MONAI's schema asks for."""
    run = trained.run
    task = trained.task
    regions = [region.name for region in task.regions]
    image = _tensor_format(run.patch, "magnitude", task.channels, value_range=[])
    prediction = _tensor_format(run.patch, "classes", trained.outputs, value_range=[0, 1])
    return {
        "schema": SCHEMA,
        "version": BUNDLE_VERSION,
        "changelog": {BUNDLE_VERSION: f"exported by segpl {__version__}"},
        "monai_version": version("monai"),
        "pytorch_version": torch.__version__.split("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"nibabel": nibabel.__version__},
        "task": f"Segmentation of {', '.join(regions)} in {len(run.patch)}D",
        "description": f"A network that segpl {__version__} trained with {run.method.name()}.",
        "authors": NOT_KNOWN,
        "copyright": NOT_KNOWN,
        "data_type": "nibabel",
        "intended_use": "Research. Nobody has checked it for clinical use.",
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": prediction}},
    }


def _tensor_format(
    patch: tuple[int, ...],
    content: str,
    channels: Sequence[str],
    value_range: list[int],
) -> dict[str, Any]:
    return {
        "type": "image",
        "format": content,
        "num_channels": len(channels),
        "spatial_shape": list(patch),
        "dtype": "float32",
        "value_range": value_range,
        "is_patch_data": True,
        "channel_def": {str(index): name for index, name in enumerate(channels)},
    }


def _inferer(patch: tuple[int, ...]) -> dict[str, Any]:
    """The windows of `segpl.inference.windows`; 2D networks go slice by slice."""
    inferer: dict[str, Any] = {"_target_": "SlidingWindowInferer"}
    if len(patch) == 2:
        inferer = {"_target_": "SliceInferer", "spatial_dim": 2}
    windows = {
        "roi_size": list(patch),
        "sw_batch_size": 4,
        "overlap": 0.25,
        "mode": "gaussian",
    }
    return {**inferer, **windows}


def _script_object(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of what is defined in the bundle's own module."""
    return {"_target_": f"scripts.segmentation.{name}", **arguments}


def _compose(*transforms: Any) -> dict[str, Any]:
    return {"_target_": "Compose", "transforms": list(transforms)}


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
