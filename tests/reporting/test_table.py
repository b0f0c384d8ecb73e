"""A table as data, and its four renderings, against text worked out by hand."""

import json

import numpy as np
import pytest

from segpl.reporting.render import escaped, html, latex, markdown, print_table
from segpl.reporting.table import (
    Better,
    Column,
    Effect,
    Format,
    Mark,
    Span,
    Spread,
    Table,
    cell_groups,
    from_json,
    text_column,
    to_json,
)

NAN = float("nan")
IOU = Column("IoU %", Format(".1f", 100), better=Better.HIGHER)
ECE = Column("ECE %", Format(".2f", 100), better=Better.LOWER)


def marks(*values, column=IOU):
    """The marks of a column with these values."""
    rows = [[value] for value in values]
    (group,) = cell_groups(Table("T", [column], [rows], marks_best=True))
    return [row[0].mark for row in group]


def small_table(title="T", name="c", note="A note."):
    """A name and an IoU in each of two rows, with the best and the second best marked."""
    rows = [[name, 0.5], ["e", 0.4]]
    return Table(title, [text_column("a|b"), IOU], [rows], [note], marks_best=True)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (Format(".1f", 100), 0.6529, "65.3"),
        (Format(".1f", 100), Spread(0.75, 0.0707), "75.0 ± 7.1"),
        (Format(".1f", 100), Spread(0.75, NAN), "75.0"),
        (Format(".1f", 100), Spread(NAN, NAN), "–"),
        (Format(".1f"), Span(1.94, 6.5), "1.9 to 6.5"),
        (Format(".1f"), Span(NAN, None), "– to –"),
        (Format(".1f"), Effect(4.21, -1.9, 6.5), "+4.2 (-1.9 to +6.5)"),
        (Format(".2g"), NAN, "–"),
        (Format(".2g"), None, "–"),
        (Format(".2g"), "0.12 vs cps", "0.12 vs cps"),
        (Format(), 3, "3"),
        (Format(".3g", 1e-3, whole_from=1000), 626_740, "627"),
        (Format(".3g", 1e-3, whole_from=1000), 12_345_678, "12346"),
    ],
)
def test_values_are_written_as_their_column_says(form, value, text):
    assert form.text(value) == text


def test_the_two_best_values_are_marked():
    assert marks(0.1, Spread(0.3, 0.1), 0.2) == [None, Mark.BEST, Mark.SECOND]
    assert marks(0.7, NAN, 0.8) == [Mark.SECOND, None, Mark.BEST]


def test_every_group_of_rows_has_its_own_best():
    groups = [[[0.1], [0.2]], [[0.8], [0.7]]]
    first, second = cell_groups(Table("T", [IOU], groups, marks_best=True))
    assert [row[0].mark for row in first] == [Mark.SECOND, Mark.BEST]
    assert [row[0].mark for row in second] == [Mark.BEST, Mark.SECOND]


def test_the_lowest_is_the_best_if_the_column_says_so():
    assert marks(0.1, 0.3, 0.2, column=ECE) == [Mark.BEST, None, Mark.SECOND]


def test_values_that_are_written_alike_are_marked_alike():
    # 65.34 and 65.26 are both written as 65.3.
    assert marks(0.6534, 0.6526, 0.6) == [Mark.BEST, Mark.BEST, None]
    assert marks(0.7, 0.6534, 0.6526) == [Mark.BEST, Mark.SECOND, Mark.SECOND]


def test_a_single_value_is_not_marked():
    assert marks(0.5, None) == [None, None]


def test_a_column_without_direction_is_not_marked():
    assert marks(0.5, 0.6, column=Column("x")) == [None, None]


def test_rows_must_fit_the_columns():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("T", [IOU], [[[1, 2]]])


