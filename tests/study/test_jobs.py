"""From a study to its runs: how many, what they are called, and when two are the same."""

import shutil
from pathlib import Path

import pytest

from segpl.settings.choices import preset
from segpl.settings.run import read_yaml
from segpl.study.jobs import expand
from segpl.study.reading import read_study

STUDIES = Path(__file__).parents[2] / "studies"


def names(jobs):
    return {(job.method, job.budget, job.seed): job.name for job in jobs}


def test_every_method_with_every_budget_and_seed(study_file, jobs_of):
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace(
            "budgets: [1]", "budgets: [1, {label: whole, slices: 3}]"
        )
    )
    jobs = jobs_of(study_file)
    assert [(job.seed, job.budget, job.method) for job in jobs] == [
        (seed, budget, method)
        for seed in (0, 1)
        for budget in ("1", "whole")
        for method in ("supervised", "segpl alpha=0.1")
    ]
    assert len({job.name for job in jobs}) == 8
    assert [job.run.labelled for job in jobs[:4]] == [1, 1, None, None]
    assert [job.run.slices for job in jobs[:4]] == [None, None, 3, 3]
    assert jobs[1].run.method.alpha == 0.1
    assert jobs[-1].run.seed == 1
    assert {job.run.steps for job in jobs} == {4}


def test_names_can_be_read_and_written_anywhere(study_file, jobs_of):
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace(
            "alpha: 0.1", "alpha: 0.1, label: 'a/b: \"c\" ..'"
        )
    )
    assert jobs_of(study_file)[1].name.startswith("a-b-c_1_seed0_")


def test_what_does_not_change_keeps_its_name(study_file, jobs_of):
    before = names(jobs_of(study_file))
    other = "alpha: 0.1, start: 0.5, label: segpl alpha=0.1"
    study_file.write_text(study_file.read_text(encoding="utf-8").replace("alpha: 0.1", other))
    after = names(jobs_of(study_file))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("segpl alpha=0.1", "1", 0), ("segpl alpha=0.1", "1", 1)}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("seeds: [0, 1]", "seeds: [1, 0, 2]"),
        ("ood=0.1", "ood=0.2"),
        ("- supervised", "- cps\n  - supervised"),
    ],
)
def test_more_runs_and_other_scores_leave_the_runs_as_they_are(right, wrong, study_file, jobs_of):
    before = names(jobs_of(study_file))
    study_file.write_text(study_file.read_text(encoding="utf-8").replace(right, wrong))
    assert before.items() <= names(jobs_of(study_file)).items()


def test_a_setting_written_out_at_its_default_is_the_same_run(study_file, jobs_of):
    before = names(jobs_of(study_file))
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace(
            "steps: 4", "steps: 4, guard: true, batch: 2, slices: null"
        )
    )
    assert names(jobs_of(study_file)) == before


def test_other_data_are_other_runs(study_file, jobs_of, tumours, tmp_path):
    before = names(jobs_of(study_file))
    copy = shutil.copytree(tumours, tmp_path / "copy")
    assert not set(before.values()) & set(names(jobs_of(study_file, copy)).values())
    moved = names(jobs_of(study_file, copy))
    (copy / "labelsTr/tumour_000.nii.gz").rename(copy / "labelsTs/tumour_000.nii.gz")
    for file in copy.glob("imagesTr/tumour_000*"):
        file.rename(copy / "imagesTs" / file.name)
    assert not set(moved.values()) & set(names(jobs_of(study_file, copy)).values())


def test_the_preset_and_the_common_hyper_parameters_go_to_each_method_that_knows_them(
    study_file, jobs_of
):
    text = study_file.read_text(encoding="utf-8").replace(
        "steps: 4", "steps: 4, method: {alpha: 0.7, objective: dice}"
    )
    study_file.write_text(
        f"preset: brats\n{text}".replace("  - supervised", "  - supervised\n  - segpl-vi")
    )
    supervised, vi, segpl = (job.run for job in jobs_of(study_file)[:3])
    assert (supervised.learning_rate, supervised.steps) == (0.03, 4)
    assert {run.method.objective for run in (supervised, vi, segpl)} == {"dice"}
    assert (vi.method.alpha, segpl.method.alpha) == (0.7, 0.1)
    assert vi.method.prior.mean == 0.5


@pytest.fixture(scope="module")
def crowd(tumours, tmp_path_factory):
    """Forty labelled subjects, all the same: enough for every split of the paper."""
    folder = tmp_path_factory.mktemp("crowd")
    shutil.copy(tumours / "dataset.json", folder)
    for part, ending in (("imagesTr", "_000{}"), ("labelsTr", "")):
        (folder / part).mkdir()
        for number in range(40):
            for channel in range(4 if ending else 1):
                end = ending.format(channel) + ".nii.gz"
                (folder / part / f"subject{number:02}{end}").symlink_to(
                    tumours / part / f"tumour_000{end}"
                )
    return folder


RUNS = {"brats": 90, "carve": 60, "robustness": 30, "uncertainty": 15, "ablations": 95, "demo": 12}


@pytest.mark.parametrize("name", RUNS)
def test_the_studies_that_come_with_segpl_can_be_expanded(name, crowd, tmp_path):
    study, source = read_study(STUDIES / f"{name}.yaml", crowd)
    jobs = expand(study, source, tmp_path)
    assert len(jobs) == len({job.name for job in jobs}) == RUNS[name]


@pytest.mark.parametrize("name", ["brats", "carve"])
def test_the_studies_of_the_papers_tables_have_its_settings_and_figures(name, crowd, tmp_path):
    study, source = read_study(STUDIES / f"{name}.yaml", crowd)
    paper = read_yaml(preset(Path(name)))
    jobs = expand(study, source, tmp_path)
    for key in ("channels", "batch", "ratio", "steps", "learning_rate"):
        assert {getattr(job.run, key) for job in jobs} == {paper[key]}
    figures = {budget: list(scores) for budget, scores in study.paper.scores.items()}
    labels = [entry.label for entry in study.methods]
    assert figures == {budget.label: labels for budget in study.budgets}


def test_phantoms_are_drawn_once_and_make_the_same_runs_elsewhere(
    study_file, tmp_path, monkeypatch
):
    drawn = []

    def draw(task, folder, subjects, seed):
        drawn.append(folder)
        return shutil.copytree(data, folder)

    data = Path(read_yaml(study_file)["data"])
    monkeypatch.setattr("segpl.study.schema.write_phantoms", draw)
    lines = study_file.read_text(encoding="utf-8").splitlines()
    study_file.write_text("\n".join([lines[0], "data: {phantom: tumour, subjects: 6}", *lines[2:]]))
    once, again, elsewhere = (
        expand(*read_study(study_file), tmp_path / out) for out in ("here", "here", "there")
    )
    assert names(once) == names(again) == names(elsewhere)
    assert drawn == [tmp_path / out / "data/tumour-6-0" for out in ("here", "there")]
    assert once[0].run.data != elsewhere[0].run.data
