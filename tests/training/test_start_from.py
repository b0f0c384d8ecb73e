"""A training that starts from the weights of an earlier run."""

import json

import pytest
import torch
from safetensors.torch import load_file

import segpl
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.settings.run import read_run
from segpl.settings.subjects import held_out_cases_of
from segpl.training.first_weights import initial_model
from segpl.training.learner import Learner

SMALL = {"steps": 4, "validate_every": 2, "channels": 4, "ratio": 1, "patch": [32, 32]}


@pytest.fixture(scope="module")
def earlier(tumours, tmp_path_factory):
    """A trained run that has seen one of the two labelled subjects."""
    out = tmp_path_factory.mktemp("start") / "earlier"
    settings = {**SMALL, "labelled": 1}
    return segpl.train(tumours, out, method="segpl-em", settings=settings).path


def test_the_first_weights_are_those_of_the_earlier_run(tumours, earlier, tmp_path):
    run = segpl.train(tumours, tmp_path / "run", start_from=earlier, settings={"steps": 1}).path
    settings = read_run(run)
    assert settings.start_from == earlier.resolve()
    model = initial_model(settings, read_dataset(tumours).task)
    weights = load_file(earlier / "model.safetensors")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, weights[name]), name


def test_network_and_method_are_taken_over_and_the_rest_is_planned(tumours, earlier, tmp_path):
    run = segpl.train(tumours, tmp_path / "run", start_from=earlier, settings={"steps": 1}).path
    before = read_run(earlier)
    after = read_run(run)
    assert after.method == before.method
    assert (after.patch, after.channels, after.spacing) == (
        before.patch,
        before.channels,
        before.spacing,
    )
    assert before.labelled == 1
    assert after.labelled is None


def test_provenance_names_the_earlier_run_and_its_weights(tumours, earlier, tmp_path):
    run = segpl.train(tumours, tmp_path / "run", start_from=earlier, settings={"steps": 1}).path
    entry = json.loads((run / "provenance.json").read_text())[0]
    assert entry["start_from"]["run"] == str(earlier.resolve())
    assert entry["start_from"]["weights"].startswith("sha256:")


class StopError(Exception):
    pass


def test_resume_equals_no_stop(tumours, earlier, tmp_path, monkeypatch):
    settings = {"steps": 4, "validate_every": 2}
    segpl.train(tumours, tmp_path / "undisturbed", start_from=earlier, settings=settings)
    step = Learner.training_step

    def stop_at_step_3(self, batch, index):
        if self.global_step == 3:
            raise StopError
        return step(self, batch, index)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "training_step", stop_at_step_3)
        with pytest.raises(StopError):
            segpl.train(tumours, tmp_path / "stopped", start_from=earlier, settings=settings)
    segpl.train(tumours, tmp_path / "stopped", resume=True)
    first = load_file(tmp_path / "undisturbed/model.safetensors")
    second = load_file(tmp_path / "stopped/model.safetensors")
    for name, weight in first.items():
        assert torch.equal(weight, second[name]), name


def test_another_network_is_refused_with_a_sentence(tumours, earlier, tmp_path):
    with pytest.raises(UserError, match=r"has another network .*channels 4.*channels 6"):
        segpl.train(
            tumours, tmp_path / "run", start_from=earlier, settings={"steps": 1, "channels": 6}
        )
    assert not (tmp_path / "run").exists()


def test_other_regions_are_refused_with_a_sentence(vessels, earlier, tmp_path):
    with pytest.raises(UserError, match="other channels or regions"):
        segpl.train(vessels, tmp_path / "run", start_from=earlier, settings={"steps": 1})


def test_a_folder_without_a_run_is_refused_with_a_sentence(tumours, tmp_path):
    with pytest.raises(UserError, match="is not a run directory"):
        segpl.train(tumours, tmp_path / "run", start_from=tmp_path)


def test_the_record_names_test_subjects_and_all_that_were_seen(tumours, earlier, tmp_path):
    run = segpl.train(tumours, tmp_path / "run", start_from=earlier, settings={"steps": 1}).path
    record = json.loads((run / "split.json").read_text())
    seen = set(json.loads((earlier / "split.json").read_text())["subjects"])
    assert seen <= set(record["subjects"])
    held_out = held_out_cases_of(read_run(run), read_dataset(tumours))
    assert record["test_subjects"] == sorted(case.subject for case in held_out)