def test_a_stored_table_is_read_back_unchanged():
    columns = [
        text_column("method", wraps=True),
        IOU,
        Column("p", Format(".2g")),
        Column("seeds"),
        Column("effect"),
    ]
    rows = [
        ["a|b", Spread(0.5, None), Span(0.25, 0.5), 3, Effect(1.0, None, 2.0)],
        ["–", Spread(0.25, 0.1), 0.012, 2, None],
    ]
    table = Table("A & B", columns, [rows, []], ["A note."], marks_best=True)
    assert from_json(to_json(table)) == table


def test_undefined_numbers_and_those_of_numpy_can_be_stored():
    table = Table("T", [IOU, Column("n")], [[[NAN, 2], [Spread(np.float64(0.5), NAN), 3]]])
    (group,) = json.loads(to_json(table))["groups"]
    assert group == [[None, 2], [{"mean": 0.5, "deviation": None}, 3]]
    assert markdown(from_json(to_json(table))) == markdown(table)


def test_markdown_escapes_bars_and_marks_the_best():
    assert markdown(small_table(name="c|d")) == (
        "## T\n\n"
        "| a\\|b | IoU % |\n"
        "| --- | ---: |\n"
        "| c\\|d | **50.0** |\n"
        "| e | *40.0* |\n\n"
        "- Bold is the best, italic the second best of each group of rows.\n"
        "- A note.\n"
    )


def test_latex_has_the_notes_in_the_caption_and_a_rule_between_groups():
    groups = [[["x_1", Spread(0.5, 0.02)], ["50%", 0.4]], [["z", 0.1]]]
    table = Table("A & B", [text_column("method"), IOU], groups, ["n"], marks_best=True)
    assert latex(table) == (
        "\\begin{table}\n"
        "\\caption{A \\& B. Red is the best, blue the second best of each group of rows. n}\n"
        "\\centering\n"
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "\\bfseries method & \\bfseries IoU \\% \\\\\n"
        "\\midrule\n"
        "x\\_1 & \\textbf{\\textcolor{red}{50.0 $\\pm$ 2.0}} \\\\\n"
        "50\\% & \\textbf{\\textcolor{blue}{40.0}} \\\\\n"
        "\\midrule\n"
        "z & 10.0 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )


def test_latex_prints_special_characters_as_they_are():
    assert escaped("~^\\#") == r"\textasciitilde{}\textasciicircum{}\textbackslash{}\#"


def test_html_is_escaped_and_marked():
    text = html(small_table(title="<T>", name="<b>", note="<n>"))
    assert "<caption>&lt;T&gt;</caption>" in text
    assert '<th scope="col">a|b</th><th scope="col" class="number">IoU %</th>' in text
    assert '<tr><td>&lt;b&gt;</td><td class="number best">50.0</td></tr>' in text
    assert '<td class="number second">40.0</td>' in text
    assert "each group of rows. &lt;n&gt;</figcaption>" in text


def test_the_terminal_shows_brackets_and_wraps_headings_rather_than_names(capsys):
    name = "[bold]" + "x" * 34
    columns = [text_column("case")]
    for number in range(4):
        columns.append(Column(f"a long heading {number}", IOU.format))
    print_table(Table("Title", columns, [[[name, 0.1, 0.2, 0.3, 0.4]]], ["A note."]))
    printed = capsys.readouterr().out
    assert printed.startswith("Title\n")
    assert printed.endswith("A note.\n")
    (row,) = [line for line in printed.splitlines() if name in line]
    assert row.split() == [name, "10.0", "20.0", "30.0", "40.0"]


@pytest.mark.parametrize("groups", [[], [[]], [[], []]])
def test_an_empty_table_can_be_rendered(groups, capsys):
    table = Table("T", [text_column("a"), IOU], groups, ["n"], marks_best=True)
    assert "| a | IoU % |" in markdown(table)
    assert "\\bottomrule" in latex(table)
    assert "<caption>T</caption>" in html(table)
    assert from_json(to_json(table)) == table
    print_table(table)
    assert capsys.readouterr().out == ""
