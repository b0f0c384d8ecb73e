"""The command line as a user meets it: quick help, and one sentence for every mistake."""

import os
import shutil
import subprocess
import sys

import pytest
from mistakes import MISTAKES

HEAVY = ("torch", "monai", "lightning", "pandas", "numpy")


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]])
def test_help_takes_less_than_half_a_second_of_processor_time(segpl, words):
    """Processor time, because other processes may hold the machine."""
    before = os.times()
    result = segpl(*words)
    after = os.times()
    assert result.returncode == 0
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    assert user + system < 0.5


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from segpl.cli import run_command
run_command(["train", "--help"])
print([name for name in {HEAVY} if name in sys.modules])
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_torchvision_is_absent():
    """Beside this torch it breaks torchmetrics, and so Lightning."""
    from importlib.util import find_spec

    assert find_spec("torchvision") is None


@pytest.fixture
def folder(tumours, tmp_path):
    return shutil.copytree(tumours, tmp_path / "data")


@pytest.mark.parametrize(
    ("mistake", "words", "sentence"), MISTAKES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_mistake_gets_one_sentence(
    mistake, words, sentence, folder, tmp_path, monkeypatch, capsys
):
    mistake(folder)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    monkeypatch.setattr(
        "sys.argv",
        ["segpl", "train", str(folder), "--out", str(tmp_path / "run"), *map(str, words)],
    )
    from segpl.cli import main

    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert "Traceback" not in message
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "nowhere"], "nowhere is not a run directory"),
        (
            ["predict", "full", "scan.nii.gz", "--out", "new", "--temperature", "fit"],
            "full has no validation subjects",
        ),
        (["phantom", "tumour", "--out", "full"], "full is not empty"),
        (["phantom", "tumour", "--out", "new", "--subjects", "2"], "at least 3 subjects"),
        (["phantom", "liver", "--out", "new"], "'liver' is not one of 'tumour', 'vessels'"),
        ([], "Missing command"),
    ],
)
def test_other_commands_too(words, sentence, tmp_path, monkeypatch, capsys):
    from segpl.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/split.json").write_text(
        '{"labelled": [], "unlabelled": [], "validation": []}'
    )
    monkeypatch.setattr("sys.argv", ["segpl", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_what_should_not_happen_leaves_a_log_and_no_traceback(
    monkeypatch, capsys, tumours, tmp_path
):
    import segpl.training.loop
    from segpl.cli import main

    monkeypatch.setattr(segpl.training.loop, "train", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(
        "sys.argv", ["segpl", "train", str(tumours), "--out", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    message = capsys.readouterr().err
    assert "this should not have happened" in message
    assert "Traceback" not in message
