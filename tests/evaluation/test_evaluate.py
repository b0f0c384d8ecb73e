"""From a trained run to scores.csv: its content, that it resumes, and that nothing stale stays."""

import json
import shutil

import h5py
import nibabel
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from segpl.data.layouts import read_dataset
from segpl.data.preparation import load_truth
from segpl.evaluation import evaluate
from segpl.evaluation.evaluator import Evaluator
from segpl.evaluation.shifts import FGSM, Clean, OutOfDistribution, parse_shifts
from segpl.foundation.errors import UserError
from segpl.inference.temperature import fitted_temperature
from segpl.metrics.overlap import iou
from segpl.metrics.surface import surface_scores
from segpl.rundir import read_slice_levels, read_table
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
    run = plan_run(tumours, {"method": "segpl-vi", **SMALL})
    return train(run, tmp_path_factory.mktemp("runs") / "trained")


@pytest.fixture
def directory(trained, tmp_path):
    """A run of its own for each test."""
    return shutil.copytree(trained, tmp_path / "run")


def read_split(directory):
    return json.loads((directory / "split.json").read_text())


def spy_on(monkeypatch, name):
    """Record the arguments of a method of the evaluator, and call it."""
    calls = []
    method = getattr(Evaluator, name)

    def recorded(self, *arguments):
        calls.append(arguments)
        return method(self, *arguments)

    monkeypatch.setattr(Evaluator, name, recorded)
    return calls


def test_the_exact_probabilities_of_the_fullest_slice_are_saved(directory):
    evaluate(directory)
    dataset = read_dataset(read_run(directory).data)
    for case in dataset.test:
        truth = load_truth(case, dataset.task).y
        file = directory / "probabilities" / f"{case.name}.nii.gz"
        per_cent = np.asarray(nibabel.load(file).dataobj)
        stored = read_slice_levels(directory / "evaluation" / case.name / "levels.npz")
        assert stored.z == int(truth.any(0).sum((0, 1)).argmax())
        assert stored.levels.dtype == np.uint16
        p = stored.levels / 65535
        np.testing.assert_allclose(100 * p, per_cent[:, :, stored.z], atol=0.5001)
        assert len(np.unique(stored.levels)) > len(np.unique(per_cent))


def test_scores_are_those_of_the_saved_masks(directory):
    table = read_table(evaluate(directory))
    dataset = read_dataset(read_run(directory).data)
    innermost = dataset.task.regions[-1]  # painted last, so the label map shows all of it
    for case in dataset.test:
        label = np.asarray(nibabel.load(directory / "masks" / f"{case.name}.nii.gz").dataobj)
        mask = torch.from_numpy(label == innermost.paint)[None]
        truth = load_truth(case, dataset.task).y[-1:]
        surfaces = surface_scores(mask, truth, (2.0, 2.0, 6.0), 1.0)
        rows = table[(table["case"] == case.name) & (table["region"] == innermost.name)]
        scores = rows.set_index("metric")["value"]
        assert scores["iou"] == pytest.approx(iou(mask, truth).item(), nan_ok=True)
        assert scores["hd95"] == pytest.approx(surfaces.hd95.item(), nan_ok=True)


def test_every_metric_is_there_for_every_case_and_region(directory):
    table = read_table(evaluate(directory))
    metrics = {"iou", "mean_iou", "dice", "hd95", "surface_dice", "volume", "volume_error"}
    certainty = {"brier", "nll", "ece", "ece_classwise", "aurc"}
    tempered = {f"{name}_tempered" for name in certainty}
    assert set(table["metric"]) == metrics | certainty | tempered
    rows = table.groupby(["case", "region"]).size()
    assert (rows == len(set(table["metric"]))).all()


def test_the_columns_of_the_scores_are_the_contract(directory):
    columns = "run method seed labelled subject case region shift level metric value"
    assert list(read_table(evaluate(directory)).columns) == columns.split()


