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
from segpl.exporting import alone
from segpl.exporting.places import new_folder
from segpl.exporting.program import Trained, read_trained, script
from segpl.exporting.words import LICENCE, readme
from segpl.foundation.files import write_text
from segpl.foundation.named import plain

SCHEMA = "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json"


def export_bundle(directory: Path, folder: Path) -> Path:
    """Write the bundle: `python -m monai.bundle run --config_file configs/inference.json` segments a folder."""
    trained = read_trained(directory)
    with new_folder(folder) as draft:
        (draft / "models").mkdir()
        program = script(trained)
        program.save(draft / "models/model.ts")
        torch.save(program.state_dict(), draft / "models/model.pt")
        write_text(draft / "configs/inference.json", _json(inference(trained)))
        write_text(draft / "configs/metadata.json", _json(metadata(trained)))
        write_text(draft / "scripts/__init__.py", "")
        write_text(draft / "scripts/segmentation.py", alone.source())
        write_text(draft / "docs/README.md", readme(trained, folder.resolve().name))
        write_text(draft / "LICENSE", LICENCE)
    return folder


def inference(trained: Trained) -> dict[str, Any]:
    """Read, prepare, segment window by window, paint and save: without ignite, which few have installed."""
    run, task = trained.run, trained.task
    windows = [run.window if is_ct(name) else None for name in task.channels]
    return {
        "imports": ["$import collections", "$import torch"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/eval'",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": "$torch.jit.load(@bundle_root + '/models/model.ts', map_location=@device).eval()",
        "network": "@network_def",
        "datalist": _part("cases", folder="@dataset_dir", channels=len(task.channels)),
        "preprocessing": _steps(
            {
                "_target_": "LoadImaged",
                "keys": "image",
                "reader": "NibabelReader",
                "ensure_channel_first": True,
            },
            _part("Prepare", orientation=run.orientation, spacing=run.spacing, windows=windows),
        ),
        "dataset": {"_target_": "Dataset", "data": "@datalist", "transform": "@preprocessing"},
        "inferer": _inferer(run.patch),
        "segmentation": _part("Segment", inferer="@inferer", network="@network", device="@device"),
        "postprocessing": _steps(
            _part("LabelMap", regions=plain(task.regions)),
            _part("Save", folder="@output_dir"),
        ),
        "workflow": _steps("@segmentation", "@postprocessing"),
        "run": [
            "$collections.deque(map(@workflow, @dataset), maxlen=0)"
        ],  # scan after scan, none of them kept
    }


def metadata(trained: Trained) -> dict[str, Any]:
    """What the bundle is, as MONAI's schema asks for it."""
    run, task = trained.run, trained.task
    found = ", ".join(region.name for region in task.regions)
    return {
        "schema": SCHEMA,
        "version": "0.1.0",
        "changelog": {"0.1.0": f"exported by segpl {__version__}"},
        "monai_version": version("monai"),
        "pytorch_version": torch.__version__.split("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"nibabel": nibabel.__version__},
        "task": f"Segmentation of {found} in {len(run.patch)}D",
        "description": f"A network that segpl {__version__} trained with {run.method.name()}.",
        "authors": "Not named in the run: fill in.",
        "copyright": "Not named in the run: fill in.",
        "data_type": "nibabel",
        "intended_use": "Research. Nobody has checked it for clinical use.",
        "network_data_format": {
            "inputs": {"image": _tensor(run.patch, "magnitude", task.channels, [])},
            "outputs": {
                "pred": _tensor(
                    run.patch, "classes", [region.name for region in task.regions], [0, 1]
                )
            },
        },
    }


def _tensor(
    patch: tuple[int, ...], kind: str, channels: Sequence[str], values: list[int]
) -> dict[str, Any]:
    return {
        "type": "image",
        "format": kind,
        "num_channels": len(channels),
        "spatial_shape": list(patch),
        "dtype": "float32",
        "value_range": values,
        "is_patch_data": True,
        "channel_def": {str(place): name for place, name in enumerate(channels)},
    }


def _inferer(patch: tuple[int, ...]) -> dict[str, Any]:
    """Windows as in `segpl.inference.windows`: slice by slice for 2D networks."""
    kind = (
        {"_target_": "SliceInferer", "spatial_dim": 2}
        if len(patch) == 2
        else {"_target_": "SlidingWindowInferer"}
    )
    return {
        **kind,
        "roi_size": list(patch),
        "sw_batch_size": 4,
        "overlap": 0.25,
        "mode": "gaussian",
    }


def _part(name: str, **settings: Any) -> dict[str, Any]:
    return {"_target_": f"scripts.segmentation.{name}", **settings}


def _steps(*steps: Any) -> dict[str, Any]:
    return {"_target_": "Compose", "transforms": list(steps)}


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
