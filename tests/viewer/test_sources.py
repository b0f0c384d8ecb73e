"""What `segpl view` may be given, and the order of the scans."""

import json

import pandas as pd
import pytest
from conftest import server_in_thread

from segpl.foundation.errors import UserError
from segpl.viewer.catalogue import Catalogue
from segpl.viewer.sources import find_source


@pytest.fixture
def run(data, tmp_path):
    """A run directory with a split and scores, as far as the list needs it."""
    folder = tmp_path / "runs/em"
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text(f"data: {data}\nmethod: {{name: segpl}}\n")
    (folder / "model.safetensors").write_bytes(b"")
    split = {"labelled": ["anna"], "unlabelled": ["ben", "cleo", "dora"], "validation": []}
    (folder / "split.json").write_text(json.dumps(split))
    return folder


def names(path):
    return [entry.case.name for entry in Catalogue(find_source(path)).entries()]


def test_data_are_listed_by_name_and_part(data):
    assert names(data) == ["ben", "cleo", "dora", "emil", "anna"]


def test_unlabelled_scans_are_in_the_order_of_the_ranking(run):
    rows = [("1", "dora", "unlike the labelled scans"), ("2", "ben", "uncertain")]
    pd.DataFrame(rows, columns=["rank", "case", "reason"]).to_csv(run / "rank.csv", index=False)
    entries = Catalogue(find_source(run)).entries()
    assert [entry.case.name for entry in entries] == ["dora", "ben", "cleo", "emil", "anna"]
    assert entries[0].reason == "unlike the labelled scans"


def test_test_cases_are_listed_by_score_with_the_worst_first(run):
    rows = []
    for case, dice in (("emil", 0.9), ("cleo", 0.2)):
        for region in ("organ", "lesion"):
            rows.append((case, region, "clean", "dice", dice))
            rows.append((case, region, "ood", "dice", 0.0))
    columns = ["case", "region", "shift", "metric", "value"]
    pd.DataFrame(rows, columns=columns).to_csv(run / "scores.csv", index=False)
    entries = Catalogue(find_source(run)).entries()
    tests = [(entry.case.name, entry.dice) for entry in entries if entry.part == "test"]
    assert tests == [("cleo", 0.2), ("emil", 0.9)]


def test_a_folder_of_runs_and_the_answer_of_segpl_run_are_viewed(run, data):
    runs = run.parent
    assert find_source(runs).runs == runs
    (runs.parent / "answer.json").write_text('{"runs": "runs"}')
    source = find_source(runs.parent)
    assert source.runs == runs
    assert source.data == data
    assert source.earlier_predictions == runs.parent / "masks"


def test_an_unfinished_run_is_refused(run):
    (run / "model.safetensors").unlink()
    with pytest.raises(UserError, match="not trained to the end"):
        find_source(run)


def test_runs_whose_data_are_gone_are_refused(run, data):
    data.rename(data.with_name("moved"))
    with pytest.raises(UserError, match="put the data back"):
        find_source(run)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        find_source(tmp_path / "nowhere")


def test_the_page_is_told_about_every_region(data, tmp_path):
    with server_in_thread(data, tmp_path / "cache") as client:
        answer = client.get_json("api/list")
    organ = {"name": "organ", "holds": [1, 2]}
    lesion = {"name": "lesion", "holds": [2]}
    assert answer["regions"] == [organ, lesion]
    assert answer["labels"] == 1
