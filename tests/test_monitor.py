"""The pseudo-label monitor and its guard, in real runs on phantoms."""

import pandas as pd
import pytest
import torch

from segpl.monitor import Guard, collapse
from segpl.run import plan_run
from segpl.training import Learner, train
from segpl.types import Losses


@pytest.mark.parametrize(
    ("pseudo", "labelled", "word"),
    [
        ([0.05], [0.06], None),
        ([0.0], [0.06], "empty"),
        ([0.0], [0.0], None),
        ([0.7], [0.06], "full"),
        ([0.05, 0.0001], [0.06, 0.02], "empty"),
        ([0.8], [0.9], None),
    ],
)
def test_collapse_by_hand(pseudo, labelled, word):
    assert collapse(torch.tensor(pseudo), torch.tensor(labelled)) == word


def test_only_pseudo_labels_pull():
    """By hand: segpl-elbo's evidence and a puzzle teach, but no pseudo-label; before labels count, nothing pulls."""
    terms = {"labelled": 2.0, "unlabelled": 0.5, "evidence": 3.0, "kl": 1.0, "jigsaw": 7.0}
    assert Losses({name: torch.tensor(value) for name, value in terms.items()}).pull == 0.25
    assert Losses({"labelled": torch.tensor(2.0), "first": torch.tensor(1.0), "second": torch.tensor(3.0)}).pull == 2
    assert Losses({"labelled": torch.tensor(0.0), "jigsaw": torch.tensor(3.0)}).pull == 0


def run(tumours, directory, alpha, **settings):
    method = {"name": "segpl", "alpha": alpha}
    small = {"labelled": 1, "patch": [32, 32], "channels": 4, "ratio": 2, "learning_rate": 0.01, "foreground": 1.0}
    planned = plan_run(tumours, {"method": method, "steps": 150, "validate_every": 15, **small, **settings})
    train(planned, directory, resume=True)
    return pd.read_csv(directory / "log.csv")


def test_an_absurd_alpha_teaches_nothing_without_the_guard_and_something_with_it(tumours, tmp_path, capsys):
    free = run(tumours, tmp_path / "free", alpha=20.0, guard=False)
    assert (free["alpha_factor"] == 1).all()
    guarded = run(tumours, tmp_path / "guarded", alpha=20.0)
    assert guarded["alpha_factor"].iloc[-1] < 0.1
    assert guarded["validation_iou"].max() > 2 * free["validation_iou"].max()
    assert "the pseudo-labels have gone empty and the labels are not" in capsys.readouterr().err


def test_the_guard_returns_to_the_last_healthy_checkpoint(tumours, tmp_path, monkeypatch):
    """Pseudo-labels that are declared empty at step 20: the weights become those of step 10, and alpha a tenth."""
    judgements = iter([None, "empty", None])
    monkeypatch.setattr("segpl.monitor.collapse", lambda *_: next(judgements))
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
    pd.testing.assert_frame_equal(run(tumours, tmp_path / "stopped", **settings), whole)


def test_a_healthy_run_is_left_alone_and_its_health_is_logged(tumours, tmp_path):
    log = run(tumours, tmp_path / "run", alpha=0.05)
    assert (log["alpha_factor"] == 1).all()
    columns = {"pseudo_foreground", "labelled_foreground", "unlabelled_to_labelled", "pseudo_changed"}
    assert columns <= set(log.columns)
    changed = log["pseudo_changed"].dropna()
    assert len(changed) == 10
    assert changed.iloc[-1] < changed.iloc[0], "EM settles as the learning rate decays"
