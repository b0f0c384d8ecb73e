"""The report as a browser would read it: tables, text, tags and the data of the viewer."""

import json
from html.parser import HTMLParser
from pathlib import Path

VOID_TAGS = {"meta", "link", "img", "input", "use", "path", "br"}
"""Tags without an end tag."""


class ParsedPage(HTMLParser):
    """`tables` are rows of cell texts by caption; `tags` are pairs of name and attributes."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.tags: list[tuple[str, dict]] = []
        self.viewer_data: dict = {}
        self._open_tags: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(file.read_text(encoding="utf-8"))

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    @property
    def figures(self) -> set[str]:
        """The names of the figures in the page."""
        return {name.removeprefix("figure-") for name in self.ids if name.startswith("figure-")}

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID_TAGS:
            self._open_tags.append(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in self._open_tags:
            while self._open_tags.pop() != tag:
                pass

    def handle_data(self, text):
        if self._in_viewer_data():
            self.viewer_data = json.loads(text)
        elif "script" not in self._open_tags and "style" not in self._open_tags:
            self._add_text(text)

    def _in_viewer_data(self):
        _, attributes = self.tags[-1] if self.tags else ("", {})
        is_json = attributes.get("type") == "application/json"
        return is_json and self._innermost_tag() == "script"

    def _add_text(self, text):
        self.text += text
        if self._innermost_tag() in ("td", "th"):
            self._rows[-1][-1] += text
        elif self._innermost_tag() == "caption":
            self.tables[text] = self._rows

    def _innermost_tag(self):
        return self._open_tags[-1] if self._open_tags else ""
