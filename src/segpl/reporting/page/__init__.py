"""A report on one run, several runs or a study: one HTML file that needs no network."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from PIL import Image

from segpl.foundation.files import write_text
from segpl.foundation.provenance import code_hash
from segpl.reporting.colours import COLOURS
from segpl.reporting.grammar import verb
from segpl.reporting.label_use import label_use
from segpl.reporting.material import Material, gather
from segpl.reporting.page.best_and_worst import BestAndWorst, find_best_and_worst
from segpl.reporting.page.embedding import image_url, script_json
from segpl.reporting.page.figures import draw_pictures, draw_plots
from segpl.reporting.page.guard_summary import describe_guard
from segpl.reporting.page.headline import make_headline
from segpl.reporting.page.images import images_table
from segpl.reporting.page.pictures import FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_POSITIVE, TRUTH
from segpl.reporting.page.reproducibility import describe_reproducibility
from segpl.reporting.page.scans import MAX_METHODS, MAX_REGIONS, find_cases
from segpl.reporting.page.tables import (
    calibration_tables,
    cost_table,
    main_table,
    ranking_table,
    region_table,
    study_tables,
)
from segpl.reporting.page.viewer import UNCERTAINTY_LEVELS, make_gallery
from segpl.reporting.render import html
from segpl.reporting.table import Table
from segpl.rundir import RANK_FILE

__all__ = ["write_report"]

PAGE_NAME = "report.html"
FIGURES_NAME = "report-figures"
VIEWER_COLOURS = {
    "false_positive": FALSE_POSITIVE,
    "true_positive": TRUE_POSITIVE,
    "false_negative": FALSE_NEGATIVE,
    "truth": TRUTH,
}
MAX_PICTURE_SIZE = (1600, 4000)
"""Width and height in pixels of the picture of a ranking."""


def write_report(
    folders: Sequence[Path], out: Path | None = None, baseline: str | None = None
) -> Path:
    """Write a report on all runs in `folders` and return its path.

    The report is written to `out`, by default to report.html in the first folder. Methods are
    compared with `baseline`, by default with one that learns from labels only.
    Every figure and its numbers are also written as files, to the folder `report-figures` beside
    the page. For another name of the page, such as `mine.html`, the folder is `mine-figures`.
    """
    material = gather(folders)
    if baseline is not None:
        material = material.with_baseline(baseline)
    page = out or folders[0] / PAGE_NAME
    figures_folder = page.parent / _figures_name(page)
    best_and_worst = find_best_and_worst(material)
    cases, remarks = find_cases(material, best_and_worst.cases)
    gallery = make_gallery(material, list(cases.values()))
    plots = draw_plots(material, figures_folder)
    pictures = draw_pictures(material, cases, figures_folder)
    text = _template().render(
        title=", ".join(folder.resolve().name for folder in folders),
        headline=make_headline(material, best_and_worst.best),
        figures=[*plots, *pictures],
        figures_folder=figures_folder.name,
        tables=_tables(material, best_and_worst),
        label_use=label_use(material.runs),
        guard=describe_guard(material),
        rankings=_rankings(material),
        remarks=[*remarks, *gallery.remarks, *_methods_left_out(material)],
        viewer=_viewer_data(material, gallery.cases),
        reproducibility=describe_reproducibility(material),
        version=version("segpl"),
        code=code_hash(),
        **_style_and_script(),
    )
    write_text(page, text)
    return page


def _figures_name(page: Path) -> str:
    return FIGURES_NAME if page.name == PAGE_NAME else f"{page.stem}-figures"


def _tables(material: Material, best_and_worst: BestAndWorst) -> dict[str, list[Table]]:
    """The tables of each section of the page."""
    return {
        "top": main_table(material, best_and_worst.worst_iou),
        "accuracy": [
            *study_tables(material.study_tables),
            *images_table(material),
            *region_table(material),
        ],
        "uncertainty": calibration_tables(material),
        "cost": cost_table(material),
    }


def _methods_left_out(material: Material) -> list[str]:
    """A sentence on the methods that pictures do not show."""
    left_out = len(material.methods) - MAX_METHODS
    if left_out <= 0:
        return []
    are = verb(left_out, "is", "are")
    return [f"Pictures show {MAX_METHODS} methods; {left_out} more {are} left out."]


def _viewer_data(material: Material, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What page.js reads."""
    regions = []
    for index, region in enumerate(material.regions[:MAX_REGIONS]):
        colour = COLOURS[index % len(COLOURS)]
        regions.append({"name": str(region["name"]), "colour": colour})
    return {
        "cases": cases,
        "uncertainty_levels": UNCERTAINTY_LEVELS,
        "colours": VIEWER_COLOURS,
        "regions": regions,
    }


def _rankings(material: Material) -> list[dict[str, Any]]:
    """The table and the picture of every ranking in the folders and the runs."""
    run_folders = [run.folder for run in material.runs]
    rankings = []
    for folder in dict.fromkeys([*material.folders, *run_folders]):
        file = folder / RANK_FILE
        if file.is_file() and file.stat().st_size:
            picture = _picture_url(file.with_suffix(".png"))
            rankings.append({"table": ranking_table(file), "picture": picture})
    return rankings


def _picture_url(file: Path) -> str:
    """A picture, reduced if it is large, as an address that needs no file; empty without a file."""
    if not file.is_file():
        return ""
    with Image.open(file) as picture:
        reduced = picture.convert("RGB")
    reduced.thumbnail(MAX_PICTURE_SIZE)
    return image_url(reduced, "jpeg", quality=85)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("segpl.reporting.page", "template"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = script_json
    environment.filters["table"] = html
    return environment.get_template("page.html")


def _style_and_script() -> dict[str, Markup | str]:
    """Style and script of the page, and the hash by which the browser runs this script only."""
    template = files("segpl.reporting.page") / "template"
    style = (template / "page.css").read_text(encoding="utf-8")
    script = (template / "page.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    encoded_digest = base64.b64encode(digest).decode()
    return {
        "style": Markup(style),
        "script": Markup(script),
        "script_hash": f"sha256-{encoded_digest}",
    }
