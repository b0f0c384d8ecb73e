"""A run, several runs or a study as one HTML file that opens anywhere: `write_report`."""

import base64
import hashlib
import io
import json
from collections.abc import Sequence
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
from segpl.reporting.label_use import label_use
from segpl.reporting.material import Material, gather
from segpl.reporting.page.drawing import draw_pictures, draw_plots
from segpl.reporting.page.origin import origin
from segpl.reporting.page.pictures import FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_POSITIVE, TRUTH
from segpl.reporting.page.scans import METHODS, find_cases
from segpl.reporting.page.standing import find_standing
from segpl.reporting.page.verdicts import headline
from segpl.reporting.page.viewer import LEVELS, gallery
from segpl.reporting.page.wording import (
    certainty_table,
    cost_table,
    guard_words,
    headline_table,
    ranking_table,
    region_table,
    study_tables,
)
from segpl.reporting.render import html
from segpl.reporting.words import verb
from segpl.rundir import RANK_FILE

__all__ = ["write_report"]

PAGE, FIGURES = "report.html", "report-figures"
PALETTE = {
    "wrong": FALSE_POSITIVE,
    "right": TRUE_POSITIVE,
    "missed": FALSE_NEGATIVE,
    "truth": TRUTH,
}


def write_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the report on all runs in `folders` to `out`, or into the first folder, and return its file.

    Each figure goes beside it too, as a file of its own with its numbers, into `report-figures`.
    """
    material = gather(folders)
    file = out or folders[0] / PAGE
    figures = file.parent / (FIGURES if file.name == PAGE else f"{file.stem}-figures")
    standing = find_standing(material)
    cases, remarks = find_cases(material, standing.cases)
    shown = gallery(material, list(cases.values()))
    drawn = [*draw_plots(material, figures), *draw_pictures(material, cases, figures)]
    tables = {
        "top": headline_table(material, standing.worst_iou),
        "good": [*study_tables(material.study_tables), *region_table(material)],
        "sure": certainty_table(material),
        "cost": cost_table(material),
    }
    viewer = {
        "cases": shown.cases,
        "levels": LEVELS,
        "colours": PALETTE,
        "regions": _regions(material),
    }
    more = len(material.methods) - METHODS
    left_out = (
        [f"Pictures show {METHODS} methods; {more} more {verb(more, 'is', 'are')} left out."]
        if more > 0
        else []
    )
    page = _template().render(
        title=", ".join(folder.resolve().name for folder in folders),
        headline=headline(material, standing.best),
        drawn=drawn,
        figures_folder=figures.name,
        tables=tables,
        label_use=label_use(material.runs),
        guard=guard_words(material),
        rankings=_rankings(material),
        remarks=[*remarks, *shown.remarks, *left_out],
        viewer=viewer,
        origin=origin(material),
        version=version("segpl"),
        code=code_hash(),
        **_assets(),
    )
    write_text(file, page)
    return file


def in_script(value: Any) -> Markup:
    """JSON that can stand in a script element: whatever it holds, it cannot end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("segpl.reporting.page", "template")
    surroundings = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    surroundings.filters["in_script"] = in_script
    surroundings.filters["table"] = html
    return surroundings.get_template("page.html")


def _assets() -> dict[str, Markup | str]:
    """Style and script, and the hash that lets this script run and no other."""
    folder = files("segpl.reporting.page") / "template"
    style, script = (
        Markup((folder / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": style, "script": script, "script_hash": f"sha256-{digest}"}


def _regions(material: Material) -> list[dict[str, str]]:
    names = [str(region["name"]) for region in material.regions[:8]]
    return [{"name": name, "colour": COLOURS[n % len(COLOURS)]} for n, name in enumerate(names)]


def _rankings(material: Material) -> list[dict[str, Any]]:
    """Every rank.csv in the folders and runs, with the picture beside it."""
    places = dict.fromkeys([*material.folders, *(run.folder for run in material.runs)])
    rankings = []
    for place in places:
        file = place / RANK_FILE
        if file.is_file() and file.stat().st_size:
            rankings.append(
                {"table": ranking_table(file), "picture": _picture(file.with_name("rank.png"))}
            )
    return rankings


def _picture(file: Path) -> str:
    """A picture as an address, made smaller where it is large; empty where there is none."""
    if not file.is_file():
        return ""
    stream = io.BytesIO()
    with Image.open(file) as picture:
        smaller = picture.convert("RGB")
        smaller.thumbnail((1600, 4000))
        smaller.save(stream, "jpeg", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
