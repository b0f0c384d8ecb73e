"""From a study to its runs: how many, what they are called, and when two are the same."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from study_files import replace_text

from segpl.foundation.errors import UserError
from segpl.reporting.page.ablations import find_curves
from segpl.reporting.run_folder import find_runs
from segpl.settings.run import read_yaml
from segpl.settings.sources import preset_file
from segpl.study.fitting import data_notes
from segpl.study.jobs import common_settings, expand, preset_notes
from segpl.study.study_file import read_study

STUDIES = Path(__file__).parents[2] / "studies"


def names(jobs):
    """The names of runs by method, budget and seed."""
    return {(job.method, job.budget, job.seed): job.name for job in jobs}


def test_every_method_with_every_budget_and_seed(study_file, jobs_of):
    replace_text(study_file, "budgets: [1]", "budgets: [1, {label: whole, slices: 3}]")
    jobs = jobs_of(study_file)
    assert [(job.seed, job.budget, job.method) for job in jobs] == [
        (0, "1", "supervised"),
        (0, "1", "segpl alpha=0.1"),
        (0, "whole", "supervised"),
        (0, "whole", "segpl alpha=0.1"),
        (1, "1", "supervised"),
        (1, "1", "segpl alpha=0.1"),
        (1, "whole", "supervised"),
        (1, "whole", "segpl alpha=0.1"),
    ]
    assert len({job.name for job in jobs}) == 8


def test_a_run_has_the_settings_of_its_method_budget_and_seed(study_file, jobs_of):
    replace_text(study_file, "budgets: [1]", "budgets: [1, {label: whole, slices: 3}]")
    jobs = jobs_of(study_file)
    assert [job.run.labelled for job in jobs[:4]] == [1, 1, None, None]
    assert [job.run.slices for job in jobs[:4]] == [None, None, 3, 3]
    assert jobs[1].run.method.alpha == 0.1
    assert jobs[-1].run.seed == 1
    assert {job.run.steps for job in jobs} == {4}


def test_names_are_safe_file_names(study_file, jobs_of):
    replace_text(study_file, "alpha: 0.1", "alpha: 0.1, label: 'a/b: \"c\" ..'")
    assert jobs_of(study_file)[1].name.startswith("a-b-c_1_seed0_")


def test_another_hyper_parameter_changes_the_names_of_its_method_only(study_file, jobs_of):
    before = names(jobs_of(study_file))
    other = "alpha: 0.1, start: 0.5, label: segpl alpha=0.1"
    replace_text(study_file, "alpha: 0.1", other)
    after = names(jobs_of(study_file))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("segpl alpha=0.1", "1", 0), ("segpl alpha=0.1", "1", 1)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds: [0, 1]", "seeds: [1, 0, 2]"),
        ("ood=0.1", "ood=0.2"),
        ("- supervised", "- cps\n  - supervised"),
    ],
)
def test_more_runs_and_other_shifts_leave_the_runs_as_they_are(old, new, study_file, jobs_of):
    before = names(jobs_of(study_file))
    replace_text(study_file, old, new)
    after = names(jobs_of(study_file))
    assert before.items() <= after.items()


def test_a_setting_written_out_at_its_default_is_the_same_run(study_file, jobs_of):
    before = names(jobs_of(study_file))
    replace_text(study_file, "steps: 4", "steps: 4, guard: true, batch: 2, slices: null")
    assert names(jobs_of(study_file)) == before


def test_a_copy_of_the_data_makes_other_runs(study_file, jobs_of, tumours, tmp_path):
    copy = shutil.copytree(tumours, tmp_path / "copy")
    original_names = set(names(jobs_of(study_file)).values())
    copy_names = set(names(jobs_of(study_file, copy)).values())
    assert original_names.isdisjoint(copy_names)


def test_another_split_of_the_data_makes_other_runs(study_file, jobs_of, tumours, tmp_path):
    data = shutil.copytree(tumours, tmp_path / "copy")
    before = set(names(jobs_of(study_file, data)).values())
    (data / "labelsTr/tumour_000.nii.gz").rename(data / "labelsTs/tumour_000.nii.gz")
    for file in data.glob("imagesTr/tumour_000*"):
        file.rename(data / "imagesTs" / file.name)
    after = set(names(jobs_of(study_file, data)).values())
    assert before.isdisjoint(after)


def test_the_preset_and_the_common_hyper_parameters_go_to_each_method_that_knows_them(
    study_file, jobs_of
):
    common = "method: {alpha: 0.7, objective: dice}"
    replace_text(study_file, "steps: 4", f"steps: 4, {common}")
    replace_text(study_file, "title: Small", "title: Small\npreset: brats")
    replace_text(study_file, "  - supervised", "  - supervised\n  - segpl-vi")
    supervised, vi, segpl = (job.run for job in jobs_of(study_file)[:3])
    assert supervised.learning_rate == 0.03
    assert supervised.steps == 4
    assert {run.method.objective for run in (supervised, vi, segpl)} == {"dice"}
    assert vi.method.alpha == 0.7
    assert segpl.method.alpha == 0.1
    assert vi.method.prior.mean == 0.5


@pytest.fixture(scope="module")
def crowd(tumours, tmp_path_factory):
    """Forty labelled subjects, all the same: enough for every split of the paper."""
    folder = tmp_path_factory.mktemp("crowd")
    shutil.copy(tumours / "dataset.json", folder)
    (folder / "imagesTr").mkdir()
    (folder / "labelsTr").mkdir()
    files = ["labelsTr/{}.nii.gz"]
    for channel in range(4):
        files.append(f"imagesTr/{{}}_000{channel}.nii.gz")
    for number in range(40):
        for file in files:
            link = folder / file.format(f"subject{number:02}")
            link.symlink_to(tumours / file.format("tumour_000"))
    return folder


RUNS = {
    "brats": 90,
    "carve": 120,
    "robustness": 30,
    "uncertainty": 15,
    "ablations": 195,
    "demo": 12,
}


@pytest.mark.parametrize("name", RUNS)
def test_the_studies_that_come_with_segpl_can_be_expanded(name, crowd, tmp_path):
    study, source = read_study(STUDIES / f"{name}.yaml", crowd)
    jobs = expand(study, source, tmp_path)
    assert len(jobs) == len({job.name for job in jobs}) == RUNS[name]


def test_the_ablations_form_the_curves_of_the_paper(crowd, tmp_path):
    study, source = read_study(STUDIES / "ablations.yaml", crowd)
    one_seed = replace(study, seeds=study.seeds[:1])
    for job in expand(one_seed, source, tmp_path):
        job.directory(tmp_path).mkdir(parents=True)
        job.run.save(job.directory(tmp_path))
    values = {}
    for curve in find_curves(find_runs(tmp_path)):
        method = curve.others["method.name"]
        values[curve.setting, method] = sorted(curve.runs)
    rates = [0.001, 0.003, 0.01, 0.03, 0.1]
    assert values == {
        ("learning_rate", "segpl"): rates,
        ("learning_rate", "supervised"): rates,
        ("learning_rate", "self-loop"): rates,
        ("learning_rate", "fixmatch"): rates,
        ("learning_rate", "cps"): rates,
        ("method.alpha", "segpl"): [0, 0.005, 0.01, 0.05, 0.1, 0.5, 1],
        ("method.warm_up", "segpl"): [0, 0.1, 0.2, 0.4, 0.8],
        ("ratio", "segpl"): [1, 2, 4, 5, 10],
    }


@pytest.mark.parametrize("name", ["brats", "carve"])
def test_the_studies_of_the_papers_tables_have_its_settings(name, crowd, tmp_path):
    study, source = read_study(STUDIES / f"{name}.yaml", crowd)
    paper = read_yaml(preset_file(Path(name)))
    jobs = expand(study, source, tmp_path)
    for key in ("channels", "batch", "ratio", "steps", "learning_rate"):
        assert {getattr(job.run, key) for job in jobs} == {paper[key]}


@pytest.mark.parametrize("name", ["brats", "carve"])
def test_the_studies_of_the_papers_tables_have_all_its_figures(name, crowd):
    study, _ = read_study(STUDIES / f"{name}.yaml", crowd)
    figures = {budget: list(scores) for budget, scores in study.paper.scores.items()}
    methods = [entry.label for entry in study.methods]
    assert figures == {budget.label: methods for budget in study.budgets}


def test_the_study_of_table_1_has_the_papers_subjects_and_labelled_crops(crowd, tmp_path):
    study, source = read_study(STUDIES / "carve.yaml", crowd)
    jobs = expand(study, source, tmp_path)
    assert [budget.label for budget in study.budgets] == [
        "2 volumes",
        "5 volumes",
        "10 volumes",
        "20 volumes",
    ]
    for job in jobs:
        assert job.budget == f"{job.run.crops} volumes"
        assert job.run.patch == (176, 176, 3)
        assert subjects_of(job.run) == (1, 2, 1, 5)


def test_the_study_of_table_2_has_the_papers_subjects_and_labelled_slices(crowd, tmp_path):
    study, source = read_study(STUDIES / "brats.yaml", crowd)
    study = replace(study, settings={"test": 30})
    jobs = expand(study, source, tmp_path)
    by_budget = {}
    for job in jobs:
        by_budget[job.run.slices] = subjects_of(job.run)
        assert job.run.centre_crop == (176, 176)
        assert job.run.grade == "HGG"
    assert by_budget == {50: (1, 2, 1, 30), 150: (1, 2, 1, 30), 300: (2, 2, 1, 30)}


def subjects_of(run):
    return run.labelled, run.unlabelled, run.validation, run.test


@pytest.mark.parametrize(
    ("test", "unlabelled", "fitted"),
    [(5, 2, (5, 2)), (50, 2, (36, 2)), (5, 99, (1, 37)), (50, 99, (1, 37))],
)
def test_a_study_is_fitted_to_the_subjects_of_the_data(
    test, unlabelled, fitted, crowd, study_file, tmp_path
):
    """Of 40 subjects one is labelled and one validates: 38 are left."""
    counts = f"validation: 1, test: {test}, unlabelled: {unlabelled}"
    replace_text(study_file, "steps: 4", f"steps: 4, {counts}")
    replace_text(study_file, "title: Small", "title: Small\nfit_to_data: true")
    study, source = read_study(study_file, crowd)
    jobs = expand(study, source, tmp_path)
    assert {(job.run.test, job.run.unlabelled) for job in jobs} == {fitted}
    notes = " ".join(data_notes(common_settings(study, source), jobs[0].run))
    assert (f"asks for {test} test subjects" in notes) == (fitted[0] < test)
    assert (f"asks for {unlabelled} unlabelled subjects" in notes) == (fitted[1] < unlabelled)


def test_settings_that_differ_from_the_preset_are_noted(crowd):
    study, source = read_study(STUDIES / "carve.yaml", crowd)
    assert preset_notes(study, source) == []
    shorter = replace(study, settings={"test": 5, "steps": 3, "ratio": 4})
    assert preset_notes(shorter, source) == ["Unlike the preset carve: steps is 3 instead of 800."]


def test_without_fitting_too_few_subjects_are_an_error(crowd, study_file, tmp_path):
    replace_text(study_file, "steps: 4", "steps: 4, unlabelled: 99")
    study, source = read_study(study_file, crowd)
    with pytest.raises(UserError, match=r"unlabelled is 99, but .* leaves 29 unlabelled subjects"):
        expand(study, source, tmp_path)


def test_vessel_studies_have_the_papers_weight_of_unlabelled_images():
    for name in ("vessels", "drive"):
        study, _ = read_study(STUDIES / f"{name}.yaml")
        weights = {}
        for entry in study.methods:
            weights[entry.label] = (entry.method["name"], entry.method.get("alpha"))
        assert weights["segpl alpha 1"] == ("segpl", 1.0)
        assert weights["segpl-vi alpha 1"] == ("segpl-vi", 1.0)


def test_phantoms_are_drawn_once_and_make_the_same_runs_elsewhere(
    study_file, tumours, tmp_path, monkeypatch
):
    drawn = []

    def draw(task, folder, subjects, seed):
        drawn.append(folder)
        return shutil.copytree(tumours, folder)

    def jobs_in(out):
        study, source = read_study(study_file)
        return expand(study, source, out)

    monkeypatch.setattr("segpl.study.schema.write_phantoms", draw)
    replace_text(study_file, f"data: {tumours}", "data: {phantom: tumour, subjects: 6}")
    once = jobs_in(tmp_path / "here")
    again = jobs_in(tmp_path / "here")
    elsewhere = jobs_in(tmp_path / "there")
    assert names(once) == names(again) == names(elsewhere)
    assert drawn == [tmp_path / "here/data/tumour-6-0", tmp_path / "there/data/tumour-6-0"]
    assert once[0].run.data != elsewhere[0].run.data
