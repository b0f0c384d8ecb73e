"""Study files: what they may say, and one sentence with line and key for every mistake."""

import pytest
from study_files import replace_text

from segpl.foundation.errors import UserError
from segpl.study.running import run_study
from segpl.study.study_file import read_study
from segpl.study.yaml_source import YamlSource

MISTAKES = [
    ("title: Small", "titel: Small", "line 1, titel: unknown setting 'titel'"),
    ("title: Small\n", "", "line 1: title is missing"),
    (
        "  - supervised",
        "  - supervized",
        "line 5, methods[1]: there is no method 'supervized': choose one of",
    ),
    ("alpha: 0.1", "alhpa: 0.1", "line 6, methods[2].alhpa: segpl: unknown setting 'alhpa'"),
    ("alpha: 0.1", "alpha: -1", "line 6, methods[2].alpha: segpl: alpha is -1, but"),
    (
        "alpha: 0.1",
        "prior: {mean: 0.4}",
        "line 6, methods[2].prior: segpl: unknown setting 'prior'",
    ),
    ("name: segpl, alpha: 0.1", "alpha: 0.1", "line 6, methods[2]: a method needs a name"),
    (
        "alpha: 0.1",
        "settings: {seed: 3}",
        "line 6, methods[2].settings.seed: seed is not set here",
    ),
    ("{name: segpl, alpha: 0.1}", "supervised", "line 6, methods[2]: 'supervised' is listed twice"),
    ("steps: 4", "stpes: 4", "line 3, settings.stpes: the run: unknown setting 'stpes'"),
    ("steps: 4", "steps: 0", "line 3, settings.steps: the run: steps is 0, but"),
    ("steps: 4", "steps: 4, steps: 5", "line 3, settings.steps: it is given twice"),
    ("steps: 4", "seed: 4", "line 3, settings.seed: seed is not set here: list it under seeds"),
    (
        "steps: 4",
        "method: {alhpa: 4}",
        "line 3, settings.method.alhpa: alhpa is a setting of none of the methods",
    ),
    ("steps: 4", "method: segpl", "line 3, settings.method: method takes hyper-parameters"),
    (
        "patch: [32, 32]",
        "patch: [32]",
        "line 3, settings.patch: the run: patch is [32], but it takes 2 or 3",
    ),
    ("budgets: [1]", "budgets: [1, 9]", "line 7, budgets[2]: "),
    ("budgets: [1]", "budgets: 1", "line 7, budgets: budgets is 1, but it takes a list"),
    (
        "budgets: [1]",
        "budgets: [one]",
        "line 7, budgets[1]: a budget is 'one', but it takes a number or settings",
    ),
    ("budgets: [1]", "budgets: [{slices: 0}]", "line 7, budgets[1].slices: the run: slices is 0"),
    (
        "seeds: [0, 1]",
        "seeds: []",
        "line 8, seeds: seeds is [], but it takes a list of one or more",
    ),
    ("seeds: [0, 1]", "seeds: [0, -1]", "line 8, seeds[2]: seeds.1 is -1, but"),
    ("seeds: [0, 1]", "seeds: [1, 1]", "line 8, seeds: seeds are listed twice"),
    ("ood=0.1", "odd=0.1", "line 10, shifts[1]: --shift odd=0.1 is not a shift"),
    ("title: Small", "samples: 0\ntitle: Small", "line 1, samples: samples is 0, but"),
    ("title: Small", "preset: brast\ntitle: Small", "line 1, preset: brast is not a file"),
    ("title: Small", "baselines: [cps]\ntitle: Small", "line 1, baselines: the study has no 'cps'"),
    (
        "title: Small",
        "paper: {source: x, scores: {7: {}}}\ntitle: S",
        "line 1, paper.scores.7: the study has no '7'",
    ),
    (
        "title: Small",
        "paper: {sauce: x}\ntitle: Small",
        "line 1, paper.sauce: unknown setting 'sauce'",
    ),
    ("data: ", "data: {phantom: liver} #", "line 2, data.phantom: phantom is 'liver', but"),
    ("data: ", "data: nowhere/", "line 2, data: "),
    ("title: Small", "title: [", "study.yaml is not valid YAML"),
]


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"), MISTAKES, ids=lambda text: text.strip()[:40]
)
def test_a_mistake_is_one_sentence_with_line_and_key_before_anything_is_trained(
    right, wrong, sentence, study_file, tmp_path, pretend
):
    text = study_file.read_text(encoding="utf-8")
    assert right in text
    study_file.write_text(text.replace(right, wrong, 1))
    with pytest.raises(UserError) as error:
        run_study(study_file, tmp_path / "out")
    assert sentence in str(error.value)
    assert str(error.value).startswith(str(study_file))
    assert pretend.worked() == []
    assert not (tmp_path / "out/runs").exists()


