"""CSV files never hold a formula, and are read back with the names that were written."""

import csv

import pandas as pd
import pytest

from segpl.foundation.tables import escaped, unescaped, write_frame, write_rows
from segpl.rundir import read_table

NAMES = [
    "=1+1",
    "+A1",
    "-x",
    "@SUM(A1)",
    "\t=1",
    "'=1",
    "'plain",
    "a=1",
    "",
    "line\nbreak",
    'quote",',
    "M\udcfcller",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_escaped_name_is_no_formula_and_comes_back(name):
    assert not escaped(name).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unescaped(escaped(name)) == name


@pytest.mark.parametrize("number", ["-0.5", "+3", "-1e-07"])
def test_numbers_stay_numbers(number):
    assert escaped(number) == number
    assert unescaped(number) == number


def test_names_in_a_table_come_back(tmp_path):
    table = pd.DataFrame({"case": NAMES, "value": [-0.5] * len(NAMES)})
    write_frame(tmp_path / "scores.csv", table)
    read = read_table(tmp_path / "scores.csv")
    assert list(read["case"]) == NAMES
    assert set(read["value"]) == {-0.5}


def test_rows_and_tables_are_written_alike(tmp_path):
    rows = [{"case": name, "value": -0.5} for name in NAMES]
    write_rows(tmp_path / "rows.csv", ["case", "value"], rows)
    write_frame(tmp_path / "frame.csv", pd.DataFrame(rows))
    written = [
        list(csv.reader((tmp_path / name).open(errors="surrogateescape", newline="")))
        for name in ("rows.csv", "frame.csv")
    ]
    assert written[0] == written[1]
