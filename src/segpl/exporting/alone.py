"""What a bundle does where segpl is not installed: its own small part here, and the source of all of it."""

import inspect
import re
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch
from monai.data import MetaTensor
from torch import nn

from segpl.data.cases import Region
from segpl.data.formats.image import Image, is_placed, spacing
from segpl.data.frames import Frame, reorient
from segpl.data.preparation import (
    Preparation,
    is_background,
    network_input,
    network_shape,
    normalise,
    resample,
    resampled_shape,
)
from segpl.inference.windows import fold

HEADER = '''"""From a scan to what a network takes, and from its probabilities to a label map, just as segpl does it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import torch
from monai.data import MetaTensor
from nibabel import orientations
from torch.nn.functional import interpolate
'''


def cases(folder: str, channels: int) -> list[dict[str, list[str]]]:
    """The NIfTI scans of a folder; files such as a_0000.nii.gz and a_0001.nii.gz are the channels of one."""
    found: dict[str, list[str]] = {}
    for file in sorted(
        file
        for file in Path(folder).glob("*.nii*")
        if re.fullmatch(r"[^.].*\.nii(\.gz)?", file.name)
    ):
        numbered = re.fullmatch(r"(.+)_(\d{4})\.nii(\.gz)?", file.name)
        name = numbered[1] if numbered and int(numbered[2]) < channels else file.name
        found.setdefault(name, []).append(str(file))
    if not found:
        raise FileNotFoundError(f"{folder} holds no NIfTI file: give another --dataset_dir")
    return [{"image": files} for files in found.values()]


class Prepare:
    """A scan as MONAI has read it becomes what the network takes: reoriented, normalised, resampled."""

    def __init__(
        self,
        orientation: str | None,
        spacing: list[float] | None,
        windows: list[list[float] | None],
    ):
        self.preparation = Preparation(tuple(spacing) if spacing else None, None, orientation)
        self.windows = [(window[0], window[1]) if window else None for window in windows]

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with its image replaced."""
        scan = item["image"]
        name = scan.meta["filename_or_obj"]
        if len(scan) != len(self.windows):
            raise ValueError(
                f"{name} has {len(scan)} channels, but the network takes {len(self.windows)}"
            )
        if not scan.isfinite().all():
            raise ValueError(f"{name} holds NaN or infinite values")
        values = scan.numpy().reshape(
            len(scan), *(*scan.shape[1:], 1)[:3]
        )  # a 2D image has one slice
        stored = np.asarray(scan.meta["original_affine"])
        frame = Frame(values.shape[1:], stored, self.preparation.orientation)
        image = frame.reoriented(Image(Path(name), values, stored))
        shape = network_shape(image, self.preparation)
        x = network_input(list(image.values), self.windows, shape)
        zoom = np.divide(image.values.shape[1:], shape)
        scale = np.diag([*zoom, 1.0])
        scale[:3, 3] = (zoom - 1) / 2  # the first voxel's middle, not its corner, is the origin
        notes = {"filename_or_obj": name, "original_affine": stored, "frame": frame}
        return {**item, "image": MetaTensor(x, torch.from_numpy(image.affine @ scale), notes)}


class Segment:
    """The network's probabilities of a prepared scan, window by window."""

    def __init__(self, inferer: Any, network: nn.Module, device: torch.device):
        self.inferer, self.network, self.device = inferer, network, device

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with `pred` added."""
        with torch.no_grad():
            x = item["image"].as_tensor()[None].to(self.device)
            return {**item, "pred": self.inferer(x, self.network)[0].cpu()}


class LabelMap:
    """Probabilities become one label map in the values of the training data, on the grid of the scan."""

    def __init__(self, regions: list[dict[str, Any]]):
        self.regions = [
            Region(each["name"], tuple(each["values"]), each["paint"]) for each in regions
        ]

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with `pred` replaced."""
        notes = item["image"].meta
        frame = notes["frame"]
        found = resample(item["pred"], frame.reoriented_shape) > 0.5
        label = frame.restored(fold(found, self.regions)[None])
        affine = torch.from_numpy(frame.affine)
        return {
            **item,
            "pred": MetaTensor(label.copy(), affine, {"filename_or_obj": notes["filename_or_obj"]}),
        }


class Save:
    """Writes label maps under the names of their scans; MONAI's own writer stumbles where axes are in another order."""

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item as it was."""
        label = item["pred"]
        name = re.sub(r"(_0000)?\.nii(\.gz)?$", ".nii.gz", Path(label.meta["filename_or_obj"]).name)
        image = nibabel.Nifti1Image(label.numpy()[0], label.affine.numpy())
        image.header.set_xyzt_units("mm")
        self.folder.mkdir(parents=True, exist_ok=True)
        nibabel.save(image, self.folder / name)
        return item


def source() -> str:
    """All of it as one module: the very code that training and prediction run, so no copy can fall out of step."""
    parts = (
        (Region, Image, spacing, is_placed, reorient, Frame, Preparation),
        (resampled_shape, network_shape, is_background, normalise, resample, network_input, fold),
        (cases, Prepare, Segment, LabelMap, Save),
    )
    return "\n\n".join([HEADER, *(inspect.getsource(part) for group in parts for part in group)])
