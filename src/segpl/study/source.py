"""A YAML file that knows its lines, so that a mistake in it is reported with line and key."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from segpl.foundation.errors import Place, UserError
from segpl.settings.run import read_yaml

Origins = Callable[[Place], Sequence[Place]]
"""Where in the file a setting may be given, the likeliest place first."""


class Source:
    """The values of a YAML file, and where each of them stands."""

    def __init__(self, file: Path):
        self.file = file
        self.values = read_yaml(file)
        self.lines: dict[Place, int] = {(): 1}
        self._dotted: dict[Place, Place] = {}
        """The places by their way with dots taken apart: `method.alpha` is `alpha` in `method`."""
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
            raise UserError(
                f"{self.file}, line {line}, {spelt(place)}: it is given twice: remove one of the two."
            )
        self.lines[place] = line
        self._dotted[_apart(place)] = place

    @contextmanager
    def blame(self, place: Place, origins: Origins | None = None) -> Iterator[None]:
        """Add to a mistake where in the file it is: at `place`, or at the key below it that is at fault.

        Where the settings at fault are put together from several places, `origins` says from which.
        """
        try:
            yield
        except UserError as error:
            found = self._find(error.where, origins or (lambda where: [(*place, *where)]))
            at = self._nearest(place) if found is None else found
            named = f", {spelt(at)}" if at else ""
            sentence = f"{self.file}, line {self.lines[at]}{named}: {error}"
            raise UserError(sentence, where=at) from None

    def _find(self, where: Place, origins: Origins) -> Place | None:
        """The place of a setting or, if that has no line of its own, of the settings that it is part of."""
        for length in range(len(where), 0, -1):
            for place in origins(where[:length]):
                if _apart(place) in self._dotted:
                    return self._dotted[_apart(place)]
        return None

    def _nearest(self, place: Place) -> Place:
        """The place, or what holds it: a value that follows from another has no line of its own."""
        while place not in self.lines:
            place = place[:-1]
        return place


def spelt(place: Place) -> str:
    """A place as people write it: `methods[2].alpha`, counted from 1."""
    text = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _apart(place: Place) -> Place:
    """The same way with every key split at its dots."""
    parts: list[str | int] = []
    for part in place:
        parts.extend(part.split(".") if isinstance(part, str) else [part])
    return tuple(parts)
