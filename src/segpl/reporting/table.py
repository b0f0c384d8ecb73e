"""A table as data: columns with the format of their numbers, rows of values, and notes.

`render` turns a table into text for a terminal, Markdown, LaTeX or HTML. That text is never read
back: a table that is needed again is stored with `to_json`.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

MISSING = "–"
"""The text of a cell without a value."""
TABLE_ENDING = ".table.json"
"""The ending of files that `to_json` writes."""
STORED_DIGITS = 9
"""Significant digits of a stored number. Further ones depend on the order of summation."""


class Align(Enum):
    """The side of a column to which its cells are aligned."""

    LEFT = "left"
    RIGHT = "right"


class Better(Enum):
    """Which values of a column are better."""

    HIGHER = "higher"
    LOWER = "lower"


class Mark(Enum):
    """The rank of a cell that is highlighted in its group of rows."""

    BEST = "best"
    SECOND = "second"


MARK_BY_BETTER_COUNT = {0: Mark.BEST, 1: Mark.SECOND}
"""The mark of a number by how many numbers are better."""


class Spread(NamedTuple):
    """A mean with a standard deviation, which is None or NaN if there is only one value."""

    mean: float | None
    deviation: float | None = None


class Span(NamedTuple):
    """A lower and an upper bound."""

    low: float | None
    high: float | None


class Effect(NamedTuple):
    """A difference with the bounds of its interval. All three are written with a sign."""

    difference: float
    low: float | None
    high: float | None


Value = str | int | float | Spread | Span | Effect | None
Row = Sequence[Value]


@dataclass(frozen=True)
class Format:
    """How a number is written: multiplied by `factor`, then formatted with `spec`."""

    spec: str = ""
    factor: float = 1.0
    whole_from: float | None = None
    """Numbers of at least this size (after multiplication) are written without decimals."""

    def number(self, value: float) -> str:
        """The text of a number that is defined."""
        scaled = value if self.factor == 1 else self.factor * value
        if self.whole_from is not None and abs(scaled) >= self.whole_from:
            return f"{scaled:.0f}"
        return f"{scaled:{self.spec}}"

    def text(self, value: Value) -> str:
        """The text of any value of a cell; a dash if it is undefined."""
        if isinstance(value, str):
            return value
        if isinstance(value, Spread):
            return self._spread_text(value)
        if isinstance(value, Span):
            return self._span_text(value.low, value.high)
        if isinstance(value, Effect):
            return self._effect_text(value)
        if value is None or math.isnan(value):
            return MISSING
        return self.number(value)

    def _spread_text(self, spread: Spread) -> str:
        mean = self.text(spread.mean)
        if mean == MISSING or _is_missing(spread.deviation):
            return mean
        return f"{mean} ± {self.text(spread.deviation)}"

    def _span_text(self, low: float | None, high: float | None) -> str:
        return f"{self.text(low)} to {self.text(high)}"

    def _effect_text(self, effect: Effect) -> str:
        signed = replace(self, spec=f"+{self.spec}")
        bounds = signed._span_text(effect.low, effect.high)
        return f"{signed.number(effect.difference)} ({bounds})"


def _is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


@dataclass(frozen=True)
class Column:
    """A heading, and how the cells below it are written."""

    title: str
    format: Format = field(default_factory=Format)
    align: Align = Align.RIGHT
    better: Better | None = None
    wraps: bool = False
    """Whether a terminal may wrap a long text. Names are never wrapped."""


@dataclass(frozen=True)
class Table:
    """A title, columns, groups of rows (one for each label budget, say), and notes."""

    title: str
    columns: Sequence[Column]
    groups: Sequence[Sequence[Row]]
    notes: Sequence[str] = ()
    marks_best: bool = False
    """Whether to mark the two best values of each group in columns that say what is better."""

    def __post_init__(self) -> None:
        """Raise a ValueError if a row does not fit the columns."""
        width = len(self.columns)
        for row in self.rows():
            if len(row) != width:
                raise ValueError(f"{self.title}: {len(row)} cells for {width} columns")

    def rows(self) -> Iterator[Row]:
        """All rows, group after group."""
        for group in self.groups:
            yield from group


class Cell(NamedTuple):
    """The text of a cell and its mark."""

    text: str
    mark: Mark | None = None


def text_column(title: str, wraps: bool = False) -> Column:
    """A column of names or sentences."""
    return Column(title, align=Align.LEFT, wraps=wraps)


def cell_groups(table: Table) -> list[list[list[Cell]]]:
    """The cells of every row as text with marks, group by group."""
    return [_group_cells(table, group) for group in table.groups]


def _group_cells(table: Table, group: Sequence[Row]) -> list[list[Cell]]:
    rows: list[list[Cell]] = [[] for _ in group]
    for index, column in enumerate(table.columns):
        values = [row[index] for row in group]
        marks = _marks(column, values) if table.marks_best else {}
        for row_index, value in enumerate(values):
            text = column.format.text(value)
            rows[row_index].append(Cell(text, marks.get(row_index)))
    return rows


def _marks(column: Column, values: Sequence[Value]) -> dict[int, Mark]:
    """The positions of the best and second best values of a column, with their marks.

    Numbers are compared as they are written, so equal texts have equal marks. A column with fewer
    than two numbers has no marks.
    """
    numbers: dict[int, float] = {}
    for index, value in enumerate(values):
        number = _written_number(column, value)
        if number is not None:
            numbers[index] = number
    if column.better is None or len(numbers) < 2:
        return {}
    marks = {}
    for index, number in numbers.items():
        better_count = _count_better(number, numbers.values(), column.better)
        if better_count in MARK_BY_BETTER_COUNT:
            marks[index] = MARK_BY_BETTER_COUNT[better_count]
    return marks


def _count_better(number: float, others: Iterable[float], better: Better) -> int:
    """How many of the other numbers are better."""
    if better is Better.HIGHER:
        return sum(other > number for other in others)
    return sum(other < number for other in others)


def _written_number(column: Column, value: Value) -> float | None:
    """The number in a cell, or the mean, rounded as it is written; None if there is none."""
    if isinstance(value, Spread):
        value = value.mean
    if not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(column.format.number(value))


def to_json(table: Table) -> str:
    """A table as JSON; `from_json` returns the same table."""
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
    return [_row_record(row) for row in group]


def _row_record(row: Row) -> list[Any]:
    return [_value_record(value) for value in row]


def _group(records: Sequence[Sequence[Any]]) -> list[list[Value]]:
    return [_row(record) for record in records]


def _row(record: Sequence[Any]) -> list[Value]:
    return [_value(value_record) for value_record in record]


def _value_record(value: Value) -> Any:
    """Text and integers as they are, an undefined number as null, a composite value by field."""
    if isinstance(value, Spread | Span | Effect):
        fields = value._asdict()
        return {name: _value_record(number) for name, number in fields.items()}
    if value is None or isinstance(value, str):
        return value
    if math.isnan(value):
        return None
    if isinstance(value, int):
        return value
    return float(f"{value:.{STORED_DIGITS}g}")


def _value(record: Any) -> Value:
    if not isinstance(record, dict):
        return record
    for composite in (Spread, Span, Effect):
        if set(record) == set(composite._fields):
            return composite(**record)
    raise ValueError(f"no value of a cell has the fields {', '.join(record)}")
