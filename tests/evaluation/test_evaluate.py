"""The way from a trained run to scores.csv: what is in it, that it resumes, and that nothing stale is taken over."""

import json
import shutil

import nibabel
import numpy as np
import pandas as pd
import pytest
import torch

from segpl.data.layouts import read_dataset
from segpl.data.preparation import load_truth
from segpl.evaluation import evaluate
from segpl.evaluation.evaluator import Evaluator
from segpl.evaluation.shifts import FGSM, Clean, OutOfDistribution, parse_shifts
from segpl.foundation.errors import UserError
from segpl.inference.temperature import fitted_temperature
from segpl.metrics.overlap import iou
from segpl.metrics.surface import surface_scores
from segpl.rundir import read_table
from segpl.settings.planning import plan_run
from segpl.settings.run import read_run
from segpl.training.loop import train

SMALL = {
    "steps": 4,
    "validate_every": 4,
    "channels": 4,
    "ratio": 1,
    "patch": [32, 32],
    "labelled": 1,
    "validation": 1,
}


@pytest.fixture(scope="module")
def trained(tumours, tmp_path_factory):
    return train(
        plan_run(tumours, {"method": "segpl-vi", **SMALL}),
        tmp_path_factory.mktemp("runs") / "trained",
    )


@pytest.fixture
def directory(trained, tmp_path):
    """A run of its own for each test."""
    return shutil.copytree(trained, tmp_path / "run")


def test_scores_are_those_of_the_saved_masks(directory):
    table, dataset = read_table(evaluate(directory)), read_dataset(read_run(directory).data)
    innermost = dataset.task.regions[-1]  # painted last, so the label map shows all of it
    for case in dataset.test:
        label = np.asarray(nibabel.load(directory / "masks" / f"{case.name}.nii.gz").dataobj)
        found, truth = (
            torch.from_numpy(label == innermost.paint)[None],
            load_truth(case, dataset.task).y[-1:],
        )
        rows = table[(table["case"] == case.name) & (table["region"] == innermost.name)].set_index(
            "metric"
        )["value"]
        assert rows["iou"] == pytest.approx(iou(found, truth).item(), nan_ok=True)
        assert rows["hd95"] == pytest.approx(
            surface_scores(found, truth, (2.0, 2.0, 6.0), 1.0).hd95.item(), nan_ok=True
        )


def test_every_metric_is_there_for_every_case_and_region(directory):
    table = read_table(evaluate(directory))
    metrics = {"iou", "mean_iou", "dice", "hd95", "surface_dice", "volume", "volume_error"}
    certainty = {"brier", "nll", "ece", "ece_classwise", "aurc"}
    assert set(table["metric"]) == metrics | certainty | {f"{name}_tempered" for name in certainty}
    assert (table.groupby(["case", "region"]).size() == len(set(table["metric"]))).all()
    contract = [
        "run",
        "method",
        "seed",
        "labelled",
        "subject",
        "case",
        "region",
        "shift",
        "level",
        "metric",
        "value",
    ]
    assert list(table.columns) == contract


def test_a_level_of_0_scores_as_the_clean_image_bit_for_bit(directory):
    table = read_table(evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.0), FGSM(0.0)]))
    clean, *others = (group["value"].to_numpy() for _, group in table.groupby("shift"))
    assert all(np.array_equal(clean, other, equal_nan=True) for other in others)


def test_a_stopped_evaluation_goes_on_and_ends_the_same(directory, monkeypatch, tmp_path):
    shifts = parse_shifts(["ood=0.1:0.5:2", "fgsm=0.1"])
    undisturbed = shutil.copytree(directory, tmp_path / "other" / "run")
    expected = evaluate(undisturbed, shifts=shifts).read_bytes()
    measure, calls = Evaluator.measure, []

    def stumble(self, case, shift, temperature):
        calls.append((case.name, shift.name, shift.level))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure(self, case, shift, temperature)

    monkeypatch.setattr(Evaluator, "measure", stumble)
    with pytest.raises(KeyboardInterrupt):
        evaluate(directory, shifts=shifts)
    assert not (directory / "scores.csv").exists()
    assert evaluate(directory, shifts=shifts).read_bytes() == expected
    assert (
        len(calls) == 2 * 4 + 1
    )  # two cases under four shifts, and once the one that was interrupted
    assert len(calls) - len(set(calls)) == 1


