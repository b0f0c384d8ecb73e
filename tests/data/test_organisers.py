"""Miniatures of datasets as their organisers ship them, through the command line."""

import sys
from pathlib import Path

import numpy as np
import pytest
import SimpleITK
import yaml

from segpl.cli import main
from segpl.foundation.files import write_nifti
from segpl.foundation.named import plain
from segpl.methods import METHODS
from segpl.settings.planning import plan_run
from segpl.settings.run import read_yaml
from segpl.settings.sources import preset_file, settings_for_method

BRATS_AFFINE = np.diag([-1.0, -1, 1, 1])
PAPER_METHODS = ("segpl", "segpl-vi", "segpl-elbo")


def write_brats(folder):
    """BRATS 2018: one folder per case below HGG and LGG, four modalities, labels 1, 2 and 4.

    The fifth case has no label.
    """
    for number in range(6):
        name = f"Brats18_TCIA0{number}_1"
        grade = "LGG" if number == 5 else "HGG"
        case = folder / grade / name
        random = np.random.default_rng(number)
        label = np.zeros((48, 48, 6), np.uint8)
        label[10:30, 12:34] = 2
        label[14:26, 16:28] = 1
        label[18:22, 18:24] = 4
        for modality in ("flair", "t1", "t1ce", "t2"):
            image = (label > 0) * 200 + random.normal(300, 40, label.shape)
            file = case / f"{name}_{modality}.nii.gz"
            write_nifti(file, image.astype(np.int16), BRATS_AFFINE)
        if number != 4:
            write_nifti(case / f"{name}_seg.nii.gz", label, BRATS_AFFINE)
    return folder


def write_carve(folder):
    """CARVE 2014: MHD volumes and annotations with 1 for vein, 2 for artery and -999 for undecided.

    The fifth case has no annotation.
    """
    for number in range(5):
        random = np.random.default_rng(number)
        vessels = random.random((12, 40, 40)) > 0.93
        scan = np.where(vessels, 40, -850 + random.normal(0, 30, vessels.shape))
        annotation = np.where(vessels, random.choice([1, 2, -999], vessels.shape), 0)
        write_mhd(folder / "images" / f"1.2.{number}.7.mhd", scan)
        if number < 4:
            write_mhd(folder / "annotations" / f"1.2.{number}_fullAnnotations.mhd", annotation)
    return folder


def write_mhd(file, values):
    image = SimpleITK.GetImageFromArray(values.astype(np.int16))
    image.SetSpacing((0.7, 0.7, 1.0))
    file.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(image, str(file))


def exit_code(monkeypatch, command):
    """Run `segpl` with the arguments of `command` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["segpl", *command.split()])
    try:
        main()
    except SystemExit as stop:
        return stop.code
    return 0


@pytest.mark.parametrize(
    ("write", "layout", "dimensions", "regions"),
    [
        (write_brats, "BRATS", 2, ["whole tumour", "tumour core", "enhancing core"]),
        (write_carve, "CARVE", 3, ["vessel"]),
    ],
    ids=["BRATS 2018", "CARVE 2014"],
)
def test_doctor_train_and_evaluate(
    write, layout, dimensions, regions, tmp_path, monkeypatch, capsys
):
    data = write(tmp_path / "data")
    run = tmp_path / "run"
    assert exit_code(monkeypatch, f"doctor {data}") == 0
    assert layout in capsys.readouterr().out
    train = f"train {data} --method segpl --out {run} --labelled 1 --steps 20"
    assert exit_code(monkeypatch, train) == 0
    assert exit_code(monkeypatch, f"evaluate {run}") == 0
    settings = yaml.safe_load((run / "run.yaml").read_text())
    assert len(settings["patch"]) == dimensions
    scores = (run / "scores.csv").read_text()
    assert all(region in scores for region in regions)


def run_with_preset(settings, method, data):
    method_settings = settings_for_method(settings["method"], method)
    return plan_run(data, settings | {"method": method_settings})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "patch"), [("brats", (176, 176)), ("carve", (176, 176, 3))])
def test_the_papers_settings_are_presets(name, patch, method, tumours):
    settings = read_yaml(preset_file(Path(name)))
    run = run_with_preset(settings, method, tumours)
    assert tuple(run.patch) == patch
    assert run.method.name() == method
    assert getattr(run.method, "base", run.method).objective == "dice"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["brats", "carve"])
def test_presets_change_alpha_of_the_papers_methods_only(name, method, tumours):
    settings = read_yaml(preset_file(Path(name)))
    run = run_with_preset(settings, method, tumours)
    if method in PAPER_METHODS:
        expected = settings["method"]["paper"]["alpha"]
    else:
        expected = plain(METHODS[method]()).get("alpha")
    assert getattr(run.method, "alpha", None) == expected
