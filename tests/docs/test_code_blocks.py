"""The commands and programs of the README and the documentation run, on phantoms and in few steps.

A block that cannot run in a test has a comment before it that gives the reason:
`<!-- not run: it needs a GPU -->`.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import segpl
from segpl.cli import run_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SMALL = {"steps": 2, "channels": 4, "patch": [32, 32], "ratio": 1}
"""Settings of every training here, so that it takes a second."""


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


def run_block(block):
    """Run a block in the current folder; an error or an exit code other than 0 fails."""
    if block.language == "python":
        # In a process of its own: a class that the code defines would be known to other tests.
        subprocess.run([sys.executable, "-c", shortened_program(block.code)], check=True)
        return
    for line in block.code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["segpl"]:
            assert run_command(shortened_command(words[1:])) == 0, line
        elif words:
            program = [sys.executable if word == "python" else word for word in words]
            subprocess.run(program, check=True)


def shortened_program(code):
    """A program whose trainings have the small settings."""
    return re.sub(r'\{"steps": \d+\}', repr(SMALL), code)


def shortened_command(words):
    """A command whose training, if it is one, has the small settings; and few phantoms."""
    if words[0] in ("train", "run"):
        line = re.sub(r" --(steps|minutes) \d+", "", shlex.join(words))
        settings = [f"--set={key}={value}" for key, value in SMALL.items()]
        return [*shlex.split(line), *settings]
    if words[0] == "phantom":
        return [*words, "--subjects", "6"]
    return words


@pytest.fixture(scope="module")
def example(tumours, tmp_path_factory):
    """A folder with what the pages start from: `mydata`, and `answer` of the tutorial."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(tumours, folder / "mydata")
    segpl.run(folder / "mydata", folder / "answer", seeds=2, settings=SMALL, quiet=True)
    return folder


def made_by(page):
    """Those folders of the example that the page makes itself."""
    code = "".join(block.code for block in runnable_blocks(page))
    return [name for name in ("mydata", "answer") if re.search(rf"--out {name}\s", code)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE_PAGES, ids=lambda page: page.name)
def test_the_code_blocks_of_a_page_run_in_their_order(page, example, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns(*made_by(page)))
    monkeypatch.chdir(folder)
    for block in runnable_blocks(page):
        run_block(block)


@pytest.mark.parametrize(
    "block",
    [
        Block("sh", "segpl doctor nowhere", None),
        Block("sh", "false", None),
        Block("python", "1 / 0", None),
    ],
)
def test_a_failing_block_is_noticed(block):
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        run_block(block)


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
