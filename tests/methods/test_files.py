"""One small file per method, with little in common between files."""

from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

import pytest

import segpl.methods
from segpl.methods import METHODS

FOLDER = Path(segpl.methods.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
METHOD_FILES = [file for file in FILES if file.stem not in ("__init__", "base")]


def code(file):
    """The lines of a file without blank lines and imports."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith(("import ", "from "))]


def longest_shared_lines(first, second):
    first_code = code(first)
    matcher = SequenceMatcher(None, first_code, code(second), autojunk=False)
    match = matcher.find_longest_match()
    return first_code[match.a : match.a + match.size]


def test_each_method_has_a_file_of_its_name():
    names = {file.stem.replace("_", "-") for file in METHOD_FILES}
    assert names == set(METHODS)


def test_no_two_methods_share_six_lines():
    for first, second in combinations(METHOD_FILES, 2):
        shared = longest_shared_lines(first, second)
        assert len(shared) < 6, f"{first.name} and {second.name} share {shared}"


@pytest.mark.parametrize("file", METHOD_FILES, ids=lambda file: file.stem)
def test_the_file_of_a_method_is_small(file):
    assert len(code(file)) < 140
