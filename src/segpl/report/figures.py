"""Figures from the files of a run directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import nibabel
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.stats import norm

COLOURS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd")
"""Whole tumour red, core green, enhancing core blue, as in the paper."""


def draw_masks(
    images: Mapping[str, Path], truth: Mapping[str, Path], masks: Mapping[str, Mapping[str, Path]], names: Sequence[str]
) -> Figure:
    """Image, truth and every method's mask as overlays; a row for each case, at its fullest slice.

    `names` are the values of the label map by number, and `masks` maps a method to the mask files of its cases.
    """
    columns = ["image", "truth", *masks]
    figure = Figure(figsize=(2.2 * len(columns), 2.2 * len(images) + 0.5), layout="constrained")
    axes = figure.subplots(len(images), len(columns), squeeze=False)
    for row, (case, image) in zip(axes, images.items(), strict=True):
        labels = [_voxels(truth[case]), *(_voxels(files[case]) for files in masks.values())]
        fullest = int((labels[0] > 0).sum((0, 1)).argmax())
        plane = _voxels(image)[..., fullest]
        _overlay(row[0], plane, None)
        for axis, label in zip(row[1:], labels, strict=True):
            _overlay(axis, plane, label[..., fullest])
        row[0].set_ylabel(f"{case}, slice {fullest}", fontsize=8)
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(title, fontsize=10)
    patches = [matplotlib.patches.Patch(color=colour, label=name) for colour, name in zip(COLOURS, names, strict=False)]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, fontsize=9)
    return figure


def draw_threshold(log: Path, mean: float, deviation: float) -> Figure:
    """The thresholds that SegPL-VI drew, over training and as a density, against their prior."""
    rows = pd.read_csv(log)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    over_time, density = figure.subplots(1, 2)
    over_time.axhspan(mean - deviation, mean + deviation, color="0.9", label="prior, ± 1 deviation")
    over_time.axhline(mean, color="0.5", lw=1)
    over_time.plot(rows["step"], rows["threshold"], color=COLOURS[2], lw=1, label="drawn, mean of the batch")
    low, high = (rows["threshold"] + sign * rows["threshold_spread"] for sign in (-1, 1))
    over_time.fill_between(rows["step"], low, high, color=COLOURS[2], alpha=0.2, lw=0, label="± spread in the batch")
    over_time.set(xlabel="step", ylabel="threshold T", ylim=(0, 1), title="Over training")
    over_time.legend(fontsize=7, frameon=False)
    tail = rows.tail(max(1, len(rows) // 4))
    t = np.linspace(0, 1, 400)
    density.fill_between(t, norm.pdf(t, mean, deviation), color="0.85", lw=0, label=f"prior N({mean:g}, {deviation:g})")
    posterior = tail["posterior_mean"].mean(), tail["posterior_deviation"].mean()
    name = "posterior N({:.3f}, {:.3f}), last quarter".format(*posterior)
    density.plot(t, norm.pdf(t, *posterior), color=COLOURS[2], label=name)
    density.set(xlabel="threshold T", yticks=[], title="Posterior and prior")
    density.set_ylim(0, 1.35 * density.get_ylim()[1])
    density.legend(fontsize=7, frameon=False, loc="upper left")
    return figure


def _overlay(axis: Axes, plane: np.ndarray, label: np.ndarray | None) -> None:
    low, high = np.percentile(plane, (1, 99.5))
    axis.imshow(plane.T, cmap="gray", vmin=low, vmax=high, origin="lower")
    if label is not None:
        shown = np.ma.masked_equal(label, 0).T
        axis.imshow(
            shown,
            cmap=ListedColormap(COLOURS),
            vmin=1,
            vmax=len(COLOURS),
            alpha=0.6,
            origin="lower",
            interpolation="nearest",
        )
    axis.set(xticks=[], yticks=[])


def _voxels(file: Path) -> np.ndarray:
    return np.asanyarray(nibabel.load(file).dataobj)
