"""Ignored voxels move with the labels through views, exchanged boxes and validation."""

from types import SimpleNamespace

import pytest
import torch
from untrained import untrained

from segpl.em.types import Batch
from segpl.training.learner import Learner


@pytest.fixture
def learner(monkeypatch):
    """A learner without data or network: only what changes a batch is called."""
    bare = Learner.__new__(Learner)
    torch.nn.Module.__init__(bare)
    bare.run = untrained("supervised", exchange=1.0, augment=1.0, batch=2)
    bare._trainer = SimpleNamespace(global_rank=0, world_size=1)
    monkeypatch.setattr(Learner, "trainer", property(lambda self: self._trainer))
    monkeypatch.setattr(Learner, "device", torch.device("cpu"), raising=False)
    return bare


def test_ignored_voxels_move_with_the_labels(learner):
    """The same voxels are ignored as belong to the region, so both can be compared."""
    x = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(2, 1, 32, 32)
    y[:, :, 5:15, 8:28] = 1
    batch = Batch(
        x_l=x,
        y_l=y,
        x_p=x.flip(2),
        y_p=y.flip(2),
        x_u=x[:0],
        seeds_l=torch.tensor([1, 2]),
        seeds_u=torch.tensor([], dtype=torch.int64),
        ignored_l=y.clone(),
        ignored_p=y.flip(2),
    )
    changed = learner._exchange_boxes(learner._augment(batch, step=3))
    assert not torch.equal(changed.y_l, y)
    assert torch.equal(changed.ignored_l, changed.y_l)


def test_ignored_voxels_do_not_count_in_validation(learner, monkeypatch):
    y = torch.zeros(1, 8, 8, 1, dtype=torch.bool)
    y[:, :2] = True
    ignored = torch.zeros(1, 8, 8, 1, dtype=torch.bool)
    ignored[:, 4:] = True
    everything = torch.ones(1, 8, 8, 1)
    monkeypatch.setattr("segpl.training.learner.predict_volume", lambda *_: everything)
    learner.case_ious = []
    learner.validation_step([torch.zeros(1, 8, 8, 1), y, ignored], 0)
    learner.validation_step([torch.zeros(1, 8, 8, 1), y, None], 0)
    assert [float(value) for value in learner.case_ious] == [0.5, 0.25]
