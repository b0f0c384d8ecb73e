"""Names and settings made to do harm end in one sentence or in a result, never in a traceback."""

import json
import os
import shutil

import nibabel
import numpy as np
import pytest
import safetensors.torch
import torch
import yaml

from segpl.cli.exits import run_command
from segpl.rundir import RUN_FILE, TASK_FILE, WEIGHTS_FILE


@pytest.fixture
def hostile_run(save_run):
    """A run directory that a test may damage."""
    return save_run()


def sentence(words, capsys):
    """The only line of a command that refuses its input; with `--quiet` it shows no progress."""
    assert run_command([*(str(word) for word in words), "--quiet"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def scan_channels(tumours):
    return sorted(tumours.glob("imagesTs/tumour_004_*.nii.gz"))


NAMES = [b"[red]", b"M\xfcller", b"two\nlines", b"=1+1", b"\x1b[31mred", b"-rf"]


@pytest.mark.parametrize("name", NAMES)
def test_scans_of_any_name_are_predicted(run_directory, tumours, tmp_path, name):
    folder = tmp_path / "scans"
    folder.mkdir()
    for number, channel in enumerate(scan_channels(tumours)):
        shutil.copy(channel, folder / f"{os.fsdecode(name)}_{number:04}.nii.gz")
    out = tmp_path / "out"
    assert run_command(["predict", str(run_directory), str(folder), "--out", str(out)]) == 0
    assert len(list(out.glob("*.nii.gz"))) == 1
    lines = (out / "cases.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert not any(line.startswith(("=", "-", "+", "@")) for line in lines)
    # A second call finds the case in the table and in the record.
    assert run_command(["predict", str(run_directory), str(folder), "--out", str(out)]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_an_error_about_a_file_of_any_name_is_shown(run_directory, tmp_path, name, capfd):
    (tmp_path / f"{os.fsdecode(name)}.nii.gz").write_bytes(b"this is no image")
    assert (
        run_command(["predict", str(run_directory), str(tmp_path), "--out", str(tmp_path / "out")])
        == 2
    )
    printed = capfd.readouterr().err
    assert "cannot be read" in printed
    assert "\x1b" not in printed


def test_names_that_are_markup_are_printed(tumours, tmp_path, capfd):
    data = tmp_path / "data"
    shutil.copytree(tumours, data)
    description = (data / "dataset.json").read_text().replace("whole tumour", "[/x]")
    (data / "dataset.json").write_text(description)
    run_command(["doctor", str(data)])
    assert "[/x]" in capfd.readouterr().out


@pytest.mark.parametrize("order", [[0], [0, 2, 3], [70000, 1, 2], [-40000, 1, 2]])
def test_a_region_that_no_mask_can_show_is_refused(tumours, tmp_path, capsys, order):
    data = tmp_path / "data"
    shutil.copytree(tumours, data)
    description = json.loads((data / "dataset.json").read_text())
    if len(order) == 1:
        description["labels"] = {"background": 0, "tumour": [1, 2, 3]}
    description["regions_class_order"] = order
    (data / "dataset.json").write_text(json.dumps(description))
    line = sentence(["train", data, "--out", tmp_path / "run"], capsys)
    assert f"has the value {order[0]} in masks" in line


def test_a_region_that_another_one_covers_is_refused(tumours, tmp_path, capsys):
    data = tmp_path / "data"
    shutil.copytree(tumours, data)
    description = json.loads((data / "dataset.json").read_text())
    regions = list(description["labels"].items())
    description["labels"] = dict([regions[0], *reversed(regions[1:])])
    (data / "dataset.json").write_text(json.dumps(description))
    line = sentence(["train", data, "--out", tmp_path / "run"], capsys)
    assert "which would be missing in every mask: name the larger region first" in line


def test_a_task_that_writes_empty_masks_is_refused(hostile_run, tumours, tmp_path, capsys):
    file = hostile_run / TASK_FILE
    task = yaml.safe_load(file.read_text())
    task["regions"][0]["paint"] = 0
    file.write_text(yaml.safe_dump(task))
    words = ["predict", hostile_run, tumours, "--out", tmp_path / "out"]
    assert "has the value 0 in masks" in sentence(words, capsys)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_weights_that_are_not_numbers_are_refused(hostile_run, tumours, tmp_path, capsys, value):
    file = hostile_run / WEIGHTS_FILE
    weights = safetensors.torch.load_file(file)
    first = next(iter(weights.values()))
    first.view(-1)[0] = torch.tensor(value)
    file.write_bytes(safetensors.torch.save(weights))
    words = ["predict", hostile_run, tumours, "--out", tmp_path / "out"]
    assert "holds weights that are NaN, infinite" in sentence(words, capsys)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 2**64),
        ("seed", -1),
        ("seed", "x"),
        ("steps", 10**400),
        ("channels", 10**9),
        ("channels", 10**30),
        ("patch", [2**70, 16]),
        ("patch", {}),
        ("method", {"name": "deep-ensemble", "members": 10**9}),
        ("method", []),
        ("spacing", [1e-300, 1, 1]),
        ("strides", [[2, 2]] * 60),
    ],
)
def test_settings_of_a_run_made_to_do_harm_are_refused(
    hostile_run, tumours, tmp_path, capsys, key, value
):
    file = hostile_run / RUN_FILE
    settings = yaml.safe_load(file.read_text())
    settings[key] = value
    file.write_text(yaml.safe_dump(settings))
    words = ["predict", hostile_run, tumours, "--out", tmp_path / "out"]
    assert RUN_FILE in sentence(words, capsys)


def test_a_scan_of_huge_values_has_no_empty_mask(run_directory, tumours, tmp_path, capsys):
    folder = tmp_path / "scans"
    folder.mkdir()
    for channel in scan_channels(tumours):
        image = nibabel.load(channel)
        values = np.asarray(image.dataobj).astype(np.float32)
        values[2, 2, 2] = 1e38
        nibabel.save(nibabel.Nifti1Image(values, image.affine), folder / channel.name)
    words = ["predict", run_directory, folder, "--out", tmp_path / "out"]
    assert "which no scanner measures" in sentence(words, capsys)
    assert not list((tmp_path / "out").glob("*.nii.gz"))
