"""What the files of the methods have in common must be little."""

from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

import segpl.methods
from segpl.methods import METHODS

FOLDER = Path(segpl.methods.__file__).parent


def code(file):
    """The lines that do something: no blanks, no imports."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith(("import ", "from "))]


def test_each_method_is_one_file_of_its_name():
    files = {file.stem.replace("_", "-") for file in FOLDER.glob("*.py")} - {"--init--", "base"}
    assert files == set(METHODS)


def test_no_two_methods_share_six_lines():
    files = [file for file in sorted(FOLDER.glob("*.py")) if file.stem not in ("__init__", "base")]
    for first, second in combinations(files, 2):
        longest = SequenceMatcher(
            None, code(first), code(second), autojunk=False
        ).find_longest_match()
        shared = code(first)[longest.a : longest.a + longest.size]
        assert longest.size < 6, f"{first.name} and {second.name} share {shared}"


def test_methods_stay_small():
    for file in FOLDER.glob("*.py"):
        assert len(code(file)) < (140 if file.stem == "base" else 120), file
