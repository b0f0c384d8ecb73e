"""A table as text: for the terminal, in Markdown, in LaTeX and in HTML."""

from collections.abc import Sequence

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from segpl.reporting.table import Align, Cell, Column, Mark, Table, cell_groups

MARKDOWN_RULERS = {Align.LEFT: "---", Align.RIGHT: "---:"}
MARKDOWN_MARKS = {None: "{}", Mark.BEST: "**{}**", Mark.SECOND: "*{}*"}
LATEX_ALIGNMENT = {Align.LEFT: "l", Align.RIGHT: "r"}
LATEX_MARKS = {
    None: "{}",
    Mark.BEST: r"\textbf{{\textcolor{{red}}{{{}}}}}",
    Mark.SECOND: r"\textbf{{\textcolor{{blue}}{{{}}}}}",
}
"""As in the paper: the best is bold and red, the second best bold and blue."""
TERMINAL_MARKS = {None: "", Mark.BEST: "bold", Mark.SECOND: "italic"}

PIPE_WIDTH = 1000
"""Characters; wider than any table."""
LATEX_SPECIAL: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
}
"""What LaTeX needs to print these characters as they are."""
BOLD_AND_ITALIC = "Bold is the best, italic the second best of each group of rows."
RED_AND_BLUE = "Red is the best, blue the second best of each group of rows."


def markdown(table: Table) -> str:
    """A heading, the table, and the notes as a list."""
    titles = [column.title for column in table.columns]
    rulers = [MARKDOWN_RULERS[column.align] for column in table.columns]
    lines = [f"## {table.title}", ""]
    lines.append(_markdown_row(titles))
    lines.append(_markdown_row(rulers))
    for row in _rows(table):
        cells = [MARKDOWN_MARKS[cell.mark].format(cell.text) for cell in row]
        lines.append(_markdown_row(cells))
    lines.append("")
    lines += [f"- {note}" for note in _notes(table, BOLD_AND_ITALIC)]
    lines.append("")
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped_cells = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped_cells)} |"


def latex(table: Table) -> str:
    """A table environment with the notes in the caption, for the packages booktabs and xcolor."""
    alignment = "".join(LATEX_ALIGNMENT[column.align] for column in table.columns)
    notes = _notes(table, RED_AND_BLUE)
    caption = " ".join([f"{table.title}.", *notes])
    titles = [f"\\bfseries {escaped(column.title)}" for column in table.columns]
    lines = [
        "\\begin{table}",
        f"\\caption{{{escaped(caption)}}}",
        "\\centering",
        f"\\begin{{tabular}}{{{alignment}}}",
        "\\toprule",
        f"{' & '.join(titles)} \\\\",
    ]
    for group in cell_groups(table):
        lines.append("\\midrule")
        lines += [_latex_row(row) for row in group]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}", ""]
    return "\n".join(lines)


def _latex_row(row: Sequence[Cell]) -> str:
    cells = [LATEX_MARKS[cell.mark].format(escaped(cell.text)) for cell in row]
    return f"{' & '.join(cells)} \\\\"


def escaped(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return text.translate(str.maketrans(LATEX_SPECIAL))


def html(table: Table) -> Markup:
    """A figure with the table and its notes. All text is escaped."""
    nothing = Markup("")
    head = nothing.join(_html_head(column) for column in table.columns)
    groups = nothing.join(_html_group(table, group) for group in cell_groups(table))
    notes = _notes(table, BOLD_AND_ITALIC)
    caption = nothing
    if notes:
        caption = Markup("<figcaption>{}</figcaption>\n").format(" ".join(notes))
    return Markup(
        '<figure class="table">\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="{title}">\n'
        "<table>\n<caption>{title}</caption>\n"
        "<thead><tr>{head}</tr></thead>\n{groups}</table>\n</div>\n{caption}</figure>\n"
    ).format(title=table.title, head=head, groups=groups, caption=caption)


def _html_head(column: Column) -> Markup:
    attribute = Markup(' class="number"') if column.align is Align.RIGHT else ""
    return Markup('<th scope="col"{}>{}</th>').format(attribute, column.title)


def _html_group(table: Table, group: Sequence[Sequence[Cell]]) -> Markup:
    rows = Markup("").join(_html_row(table, row) for row in group)
    return Markup("<tbody>\n{}</tbody>\n").format(rows)


def _html_row(table: Table, row: Sequence[Cell]) -> Markup:
    cells = []
    for column, cell in zip(table.columns, row, strict=True):
        cells.append(_html_cell(column, cell))
    return Markup("<tr>{}</tr>\n").format(Markup("").join(cells))


def _html_cell(column: Column, cell: Cell) -> Markup:
    classes = []
    if column.align is Align.RIGHT:
        classes.append("number")
    if cell.mark:
        classes.append(cell.mark.value)
    attribute = Markup(' class="{}"').format(" ".join(classes)) if classes else ""
    return Markup("<td{}>{}</td>").format(attribute, cell.text)


def print_table(table: Table) -> None:
    """Print title, table and notes on the terminal; nothing if the table has no rows."""
    if not _rows(table):
        return
    text_console = Console(soft_wrap=True, markup=False)
    text_console.print(table.title, highlight=False, markup=False)
    _table_console().print(terminal(table))
    for note in _notes(table, BOLD_AND_ITALIC):
        text_console.print(note, highlight=False, markup=False)


def _table_console() -> Console:
    """A console of the terminal's width; in a pipe or a file, one that neither cuts nor wraps."""
    console = Console()
    if console.is_terminal:
        return console
    return Console(width=PIPE_WIDTH)


def terminal(table: Table) -> RichTable:
    """The table without title and notes, as rich draws it. Names are never cut."""
    rich_table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in table.columns:
        is_name = column.align is Align.LEFT and not column.wraps
        rich_table.add_column(Text(column.title), justify=column.align.value, no_wrap=is_name)
    for row in _rows(table):
        cells = [Text(cell.text, style=TERMINAL_MARKS[cell.mark]) for cell in row]
        rich_table.add_row(*cells)
    return rich_table


def _rows(table: Table) -> list[list[Cell]]:
    """The cells of all rows, group after group."""
    rows = []
    for group in cell_groups(table):
        rows += group
    return rows


def _notes(table: Table, legend: str) -> list[str]:
    """The notes of the table; `legend` comes first if any cell has a mark."""
    for row in _rows(table):
        if any(cell.mark for cell in row):
            return [legend, *table.notes]
    return list(table.notes)
