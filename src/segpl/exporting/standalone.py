"""Code that a bundle runs where segpl is not installed.

The bundle gets the functions and classes below, and those of segpl that they use, as one module.
They may only use what HEADER imports.
"""

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
from segpl.data.normalisation import combine_neighbours, is_background, normalise
from segpl.data.preparation import Preparation, network_input, network_shape
from segpl.data.resampling import resample, resampled_shape
from segpl.inference.label_map import merge_regions

HEADER = '''"""Prepares scans and makes label maps of probabilities, with the code of segpl."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import torch
from monai.data import MetaTensor
from nibabel import orientations
from torch.nn.functional import interpolate
'''


def list_scans(folder: str, channels: int) -> list[dict[str, list[str]]]:
    """The NIfTI scans of a folder, each with its files.

    Files such as a_0000.nii.gz and a_0001.nii.gz are the channels of one scan.
    """
    scans: dict[str, list[str]] = {}
    for file in sorted(Path(folder).glob("*.nii*")):
        if re.fullmatch(r"[^.].*\.nii(\.gz)?", file.name):
            name = scan_name(file.name, channels)
            scans.setdefault(name, []).append(str(file))
    if not scans:
        raise FileNotFoundError(f"{folder} holds no NIfTI file: give another --dataset_dir")
    return [{"image": files} for files in scans.values()]


def scan_name(file_name: str, channels: int) -> str:
    """The part of a file name that the channels of one scan share.

    A number beyond the last channel, such as a year, belongs to the name.
    """
    numbered = re.fullmatch(r"(.+)_(\d{4})\.nii(\.gz)?", file_name)
    if numbered and int(numbered[2]) < channels:
        return numbered[1]
    return file_name


class Prepare:
    """Prepares a scan that MONAI has read: reorients, crops, normalises and resamples it."""

    def __init__(
        self,
        orientation: str | None,
        spacing: list[float] | None,
        windows: list[list[float] | None],
        centre_crop: list[int] | None = None,
    ):
        self.preparation = Preparation(
            spacing=tuple(spacing) if spacing else None,
            orientation=orientation,
            centre_crop=tuple(centre_crop) if centre_crop else None,
        )
        self.windows: list[tuple[float, float] | None] = []
        for window in windows:
            self.windows.append((window[0], window[1]) if window else None)

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with its image prepared; the grid of the scan is kept in the image's meta."""
        scan = item["image"]
        self.check(scan)
        name = scan.meta["filename_or_obj"]
        affine = np.asarray(scan.meta["original_affine"])
        shape = (*scan.shape[1:], 1)[:3]  # a 2D image has one slice
        values = scan.numpy().reshape(len(scan), *shape)

        frame = Frame(
            shape=values.shape[1:],
            affine=affine,
            orientation=self.preparation.orientation,
            centre_crop=self.preparation.centre_crop,
        )
        image = frame.reoriented(Image(Path(name), values, affine))
        new_shape = network_shape(image, self.preparation)
        x = network_input(list(image.values), self.windows, new_shape)
        new_affine = resampled_affine(image.affine, image.values.shape[1:], new_shape)
        meta = {"filename_or_obj": name, "original_affine": affine, "frame": frame}
        return {**item, "image": MetaTensor(x, torch.from_numpy(new_affine), meta)}

    def check(self, scan: MetaTensor) -> None:
        """Raise an error if the network cannot take the scan."""
        name = scan.meta["filename_or_obj"]
        if len(scan) != len(self.windows):
            raise ValueError(
                f"{name} has {len(scan)} channels, but the network takes {len(self.windows)}"
            )
        if not scan.isfinite().all():
            raise ValueError(f"{name} holds NaN or infinite values")


def resampled_affine(
    affine: np.ndarray,
    shape: tuple[int, ...],
    new_shape: tuple[int, ...],
) -> np.ndarray:
    """The affine of an image after it was resampled to `new_shape` voxels over the same field."""
    zoom = np.divide(shape, new_shape)
    scale = np.diag([*zoom, 1.0])
    scale[:3, 3] = (zoom - 1) / 2  # the origin is the centre of the first voxel, not its corner
    return affine @ scale


class Segment:
    """Adds the network's probabilities of a prepared scan, computed window by window."""

    def __init__(self, inferer: Any, network: nn.Module, device: torch.device):
        self.inferer = inferer
        self.network = network
        self.device = device

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with `pred` added."""
        x = item["image"].as_tensor()[None].to(self.device)
        with torch.no_grad():
            p = self.inferer(x, self.network)[0]
        return {**item, "pred": p.cpu()}


class LabelMap:
    """Turns predictions into one label map on the grid of the scan, in the training values.

    The last channels make the masks; before them may be probabilities that do not.
    """

    def __init__(self, regions: list[dict[str, Any]]):
        self.regions = []
        for region in regions:
            values = tuple(region["values"])
            self.regions.append(Region(region["name"], values, region["paint"]))

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with `pred` replaced."""
        scan_meta = item["image"].meta
        frame = scan_meta["frame"]
        mask_channels = item["pred"][-len(self.regions) :]
        masks = resample(mask_channels, frame.reoriented_shape) > 0.5
        label = frame.restored(merge_regions(masks, self.regions)[None])
        meta = {"filename_or_obj": scan_meta["filename_or_obj"]}
        return {**item, "pred": MetaTensor(label.copy(), torch.from_numpy(frame.affine), meta)}


class Save:
    """Writes label maps under the names of their scans.

    MONAI's own writer fails where axes are in another order.
    """

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """Write `pred`; the item is returned unchanged."""
        label = item["pred"]
        scan_file = Path(label.meta["filename_or_obj"]).name
        name = re.sub(r"(_0000)?\.nii(\.gz)?$", ".nii.gz", scan_file)
        image = nibabel.Nifti1Image(label.numpy()[0], label.affine.numpy())
        image.header.set_xyzt_units("mm")
        self.folder.mkdir(parents=True, exist_ok=True)
        nibabel.save(image, self.folder / name)
        return item


IN_EVERY_BUNDLE: list[Any] = [
    Region,
    Image,
    spacing,
    is_placed,
    reorient,
    Frame,
    Preparation,
    resampled_shape,
    network_shape,
    combine_neighbours,
    is_background,
    normalise,
    resample,
    network_input,
    merge_regions,
    list_scans,
    scan_name,
    Prepare,
    resampled_affine,
    Segment,
    LabelMap,
    Save,
]
"""What the bundle's module consists of, in its order."""


def module_source() -> str:
    """The source of the bundle's module.

    It is taken from the code that training and prediction run, so the two cannot diverge.
    """
    sources = [inspect.getsource(definition) for definition in IN_EVERY_BUNDLE]
    return "\n\n".join([HEADER, *sources])
