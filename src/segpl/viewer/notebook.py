"""The same scan and overlays as a widget for notebooks: `segpl.view`."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from segpl.foundation.errors import UserError
from segpl.viewer.catalogue import Catalogue, Entry
from segpl.viewer.percent import STEPS, curves_file, region_file
from segpl.viewer.serving import make_viewer
from segpl.viewer.sources import find_source

if TYPE_CHECKING:
    from ipyniivue import NiiVue, Volume

    from segpl.viewer.app import Viewer

HEIGHT = 520
"""Pixels."""
COLOURS = ("warm", "winter", "green", "violet", "red", "blue")
"""NiiVue's names for the colours of the regions."""
UNCERTAINTY = {
    "R": [0, 200, 255, 200, 0],
    "G": [0, 90, 255, 90, 0],
    "B": [140, 40, 0, 40, 140],
    "A": [0, 180, 220, 180, 0],
    "I": [0, 28, 128, 228, 255],
}
"""Colours for a probability: brightest at 1/2, transparent at 0 and 1."""


def show_in_notebook(path: Path, scan: str | None) -> "NiiVue":
    """A widget with the scan, the mask of each region, its uncertainty and the label."""
    try:
        from ipyniivue import NiiVue
    except ImportError:
        raise UserError(
            "segpl.view needs ipyniivue: pip install '.[view]' in segpl's folder."
        ) from None
    widget = NiiVue(height=HEIGHT, is_radiological_convention=True)
    widget.add_colormap("segpl-uncertainty", UNCERTAINTY)
    with tempfile.TemporaryDirectory(prefix="segpl-view-") as cache:
        viewer = make_viewer(find_source(path), Path(cache), reviewer="")
        entry = _find(viewer.catalogue, scan)
        volumes = [_image(viewer, entry)]
        if viewer.catalogue.source.runs is not None:
            _predict(viewer, entry)
            volumes += _regions(viewer, entry)
        if entry.label is not None:
            volumes.append(_label(viewer, entry, entry.label))
        widget.load_volumes(volumes)
    return widget


def _find(catalogue: Catalogue, scan: str | None) -> Entry:
    """The scan of this name; the first of the list if none is named."""
    entries = catalogue.entries()
    if scan is None:
        return entries[0]
    for entry in entries:
        if entry.case.name == scan:
            return entry
    names = ", ".join(entry.case.name for entry in entries[:3])
    raise UserError(f"{catalogue.source.data} has no scan {scan}: name one, such as {names}.")


def _predict(viewer: "Viewer", entry: Entry) -> None:
    from segpl.inference.predictor import load
    from segpl.viewer.jobs import Job
    from segpl.viewer.worker import Work

    source = viewer.catalogue.source
    assert source.runs, "only a run predicts"
    work = Work(source, viewer.volumes.cache, load(source.runs), report=lambda _: None)
    work.predict(Job(entry.number, entry.case))


def _image(viewer: "Viewer", entry: Entry) -> "Volume":
    return _volume(viewer.volumes.channel(entry.number, entry.case, 0), entry.case.name)


def _regions(viewer: "Viewer", entry: Entry) -> list["Volume"]:
    """The mask of each region, whose `cal_min` is the threshold, and the hidden uncertainty."""
    cache = viewer.volumes.cache
    curves = json.loads(curves_file(cache, entry.number).read_text(encoding="utf-8"))
    volumes = []
    for index, region in enumerate(viewer.volumes.regions):
        file = region_file(cache, entry.number, index)
        mask = _volume(file, region.name)
        mask.colormap = COLOURS[index % len(COLOURS)]
        mask.cal_min = curves[index]["start"] + 0.5
        mask.cal_max = STEPS
        mask.opacity = 0.5
        uncertainty = _volume(file, f"uncertainty of {region.name}")
        uncertainty.colormap = "segpl-uncertainty"
        uncertainty.cal_min = 0
        uncertainty.cal_max = STEPS
        uncertainty.opacity = 0.0
        volumes += [mask, uncertainty]
    return volumes


def _label(viewer: "Viewer", entry: Entry, label: Path) -> "Volume":
    volume = _volume(viewer.volumes.label(entry.number, entry.case, label), "label")
    volume.colormap = "actc"
    volume.opacity = 0.0
    return volume


def _volume(file: Path, name: str) -> "Volume":
    """The content of a file: the widget outlives the folder that the file is in."""
    from ipyniivue import Volume

    ending = "".join(file.suffixes[-2:]) if file.name.endswith(".gz") else ".nii"
    return Volume(data=file.read_bytes(), name=f"{name}{ending}")
