"""JSON and YAML that would take all memory or time, or raise something odd, is a `ValueError`."""

import pytest

from segpl.foundation.errors import UserError
from segpl.foundation.plain_files import parse_yaml, read_json
from segpl.rundir import SPLIT_FILE, read_mapping, read_split
from segpl.settings.run import read_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
for level in range(1, 12):
    aliases = ", ".join([f"*a{level - 1}"] * 9)
    BOMB += f"a{level}: &a{level} [{aliases}]\n"

HOSTILE_YAML = {
    "aliases": BOMB,
    "an alias of itself": "a: &a [*a]",
    "deep": "[" * 20_000,
    "a long number": "a: 1" + "0" * 5000,
    "a wrong date": "a: 2001-99-99",
    "a wrong bool": "a: !!bool x",
    "a wrong timestamp": "a: !!timestamp x",
    "a Python object": "a: !!python/object/apply:os.getcwd []",
    "an unhashable key": "? [a]\n: b",
    "a control character": "a: \x00",
}


@pytest.mark.parametrize("text", HOSTILE_YAML.values(), ids=HOSTILE_YAML)
def test_hostile_yaml_is_one_sentence(tmp_path, text):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_yaml(tmp_path / "run.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_aliases_that_stay_small_are_fine():
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
    assert parse_yaml("") is None


@pytest.mark.parametrize("text", ["[" * 100_000, "1" + "0" * 5000, "{", '"\\ud800', "\xff"])
def test_hostile_json_is_a_value_error(tmp_path, text):
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError):
        read_json(tmp_path / "a.json")


def test_a_mapping_is_required_where_names_are_read(tmp_path):
    (tmp_path / "facts.json").write_text("[1]")
    with pytest.raises(UserError, match=r"facts\.json holds no names with values"):
        read_mapping(tmp_path / "facts.json")


@pytest.mark.parametrize("labelled", ['"a"', "[1, 2]", "{}", "null"])
def test_the_types_in_split_json_are_checked(tmp_path, labelled):
    text = f'{{"labelled": {labelled}, "unlabelled": [], "validation": [], "subjects": []}}'
    (tmp_path / SPLIT_FILE).write_text(text)
    with pytest.raises(UserError, match=r"split\.json: labelled"):
        read_split(tmp_path)
