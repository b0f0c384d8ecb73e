"""Draws the figures of the catalogue: files beside the page, and what the page embeds."""

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from segpl.data.cases import Case
from segpl.foundation.files import write_bytes
from segpl.foundation.progress import track
from segpl.foundation.tables import write_frame
from segpl.reporting.material import Material
from segpl.reporting.page.catalogue import PICTURES, PLOTS, Picture, Plot
from segpl.reporting.page.embedding import data_url, inline_svg
from segpl.reporting.page.scans import Scan, read_scan
from segpl.reporting.page.style import MATPLOTLIB_SETTINGS

DOTS_PER_INCH = 110


@dataclass(frozen=True)
class DrawnFigure:
    """A figure as the page shows it."""

    entry: Plot | Picture
    """Its entry in the catalogue."""
    file: str
    """The figure as a file; the path is relative to the page."""
    numbers_file: str
    """The numbers behind the figure as a CSV file; the path is relative to the page."""
    svg: Markup | None = None
    """A plot, embedded in the page."""
    image_source: str = ""
    """The address of a picture, embedded in the page."""


def draw_plots(material: Material, folder: Path) -> list[DrawnFigure]:
    """Draw every plot that has numbers, and write its SVG and CSV files to `folder`."""
    drawn = []
    for plot in track(PLOTS, "Drawing figures"):
        numbers = plot.numbers(material)
        if len(numbers):
            drawn.append(_draw_plot(plot, numbers, material, folder))
    return drawn


def _draw_plot(plot: Plot, numbers: pd.DataFrame, material: Material, folder: Path) -> DrawnFigure:
    # Categories give methods and budgets the same order and style in every plot.
    categorised = numbers.assign(
        method=pd.Categorical(numbers["method"], material.methods),
        budget=pd.Categorical(numbers["budget"], material.budgets),
    )
    # The salt makes the identifiers in the SVG file reproducible.
    with mpl.rc_context(MATPLOTLIB_SETTINGS | {"svg.hashsalt": plot.name}):
        svg = _save(plot.draw(categorised), "svg", {"Date": None})
    write_bytes(folder / f"{plot.name}.svg", svg)
    write_frame(folder / f"{plot.name}.csv", numbers)
    return DrawnFigure(
        entry=plot,
        file=f"{folder.name}/{plot.name}.svg",
        numbers_file=f"{folder.name}/{plot.name}.csv",
        svg=inline_svg(svg, plot.name, plot.alt),
    )


def draw_pictures(material: Material, cases: Mapping[str, Case], folder: Path) -> list[DrawnFigure]:
    """Draw every picture that has cases, and write its PNG and CSV files to `folder`.

    `cases` are all test cases by name, worst first.
    """
    drawn: list[DrawnFigure] = []
    if not cases:
        return drawn
    scans: dict[str, Scan | None] = {}
    for picture in track(PICTURES, "Drawing pictures"):
        names = picture.choose_cases(list(cases))
        usable = []
        for name in names:
            if name not in scans:
                scans[name] = read_scan(material, cases[name])
            scan = scans[name]
            if scan is not None and picture.can_show(scan):
                usable.append(scan)
        if usable:
            scores = _case_scores(material, names)
            drawn.append(_draw_picture(picture, usable, scores, folder))
    return drawn


def _case_scores(material: Material, names: Sequence[str]) -> pd.DataFrame:
    """The IoU of these cases in every run."""
    scores = material.clean
    is_iou = scores["metric"] == "iou"
    is_named = scores["case"].isin(names)
    return scores[is_iou & is_named]


def _draw_picture(
    picture: Picture, scans: Sequence[Scan], scores: pd.DataFrame, folder: Path
) -> DrawnFigure:
    with mpl.rc_context(MATPLOTLIB_SETTINGS):
        png = _save(picture.draw(scans), "png")
    write_bytes(folder / f"{picture.name}.png", png)
    write_frame(folder / f"{picture.name}.csv", scores)
    return DrawnFigure(
        entry=picture,
        file=f"{folder.name}/{picture.name}.png",
        numbers_file=f"{folder.name}/{picture.name}.csv",
        image_source=data_url(png, "png"),
    )


def _save(figure: Figure, file_format: str, metadata: Mapping[str, None] | None = None) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # The browser has fonts for glyphs that matplotlib lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(stream, format=file_format, dpi=DOTS_PER_INCH, metadata=metadata)
    return stream.getvalue()
