"""How commands end: Ctrl-C, a reader that has gone, a search that fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from segpl.cli import run_command
from segpl.foundation.errors import UserError

SOURCE = Path(__file__).parents[2] / "src/segpl"


def interrupt(*_, **__):
    raise KeyboardInterrupt


STOPPED = {
    "train": (
        "segpl.api.train",
        ["train", "data", "--out", "run"],
        "is kept. Continue with: segpl train data --out run --resume",
    ),
    "predict": (
        "segpl.api.predict",
        ["predict", "run", "scan", "--out", "out"],
        "are complete. Continue with: segpl predict run scan --out out",
    ),
    "study": (
        "segpl.study.running.run_study",
        ["study", "file", "--out", "out"],
        "Continue with: segpl study file --out out",
    ),
    "search": (
        "segpl.study.search.search",
        ["search", "file", "--out", "out"],
        "trials that have ended are kept",
    ),
    "report": ("segpl.api.report", ["report", "run"], "segpl: stopped.\n"),
}


@pytest.mark.parametrize(("function", "words", "sentence"), STOPPED.values(), ids=STOPPED)
def test_ctrl_c_says_what_is_true_of_the_command(function, words, sentence, monkeypatch, capsys):
    monkeypatch.setattr(function, interrupt)
    assert run_command(words) == 130
    said = capsys.readouterr().err
    assert sentence in said
    assert ("--resume" in said) == (words[0] == "train")


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["SIGHUP", "SIGINT", "SIGTERM"],
)
@pytest.mark.parametrize("words", [STOPPED["predict"][1], STOPPED["report"][1]], ids=lambda x: x[0])
def test_a_signal_stops_a_command_with_the_code_that_shells_use(
    number, exit_code, words, monkeypatch, capsys
):
    def signalled(*_, **__):
        os.kill(os.getpid(), number)
        time.sleep(60)

    before = signal.getsignal(number)
    monkeypatch.setattr(f"segpl.api.{words[0]}", signalled)
    assert run_command(words) == exit_code
    assert capsys.readouterr().err.startswith("segpl: stopped.")
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch):
    """As after nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr("segpl.api.report", lambda *_, **__: os.kill(os.getpid(), signal.SIGHUP))
    try:
        assert run_command(["report", "run"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("words", [["--help"], ["compare", "run"], ["report", "run"]])
def test_a_reader_that_has_gone_is_no_error(words):
    """The pipe is closed before print, Typer or rich write anything, as by `| head -0`."""
    code = "import segpl.api, segpl.cli\n"
    code += "from rich.console import Console\n"
    code += "segpl.api.compare = lambda *_, **__: Console().print('a table')\n"
    code += "segpl.api.report = lambda *_, **__: 'page'\n"
    code += "segpl.cli.main()"
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", code, *words]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert ended.returncode in (
        (0, 141) if words == ["--help"] else (141,)
    )  # help may fit into the buffer
    assert ended.stderr == ""


def test_a_failed_trial_is_one_sentence_without_a_traceback(tumours, tmp_path, monkeypatch, capfd):
    settings = "{method: segpl, labelled: 1, validation: 1, steps: 4, channels: 4, "
    settings += "ratio: 1, patch: [32, 32]}"
    file = tmp_path / "search.yaml"
    file.write_text(
        f"data: {tumours}\nsettings: {settings}\n"
        "space:\n  learning_rate: {low: 0.001, high: 0.1}\n"
    )

    def fail(*_, **__):
        raise UserError("the disk is full: make room.")

    monkeypatch.setattr("segpl.study.search.train", fail)
    assert run_command(["search", str(file), "--out", str(tmp_path / "out")]) == 2
    said = capfd.readouterr().err
    assert "segpl: the disk is full: make room.\n" in said
    assert "Traceback" not in said


def test_only_the_entry_point_looks_at_the_words_of_the_command():
    for file in SOURCE.rglob("*.py"):
        mentions = file.read_text(encoding="utf-8").count("sys.argv")
        assert mentions == (file == SOURCE / "cli/__init__.py"), file


SUGGESTIONS = {
    "command": (["trian", "data"], "Did you mean 'train'"),
    "option": (["train", "data", "--out", "run", "--lablled", "3"], "Did you mean '--labelled'?"),
    "method": (["methods", "fixmach"], "Did you mean 'fixmatch'?"),
}


@pytest.mark.parametrize(("words", "sentence"), SUGGESTIONS.values(), ids=SUGGESTIONS)
def test_a_misspelt_word_gets_a_suggestion(words, sentence, capsys):
    assert run_command(words) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("method.alpa=1", "Did you mean 'alpha'?"),
        ("lerning_rate=1", "Did you mean 'learning_rate'?"),
    ],
)
def test_a_misspelt_setting_gets_a_suggestion(setting, sentence, tumours, tmp_path, capsys):
    assert (
        run_command(["train", str(tumours), "--out", str(tmp_path / "run"), "--set", setting]) == 2
    )
    assert sentence in capsys.readouterr().err
