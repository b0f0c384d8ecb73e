"""JSON and YAML files, read with limits: such a file may be damaged, or made to do harm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from segpl.foundation.errors import UserError

_MOST_BYTES_OF_JSON = 64_000_000
_MOST_BYTES_OF_YAML = 1_000_000  # PyYAML reads about 100 kB a second
_MOST_YAML_VALUES = 100_000
"""With aliases, a file of 1 kB can hold billions of values."""


def read_json(file: Path) -> Any:
    """The contents of a JSON file; a `ValueError` with the reason if it is not valid."""
    text = _read_text(file, _MOST_BYTES_OF_JSON)
    return _parsed(json.loads, text)


def read_json_object(file: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a file; a `UserError` with this remedy if it holds anything else."""
    try:
        contents = read_json(file)
    except ValueError as error:
        raise UserError(f"{file} cannot be read ({error}): {remedy}.") from None
    if not isinstance(contents, dict):
        raise UserError(f"{file} does not hold a JSON object: {remedy}.")
    return contents


def read_yaml_values(file: Path) -> Any:
    """The contents of a YAML file; a `ValueError` with the reason if it is not valid."""
    return parse_yaml(_read_text(file, _MOST_BYTES_OF_YAML))


def parse_yaml(text: str) -> Any:
    """The value of YAML text; a `ValueError` with the reason if it is not valid."""
    node = _parsed(_compose, text)
    if node is None:
        return None
    _parsed(_count_values, node)
    return _parsed(yaml.SafeLoader("").construct_document, node)


def _compose(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _count_values(root: yaml.Node) -> int:
    """The number of values after all aliases are replaced; an error if there are too many."""
    counts: dict[int, int] = {}
    open_nodes: set[int] = set()

    def count(node: yaml.Node) -> int:
        if id(node) in open_nodes:
            raise ValueError("an alias stands inside of what it names")
        if id(node) not in counts:
            open_nodes.add(id(node))
            counts[id(node)] = 1 + sum(count(child) for child in _children(node))
            open_nodes.remove(id(node))
        if counts[id(node)] > _MOST_YAML_VALUES:
            raise ValueError(f"it holds more than {_MOST_YAML_VALUES} values")
        return counts[id(node)]

    return count(root)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        children = []
        for key, value in node.value:
            children += [key, value]
        return children
    if isinstance(node, yaml.SequenceNode):
        return node.value
    return []


def _read_text(file: Path, most_bytes: int) -> str:
    size = file.stat().st_size
    if size > most_bytes:
        raise ValueError(f"it has {size} bytes, and at most {most_bytes} are read")
    return file.read_text(encoding="utf-8-sig")


def _parsed(parse: Callable[[Any], Any], source: Any) -> Any:
    """What a parser makes of a source; each of its many errors becomes a `ValueError`."""
    try:
        return parse(source)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except Exception as error:  # PyYAML raises KeyError and AttributeError for some wrong values
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason) from None
