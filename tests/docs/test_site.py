"""The documentation site builds without a warning and loads nothing from elsewhere."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?://|#)(?P<path>[^)\s#]+)")
LOADED = re.compile(
    r"""(?:src="|<link[^>]+href="|@import |url\()["']?(?P<address>https?://[^"')\s]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    result = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not LOADED.findall(file.read_text(encoding="utf-8")), file


@pytest.mark.slow
def test_the_command_reference_has_every_command_and_its_options(site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    for text in (
        "segpl run",
        "segpl predict",
        "--minutes N",
        "--format",
        "Finish in about N minutes.",
    ):
        assert text in page


@pytest.mark.slow
def test_formulas_are_mathml(site):
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "arithmatex" not in page


@pytest.mark.slow
def test_an_equation_leads_to_its_code_and_test(site):
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert 'href="source/src/segpl/em/bound.py.html"' in page
    assert (site / "source/src/segpl/em/bound.py.html").is_file()
    assert (site / "source/tests/em/test_bound.py.html").is_file()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_links_of_a_page_of_the_repository_lead_somewhere(name):
    for match in LINK.finditer((ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / match["path"]).exists(), match["path"]


def test_a_notebook_becomes_a_page_of_text_and_code():
    page = runpy.run_path(str(ROOT / "docs/hooks/notebooks.py"))["notebook_page"]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": ["import segpl\n", "segpl.doctor(data)"], "outputs": []},
    ]
    assert page({"cells": cells}, "tutorial.ipynb") == (
        "# Title\nText.\n\n"
        "[Download the notebook](tutorial.ipynb)\n\n"
        "```python\nimport segpl\nsegpl.doctor(data)\n```\n"
    )
