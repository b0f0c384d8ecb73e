"""Figures as files and as parts of the page."""

import base64
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from segpl.data.cases import Case
from segpl.foundation.files import write_bytes, write_text
from segpl.foundation.progress import track
from segpl.reporting.material import Material
from segpl.reporting.page.catalogue import PICTURES, PLOTS, Picture, Plot
from segpl.reporting.page.scans import Scan, read_scan
from segpl.reporting.page.style import SETTINGS

DOTS = 110
"""Per inch of a picture."""


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it."""

    about: Plot | Picture
    file: str
    numbers: str
    """Both beside the page, relative to it."""
    svg: Markup | None = None
    """The figure itself where it is one of lines."""
    source: str = ""
    """The address of the picture where it is one of voxels."""


def draw_plots(material: Material, folder: Path) -> list[Drawn]:
    """Every plot for which there are numbers; an SVG and a CSV file each in `folder`."""
    shown = []
    for plot in track(PLOTS, "Drawing figures"):
        numbers = plot.numbers(material)
        if numbers.empty:
            continue
        orders = {"method": material.methods, "budget": material.budgets}
        ordered = {key: pd.Categorical(numbers[key], names) for key, names in orders.items()}
        figure = _drawn(plot, numbers.assign(**ordered))
        write_text(folder / f"{plot.name}.csv", numbers.to_csv(index=False))
        write_bytes(folder / f"{plot.name}.svg", figure)
        shown.append(Drawn(plot, *_files(plot, folder, "svg"), svg=inline(figure, plot)))
    return shown


def draw_pictures(material: Material, cases: dict[str, Case], folder: Path) -> list[Drawn]:
    """Every picture of cases; a PNG and a CSV file each in `folder`."""
    shown: list[Drawn] = []
    if not cases:
        return shown
    scans: dict[str, Scan | None] = {}
    for picture in track(PICTURES, "Drawing pictures"):
        wanted = picture.choose(list(cases))
        scans |= {name: read_scan(material, cases[name]) for name in wanted if name not in scans}
        found = [
            scan for name in wanted if (scan := scans[name]) is not None and picture.shows(scan)
        ]
        if not found:
            continue
        content = _painted(picture, found)
        write_bytes(folder / f"{picture.name}.png", content)
        rows = material.clean[
            (material.clean["metric"] == "iou") & material.clean["case"].isin(wanted)
        ]
        write_text(folder / f"{picture.name}.csv", rows.to_csv(index=False))
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        shown.append(Drawn(picture, *_files(picture, folder, "png"), source=source))
    return shown


def inline(svg: bytes, plot: Plot) -> Markup:
    """An SVG file as a part of the page: names of its own, and what it shows in words."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    own = partial(re.sub, r'(\sid="|href="#|url\(#)', rf"\g<1>{plot.name}-")
    text = re.sub(r"<[^>]*>", lambda tag: own(tag[0]), text)
    label = Markup('<svg role="img" aria-label="{}" class="plot"').format(plot.alt)
    return Markup(
        re.sub(r"<svg", str(label), text, count=1)
    )  # matplotlib has escaped all text in it


def _files(one: Plot | Picture, folder: Path, ending: str) -> tuple[str, str]:
    return f"{folder.name}/{one.name}.{ending}", f"{folder.name}/{one.name}.csv"


def _drawn(plot: Plot, numbers: pd.DataFrame) -> bytes:
    with mpl.rc_context(SETTINGS | {"svg.hashsalt": plot.name}):
        return _saved(plot.draw(numbers), "svg")


def _painted(picture: Picture, scans: Sequence[Scan]) -> bytes:
    with mpl.rc_context(SETTINGS):
        return _saved(picture.draw(scans), "png")


def _saved(figure: Figure, form: str) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing"
        )  # the browser has other fonts to draw it with
        figure.savefig(
            stream, format=form, dpi=DOTS, metadata={"Date": None} if form == "svg" else None
        )
    return stream.getvalue()
