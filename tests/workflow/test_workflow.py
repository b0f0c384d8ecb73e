"""`segpl run` from a folder of scans to the answer, on runs of two steps."""

import shutil

import nibabel
import pandas as pd
import pytest

import segpl.workflow as workflow
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.rundir import ANSWER_FILE, read_mapping, read_split
from segpl.training.learner import Learner
from segpl.workflow.plan import Options

SETTINGS = {"steps": 2, "channels": 4, "patch": [32, 32], "batch": 1, "validate_every": 2}


@pytest.fixture
def options(tumours):
    return Options(tumours, seeds=2, settings=SETTINGS)


def forbid(name, monkeypatch):
    """A stage that must not be worked on again."""
    monkeypatch.setattr(workflow, name, lambda *_, **__: pytest.fail(f"{name} was repeated"))


def test_a_stopped_run_continues_and_a_finished_one_repeats_nothing(
    options, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "answer"
    train = workflow.train

    def train_one(run, directory, **others):
        if run.method.name() != "supervised":
            raise KeyboardInterrupt
        return train(run, directory, **others)

    monkeypatch.setattr(workflow, "train", train_one)
    with pytest.raises(KeyboardInterrupt):
        workflow.run(options, out)
    first = out / "supervised/supervised-seed0/model.safetensors"
    written = first.stat().st_mtime_ns

    monkeypatch.setattr(workflow, "train", train)
    forbid("check", monkeypatch)
    answer = workflow.run(options, out)
    assert first.stat().st_mtime_ns == written
    assert answer.outcome.verdict.comparison.seeds == 2
    assert set(answer.outcome.dice) == {"supervised", "segpl-em"}
    assert answer.scans == 2
    assert answer.members == 2
    assert set(answer.ranking) == {"tumour_002", "tumour_003"}
    assert answer.report.is_file()
    for case in answer.ranking:
        mask = nibabel.load(answer.masks / f"{case}.nii.gz")
        variance = nibabel.load(answer.masks / f"variance/{case}.nii.gz")
        assert mask.shape == variance.shape[:3]
    numbers = pd.read_csv(answer.masks / "cases.csv")
    assert numbers["variance"].notna().any()
    assert answer.verdict in (out / "summary.txt").read_text(encoding="utf-8")
    assert len(answer.lines()) < 10
    assert read_mapping(out / ANSWER_FILE) == {"runs": answer.runs.name}

    capsys.readouterr()
    monkeypatch.setattr(Learner, "training_step", None)
    forbid("evaluate", monkeypatch)
    forbid("make_ranking", monkeypatch)
    masks = {file: file.stat().st_mtime_ns for file in answer.masks.rglob("*.nii.gz")}
    assert workflow.run(options, out, quiet=True) == answer
    assert {file: file.stat().st_mtime_ns for file in answer.masks.rglob("*.nii.gz")} == masks
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def few(tumours, tmp_path):
    """Two labelled subjects, two unlabelled ones, and no test folder."""
    folder = shutil.copytree(tumours, tmp_path / "few")
    shutil.rmtree(folder / "imagesTs")
    shutil.rmtree(folder / "labelsTs")
    return folder


def test_few_labelled_subjects_are_left_out_in_turn(few, tmp_path):
    """With more seeds than subjects: each subject has one seed."""
    dataset = read_dataset(few)
    options = Options(few, seeds=3, settings=SETTINGS)
    plan = workflow.make_plan(options, dataset, workflow.choose_testing(options, dataset))
    assert len(plan.runs) == 4  # subjects, methods
    out = tmp_path / "answer"
    answer = workflow.run(options, out)
    assert answer.outcome.verdict.comparison.subjects == 2
    assert answer.outcome.verdict.comparison.seeds == 2
    learnt = [read_split(run)["labelled"] for run in sorted((out / "segpl-em").iterdir())]
    assert sorted(learnt) == [["tumour_000"], ["tumour_001"]]


def test_without_time_to_leave_subjects_out_all_labels_are_learnt_from(few, tmp_path, monkeypatch):
    settings = {key: value for key, value in SETTINGS.items() if key != "steps"}
    options = Options(few, seeds=1, minutes=10.0, settings=settings)
    costs = workflow.Costs({"supervised": 1.0, "segpl-em": 1.0}, scan=1.0)
    monkeypatch.setattr(workflow, "measure_costs", lambda *_: costs)
    plan, _ = workflow._new_plan(options, read_dataset(few), started=workflow.time.monotonic())
    assert plan.testing is workflow.Testing.NONE
    assert plan.methods == ["segpl-em"]
    (run,) = plan.runs
    assert run.test == 0
    assert 300 < run.steps < 600  # a step takes a second
    seconds = workflow.estimate(plan, costs, read_dataset(few))
    assert sum(seconds) == pytest.approx(600, rel=0.02)
    assert "no verdict is possible" in workflow.describe(plan, read_dataset(few))[1]


def test_without_a_test_the_answer_says_that_there_is_no_verdict(few, tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "choose_testing", lambda *_: workflow.Testing.NONE)
    answer = workflow.run(Options(few, seeds=1, settings=SETTINGS), tmp_path / "answer")
    assert "No verdict is possible: there are too few labelled subjects" in answer.verdict
    assert answer.report.is_file()
    assert answer.scans == 2


def test_minutes_bound_the_whole(options, monkeypatch):
    settings = {key: value for key, value in SETTINGS.items() if key != "steps"}
    costs = workflow.Costs({"supervised": 0.2, "segpl-em": 0.3}, scan=0.5)
    monkeypatch.setattr(workflow, "measure_costs", lambda *_: costs)
    dataset = read_dataset(options.data)
    longer = Options(options.data, seeds=3, minutes=5.0, settings=settings)
    plan, _ = workflow._new_plan(longer, dataset, started=workflow.time.monotonic())
    assert len({run.steps for run in plan.runs}) == 1
    assert sum(workflow.estimate(plan, costs, dataset)) == pytest.approx(300, rel=0.02)
    shorter = Options(options.data, seeds=3, minutes=1.0, settings=settings)
    with pytest.raises(UserError, match=r"--minutes 1 is too short: .* give at least 2"):
        workflow._new_plan(shorter, dataset, started=workflow.time.monotonic())


def test_seeds_that_end_too_late_are_left_out(options, tmp_path, capsys):
    """With a deadline that has passed, only the first seed is trained."""
    dataset = read_dataset(options.data)
    plan = workflow.make_plan(options, dataset, workflow.Testing.HELD_OUT)
    costs = workflow.Costs({"supervised": 0.2, "segpl-em": 0.3}, scan=0.5)
    work = workflow._Work(plan, dataset, costs, tmp_path)
    with workflow.Display(work.stages(), quiet=False) as display:
        work.train_all(display, deadline=0.0)
    assert work.plan.seeds == [0]
    assert len(work.plan.runs) == 2
    titles = [stage.title for stage in display.stages]
    assert [title for title in titles if "seed" in title] == [
        "Scoring supervised, seed 0",
        "Scoring segpl-em, seed 0",
    ]
    assert not (tmp_path / "segpl-em/segpl-em-seed1").exists()
    assert "no time is left for seeds 1" in capsys.readouterr().err


def test_other_options_and_changed_data_are_refused(few, tmp_path):
    out = tmp_path / "answer"
    options = Options(few, seeds=2, settings=SETTINGS)
    plan = workflow.make_plan(options, read_dataset(few), workflow.Testing.HELD_OUT)
    workflow.write_plan(plan, options, read_dataset(few), out)
    assert workflow.read_plan(options, read_dataset(few), out) == plan
    with pytest.raises(UserError, match=r"begun with other options \(seeds\)"):
        workflow.run(Options(few, seeds=3, settings=SETTINGS), out)
    next((few / "labelsTr").iterdir()).unlink()
    with pytest.raises(UserError, match=r"has changed since .* was begun"):
        workflow.run(options, out)


def test_problems_of_the_data_end_the_run(few, tmp_path):
    for file in sorted((few / "labelsTr").iterdir()):
        image = nibabel.load(file)
        nibabel.save(nibabel.Nifti1Image(0 * image.get_fdata(), image.affine), file)
    with pytest.raises(
        UserError, match=r"has 2 problems, .*The first: .* is empty: draw the label"
    ):
        workflow.run(Options(few, settings=SETTINGS), tmp_path / "answer")
    assert not (tmp_path / "answer").exists()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"method": "supervised"}, "--method supervised learns from labels only"),
        ({"settings": {"seed": 1}}, "use --seeds"),
        ({"settings": {"steps": 2}, "minutes": 1.0}, "both determine the length"),
    ],
)
def test_options_that_do_not_fit_are_refused(given, complaint, tumours):
    options = Options(tumours, **given)
    with pytest.raises(UserError, match=complaint):
        workflow.make_plan(options, read_dataset(tumours), workflow.Testing.HELD_OUT)


@pytest.mark.parametrize("name", ["data/answer", "full", "full/file"])
def test_an_output_folder_with_other_contents_is_refused(name, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(UserError, match="--out"):
        workflow.run(Options(tmp_path / "data"), tmp_path / name)