def test_a_wider_sweep_measures_only_what_is_new(directory, monkeypatch):
    evaluate(directory)
    measured, measure = [], Evaluator.measure
    monkeypatch.setattr(
        Evaluator,
        "measure",
        lambda self, case, shift, t: measured.append(shift.name) or measure(self, case, shift, t),
    )
    table = read_table(evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)]))
    assert set(measured) == {"ood"}
    assert set(table["shift"]) == {"clean", "ood"}


def test_what_was_measured_before_stays_in_the_file_unless_a_case_lacks_it(directory):
    table = read_table(evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)]))
    pd.testing.assert_frame_equal(read_table(evaluate(directory)), table)
    case = sorted(set(table["case"]))[0]
    (directory / "evaluation" / case / "ood=0.1.scores.csv").unlink()
    assert set(read_table(evaluate(directory))["shift"]) == {"clean"}


def test_scans_stored_with_other_axes_score_the_same(directory, tmp_path):
    """The network learnt axes that point to RAS; the same test scans stored as PSL must be turned before it looks."""
    turned = shutil.copytree(read_run(directory).data, tmp_path / "turned")
    for file in [*turned.glob("imagesTs/*"), *turned.glob("labelsTs/*")]:
        image = nibabel.load(file)
        stored = nibabel.orientations.io_orientation(image.affine)
        turn = nibabel.orientations.ornt_transform(stored, nibabel.orientations.axcodes2ornt("PSL"))
        nibabel.save(image.as_reoriented(turn), file)
    expected, found = (read_table(evaluate(directory, data)) for data in (None, turned))
    assert (
        "".join(
            nibabel.aff2axcodes(nibabel.load(next((directory / "masks-turned").glob("*"))).affine)
        )
        == "PSL"
    )
    np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-5)


def test_a_label_inside_a_file_is_scored(tmp_path):
    """And when the file changes, nothing stale is taken over."""
    import h5py

    draw = np.random.default_rng(0)
    rows = ["case,image,label"]
    for name in "abcd":
        x = draw.normal(size=(16, 16, 3)).astype(np.float32)
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["image"], file["label"] = x, (x > 0).astype(np.uint8)
        rows.append(f"{name},{name}.h5,{name}.h5#label")
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    small = {**SMALL, "patch": [16, 16], "method": "supervised"}
    run = train(plan_run(tmp_path, small), tmp_path / "run")
    before = read_table(evaluate(run))
    for case in set(before["case"]):
        with h5py.File(tmp_path / f"{case}.h5", "a") as file:
            file["label"][:] = 1
    after = read_table(evaluate(run)).set_index("metric")["value"]
    assert after["brier"] != before.set_index("metric")["value"]["brier"]


def test_nobody_whom_the_run_has_seen_is_tested_on_its_own_data_by_name(directory, monkeypatch):
    """Labels that came later may draw other test subjects from the same folder."""
    run = read_run(directory)
    seen = set(json.loads((directory / "split.json").read_text())["subjects"])
    training = read_dataset(run.data).training
    assert {case.subject for case in training} <= seen
    monkeypatch.setattr(
        "segpl.evaluation.cases_for_test", lambda *_: read_dataset(run.data).test + training[:1]
    )
    table = read_table(evaluate(directory, run.data))
    assert not set(table["subject"]) & seen


def test_other_data_without_a_test_part_are_scored_whole_but_for_whom_the_run_has_seen(
    directory, tmp_path
):
    """They may be the run's own, moved; others of a name that the run has not seen are all new to it."""
    moved = shutil.copytree(read_run(directory).data, tmp_path / "moved")
    for part in ("images", "labels"):
        shutil.rmtree(moved / f"{part}Ts")
    with pytest.raises(UserError, match="no labelled test case"):
        evaluate(directory, moved)
    labelled = [file.name.removesuffix(".nii.gz") for file in (moved / "labelsTr").iterdir()]
    assert len(labelled) >= 2
    for case in labelled[1:]:
        for file in [*moved.glob(f"imagesTr/{case}_*"), moved / f"labelsTr/{case}.nii.gz"]:
            file.rename(file.with_name(f"new_{file.name}"))
    assert set(read_table(evaluate(directory, moved))["case"]) == {
        f"new_{case}" for case in labelled[1:]
    }


def test_two_folders_of_one_name_do_not_take_each_others_place(directory, tmp_path):
    one, other = (
        shutil.copytree(read_run(directory).data, tmp_path / site / "scans") for site in "ab"
    )
    expected = evaluate(directory, one).read_bytes()
    with pytest.raises(
        UserError, match=r"has the scores of .*a/scans, and .*b/scans would take their place"
    ):
        evaluate(directory, other)
    assert evaluate(directory, one).read_bytes() == expected
    own = read_run(directory).data
    evaluate(directory, own)
    namesake = shutil.copytree(own, tmp_path / "c" / own.name)
    with pytest.raises(UserError, match="would take their place"):
        evaluate(directory, namesake)


