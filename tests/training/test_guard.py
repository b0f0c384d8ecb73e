"""Pseudo-labels: their health, the monitor of it, and the guard, in real runs on phantoms."""

import json
from itertools import product

import pandas as pd
import pytest
import torch

from segpl.em.priors import Fixed
from segpl.em.types import Losses
from segpl.methods.segpl_em import SegPLEM
from segpl.settings.planning import plan_run
from segpl.training.guard import Guard
from segpl.training.learner import Learner
from segpl.training.loop import train
from segpl.training.pseudo_label_health import (
    collapse,
    foreground_share,
    health,
    meeting_probability,
)

SMALL = {
    "labelled": 1,
    "validation": 1,
    "patch": [32, 32],
    "channels": 4,
    "ratio": 2,
    "learning_rate": 0.01,
    "foreground": 1.0,
    "steps": 150,
    "validate_every": 15,
}


def run(tumours, directory, alpha, **settings):
    """Train segpl, or continue its training; return the log."""
    method = {"name": "segpl", "alpha": alpha}
    planned = plan_run(tumours, {"method": method, **SMALL, **settings})
    train(planned, directory, resume=True)
    return pd.read_csv(directory / "log.csv")


def facts(directory):
    return json.loads((directory / "facts.json").read_text())


def judge(monkeypatch, *problems):
    """Let the guard find these problems, one per validation."""
    remaining = iter(problems)
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: next(remaining))


def scalars(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("pseudo_labelled", "labelled", "expected_patches", "problem"),
    [
        ([0.05], [0.06], [9.0], None),
        ([0.0], [0.06], [9.0], "empty"),
        ([0.0], [0.06], [4.0], None),
        ([0.0], [0.0], [9.0], None),
        ([0.7], [0.06], [4.0], "full"),
        ([0.05, 0.0001], [0.06, 0.02], [9.0, 9.0], "empty"),
        ([0.05, 0.0001], [0.06, 0.02], [9.0, 1.0], None),
        ([0.8], [0.9], [9.0], None),
    ],
)
def test_collapse_by_hand(pseudo_labelled, labelled, expected_patches, problem):
    shares = torch.tensor(pseudo_labelled)
    judged = collapse(shares, torch.tensor(labelled), torch.tensor(expected_patches))
    assert judged == problem


@pytest.mark.parametrize("patch", [(4, 6, 3), (5, 20, 1), (4, 6)])
def test_the_probability_to_meet_a_region_is_that_of_counting_all_patches(patch):
    y = torch.zeros(3, 12, 10, 7, dtype=torch.bool)
    y[0, 3:5, 6:9, 2:4] = True
    y[1, 0, 9, 6] = True
    y[1, 11, 0, 0] = True
    expected = [share_of_patches_that_meet(region, patch) for region in y]
    assert meeting_probability(y, patch).tolist() == pytest.approx(expected)


def share_of_patches_that_meet(region, patch):
    """Count all patches of a volume, one by one."""
    size = (*patch, 1)[:3]
    lengths = [min(wanted, have) for wanted, have in zip(size, region.shape, strict=True)]
    starts = [range(have - length + 1) for have, length in zip(region.shape, lengths, strict=True)]
    meets = []
    for x, y, z in product(*starts):
        crop = region[x : x + lengths[0], y : y + lengths[1], z : z + lengths[2]]
        meets.append(bool(crop.any()))
    return sum(meets) / len(meets)


def test_missing_a_small_organ_is_a_collapse_only_if_enough_patches_should_have_met_it():
    """One patch in 17 meets it: fifty patches without it can be chance, five hundred cannot."""
    y = torch.zeros(1, 256, 256, 60, dtype=torch.bool)
    y[0, 100:115, 100:115, 30:36] = True
    labelled = foreground_share(y[None].float())
    probability = meeting_probability(y, (40, 48, 24))
    assert collapse(torch.zeros(1), labelled, 50 * probability) is None
    assert collapse(torch.zeros(1), labelled, 500 * probability) == "empty"


def test_the_guard_acts_three_times_at_most(tumours, tmp_path, monkeypatch):
    judge(monkeypatch, None, *["empty"] * 20)
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=12, validate_every=2)
    assert log["alpha_factor"].tolist()[::2] == pytest.approx([1.0, 1.0, 0.1, 0.01, 0.001, 0.001])
    actions = facts(tmp_path / "run")["guard"]["acts"]
    assert [action["after_step"] for action in actions] == [4, 6, 8]
    assert [action["alpha_factor"] for action in actions] == pytest.approx([0.1, 0.01, 0.001])
    assert {action["pseudo_labels"] for action in actions} == {"empty"}


def test_the_evidence_and_a_puzzle_are_no_losses_against_pseudo_labels():
    terms = scalars(labelled=2.0, unlabelled=0.5, evidence=3.0, kl=1.0, jigsaw=7.0)
    assert Losses(terms).unlabelled_to_labelled == 0.25


def test_pseudo_labels_of_two_networks_add_up():
    assert Losses(scalars(labelled=2.0, first=1.0, second=3.0)).unlabelled_to_labelled == 2


def test_without_pseudo_labels_the_ratio_of_the_losses_is_0():
    assert Losses(scalars(labelled=0.0, jigsaw=3.0)).unlabelled_to_labelled == 0


def test_the_labelled_part_of_mixed_images_counts_as_labelled():
    terms = scalars(labelled=2.0, mixed=3.0)
    logged = scalars(mixed_true=2.0, unlabelled=1.0)
    assert Losses(terms, logged=logged).unlabelled_to_labelled == 0.25