def test_a_level_of_0_scores_as_the_clean_image_bit_for_bit(directory):
    shifts = [Clean(0.0), OutOfDistribution(0.0), FGSM(0.0)]
    table = read_table(evaluate(directory, shifts=shifts))
    values = table.groupby("shift")["value"].agg(list)
    np.testing.assert_array_equal(values["ood"], values["clean"])
    np.testing.assert_array_equal(values["fgsm"], values["clean"])


def test_a_stopped_evaluation_continues_and_ends_the_same(directory, monkeypatch, tmp_path):
    shifts = parse_shifts(["ood=0.1:0.5:2", "fgsm=0.1"])
    undisturbed = shutil.copytree(directory, tmp_path / "other" / "run")
    expected = evaluate(undisturbed, shifts=shifts).read_bytes()
    measure = Evaluator.measure
    calls = []

    def stop_at_the_fourth_call(self, case, shift, temperature):
        calls.append((case.name, shift.name, shift.level))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure(self, case, shift, temperature)

    monkeypatch.setattr(Evaluator, "measure", stop_at_the_fourth_call)
    with pytest.raises(KeyboardInterrupt):
        evaluate(directory, shifts=shifts)
    assert not (directory / "scores.csv").exists()
    assert evaluate(directory, shifts=shifts).read_bytes() == expected
    assert len(set(calls)) == 2 * 4, "two cases under four shifts"
    assert len(calls) == 2 * 4 + 1, "only the interrupted one is measured twice"


def test_damaged_measurements_are_made_again(directory, monkeypatch):
    expected = evaluate(directory).read_bytes()
    (first, *_) = sorted((directory / "evaluation").glob("*/clean=0.scores.csv"))
    for damaged in (b"", first.read_bytes()[:-1]):
        first.write_bytes(damaged)
        calls = spy_on(monkeypatch, "measure")
        assert evaluate(directory).read_bytes() == expected
        assert [case.name for case, _, _ in calls] == [first.parent.name]


@pytest.mark.parametrize("name", ["temperature.json", "evaluation/key.json"])
def test_a_damaged_record_is_made_again(directory, name):
    expected = evaluate(directory).read_bytes()
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(b"")
    assert evaluate(directory).read_bytes() == expected
    assert (directory / name).read_bytes() == content


def test_more_shifts_measure_only_what_is_new(directory, monkeypatch):
    evaluate(directory)
    calls = spy_on(monkeypatch, "measure")
    table = read_table(evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)]))
    assert {shift.name for _, shift, _ in calls} == {"ood"}
    assert set(table["shift"]) == {"clean", "ood"}


def test_shifts_measured_before_stay_in_the_file_unless_a_case_lacks_them(directory):
    table = read_table(evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)]))
    pd.testing.assert_frame_equal(read_table(evaluate(directory)), table)
    case = sorted(set(table["case"]))[0]
    (directory / "evaluation" / case / "ood=0.1.scores.csv").unlink()
    assert set(read_table(evaluate(directory))["shift"]) == {"clean"}


def test_scans_stored_in_another_orientation_score_the_same(directory, tmp_path):
    """The network was trained on RAS; the test scans are stored as PSL."""
    reoriented = shutil.copytree(read_run(directory).data, tmp_path / "reoriented")
    for file in [*reoriented.glob("imagesTs/*"), *reoriented.glob("labelsTs/*")]:
        store_as(file, "PSL")
    expected = read_table(evaluate(directory))
    found = read_table(evaluate(directory, reoriented))
    np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-5)
    mask = next((directory / "masks-reoriented").glob("*"))
    assert nibabel.aff2axcodes(nibabel.load(mask).affine) == ("P", "S", "L")


def store_as(file, codes):
    image = nibabel.load(file)
    stored = nibabel.orientations.io_orientation(image.affine)
    wanted = nibabel.orientations.axcodes2ornt(codes)
    transform = nibabel.orientations.ornt_transform(stored, wanted)
    nibabel.save(image.as_reoriented(transform), file)


