"""No loss of any method depends on the label of a voxel that is to be ignored."""

import pytest
import torch

from segpl.em.posteriors import PointPosterior
from segpl.em.threshold_losses import label_losses
from segpl.em.types import Batch
from segpl.methods import METHODS

PROGRESS = 0.9
"""Late enough for unlabelled images to count."""


@pytest.fixture
def half_ignored(batch):
    """The batch without the labels of the upper half of each image."""
    ignored = torch.zeros_like(batch.y_l[:, :1])
    ignored[:, :, :8] = 1
    return batch._replace(ignored_l=ignored, ignored_p=ignored.clone())


def total(method, network, batch):
    torch.manual_seed(3)
    model = method.build(network)
    joined = Batch.join([batch] * method.batches_per_step)
    torch.manual_seed(4)
    return method.losses(model, joined, PROGRESS).total


def other_labels(batch):
    """Other labels where they are ignored, the same elsewhere."""
    y_l = torch.where(batch.ignored_l > 0, 1 - batch.y_l, batch.y_l)
    y_p = torch.where(batch.ignored_p > 0, 1 - batch.y_p, batch.y_p)
    return batch._replace(y_l=y_l, y_p=y_p)


def variants():
    methods = [kind() for kind in METHODS.values()]
    elbo = METHODS["segpl-elbo"](evidence="labelled")
    matched = METHODS["segpl-em"](match_size=True)
    return [*methods, elbo, matched, METHODS["supervised"](objective="dice")]


@pytest.mark.parametrize("method", variants(), ids=lambda method: method.name())
def test_ignored_labels_do_not_change_the_loss(method, network, half_ignored):
    loss = total(method, network, half_ignored)
    assert torch.equal(loss, total(method, network, other_labels(half_ignored)))


@pytest.mark.parametrize("method", variants(), ids=lambda method: method.name())
def test_the_other_labels_do(method, network, half_ignored):
    changed = half_ignored._replace(y_l=1 - half_ignored.y_l, y_p=1 - half_ignored.y_p)
    loss = total(method, network, half_ignored)
    assert not torch.equal(loss, total(method, network, changed))


@pytest.mark.parametrize("name", METHODS)
def test_where_nothing_is_ignored_the_loss_is_as_without(name, network, batch):
    nothing = torch.zeros_like(batch.y_l[:, :1])
    loss = total(METHODS[name](), network, batch._replace(ignored_l=nothing, ignored_p=nothing))
    assert loss.item() == pytest.approx(total(METHODS[name](), network, batch).item(), rel=1e-5)


def test_label_losses_are_those_of_the_counted_voxels():
    p = torch.rand(2, 1, 10, generator=torch.Generator().manual_seed(0))
    y = (p > 0.4).float()
    counted = torch.zeros(2, 1, 10)
    counted[..., :6] = 1
    thresholds = torch.tensor([0.3, 0.5])
    expected = label_losses(p[..., :6], y[..., :6], thresholds)
    assert torch.allclose(label_losses(p, y, thresholds, counted), expected, atol=1e-6)
    posterior = PointPosterior(0.3, p)
    of_posterior = posterior.expected_label_loss(p, y, counted)
    assert torch.allclose(of_posterior, expected[..., 0], atol=1e-6)
