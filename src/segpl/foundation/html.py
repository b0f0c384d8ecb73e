"""Small pieces of HTML, by which objects show themselves in a notebook. All text is escaped."""

import base64
from collections.abc import Iterable, Sequence
from html import escape


def html_table(titles: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table with a head."""
    lines = ["<table>"]
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    lines.append(_row("th", titles))
    for row in rows:
        lines.append(_row("td", row))
    lines.append("</table>")
    return "\n".join(lines)


def _row(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def html_picture(png: bytes, title: str = "") -> str:
    """A picture that is part of the page, with a title below."""
    encoded = base64.b64encode(png).decode()
    picture = f'<img alt="{escape(title)}" src="data:image/png;base64,{encoded}">'
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f'<figure style="margin: 0 0 1em">{picture}{caption}</figure>'


def html_link(file: object, text: str = "") -> str:
    """A link to a local file, whose path it shows."""
    path = escape(str(file))
    return f'<a href="{path}" target="_blank">{escape(text) or path}</a>'


def html_paragraphs(lines: Iterable[str]) -> str:
    """Lines of text."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
