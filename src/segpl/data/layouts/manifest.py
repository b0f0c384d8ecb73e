"""A CSV manifest with one case per line.

The columns are `subject, case, image` (or one column per channel), `label` and `split`. Paths are
relative to the file.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from segpl.data.cases import Case, Cases, Dataset
from segpl.data.formats.image import split_array_name
from segpl.data.layouts.task_from_files import infer_task
from segpl.foundation.errors import UserError

NAME = "manifest"
DESCRIPTION = (
    "one CSV file with the columns subject, case, image (or one per channel), label, split"
)
TREE = """
list.csv    subject,case,image,label,split
            anna,a1,scans/a1.nii.gz,labels/a1.nii.gz,
            ben,b1,scans/b1.nii.gz,,
            carl,c1,scans/c1.nii.gz,labels/c1.nii.gz,test
"""

Channels = tuple[str, ...]
"""The names of the columns that hold images."""

RESERVED_COLUMNS = ("subject", "case", "image", "label", "split")
IS_TEST = {"": False, "train": False, "training": False, "test": True}
"""The values of the column `split`, and whether they mean a test case."""


@dataclass(frozen=True)
class Row:
    """One line of a manifest."""

    position: str
    """File and line number, for error messages."""
    folder: Path
    cells: dict[str, str]
    """The cells by the name of their column."""

    def file(self, column: str) -> Path:
        """The file that a cell names; an error if it does not exist."""
        if not self.cells[column]:
            raise UserError(f"{self.position} names no file in the column {column}: fill it in.")
        file = self.folder / self.cells[column]
        path, _ = split_array_name(file)
        if not path.exists():
            raise UserError(
                f"{self.position}: {file} is missing: add the file or correct its path."
            )
        return file

    def case(self, channels: Channels) -> Case:
        """The case on this line. If it names no subject, the case is its own subject."""
        name = self.cells["case"]
        if not name:
            raise UserError(f"{self.position} names no case: fill in the column case.")
        has_label = bool(self.cells.get("label"))
        return Case(
            name=name,
            subject=self.cells.get("subject") or name,
            label=self.file("label") if has_label else None,
            images=tuple(self.file(channel) for channel in channels),
        )

    def is_test(self) -> bool:
        """Whether the case on this line is a test case."""
        split = self.cells.get("split", "").lower()
        if split not in IS_TEST:
            raise UserError(
                f"{self.position}: split is {split!r}: write train or test; "
                "the seed chooses the validation cases."
            )
        return IS_TEST[split]


def recognises(folder: Path) -> bool:
    """Whether this is a manifest, or a folder that holds one."""
    return bool(_manifests(folder))


def read(folder: Path) -> Dataset:
    """The dataset that the manifest lists; a case without a label is unlabelled."""
    files = _manifests(folder)
    if len(files) > 1:
        both = f"{files[0]} and {files[1]}"
        raise UserError(f"{both} are both manifests: give one file instead of the folder.")
    file = files[0]
    lines = _lines(file)
    columns = _columns(lines)
    _check_column_names(file, columns)
    rows = list(_rows(file, columns, lines))
    channels = _channel_columns(file, columns)
    training, test = _cases(rows, channels)
    channel_names = () if channels == ("image",) else channels
    task = infer_task(file, training, test, channel_names)
    return Dataset(folder=folder, task=task, training=training, test=test, layout=NAME)


def _manifests(path: Path) -> list[Path]:
    """The manifests in a folder, or the file itself if it is one."""
    if path.is_dir():
        files = sorted(path.glob("*.csv"))
        return [file for file in files if file.is_file() and _lists_scans(file)]
    if not path.is_file() or path.suffix.lower() != ".csv":
        return []
    columns = _columns(_lines(path))
    if "case" in columns or "image" in columns:
        return [path]
    return []


def _lists_scans(file: Path) -> bool:
    """Whether a table in a data folder is a manifest.

    The tables of volumes and of ranked scans that segpl writes have a column `case` as well, but
    no other column of a manifest.
    """
    columns = _columns(_lines(file))
    reserved = [name for name in RESERVED_COLUMNS if name in columns]
    if "image" in reserved:
        return True
    return "case" in reserved and len(reserved) > 1


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8-sig", errors="replace").splitlines(keepends=True)


def _delimiter(lines: list[str]) -> str:
    """A comma, or the semicolon that spreadsheets write in countries with a decimal comma."""
    header = lines[0] if lines else ""
    if ";" in header and "," not in header:
        return ";"
    return ","


def _columns(lines: list[str]) -> list[str]:
    """The names of the columns; reserved names are in lower case."""
    reader = csv.reader(lines, delimiter=_delimiter(lines))
    header = next(reader, [])
    columns = []
    for cell in header:
        name = cell.strip()
        if name.lower() in RESERVED_COLUMNS:
            name = name.lower()
        columns.append(name)
    return columns


def _check_column_names(file: Path, columns: list[str]) -> None:
    has_duplicates = len(set(columns)) < len(columns)
    if "" in columns or has_duplicates:
        raise UserError(
            f"{file} has columns without a name or with the same name: "
            "give every column its own name."
        )


def _channel_columns(file: Path, columns: list[str]) -> Channels:
    """The columns that name images: `image`, or else every column that is not reserved."""
    if "image" in columns:
        channels: Channels = ("image",)
    else:
        channels = tuple(name for name in columns if name not in RESERVED_COLUMNS)
    if "case" not in columns or not channels:
        raise UserError(
            f"{file} needs the column case, and image or one column per channel: "
            "add what is missing."
        )
    return channels


def _rows(file: Path, columns: list[str], lines: list[str]) -> Iterator[Row]:
    """The lines below the header, without empty ones."""
    reader = csv.reader(lines, delimiter=_delimiter(lines))
    next(reader)
    for line in reader:
        cells = [cell.strip() for cell in line]
        if not any(cells):
            continue
        position = f"{file} line {reader.line_num}"
        if len(cells) != len(columns):
            raise UserError(
                f"{position} has {len(cells)} cells, but there are {len(columns)} columns: "
                "correct the line."
            )
        cell_by_column = dict(zip(columns, cells, strict=True))
        yield Row(position, file.parent, cell_by_column)


def _cases(rows: list[Row], channels: Channels) -> tuple[Cases, Cases]:
    """The training cases and the test cases."""
    training = []
    test = []
    names = set()
    for row in rows:
        case = row.case(channels)
        if case.name in names:
            raise UserError(
                f"{row.position}: case {case.name} is on an earlier line too: rename one of them."
            )
        names.add(case.name)
        if row.is_test():
            test.append(case)
        else:
            training.append(case)
    return tuple(training), tuple(test)
