"""A YAML file that knows its lines, so that a mistake in it is reported with line and key."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from segpl.foundation.errors import UserError
from segpl.settings.run import read_yaml

Place = tuple[str | int, ...]
"""The way to a value: keys of mappings, as text, and numbers of list items."""


class Source:
    """The values of a YAML file, and where each of them stands."""

    def __init__(self, file: Path):
        self.file, self.values = file, read_yaml(file)
        self.lines: dict[Place, int] = {(): 1}
        self._walk(yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), ())

    def _walk(self, node: yaml.Node | None, place: Place) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._note((*place, str(key.value)), key)
                self._walk(value, (*place, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                self._note((*place, number), value)
                self._walk(value, (*place, number))

    def _note(self, place: Place, node: yaml.Node) -> None:
        line = node.start_mark.line + 1
        if place in self.lines:
            raise UserError(f"{self.file}, line {line}, {spelt(place)}: it is given twice: remove one of the two.")
        self.lines[place] = line

    @contextmanager
    def blame(self, *places: Place) -> Iterator[None]:
        """Say of a mistake where in the file it is: at the key below these places that its message names first."""
        try:
            yield
        except UserError as error:
            place = self._named(str(error), places)
            where = f", {spelt(place)}" if place else ""
            raise UserError(f"{self.file}, line {self.lines[place]}{where}: {error}") from None

    def _named(self, message: str, places: tuple[Place, ...]) -> Place:
        for word in re.findall(r"[\w-]+", message):
            for place in self.lines:
                if place[-1:] == (word,) and any(place[: len(above)] == above for above in places):
                    return place
        return self._nearest(places[0])

    def _nearest(self, place: Place) -> Place:
        """The place, or what holds it: a value that follows from another has no line of its own."""
        while place not in self.lines:
            place = place[:-1]
        return place


def spelt(place: Place) -> str:
    """A place as people write it: `methods[2].alpha`, counted from 1."""
    text = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")
