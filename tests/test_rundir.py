"""The run directory: older formats are read, later ones are refused."""

import json

import pytest
from untrained import untrained

from segpl.foundation.errors import UserError
from segpl.rundir import FACTS_FILE, FORMAT, read_split, scoring_files, scoring_suffix
from segpl.settings.run import read_run


@pytest.fixture
def directory(tmp_path):
    untrained().save(tmp_path)
    return tmp_path


def test_a_run_without_a_format_is_one_of_version_0_1_and_is_read(directory):
    assert not (directory / FACTS_FILE).exists()
    assert read_run(directory) == untrained()


def test_a_run_of_this_format_is_read(directory):
    (directory / FACTS_FILE).write_text(json.dumps({"format": FORMAT}))
    assert read_run(directory) == untrained()


def test_a_run_of_a_later_version_is_refused(directory):
    (directory / FACTS_FILE).write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(UserError, match=r"was written by a later version of segpl .* update segpl"):
        read_run(directory)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    message = r"is not a run directory \(it has no run\.yaml\): give a folder made by"
    with pytest.raises(UserError, match=message):
        read_run(tmp_path)


def test_a_garbled_record_names_its_file(directory):
    (directory / FACTS_FILE).write_text('{"format": ')
    with pytest.raises(UserError, match=r"facts\.json cannot be read .* write the run again"):
        read_run(directory)


def test_a_run_without_a_split_has_none(directory):
    assert read_split(directory) is None


def test_the_files_of_an_evaluation_share_its_suffix(tmp_path):
    assert [file.name for file in scoring_files(tmp_path, "-3-samples")] == [
        "scores-3-samples.csv",
        "images-3-samples.csv",
        "curves-3-samples.csv",
        "masks-3-samples",
        "probabilities-3-samples",
        "evaluation-3-samples",
        "prediction_cost-3-samples.json",
    ]


def test_a_run_without_scores_has_no_suffix(tmp_path):
    assert scoring_suffix(tmp_path) is None


def test_the_suffix_is_that_of_most_samples(tmp_path):
    (tmp_path / "scores-9-samples.csv").touch()
    (tmp_path / "scores-10-samples.csv").touch()
    (tmp_path / "scores-many-samples.csv").touch()
    assert scoring_suffix(tmp_path) == "-10-samples"


def test_an_evaluation_without_samples_goes_before_those_with_samples(tmp_path):
    (tmp_path / "scores-9-samples.csv").touch()
    (tmp_path / "scores.csv").touch()
    assert scoring_suffix(tmp_path) == ""