def test_other_weights_make_all_numbers_anew(directory):
    before = read_table(evaluate(directory))
    from safetensors.torch import load_file, save_file

    weights = load_file(directory / "model.safetensors")
    save_file({name: -weight for name, weight in weights.items()}, directory / "model.safetensors")
    after = read_table(evaluate(directory))
    assert not np.allclose(before["value"], after["value"], equal_nan=True)


def test_images_are_slices_with_their_share_of_foreground(directory):
    evaluate(directory)
    images = read_table(directory / "images.csv")
    task, case = (
        read_dataset(read_run(directory).data).task,
        read_dataset(read_run(directory).data).test[0],
    )
    truth = load_truth(case, task).y
    rows = images[(images["case"] == case.name) & (images["metric"] == "iou")]
    assert len(rows) == truth.shape[0] * truth.shape[-1]
    first = rows[rows["region"] == task.regions[0].name].sort_values("image")["foreground"]
    np.testing.assert_allclose(first, truth[0].double().mean((0, 1)).numpy())


def test_the_temperature_is_fitted_on_validation_cases_once(directory, monkeypatch):
    asked, fit = [], Evaluator.temperature
    monkeypatch.setattr(
        Evaluator, "temperature", lambda self, cases: asked.append(cases) or fit(self, cases)
    )
    evaluate(directory)
    evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)])
    ((cases,),) = [asked]
    assert [case.name for case in cases] == json.loads((directory / "split.json").read_text())[
        "validation"
    ]


def test_without_validation_cases_the_probabilities_are_not_calibrated_and_that_is_said(
    tumours, tmp_path, capsys
):
    run = plan_run(tumours, {"method": "supervised", **SMALL, "validation": 0})
    directory = train(run, tmp_path / "run")
    table = read_table(evaluate(directory))
    said = capsys.readouterr().err
    assert "no temperature is fitted, because it has no validation subjects." in said
    assert "The probabilities are not calibrated." in said
    assert not (directory / "temperature.json").exists()
    assert {"iou", "ece"} <= set(table["metric"])
    assert not [name for name in set(table["metric"]) if name.endswith("_tempered")]
    with pytest.raises(
        UserError, match=r"has no validation subjects to fit a temperature on: give a number"
    ):
        fitted_temperature(directory)


def test_the_temperature_does_not_depend_on_the_order_of_evaluations(directory, tmp_path):
    other = shutil.copytree(directory, tmp_path / "other")
    evaluate(directory)
    evaluate(other, samples=3)
    assert (directory / "temperature.json").read_text() == (other / "temperature.json").read_text()


def test_curves_are_shares_and_risk_ends_at_the_error(directory):
    table = read_table(evaluate(directory))
    curves = read_table(directory / "curves.csv")
    assert set(curves["curve"]) == {"reliability", "reliability_tempered", "risk-coverage"}
    assert curves[["x", "y"]].stack().between(0, 1).all()
    bins = curves[curves["curve"] == "reliability"]
    # the class-wise error is the gap between the two axes, weighted by voxels
    gaps = (
        (bins["voxels"] * (bins["x"] - bins["y"]).abs())
        .groupby([bins["case"], bins["region"]])
        .sum()
    )
    expected = gaps / bins["voxels"].groupby([bins["case"], bins["region"]]).sum()
    ece = table[table["metric"] == "ece_classwise"].set_index(["case", "region"])["value"]
    pd.testing.assert_series_equal(
        ece.sort_index(), expected.sort_index(), check_names=False, rtol=1e-5
    )


def test_samples_go_to_files_of_their_own(directory):
    one = evaluate(directory)
    several = evaluate(directory, samples=3)
    assert several.name == "scores-3-samples.csv"
    assert (directory / "masks-3-samples").is_dir()
    assert not np.array_equal(read_table(one)["value"], read_table(several)["value"])


def test_names_of_subjects_stay_as_they_are(tmp_path):
    table = pd.DataFrame(
        {"subject": ["007", "NA"], "case": ["1e3", "null"], "value": [0.1, float("nan")]}
    )
    table.to_csv(tmp_path / "scores.csv", index=False)
    read = read_table(tmp_path / "scores.csv")
    assert read["subject"].tolist() == ["007", "NA"]
    assert read["case"].tolist() == ["1e3", "null"]
    assert read["value"].isna().tolist() == [False, True]
