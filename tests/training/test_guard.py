"""The pseudo-label monitor and its guard, in real runs on phantoms."""

import json
from itertools import product

import pandas as pd
import pytest
import torch

from segpl.em.thresholds import Fixed
from segpl.em.types import Losses
from segpl.methods.segpl_em import SegPLEM
from segpl.settings.planning import plan_run
from segpl.training.guard import Guard, collapse, health, met, shares
from segpl.training.loop import Learner, train


@pytest.mark.parametrize(
    ("pseudo", "labelled", "expected", "word"),
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
def test_collapse_by_hand(pseudo, labelled, expected, word):
    assert collapse(torch.tensor(pseudo), torch.tensor(labelled), torch.tensor(expected)) == word


@pytest.mark.parametrize("patch", [(4, 6, 3), (5, 20, 1), (4, 6)])
def test_how_likely_a_patch_meets_a_region_is_what_counting_all_patches_says(patch):
    y = torch.zeros(3, 12, 10, 7, dtype=torch.bool)
    y[0, 3:5, 6:9, 2:4] = y[1, 0, 9, 6] = y[1, 11, 0, 0] = True
    size = [min(wanted, length) for wanted, length in zip((*patch, 1), y.shape[1:], strict=False)]
    corners = product(
        *(range(length - wanted + 1) for wanted, length in zip(size, y.shape[1:], strict=True))
    )
    cuts = [tuple(slice(c, c + n) for c, n in zip(corner, size, strict=True)) for corner in corners]
    counted = [sum(bool(region[cut].any()) for cut in cuts) / len(cuts) for region in y]
    assert met(y, patch).tolist() == pytest.approx(counted)


def test_perfect_pseudo_labels_of_a_small_organ_are_no_collapse():
    """One patch in 17 meets it: fifty patches without it are nothing strange, five hundred are."""
    y = torch.zeros(1, 256, 256, 60, dtype=torch.bool)
    y[0, 100:115, 100:115, 30:36] = True
    labelled, none = shares(y[None].float()), torch.zeros(1)
    assert collapse(none, labelled, 50 * met(y, (40, 48, 24))) is None
    assert collapse(none, labelled, 500 * met(y, (40, 48, 24))) == "empty"


def test_the_guard_goes_back_three_times_at_most(tumours, tmp_path, monkeypatch):
    judgements = iter([None, *["empty"] * 20])
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: next(judgements))
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=12, validate_every=2)
    assert log["alpha_factor"].tolist()[::2] == pytest.approx([1.0, 1.0, 0.1, 0.01, 0.001, 0.001])
    acts = facts(tmp_path / "run")["guard"]["acts"]
    assert [act["after_step"] for act in acts] == [4, 6, 8]
    assert [act["alpha_factor"] for act in acts] == pytest.approx([0.1, 0.01, 0.001])
    assert {act["pseudo_labels"] for act in acts} == {"empty"}


def test_only_pseudo_labels_pull():
    """By hand: segpl-elbo's evidence and a puzzle teach, but no pseudo-label; before labels count, nothing pulls."""
    terms = {"labelled": 2.0, "unlabelled": 0.5, "evidence": 3.0, "kl": 1.0, "jigsaw": 7.0}
    assert Losses({name: torch.tensor(value) for name, value in terms.items()}).pull == 0.25
    assert (
        Losses(
            {"labelled": torch.tensor(2.0), "first": torch.tensor(1.0), "second": torch.tensor(3.0)}
        ).pull
        == 2
    )
    assert Losses({"labelled": torch.tensor(0.0), "jigsaw": torch.tensor(3.0)}).pull == 0


def test_the_labelled_part_of_mixed_images_counts_as_labelled():
    terms = {"labelled": torch.tensor(2.0), "mixed": torch.tensor(3.0)}
    parts = {"mixed_true": torch.tensor(2.0), "unlabelled": torch.tensor(1.0)}
    assert Losses(terms, watched=parts).pull == 0.25


def test_pseudo_labels_are_counted_before_they_are_mixed_with_labels(network, batch):
    """Full pseudo-labels are seen as full by guard and log, however much of the mixed images is labelled."""
    method = SegPLEM(start=0, warm_up=0, prior=Fixed(threshold=0.001))
    losses = method.losses(method.build(network), batch, 1.0)
    assert shares(losses.y_u).min() > 0.99
    assert health(losses, batch)["pseudo_foreground"] > 0.99
    assert health(losses, batch)["labelled_foreground"] == batch.y_l.mean()


def facts(directory):
    return json.loads((directory / "facts.json").read_text())


def run(tumours, directory, alpha, **settings):
    method = {"name": "segpl", "alpha": alpha}
    small = {
        "labelled": 1,
        "validation": 1,
        "patch": [32, 32],
        "channels": 4,
        "ratio": 2,
        "learning_rate": 0.01,
        "foreground": 1.0,
    }
    planned = plan_run(
        tumours, {"method": method, "steps": 150, "validate_every": 15, **small, **settings}
    )
    train(planned, directory, resume=True)
    return pd.read_csv(directory / "log.csv")