def test_a_label_inside_a_file_is_scored_again_when_the_file_changes(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["case,image,label"]
    for name in "abcd":
        x = rng.normal(size=(16, 16, 3)).astype(np.float32)
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["image"] = x
            file["label"] = (x > 0).astype(np.uint8)
        rows.append(f"{name},{name}.h5,{name}.h5#label")
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    settings = {**SMALL, "patch": [16, 16], "method": "supervised"}
    run = train(plan_run(tmp_path, settings), tmp_path / "run")
    before = read_table(evaluate(run))
    for case in set(before["case"]):
        with h5py.File(tmp_path / f"{case}.h5", "a") as file:
            file["label"][:] = 1
    after = read_table(evaluate(run))
    assert brier_score(after) != brier_score(before)


def brier_score(table):
    return table.set_index("metric")["value"]["brier"]


def test_a_subject_that_the_run_has_seen_is_never_tested(directory, monkeypatch):
    """Labels that came later may draw other test subjects from the same folder."""
    run = read_run(directory)
    dataset = read_dataset(run.data)
    seen = set(read_split(directory)["subjects"])
    assert {case.subject for case in dataset.training} <= seen
    drawn = dataset.test + dataset.training[:1]
    monkeypatch.setattr("segpl.evaluation.held_out.held_out_cases_of", lambda *_: drawn)
    table = read_table(evaluate(directory, run.data))
    assert not set(table["subject"]) & seen


@pytest.fixture
def moved(directory, tmp_path):
    """The run's own data in another folder, without their test folder."""
    folder = shutil.copytree(read_run(directory).data, tmp_path / "moved")
    shutil.rmtree(folder / "imagesTs")
    shutil.rmtree(folder / "labelsTs")
    return folder


def test_a_copy_of_the_training_data_has_no_test_case(directory, moved):
    with pytest.raises(UserError, match="no labelled test case"):
        evaluate(directory, moved)


def test_other_data_without_a_test_folder_are_scored_except_for_known_subjects(directory, moved):
    labelled = [file.name.removesuffix(".nii.gz") for file in (moved / "labelsTr").iterdir()]
    assert len(labelled) >= 2
    new = set()
    for case in labelled[1:]:
        for file in [*moved.glob(f"imagesTr/{case}_*"), moved / f"labelsTr/{case}.nii.gz"]:
            file.rename(file.with_name(f"new_{file.name}"))
        new.add(f"new_{case}")
    assert set(read_table(evaluate(directory, moved))["case"]) == new


def test_scores_are_not_replaced_by_those_of_another_folder_of_the_same_name(directory, tmp_path):
    own = read_run(directory).data
    first = shutil.copytree(own, tmp_path / "a" / "scans")
    second = shutil.copytree(own, tmp_path / "b" / "scans")
    expected = evaluate(directory, first).read_bytes()
    message = r"has the scores of .*a/scans, and .*b/scans would take their place"
    with pytest.raises(UserError, match=message):
        evaluate(directory, second)
    assert evaluate(directory, first).read_bytes() == expected


def test_scores_on_the_own_data_are_not_replaced_by_a_folder_of_the_same_name(directory, tmp_path):
    own = read_run(directory).data
    evaluate(directory, own)
    namesake = shutil.copytree(own, tmp_path / "c" / own.name)
    with pytest.raises(UserError, match="would take their place"):
        evaluate(directory, namesake)


def test_other_weights_are_measured_again(directory):
    before = read_table(evaluate(directory))
    weights = load_file(directory / "model.safetensors")
    negated = {name: -weight for name, weight in weights.items()}
    save_file(negated, directory / "model.safetensors")
    after = read_table(evaluate(directory))
    assert not np.allclose(before["value"], after["value"], equal_nan=True)


def test_images_are_slices_with_their_share_of_foreground(directory):
    evaluate(directory)
    images = read_table(directory / "images.csv")
    dataset = read_dataset(read_run(directory).data)
    case = dataset.test[0]
    truth = load_truth(case, dataset.task).y
    rows = images[(images["case"] == case.name) & (images["metric"] == "iou")]
    assert len(rows) == truth.shape[0] * truth.shape[-1]
    first_region = rows[rows["region"] == dataset.task.regions[0].name]
    shares = first_region.sort_values("image")["foreground"]
    np.testing.assert_allclose(shares, truth[0].double().mean((0, 1)).numpy())


def test_the_temperature_is_fitted_once_on_validation_cases(directory, monkeypatch):
    calls = spy_on(monkeypatch, "fit_temperature")
    evaluate(directory)
    evaluate(directory, shifts=[Clean(0.0), OutOfDistribution(0.1)])
    assert len(calls) == 1
    (cases,) = calls[0]
    assert [case.name for case in cases] == read_split(directory)["validation"]


@pytest.fixture(scope="module")
def without_validation(tumours, tmp_path_factory):
    run = plan_run(tumours, {"method": "supervised", **SMALL, "validation": 0})
    return train(run, tmp_path_factory.mktemp("runs") / "without_validation")


def test_without_validation_cases_the_user_learns_that_probabilities_are_not_calibrated(
    without_validation, capsys
):
    evaluate(without_validation)
    message = capsys.readouterr().err
    assert "no temperature is fitted, because it has no validation subjects." in message
    assert "The probabilities are not calibrated." in message


def test_without_validation_cases_there_are_no_tempered_scores(without_validation):
    metrics = set(read_table(evaluate(without_validation))["metric"])
    assert {"iou", "ece"} <= metrics
    assert not [name for name in metrics if name.endswith("_tempered")]
    assert not (without_validation / "temperature.json").exists()


def test_without_validation_cases_there_is_no_fitted_temperature(without_validation):
    message = r"has no validation subjects to fit a temperature on: give a number"
    with pytest.raises(UserError, match=message):
        fitted_temperature(without_validation)


def test_the_temperature_does_not_depend_on_the_order_of_evaluations(directory, tmp_path):
    other = shutil.copytree(directory, tmp_path / "other")
    evaluate(directory)
    evaluate(other, samples=3)
    assert (directory / "temperature.json").read_text() == (other / "temperature.json").read_text()


def test_curves_are_between_0_and_1(directory):
    evaluate(directory)
    curves = read_table(directory / "curves.csv")
    assert set(curves["curve"]) == {"reliability", "reliability_tempered", "risk-coverage"}
    assert curves[["x", "y"]].stack().between(0, 1).all()


def test_the_classwise_error_is_the_mean_gap_of_the_reliability_curve(directory):
    scores = read_table(evaluate(directory))
    found = scores[scores["metric"] == "ece_classwise"].set_index(["case", "region"])["value"]
    curves = read_table(directory / "curves.csv")
    bins = curves[curves["curve"] == "reliability"]
    gap = bins["voxels"] * (bins["x"] - bins["y"]).abs()
    sums = bins.assign(gap=gap).groupby(["case", "region"])[["gap", "voxels"]].sum()
    expected = sums["gap"] / sums["voxels"]
    pd.testing.assert_series_equal(
        found.sort_index(), expected.sort_index(), check_names=False, rtol=1e-5
    )


def test_scores_with_samples_have_their_own_files(directory):
    one = evaluate(directory)
    several = evaluate(directory, samples=3)
    assert several.name == "scores-3-samples.csv"
    assert (directory / "masks-3-samples").is_dir()
    assert not np.array_equal(read_table(one)["value"], read_table(several)["value"])


def test_names_of_subjects_are_read_as_text(tmp_path):
    table = pd.DataFrame(
        {"subject": ["007", "NA"], "case": ["1e3", "null"], "value": [0.1, float("nan")]}
    )
    table.to_csv(tmp_path / "scores.csv", index=False)
    read = read_table(tmp_path / "scores.csv")
    assert read["subject"].tolist() == ["007", "NA"]
    assert read["case"].tolist() == ["1e3", "null"]
    assert read["value"].isna().tolist() == [False, True]
