"""A user's mistake in any export gives one sentence, and leaves nothing behind."""

import pytest

from segpl.data.layouts import read_dataset
from segpl.exporting import FORMATS, export
from segpl.foundation.errors import UserError

pytestmark = pytest.mark.parametrize("format", FORMATS)

WRITERS = {"onnx": "write_bytes", "bundle": "write_text", "nnunet": "write_frame"}


@pytest.fixture
def run(make_run, tumours):
    split = {"labelled": ["tumour_000"], "validation": [], "unlabelled": []}
    return make_run("segpl", (16, 16), read_dataset(tumours).task, split, data=str(tumours))


def test_a_folder_that_is_no_run_is_refused(format, tmp_path):
    with pytest.raises(UserError, match="is not a run directory"):
        export(tmp_path, format, tmp_path / "out")


def test_a_run_without_weights_is_refused(format, run, tmp_path):
    (run / "model.safetensors").unlink()
    with pytest.raises(UserError, match="its training has not ended"):
        export(run, format, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_folder_is_not_touched(format, run, tmp_path):
    precious = tmp_path / "out/thesis.txt"
    precious.parent.mkdir()
    precious.write_text("precious")
    with pytest.raises(UserError, match=r"out is (not empty|a folder)"):
        export(run, format, tmp_path / "out")
    assert [*precious.parent.iterdir()] == [precious]


def test_a_file_is_not_overwritten(format, run, tmp_path):
    (tmp_path / "out").write_text("precious")
    with pytest.raises(UserError, match=r"out (exists already|is a file)"):
        export(run, format, tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "precious"


def test_a_path_that_cannot_be_written_is_refused(format, run, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"out cannot be written \(.+\): choose another --out"):
        export(run, format, tmp_path / "file/out")


def test_an_empty_folder_is_filled_unless_the_format_is_a_file(format, run, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    if format == "onnx":
        with pytest.raises(UserError, match="give the name of a file"):
            export(run, format, out)
    else:
        assert any(export(run, format, out).iterdir())
    hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert hidden == []


def test_a_failure_half_way_leaves_nothing(format, run, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    for module, writer in WRITERS.items():
        monkeypatch.setattr(f"segpl.exporting.{module}.{writer}", fail)
    with pytest.raises((OSError, UserError), match="No space"):
        export(run, format, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
