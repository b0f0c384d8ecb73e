"""The commands and programs of the README and the documentation run, on phantoms and in few steps.

A block that cannot run in a test has a comment before it that gives the reason:
`<!-- not run: it needs a GPU -->`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from segpl.api import run as segpl_run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SMALL = {"steps": 2, "channels": 4, "patch": [32, 32], "ratio": 1}
SMALL_OPTIONS = " ".join(f"--set '{key}={value}'" for key, value in SMALL.items())
SEGPL = f"""#!/bin/sh
# segpl for tests: the trainings of the documentation, but small and short.
case "$1" in
  train|run) exec "{sys.executable}" -m segpl "$@" {SMALL_OPTIONS} ;;
  phantom) exec "{sys.executable}" -m segpl "$@" --subjects 6 ;;
  *) exec "{sys.executable}" -m segpl "$@" ;;
esac
"""


class Block(NamedTuple):
    language: str
    code: str
    reason: str | None
    """Why it is not run."""


def blocks_of(page):
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(match["language"], match["code"], match["reason"])


def runnable_blocks(page):
    return [block for block in blocks_of(page) if block.reason is None]


RUNNABLE_PAGES = [page for page in PAGES if runnable_blocks(page)]


@pytest.fixture(scope="module")
def example(tumours, tmp_path_factory):
    """A folder with what the pages start from: `mydata`, and `answer` of the tutorial."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(tumours, folder / "mydata")
    segpl_run(folder / "mydata", folder / "answer", seeds=2, settings=SMALL, quiet=True)
    return folder


@pytest.fixture
def command(tmp_path_factory):
    """A folder with a `segpl` whose trainings are short."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "segpl"
    program.write_text(SEGPL, encoding="utf-8")
    program.chmod(0o755)
    return folder


def shortened(code):
    """Few steps where the code itself gives a number."""
    code = re.sub(r'"steps": \d+', '"steps": 2, "channels": 4, "patch": [32, 32]', code)
    return re.sub(r"--(steps|minutes) \d+", "", code)


def run_block(block, folder, command):
    code = shortened(block.code)
    words = ["bash", "-euo", "pipefail", "-c", code]
    if block.language == "python":
        words = [sys.executable, "-c", code]
    path = f"{command}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        words,
        cwd=folder,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE_PAGES, ids=lambda page: page.name)
def test_the_code_blocks_of_a_page_run_in_their_order(page, example, command, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(example, folder)
    for name in written_by(page):
        shutil.rmtree(folder / name)
    for block in runnable_blocks(page):
        result = run_block(block, folder, command)
        assert result.returncode == 0, f"{block.code}\n{result.stdout}\n{result.stderr}"


def written_by(page):
    """The folders of the example that the page makes itself."""
    code = "".join(block.code for block in runnable_blocks(page))
    names = []
    for name in ("mydata", "answer"):
        if re.search(rf"--out {name}\b(?!-)", code):
            names.append(name)
    return names


def test_a_failing_block_is_noticed(tmp_path, command):
    for language, code in (("sh", "false\ntrue\n"), ("python", "raise SystemExit(1)\n")):
        assert run_block(Block(language, code, None), tmp_path, command).returncode != 0


def test_a_block_is_left_out_only_with_a_reason(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: it needs a GPU -->\n```sh\nfirst\n```\n\n```sh\nsecond\n```\n",
        encoding="utf-8",
    )
    assert list(blocks_of(page)) == [
        Block("sh", "first\n", "it needs a GPU"),
        Block("sh", "second\n", None),
    ]
    assert runnable_blocks(page) == [Block("sh", "second\n", None)]


def test_the_readme_and_the_tutorial_have_blocks_that_run():
    names = {page.name for page in RUNNABLE_PAGES}
    assert {"README.md", "tutorial.md"} <= names
