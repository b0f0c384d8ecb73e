"""A table as data: columns that know how their numbers are written, rows of values, and notes.

`render` turns a table into text for a terminal, Markdown, LaTeX or HTML. Nothing reads that text back:
a table that is needed again is stored with `to_json`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

MISSING = "–"
"""What stands where there is no value."""
TABLE_ENDING = ".table.json"
"""How the names of files end that hold a table as `to_json` writes it."""
STORED_DIGITS = 9
"""Of a number in a file: the last ones depend on the order in which a mean was summed."""


class Align(Enum):
    """On which side of its column a cell stands."""

    LEFT = "left"
    RIGHT = "right"


class Better(Enum):
    """Which values of a column are the good ones."""

    HIGHER = "higher"
    LOWER = "lower"


class Mark(Enum):
    """How a cell stands out in its group of rows."""

    BEST = "best"
    SECOND = "second"


class Spread(NamedTuple):
    """A mean with a standard deviation, which one value alone does not have."""

    mean: float | None
    deviation: float | None = None


class Span(NamedTuple):
    """From a lower to an upper bound."""

    low: float | None
    high: float | None


class Effect(NamedTuple):
    """A difference with the bounds of its interval; all three are written with their sign."""

    difference: float
    low: float | None
    high: float | None


Value = str | int | float | Spread | Span | Effect | None
Row = Sequence[Value]


@dataclass(frozen=True)
class Format:
    """How a number is written: times `factor`, then with `spec`, or without decimals from `whole_from` on."""

    spec: str = ""
    factor: float = 1.0
    whole_from: float | None = None

    def number(self, value: float) -> str:
        """One number that is defined."""
        scaled = value if self.factor == 1 else self.factor * value
        if self.whole_from is not None and abs(scaled) >= self.whole_from:
            return f"{scaled:.0f}"
        return f"{scaled:{self.spec}}"

    def text(self, value: Value) -> str:
        """Any value of a cell, with a dash where it is undefined."""
        if isinstance(value, str):
            return value
        if isinstance(value, Spread):
            return self._spread(value)
        if isinstance(value, Span):
            return self._span(value.low, value.high)
        if isinstance(value, Effect):
            signed = replace(self, spec=f"+{self.spec}")
            bounds = signed._span(value.low, value.high)
            return f"{signed.number(value.difference)} ({bounds})"
        return MISSING if value is None or math.isnan(value) else self.number(value)

    def _spread(self, value: Spread) -> str:
        mean = self.text(value.mean)
        if mean == MISSING or is_missing(value.deviation):
            return mean
        return f"{mean} ± {self.text(value.deviation)}"

    def _span(self, low: float | None, high: float | None) -> str:
        return f"{self.text(low)} to {self.text(high)}"


@dataclass(frozen=True)
class Column:
    """A heading, and what holds for every cell below it."""

    title: str
    format: Format = field(default_factory=Format)
    align: Align = Align.RIGHT
    better: Better | None = None
    wraps: bool = False
    """Whether a terminal may break a long text; names are never broken."""


@dataclass(frozen=True)
class Table:
    """A title, columns, rows in groups (of one label budget, say), and what one must know to read them."""

    title: str
    columns: Sequence[Column]
    groups: Sequence[Sequence[Row]]
    notes: Sequence[str] = ()
    marks_best: bool = False
    """Whether the two best of each group stand out, in columns that say what is better."""

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the columns."""
        for row in self.rows():
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns")

    def rows(self) -> Iterator[Row]:
        """All rows, group after group."""
        for group in self.groups:
            yield from group


class Cell(NamedTuple):
    """What a reader sees in one place."""

    text: str
    mark: Mark | None = None


def text_column(title: str, wraps: bool = False) -> Column:
    """A column of names or sentences."""
    return Column(title, align=Align.LEFT, wraps=wraps)


def shown_groups(table: Table) -> list[list[list[Cell]]]:
    """The cells of every row as texts with their marks, group by group."""
    return [_shown_group(table, group) for group in table.groups]


def _shown_group(table: Table, group: Sequence[Row]) -> list[list[Cell]]:
    columns = []
    for index, column in enumerate(table.columns):
        values = [row[index] for row in group]
        marks = _marks(column, values) if table.marks_best else [None] * len(values)
        cells = [Cell(column.format.text(v), mark) for v, mark in zip(values, marks, strict=True)]
        columns.append(cells)
    return [list(row) for row in zip(*columns, strict=True)]


def _marks(column: Column, values: Sequence[Value]) -> list[Mark | None]:
    """The best and the second best at the precision that is shown, ties alike; none of a single value."""
    sizes = [_size(column, value) for value in values]
    defined = [size for size in sizes if size is not None]
    if column.better is None or len(defined) < 2:
        return [None] * len(values)
    by_rank = {0: Mark.BEST, 1: Mark.SECOND}
    marks = []
    for size in sizes:
        ahead = (
            None if size is None else sum(_beats(other, size, column.better) for other in defined)
        )
        marks.append(None if ahead is None else by_rank.get(ahead))
    return marks


def _beats(one: float, other: float, better: Better) -> bool:
    return one > other if better is Better.HIGHER else one < other


def _size(column: Column, value: Value) -> float | None:
    """What a cell is ranked by: its number as it is shown."""
    if isinstance(value, Spread):
        value = value.mean
    if not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(column.format.number(value))


def is_missing(value: float | None) -> bool:
    """Whether there is no number."""
    return value is None or math.isnan(value)


def to_json(table: Table) -> str:
    """A table as a file keeps it; `from_json` gives the same table."""
    contents = {
        "title": table.title,
        "columns": [_column_record(column) for column in table.columns],
        "groups": [_group_record(group) for group in table.groups],
        "notes": list(table.notes),
        "marks_best": table.marks_best,
    }
    return json.dumps(contents, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str) -> Table:
    """The table that `to_json` wrote."""
    contents = json.loads(text)
    return Table(
        title=contents["title"],
        columns=[_column(record) for record in contents["columns"]],
        groups=[_group(records) for records in contents["groups"]],
        notes=contents["notes"],
        marks_best=contents["marks_best"],
    )


def _column_record(column: Column) -> dict[str, Any]:
    better = column.better.value if column.better else None
    return {**asdict(column), "align": column.align.value, "better": better}


def _column(record: Mapping[str, Any]) -> Column:
    return Column(
        title=record["title"],
        format=Format(**record["format"]),
        align=Align(record["align"]),
        better=Better(record["better"]) if record["better"] else None,
        wraps=record["wraps"],
    )


def _group_record(group: Sequence[Row]) -> list[list[Any]]:
    return [[_value_record(value) for value in row] for row in group]


def _group(records: Sequence[Sequence[Any]]) -> list[list[Value]]:
    return [[_value(record) for record in row] for row in records]


def _value_record(value: Value) -> Any:
    """Text and whole numbers as they are, an undefined number as null, and parts by their names."""
    if isinstance(value, Spread | Span | Effect):
        return {name: _value_record(part) for name, part in value._asdict().items()}
    if value is None or isinstance(value, str):
        return value
    if math.isnan(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{STORED_DIGITS}g}")


def _value(record: Any) -> Value:
    if not isinstance(record, dict):
        return record
    for kind in (Spread, Span, Effect):
        if set(record) == set(kind._fields):
            return kind(**record)
    raise ValueError(f"no cell has the parts {', '.join(record)}")
