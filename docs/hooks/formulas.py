"""Turns the formulas of a page into MathML when the site is built, so that it needs no script."""

import re
from html import unescape

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(html: str, **_: object) -> str:
    """The page with each formula that pymdownx.arithmatex marked as MathML."""
    return FORMULA.sub(_as_mathml, html)


def _as_mathml(match: re.Match[str]) -> str:
    tag, marked = match.groups()
    latex = unescape(marked).strip().removeprefix("\\(").removesuffix("\\)")
    latex = latex.removeprefix("\\[").removesuffix("\\]").strip()
    if tag == "span":
        return convert(latex)
    formula = convert(latex, display="block")
    return f'<div class="formula">{formula}</div>'