def test_a_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.yaml is not a file"):
        run_study(tmp_path / "nowhere.yaml", tmp_path / "out")


def test_an_output_that_cannot_be_written_is_a_user_error(study_file, tmp_path):
    (tmp_path / "out").write_text("a file")
    message = r"out cannot be written \(.*\): choose another folder"
    with pytest.raises(UserError, match=message):
        run_study(study_file, tmp_path / "out")


def test_an_unknown_executor_is_a_user_error(study_file, tmp_path):
    message = "--on moon is not supported: choose local, ray or ray://HOST:PORT"
    with pytest.raises(UserError, match=message):
        run_study(study_file, tmp_path / "out", on="moon")


METHODS = """\
  - supervised
  - {name: segpl, settings: {ratio: 2}}
  - {name: cps, label: Chen}
  - {name: deep-ensemble, base: {name: segpl-vi}}"""


def test_methods_are_labelled_by_their_settings(study_file):
    replace_text(study_file, "  - supervised", METHODS)
    study, _ = read_study(study_file)
    assert [entry.label for entry in study.methods] == [
        "supervised",
        "segpl ratio=2",
        "Chen",
        "deep-ensemble base=segpl-vi",
        "segpl alpha=0.1",
    ]


def test_budgets_are_labelled_by_their_settings(study_file):
    budgets = "budgets: [1, {labelled: 1, steps: 3}, {label: mine, labelled: 1}]"
    replace_text(study_file, "budgets: [1]", budgets)
    study, _ = read_study(study_file)
    assert [budget.label for budget in study.budgets] == ["1", "labelled=1 steps=3", "mine"]


def test_the_first_method_is_the_baseline_by_default(study_file):
    study, _ = read_study(study_file)
    assert study.baselines == ("supervised",)


def test_every_value_knows_its_line(tmp_path):
    (tmp_path / "file.yaml").write_text("a: 1\nb:\n  - c: 2\n    d: 3\n  - 4\n50: {e: 5}\n")
    lines = YamlSource(tmp_path / "file.yaml").lines
    assert lines[("a",)] == 1
    assert lines[("b", 0, "d")] == 4
    assert lines[("b", 1)] == 5
    assert lines[("50", "e")] == 6


def test_an_error_is_located_by_its_key_and_not_by_words_of_its_message(tmp_path):
    """The message names `steps`, which is in the file, but `patch` is wrong."""
    (tmp_path / "file.yaml").write_text(
        "settings:\n  steps: 4\n  patch: [1, 2]\n  method.alpha: 3\n"
    )
    source = YamlSource(tmp_path / "file.yaml")

    def message(where):
        with pytest.raises(UserError) as error, source.locate_errors(("settings",)):
            raise UserError("steps of such patches are too large.", where)
        return str(error.value).removeprefix(str(source.file))

    assert message(("patch",)).startswith(", line 3, settings.patch: steps of")
    assert message(("patch", 1)).startswith(", line 3, settings.patch[2]: ")
    assert message(("patch", 9)).startswith(", line 3, settings.patch: ")
    assert message(("method", "alpha")).startswith(", line 4, settings.method.alpha: ")
    assert message(("ratio",)).startswith(", line 1, settings: ")
    assert message(()).startswith(", line 1, settings: ")
