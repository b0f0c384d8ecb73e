"""A table as people read it: on a terminal, in Markdown, in LaTeX and in HTML."""

from collections.abc import Sequence

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from segpl.reporting.table import Align, Cell, Column, Mark, Table, shown_groups

IN_MARKDOWN = {None: "{}", Mark.BEST: "**{}**", Mark.SECOND: "*{}*"}
IN_LATEX = {
    None: "{}",
    Mark.BEST: r"\textbf{{\textcolor{{red}}{{{}}}}}",
    Mark.SECOND: r"\textbf{{\textcolor{{blue}}{{{}}}}}",
}
"""As in the paper, the best is bold and red, the second best bold and blue."""
IN_TERMINAL = {None: "", Mark.BEST: "bold", Mark.SECOND: "italic"}

LATEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)
BOLD_AND_ITALIC = "Bold is the best, italic the second best of each group of rows."
RED_AND_BLUE = "Red is the best, blue the second best of each group of rows."


def markdown(table: Table) -> str:
    """A heading, the table, and the notes as a list."""
    sides = {Align.LEFT: "---", Align.RIGHT: "---:"}
    lines = [f"## {table.title}", ""]
    lines.append(_markdown_row([column.title for column in table.columns]))
    lines.append(_markdown_row([sides[column.align] for column in table.columns]))
    for row in _rows(table):
        lines.append(_markdown_row([IN_MARKDOWN[cell.mark].format(cell.text) for cell in row]))
    lines.append("")
    lines += [f"- {note}" for note in _notes(table, BOLD_AND_ITALIC)]
    return "\n".join([*lines, ""])


def _markdown_row(cells: Sequence[str]) -> str:
    escaped_cells = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped_cells)} |"


def latex(table: Table) -> str:
    """A table environment with its notes in the caption; it needs the packages booktabs and xcolor."""
    sides = "".join("l" if column.align is Align.LEFT else "r" for column in table.columns)
    caption = " ".join([f"{table.title}.", *_notes(table, RED_AND_BLUE)])
    head = " & ".join(f"\\bfseries {escaped(column.title)}" for column in table.columns)
    lines = [
        "\\begin{table}",
        f"\\caption{{{escaped(caption)}}}",
        "\\centering",
        f"\\begin{{tabular}}{{{sides}}}",
        "\\toprule",
        f"{head} \\\\",
    ]
    for group in shown_groups(table):
        lines.append("\\midrule")
        lines += [_latex_row(row) for row in group]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}", ""]
    return "\n".join(lines)


def _latex_row(row: Sequence[Cell]) -> str:
    cells = [IN_LATEX[cell.mark].format(escaped(cell.text)) for cell in row]
    return f"{' & '.join(cells)} \\\\"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return text.translate(LATEX_SPECIAL)


def html(table: Table) -> Markup:
    """A figure with the table and its notes; every text is escaped."""
    head = Markup("").join(_html_head(column) for column in table.columns)
    groups = Markup("").join(_html_group(table, group) for group in shown_groups(table))
    notes = _notes(table, BOLD_AND_ITALIC)
    caption = Markup("<figcaption>{}</figcaption>\n").format(" ".join(notes)) if notes else ""
    return Markup(
        '<figure class="table">\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="{title}">\n'
        "<table>\n<caption>{title}</caption>\n"
        "<thead><tr>{head}</tr></thead>\n{groups}</table>\n</div>\n{caption}</figure>\n"
    ).format(title=table.title, head=head, groups=groups, caption=caption)


def _html_head(column: Column) -> Markup:
    side = Markup(' class="number"') if column.align is Align.RIGHT else ""
    return Markup('<th scope="col"{}>{}</th>').format(side, column.title)


def _html_group(table: Table, group: Sequence[Sequence[Cell]]) -> Markup:
    rows = Markup("").join(_html_row(table, row) for row in group)
    return Markup("<tbody>\n{}</tbody>\n").format(rows)


def _html_row(table: Table, row: Sequence[Cell]) -> Markup:
    cells = []
    for column, cell in zip(table.columns, row, strict=True):
        classes = ["number"] if column.align is Align.RIGHT else []
        if cell.mark:
            classes.append(cell.mark.value)
        attribute = Markup(' class="{}"').format(" ".join(classes)) if classes else ""
        cells.append(Markup("<td{}>{}</td>").format(attribute, cell.text))
    return Markup("<tr>{}</tr>\n").format(Markup("").join(cells))


def print_table(table: Table) -> None:
    """Title, table and notes on the terminal; nothing where there are no rows."""
    rows = _rows(table)
    if not rows:
        return
    words = Console(soft_wrap=True)
    words.print(table.title, highlight=False, markup=False)
    Console().print(terminal(table))
    for note in _notes(table, BOLD_AND_ITALIC):
        words.print(note, highlight=False, markup=False)


def terminal(table: Table) -> RichTable:
    """The table alone, as rich draws it; names are never cut."""
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in table.columns:
        is_name = column.align is Align.LEFT and not column.wraps
        drawn.add_column(Text(column.title), justify=column.align.value, no_wrap=is_name)
    for row in _rows(table):
        drawn.add_row(*(Text(cell.text, style=IN_TERMINAL[cell.mark]) for cell in row))
    return drawn


def _rows(table: Table) -> list[list[Cell]]:
    rows = []
    for group in shown_groups(table):
        rows += group
    return rows


def _notes(table: Table, legend: str) -> list[str]:
    """The table's notes, after what the marks mean where there are any."""
    for row in _rows(table):
        if any(cell.mark for cell in row):
            return [legend, *table.notes]
    return list(table.notes)
