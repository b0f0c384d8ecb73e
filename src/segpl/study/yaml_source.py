"""A YAML file that knows its lines, so that a mistake in it is reported with line and key."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from segpl.foundation.errors import KeyPath, UserError
from segpl.settings.run import read_yaml

Origins = Callable[[KeyPath], Sequence[KeyPath]]
"""Where in the file a setting of a run may have been given, the most likely path first."""


class YamlSource:
    """The values of a YAML file and the line of each of them."""

    def __init__(self, file: Path):
        self.file = file
        self.values = read_yaml(file)
        self.lines: dict[KeyPath, int] = {(): 1}
        """Counted from 1, by the path of the value."""
        self._paths: dict[KeyPath, KeyPath] = {}
        """Paths in the file by their nested form: `method.alpha` is `alpha` within `method`."""
        root = yaml.compose(file.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
        self._record_lines(root, ())

    def _record_lines(self, node: yaml.Node | None, path: KeyPath) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                value_path = (*path, str(key.value))
                self._record_line(value_path, key)
                self._record_lines(value, value_path)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                value_path = (*path, index)
                self._record_line(value_path, value)
                self._record_lines(value, value_path)

    def _record_line(self, path: KeyPath, node: yaml.Node) -> None:
        line = node.start_mark.line + 1
        if path in self.lines:
            raise UserError(
                f"{self.file}, line {line}, {format_path(path)}: it is given twice: "
                "remove one of the two."
            )
        self.lines[path] = line
        self._paths[_nested(path)] = path

    @contextmanager
    def locate_errors(self, path: KeyPath, origins: Origins | None = None) -> Iterator[None]:
        """Add file, line and key to a `UserError`: those of `path` or of the wrong key below it.

        For settings that are combined from several parts of the file, `origins` says from which.
        """
        try:
            yield
        except UserError as error:
            wrong_path = self._find(error.where, origins or _below(path))
            if wrong_path is None:
                wrong_path = self._nearest(path)
            location = f"{self.file}, line {self.lines[wrong_path]}"
            if wrong_path:
                location += f", {format_path(wrong_path)}"
            raise UserError(f"{location}: {error}", where=wrong_path) from None

    def _find(self, where: KeyPath, origins: Origins) -> KeyPath | None:
        """The path in the file of a setting or, if it is not there, of the settings around it."""
        for length in range(len(where), 0, -1):
            for path in origins(where[:length]):
                nested = _nested(path)
                if nested in self._paths:
                    return self._paths[nested]
        return None

    def _nearest(self, path: KeyPath) -> KeyPath:
        """The path, or its nearest parent that is in the file: derived values have no line."""
        while path not in self.lines:
            path = path[:-1]
        return path


def format_path(path: KeyPath) -> str:
    """A path as people write it, counted from 1: `methods[2].alpha`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key + 1}]"
        else:
            text += f".{key}"
    return text.removeprefix(".")


def _below(path: KeyPath) -> Origins:
    """Origins of settings that are all given below one path."""

    def origins(where: KeyPath) -> list[KeyPath]:
        return [(*path, *where)]

    return origins


def _nested(path: KeyPath) -> KeyPath:
    """The path with every key split at its dots."""
    keys: list[str | int] = []
    for key in path:
        if isinstance(key, str):
            keys.extend(key.split("."))
        else:
            keys.append(key)
    return tuple(keys)
