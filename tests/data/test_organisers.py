"""Data sets as their organisers ship them, in miniature, through the very commands that a user calls."""

import sys

import numpy as np
import pytest
import SimpleITK as sitk

from segpl.cli import main
from segpl.foundation.files import write_nifti


def brats(folder):
    """BRATS 2018: a folder a case under HGG and LGG, four modalities, labels 1, 2 and 4; one case without a label."""
    for number in range(6):
        name = f"Brats18_TCIA0{number}_1"
        place = folder / ("LGG" if number == 5 else "HGG") / name
        draw = np.random.default_rng(number)
        label = np.zeros((48, 48, 6), np.uint8)
        label[10:30, 12:34], label[14:26, 16:28], label[18:22, 18:24] = 2, 1, 4
        for modality in ("flair", "t1", "t1ce", "t2"):
            image = (label > 0) * 200 + draw.normal(300, 40, label.shape)
            write_nifti(
                place / f"{name}_{modality}.nii.gz",
                image.astype(np.int16),
                np.diag([-1.0, -1, 1, 1]),
            )
        if number != 4:
            write_nifti(place / f"{name}_seg.nii.gz", label, np.diag([-1.0, -1, 1, 1]))
    return folder


def carve(folder):
    """CARVE 2014: MHD volumes and annotations in which 1 is vein, 2 artery and -999 undecided."""
    for number in range(5):
        draw = np.random.default_rng(number)
        vessels = draw.random((12, 40, 40)) > 0.93
        scan = sitk.GetImageFromArray(
            np.where(vessels, 40, -850 + draw.normal(0, 30, vessels.shape)).astype(np.int16)
        )
        kinds = sitk.GetImageFromArray(
            np.where(vessels, draw.choice([1, 2, -999], vessels.shape), 0).astype(np.int16)
        )
        for image, part, name in (
            (scan, "images", f"1.2.{number}.7"),
            (kinds, "annotations", f"1.2.{number}"),
        ):
            image.SetSpacing((0.7, 0.7, 1.0))
            (folder / part).mkdir(parents=True, exist_ok=True)
            suffix = "_fullAnnotations" if part == "annotations" else ""
            if part == "images" or number < 4:
                sitk.WriteImage(image, str(folder / part / f"{name}{suffix}.mhd"))
    return folder


def call(monkeypatch, *words):
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["segpl", *map(str, words)])
    try:
        main()
    except SystemExit as stop:
        return stop.code
    return 0


@pytest.mark.parametrize(
    ("ship", "patch"), [(brats, 2), (carve, 3)], ids=["BRATS 2018", "CARVE 2014"]
)
def test_doctor_train_and_evaluate(ship, patch, tmp_path, monkeypatch, capsys):
    data, run = ship(tmp_path / "data"), tmp_path / "run"
    assert call(monkeypatch, "doctor", data) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert {brats: "BRATS", carve: "CARVE"}[ship] in said
    assert (
        call(
            monkeypatch,
            "train",
            data,
            "--method",
            "segpl",
            "--out",
            run,
            "--labelled",
            1,
            "--steps",
            20,
        )
        == 0
    )
    assert call(monkeypatch, "evaluate", run) == 0
    text = (run / "run.yaml").read_text()
    assert len(text.partition("patch:\n")[2].partition("channels")[0].split("-")) - 1 == patch
    scores = (run / "scores.csv").read_text()
    regions = {brats: ("whole tumour", "tumour core", "enhancing core"), carve: ("vessel",)}[ship]
    assert all(region in scores for region in regions)


@pytest.mark.parametrize(("name", "size"), [("brats", [176, 176]), ("carve", [176, 176, 3])])
def test_the_papers_settings_are_there_by_name(name, size, tumours):
    from pathlib import Path

    from segpl.foundation.named import plain
    from segpl.methods import METHODS
    from segpl.settings.choices import for_method, preset
    from segpl.settings.planning import plan_run
    from segpl.settings.run import read_yaml

    settings = read_yaml(preset(Path(name)))
    for method in METHODS:
        run = plan_run(tumours, settings | {"method": for_method(settings["method"], method)})
        assert list(run.patch) == size
        assert run.method.name() == method
        assert getattr(run.method, "base", run.method).objective == "dice"
        papers = {"segpl", "segpl-vi", "segpl-elbo"}
        expected = settings["method"]["paper"] if method in papers else plain(METHODS[method]())
        assert getattr(run.method, "alpha", None) == expected.get("alpha"), (
            "rivals keep their own weight"
        )