@pytest.mark.slow
def test_an_absurd_alpha_teaches_nothing_without_the_guard_and_something_with_it(
    tumours, tmp_path, capsys
):
    free = run(tumours, tmp_path / "free", alpha=20.0, guard=False)
    assert (free["alpha_factor"] == 1).all()
    guarded = run(tumours, tmp_path / "guarded", alpha=20.0)
    assert guarded["alpha_factor"].iloc[-1] < 0.1
    assert guarded["validation_iou"].max() > 2 * free["validation_iou"].max()
    assert "the pseudo-labels have gone empty and the labels are not" in capsys.readouterr().err


def test_the_guard_returns_to_the_last_healthy_checkpoint(tumours, tmp_path, monkeypatch):
    """Pseudo-labels that are declared empty at step 20: the weights become those of step 10, and alpha a tenth."""
    judgements = iter([None, "empty", None])
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: next(judgements))
    kept, keep = [], Guard.on_train_epoch_end

    def kept_before_and_after(self, trainer, learner):
        kept.append([weight.clone() for weight in learner.model.parameters()])
        keep(self, trainer, learner)
        kept.append([weight.clone() for weight in learner.model.parameters()])

    monkeypatch.setattr(Guard, "on_train_epoch_end", kept_before_and_after)
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=30, validate_every=10)
    assert log["alpha_factor"].tolist() == pytest.approx([1.0] * 20 + [0.1] * 10)
    healthy, sick, restored = kept[1], kept[2], kept[3]
    best = torch.load(tmp_path / "run/checkpoints/best.ckpt", weights_only=False)
    assert best["global_step"] != 20, "weights that were not validated are not the best"
    assert all(torch.equal(a, b) for a, b in zip(healthy, restored, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(sick, restored, strict=True))
    assert log["learning_rate"].is_monotonic_decreasing, "the decay goes on"


def test_the_score_of_weights_that_were_replaced_stays_in_the_log_and_keeps_no_checkpoint(
    tumours, tmp_path, monkeypatch
):
    """Every validation but the first is followed by a return: only the first can be the best."""
    judgements = iter([None, "empty", "empty", "empty"])
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: next(judgements))
    scores = iter([0.1, 0.9, 0.8, 0.7])
    monkeypatch.setattr("segpl.training.loop.iou", lambda *_: torch.tensor([next(scores)]))
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=8, validate_every=2)
    assert log["validation_iou"].dropna().tolist() == pytest.approx([0.1, 0.9, 0.8, 0.7])
    best = torch.load(tmp_path / "run/checkpoints/best.ckpt", weights_only=False)
    assert best["global_step"] == 2


def test_a_run_whose_only_validation_does_not_count_keeps_its_last_weights(
    tumours, tmp_path, monkeypatch
):
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: "empty")
    monkeypatch.setattr(Guard, "_acts", lambda self, learner: 2)  # the second time it begins again
    monkeypatch.setattr(Guard, "YOUNG", -1)
    run(tumours, tmp_path / "run", alpha=0.1, steps=2, validate_every=2)
    assert not (tmp_path / "run/checkpoints/best.ckpt").exists()
    assert (tmp_path / "run/model.safetensors").is_file()


def test_the_guard_makes_up_no_validation_where_there_is_none(tumours, tmp_path, monkeypatch):
    judgements = iter([None, "empty", None])
    monkeypatch.setattr("segpl.training.guard.collapse", lambda *_: next(judgements))
    log = run(tumours, tmp_path / "run", alpha=0.1, steps=6, validate_every=2, validation=0)
    assert log["alpha_factor"].iloc[-1] == pytest.approx(0.1)
    assert log["validation_iou"].isna().all()


def test_what_the_guard_did_survives_a_stop(tumours, tmp_path, monkeypatch):
    settings = {"alpha": 100.0, "steps": 60}
    whole = run(tumours, tmp_path / "whole", **settings)
    step = Learner.training_step

    def stumble(self, batch, index):
        if self.global_step == 50:
            raise KeyboardInterrupt
        return step(self, batch, index)

    monkeypatch.setattr(Learner, "training_step", stumble)
    with pytest.raises(KeyboardInterrupt):
        run(tumours, tmp_path / "stopped", **settings)
    monkeypatch.undo()
    assert not facts(tmp_path / "stopped")["finished"]
    pd.testing.assert_frame_equal(run(tumours, tmp_path / "stopped", **settings), whole)
    assert facts(tmp_path / "whole")["guard"]["acts"], "the guard acted before and after the stop"
    assert facts(tmp_path / "stopped")["guard"] == facts(tmp_path / "whole")["guard"]


def test_a_healthy_run_is_left_alone_and_its_health_is_logged(tumours, tmp_path):
    log = run(tumours, tmp_path / "run", alpha=0.05)
    assert (log["alpha_factor"] == 1).all()
    columns = {
        "pseudo_foreground",
        "labelled_foreground",
        "unlabelled_to_labelled",
        "pseudo_changed",
    }
    assert columns <= set(log.columns)
    changed = log["pseudo_changed"].dropna()
    assert len(changed) == 10
    assert changed.iloc[-1] < changed.iloc[0], "EM settles as the learning rate decays"