def test_pseudo_labels_are_counted_before_they_are_mixed_with_labels(network, batch):
    """Guard and log see full pseudo-labels as full, even if mixed images are mostly labelled."""
    method = SegPLEM(start=0, warm_up=0, prior=Fixed(threshold=0.001))
    losses = method.losses(method.build(network), batch, 1.0)
    assert foreground_share(losses.y_u).min() > 0.99
    assert health(losses, batch)["pseudo_foreground"] > 0.99
    assert health(losses, batch)["labelled_foreground"] == batch.y_l.mean()


@pytest.mark.slow
def test_with_an_absurd_alpha_only_a_guarded_run_learns(tumours, tmp_path, capsys):
    free = run(tumours, tmp_path / "free", alpha=20.0, guard=False)
    assert (free["alpha_factor"] == 1).all()
    guarded = run(tumours, tmp_path / "guarded", alpha=20.0)
    assert guarded["alpha_factor"].iloc[-1] < 0.1
    assert guarded["validation_iou"].max() > 2 * free["validation_iou"].max()
    assert "the pseudo-labels have become empty, but the labels are not" in capsys.readouterr().err


def test_the_guard_returns_to_the_last_healthy_checkpoint(tumours, tmp_path, monkeypatch):
    """Declared empty at step 20: the weights become those of step 10, and alpha a tenth."""
    judge(monkeypatch, None, "empty", None)
    weights = []
    act = Guard.on_train_epoch_end

    def record_weights(learner):
        weights.append([weight.clone() for weight in learner.model.parameters()])

    def act_and_record(self, trainer, learner):
        record_weights(learner)
        act(self, trainer, learner)
        record_weights(learner)

    monkeypatch.setattr(Guard, "on_train_epoch_end", act_and_record)
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=30, validate_every=10)
    assert log["alpha_factor"].tolist() == pytest.approx([1.0] * 20 + [0.1] * 10)
    healthy = weights[1]
    collapsed = weights[2]
    restored = weights[3]
    assert all(map(torch.equal, healthy, restored))
    assert not all(map(torch.equal, collapsed, restored))
    assert log["learning_rate"].is_monotonic_decreasing, "the decay continues"
    best = torch.load(tmp_path / "run/checkpoints/best.ckpt", weights_only=False)
    assert best["global_step"] != 20, "weights that were not validated are not the best"


def test_the_score_of_replaced_weights_is_logged_and_saves_no_checkpoint(
    tumours, tmp_path, monkeypatch
):
    """The guard acts after every validation but the first, so only the first can be the best."""
    judge(monkeypatch, None, "empty", "empty", "empty")
    ious = [0.1, 0.9, 0.8, 0.7]
    remaining = iter(ious)
    monkeypatch.setattr("segpl.training.learner.iou", lambda *_: torch.tensor([next(remaining)]))
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=8, validate_every=2)
    assert log["validation_iou"].dropna().tolist() == pytest.approx(ious)
    best = torch.load(tmp_path / "run/checkpoints/best.ckpt", weights_only=False)
    assert best["global_step"] == 2


def test_a_run_whose_only_validation_does_not_count_keeps_its_last_weights(
    tumours, tmp_path, monkeypatch
):
    judge(monkeypatch, "empty")
    monkeypatch.setattr(Guard, "_count_actions", lambda *_: 2)  # the second action starts again
    monkeypatch.setattr(Guard, "EARLY_RATIO", -1)
    run(tumours, tmp_path / "run", alpha=0.1, steps=2, validate_every=2)
    assert not (tmp_path / "run/checkpoints/best.ckpt").exists()
    assert (tmp_path / "run/model.safetensors").is_file()


def test_the_guard_works_without_validation_subjects(tumours, tmp_path, monkeypatch):
    judge(monkeypatch, None, "empty", None)
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=6, validate_every=2, validation=0)
    assert log["alpha_factor"].iloc[-1] == pytest.approx(0.1)
    assert log["validation_iou"].isna().all()


def test_the_state_of_the_guard_survives_a_stop(tumours, tmp_path, monkeypatch):
    settings = {"alpha": 100.0, "steps": 60}
    undisturbed = run(tumours, tmp_path / "undisturbed", **settings)
    step = Learner.training_step

    def stop_at_step_50(self, batch, index):
        if self.global_step == 50:
            raise KeyboardInterrupt
        return step(self, batch, index)

    monkeypatch.setattr(Learner, "training_step", stop_at_step_50)
    with pytest.raises(KeyboardInterrupt):
        run(tumours, tmp_path / "stopped", **settings)
    assert not facts(tmp_path / "stopped")["finished"]
    monkeypatch.undo()
    resumed = run(tumours, tmp_path / "stopped", **settings)
    pd.testing.assert_frame_equal(resumed, undisturbed)
    guard = facts(tmp_path / "undisturbed")["guard"]
    assert guard["acts"], "the guard acted before and after the stop"
    assert facts(tmp_path / "stopped")["guard"] == guard


def test_a_healthy_run_is_left_alone_and_its_health_is_logged(tumours, tmp_path):
    log = run(tumours, tmp_path / "run", alpha=0.05)
    assert (log["alpha_factor"] == 1).all()
    logged = {"pseudo_foreground", "labelled_foreground", "unlabelled_to_labelled"}
    assert logged <= set(log.columns)
    changed = log["pseudo_changed"].dropna()
    assert len(changed) == 10
    assert changed.iloc[-1] < changed.iloc[0], "EM converges as the learning rate decays"
