"""What one readable case of a data folder looks like."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import nibabel
import numpy as np

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import stores_geometry
from segpl.data.formats.image import Image, spacing
from segpl.data.preparation import ignored_voxels, masks
from segpl.data.scans import Scan, channels_of


class Finding(NamedTuple):
    """The properties of one readable case."""

    case: Case
    split: str
    """training or test."""
    shape: tuple[int, ...]
    spacing: tuple[float, ...] | None
    """In mm; None if the format of the image stores no spacing."""
    orientation: str | None
    """Where the axes point, as in RAS; None if the format of the image does not store it."""
    ranges: list[tuple[float, float]]
    """The smallest and the largest value of each channel."""
    values: list[float]
    """The values of the label; empty without a label."""
    shares: dict[str, float]
    """Each region's share of the voxels, by its name; empty without a label."""
    ignored: float
    """The share of the label's voxels that no loss and no score counts."""
    digest: str
    """Of the voxels, not of the file: a copy with another name or compression has the same one."""


def describe_scan(scan: Scan, split: str, task: Task) -> Finding:
    """The finding of a scan that has no complaints."""
    channels = channels_of(scan.images)
    affine = scan.images[0].affine
    is_known = stores_geometry(scan.images[0].file)
    return Finding(
        case=scan.case,
        split=split,
        shape=tuple(channels[0].shape),
        spacing=spacing(affine) if is_known else None,
        orientation="".join(nibabel.aff2axcodes(affine)) if is_known else None,
        ranges=[_range(channel) for channel in channels],
        values=np.unique(scan.label.values).tolist() if scan.label else [],
        shares=_foreground_shares(scan.label, task.regions) if scan.label else {},
        ignored=_ignored_share(scan.label, task) if scan.label else 0.0,
        digest=_digest(channels),
    )


def _range(channel: np.ndarray) -> tuple[float, float]:
    return float(channel.min()), float(channel.max())


def _foreground_shares(label: Image, regions: tuple[Region, ...]) -> dict[str, float]:
    voxels_of_regions = masks(label, regions).flatten(1)
    shares = voxels_of_regions.float().mean(1).tolist()
    names = [region.name for region in regions]
    return dict(zip(names, shares, strict=True))


def _ignored_share(label: Image, task: Task) -> float:
    ignored = ignored_voxels(label, task)
    return 0.0 if ignored is None else float(ignored.float().mean())


def _digest(channels: Sequence[np.ndarray]) -> str:
    content = hashlib.sha256()
    for channel in channels:
        values = np.ascontiguousarray(channel, dtype=np.float32)
        content.update(values.tobytes())
    return content.hexdigest()


def common_orientation(findings: Sequence[Finding]) -> str | None:
    """The orientation of most images; the first in the alphabet of equally common ones.

    Images that do not store their orientation do not count. None if none stores it.
    """
    orientations = [finding.orientation for finding in findings if finding.orientation]
    alphabetical = sorted(set(orientations))
    return max(alphabetical, key=orientations.count, default=None)
