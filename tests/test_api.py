"""The public functions: their names and imports, and that commands call them."""

import doctest
import inspect
import json
import subprocess
import sys

import pytest

import segpl
from segpl import api
from segpl.cli import run_command
from segpl.data import layouts
from segpl.foundation.errors import UserError

FUNCTIONS = (
    "compare",
    "doctor",
    "evaluate",
    "export",
    "load",
    "predict",
    "rank",
    "report",
    "run",
    "train",
)


def test_the_functions_are_listed_typed_and_described():
    assert set(FUNCTIONS) <= set(dir(segpl))
    assert set(FUNCTIONS) <= set(segpl.__all__)
    for name in FUNCTIONS:
        function = getattr(segpl, name)
        assert inspect.isfunction(function)
        assert function.__doc__
        hints = inspect.get_annotations(function)
        assert hints.keys() == {*inspect.signature(function).parameters, "return"}


def run_python(code):
    """What code prints in a new process."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="segpl has no tarin"):
        segpl.tarin  # noqa: B018


IMPORT_ALL = """
import importlib, pkgutil, segpl
for module in pkgutil.walk_packages(segpl.__path__, "segpl."):
    if module.name != "segpl.__main__":
        importlib.import_module(module.name)
print([name for name in segpl.__all__ if not callable(getattr(segpl, name))])
"""


def test_no_module_hides_a_function_whatever_was_imported_before():
    assert run_python(IMPORT_ALL) == "[]"


def test_nothing_slow_is_imported_before_it_is_needed():
    code = "import segpl, sys; segpl.report; print({'torch', 'pandas', 'numpy'} & set(sys.modules))"
    assert run_python(code) == "set()"


def test_the_example_in_the_docstring_of_train_works(tumours, tmp_path):
    names = {"data_folder": tumours, "folder": tmp_path}
    assert doctest.testmod(api, extraglobs=names) == (0, 4)


COMMANDS = {
    "compare": ["run"],
    "doctor": ["data"],
    "evaluate": ["run", "--shift", "ood=0.1"],
    "export": ["run", "--format", "onnx", "--out", "out"],
    "predict": ["run", "scan", "--out", "out", "--temperature", "fit"],
    "rank": ["run", "scan"],
    "report": ["run"],
    "train": ["data", "--out", "run", "--seed", "3", "--set", "method.alpha=0.5"],
}


@pytest.mark.parametrize(("name", "arguments"), COMMANDS.items(), ids=COMMANDS)
def test_a_command_calls_the_function_of_its_name(name, arguments, monkeypatch):
    signature = inspect.signature(getattr(api, name))
    calls = []

    def call(*args, **kwargs):
        calls.append(signature.bind(*args, **kwargs))
        raise UserError("enough")

    monkeypatch.setattr(api, name, call)
    assert run_command([name, *arguments]) == 2
    assert len(calls) == 1


SMALL = ["--set", "channels=4", "--set", "patch=[32, 32]"]


def provenance(run):
    """The first entry of the provenance of a run."""
    entries = json.loads((run / "provenance.json").read_text())
    return entries[0]


def test_a_training_reads_its_data_once(tumours, tmp_path, monkeypatch):
    folders = []
    read_dataset = layouts.read_dataset

    def record(folder):
        folders.append(folder)
        return read_dataset(folder)

    for module in ("data.layouts", "settings.planning", "training.loop"):
        monkeypatch.setattr(f"segpl.{module}.read_dataset", record)
    out = str(tmp_path / "run")
    assert run_command(["train", str(tumours), "--out", out, "--minutes", "0.0001", *SMALL]) == 0
    assert len(folders) == 1


def test_a_training_records_its_command(tumours, tmp_path):
    out = str(tmp_path / "run")
    arguments = ["train", str(tumours), "--out", out, "--steps", "1", *SMALL]
    assert run_command(arguments) == 0
    assert provenance(tmp_path / "run")["command"] == ["segpl", *arguments]


def test_a_training_from_python_records_the_command_that_repeats_it(tumours, tmp_path):
    first = segpl.train(tumours, tmp_path / "run", steps=1, channels=4, patch=[32, 32])
    command = provenance(first)["command"]
    assert command[:2] == ["segpl", "train"]
    second = tmp_path / "again"
    assert run_command([*command[1:-1], str(second)]) == 0
    weights = (first / "model.safetensors").read_bytes()
    assert (second / "model.safetensors").read_bytes() == weights
