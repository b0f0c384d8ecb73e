"""The public functions: what they are called, that they are found, and that commands go the same way."""

import doctest
import inspect
import json
import subprocess
import sys

import pytest

import segpl
from segpl import api
from segpl.cli import run
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


def test_what_is_not_public_is_not_there():
    with pytest.raises(AttributeError, match="segpl has no tarin"):
        segpl.tarin  # noqa: B018


def test_no_module_hides_a_function_whatever_was_imported_before():
    code = """
import importlib, pkgutil, segpl
for module in pkgutil.walk_packages(segpl.__path__, "segpl."):
    if module.name != "segpl.__main__":
        importlib.import_module(module.name)
print([name for name in segpl.__all__ if not callable(getattr(segpl, name))])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import segpl, sys; segpl.report; print({'torch', 'pandas', 'numpy'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_the_example_of_train(tumours, tmp_path):
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


@pytest.mark.parametrize(("name", "words"), COMMANDS.items(), ids=COMMANDS)
def test_a_command_calls_the_function_of_its_name(name, words, monkeypatch):
    signature = inspect.signature(getattr(api, name))
    calls = []

    def call(*args, **kwargs):
        calls.append(signature.bind(*args, **kwargs))
        raise UserError("enough")

    monkeypatch.setattr(api, name, call)
    assert run([name, *words]) == 2
    assert len(calls) == 1


def test_a_training_reads_its_data_once_and_notes_its_command(tumours, tmp_path, monkeypatch):
    from segpl.data import layouts

    folders = []
    read = layouts.read_dataset
    for module in ("data.layouts", "settings.planning", "training.loop"):
        monkeypatch.setattr(
            f"segpl.{module}.read_dataset", lambda folder: folders.append(folder) or read(folder)
        )
    small = ["--set", "channels=4", "--set", "patch=[32, 32]"]
    words = ["train", str(tumours), "--out", str(tmp_path / "run"), "--minutes", "0.0001", *small]
    assert run(words) == 0
    assert len(folders) == 1
    noted = json.loads((tmp_path / "run/provenance.json").read_text())
    assert noted[0]["command"] == ["segpl", *words]


def test_a_training_from_python_notes_the_command_that_makes_it_again(tumours, tmp_path):
    segpl.train(tumours, tmp_path / "run", steps=1, channels=4, patch=[32, 32])
    command = json.loads((tmp_path / "run/provenance.json").read_text())[0]["command"]
    assert command[:2] == ["segpl", "train"]
    assert run([*command[1:-1], str(tmp_path / "again")]) == 0
    again, first = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("again", "run")
    )
    assert again == first
