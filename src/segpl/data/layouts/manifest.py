"""A CSV manifest: `subject, case, image` (or a column per channel), `label` and `split`, paths relative to the file."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from segpl.data.cases import Case, Dataset
from segpl.data.formats.image import split
from segpl.data.layouts.contents import task_of
from segpl.foundation.errors import UserError

NAME = "manifest"
DESCRIPTION = (
    "one CSV file with the columns subject, case, image (or one per channel), label, split"
)

RESERVED = ("subject", "case", "image", "label", "split")
TEST = {"": False, "train": False, "training": False, "test": True}
"""Which words of the column `split` mean the test cases."""


@dataclass(frozen=True)
class Row:
    """One line of a manifest."""

    where: str
    """File and line number, to begin a complaint with."""
    folder: Path
    cells: dict[str, str]

    def file(self, column: str) -> Path:
        """The file that a cell names."""
        if not self.cells[column]:
            raise UserError(f"{self.where} names no file in the column {column}: fill it in.")
        file = self.folder / self.cells[column]
        if not split(file)[0].exists():
            raise UserError(f"{self.where}: {file} is missing: add the file or correct its path.")
        return file

    def case(self, channels: tuple[str, ...]) -> Case:
        """The case on this line; without a subject of its own it is its own subject."""
        name = self.cells["case"]
        if not name:
            raise UserError(f"{self.where} names no case: fill in the column case.")
        label = self.file("label") if self.cells.get("label") else None
        return Case(name, self.cells.get("subject") or name, tuple(map(self.file, channels)), label)

    def is_test(self) -> bool:
        """Whether the split of this line is the test."""
        split = self.cells.get("split", "").lower()
        if split not in TEST:
            raise UserError(
                f"{self.where}: split is {split!r}: write train or test; who validates is drawn from the seed."
            )
        return TEST[split]


def recognises(folder: Path) -> bool:
    """A CSV file with a column `case` or `image`, or a folder with one that cannot be another kind of table."""
    return bool(_manifests(folder))


def read(folder: Path) -> Dataset:
    """The data set that the manifest lists; a case without a label is unlabelled."""
    files = _manifests(folder)
    if len(files) > 1:
        raise UserError(
            f"{files[0]} and {files[1]} are both manifests: give the one you mean instead of the folder."
        )
    columns, rows = _table(files[0])
    channels = (
        ("image",)
        if "image" in columns
        else tuple(name for name in columns if name not in RESERVED)
    )
    if "case" not in columns or not channels:
        raise UserError(
            f"{files[0]} needs the column case, and image or one column per channel: add what is missing."
        )
    cases = _cases(rows, channels)
    training = tuple(case for case, test in cases if not test)
    test = tuple(case for case, test in cases if test)
    names = () if channels == ("image",) else channels
    return Dataset(folder, task_of(files[0], training, test, names), training, test, layout=NAME)


def _manifests(folder: Path) -> list[Path]:
    if not folder.is_dir():
        named = folder.is_file() and folder.suffix.lower() == ".csv"
        return [folder] if named and {"case", "image"} & set(_columns(_lines(folder))) else []
    return [file for file in sorted(folder.glob("*.csv")) if file.is_file() and _lists_scans(file)]


def _lists_scans(file: Path) -> bool:
    """Volumes and orders of scans, which segpl writes where it is told to, name cases too."""
    known = set(_columns(_lines(file))) & set(RESERVED)
    return "image" in known or ("case" in known and len(known) > 1)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8-sig", errors="replace").splitlines(keepends=True)


def _delimiter(lines: list[str]) -> str:
    """A comma, unless a spreadsheet program wrote semicolons, as it does in half of Europe."""
    return ";" if lines and ";" in lines[0] and "," not in lines[0] else ","


def _columns(lines: list[str]) -> list[str]:
    """The names of the columns; those that we know in lower case."""
    cells = [cell.strip() for cell in next(csv.reader(lines, delimiter=_delimiter(lines)), [])]
    return [cell.lower() if cell.lower() in RESERVED else cell for cell in cells]


def _table(file: Path) -> tuple[list[str], list[Row]]:
    lines = _lines(file)
    columns = _columns(lines)
    if "" in columns or len(set(columns)) < len(columns):
        raise UserError(
            f"{file} has columns without a name or with the same name: name each of them."
        )
    return columns, list(_rows(file, columns, lines))


def _rows(file: Path, columns: list[str], lines: list[str]) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=_delimiter(lines))
    next(reader)
    for cells in reader:
        where = f"{file} line {reader.line_num}"
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(columns):
            raise UserError(
                f"{where} has {len(cells)} cells, but there are {len(columns)} columns: mend the line."
            )
        yield Row(
            where,
            file.parent,
            {name: cell.strip() for name, cell in zip(columns, cells, strict=True)},
        )


def _cases(rows: list[Row], channels: tuple[str, ...]) -> list[tuple[Case, bool]]:
    cases: dict[str, tuple[Case, bool]] = {}
    for row in rows:
        case = row.case(channels)
        if case.name in cases:
            raise UserError(
                f"{row.where}: case {case.name} is on an earlier line too: rename one of them."
            )
        cases[case.name] = case, row.is_test()
    return list(cases.values())
