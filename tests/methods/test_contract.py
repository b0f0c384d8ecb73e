"""What every method must fulfil. A new method is tested here without being named."""

from dataclasses import fields

import pytest
import torch
from untrained import untrained

from segpl.em.types import Batch
from segpl.methods import METHODS
from segpl.settings.run import run_from

pytestmark = pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)


def built(kind, network, **settings):
    torch.manual_seed(0)
    method = kind(**settings)
    return method, method.build(network)


def losses_of(method, model, batch, progress):
    """The losses of a step in which each batch that the method asks for is `batch`."""
    batches = [batch] * method.batches_per_step
    return method.losses(model, Batch.join(batches), progress)


def test_losses_are_finite_and_add_up(kind, network, batch):
    method, model = built(kind, network)
    losses = losses_of(method, model, batch, progress=0.5)
    terms = [term.item() for term in losses.terms.values()]
    assert torch.tensor(terms).isfinite().all()
    assert losses.total.item() == pytest.approx(sum(terms), rel=1e-5)


def has_gradient(weight):
    return weight.grad is not None and weight.grad.abs().max() > 0


def test_every_trainable_weight_gets_a_gradient(kind, network, batch):
    method, model = built(kind, network)
    losses_of(method, model, batch, progress=1.0).total.backward()
    without_gradient = []
    for name, weight in model.named_parameters():
        if weight.requires_grad and not has_gradient(weight):
            without_gradient.append(name)
    assert not without_gradient


def test_predictions_are_probabilities(kind, network, batch, patch):
    method, model = built(kind, network)
    p, samples = method.predict(model, batch.x_u, samples=5)
    assert p.shape == (3, 2, *patch)
    assert samples.shape == (5, 3, 2, *patch)
    for values in (p, samples):
        assert values.min() >= 0
        assert values.max() <= 1


def test_the_probability_does_not_depend_on_the_samples(kind, network, batch):
    method, model = built(kind, network)
    one = method.predict(model, batch.x_u).p
    five = method.predict(model, batch.x_u, samples=5).p
    assert torch.equal(one, five)


def test_samples_average_to_the_probability_if_masks_are_cut_at_one_half(kind, network, batch):
    method, model = built(kind, network)
    p, samples = method.predict(model, batch.x_u, samples=5)
    if method.cuts_at_half():
        torch.testing.assert_close(samples.mean(0), p)


def test_the_same_seed_gives_the_same_loss(kind, network, batch):
    totals = []
    for _ in range(2):
        method, model = built(kind, network)
        totals.append(losses_of(method, model, batch, progress=0.7).total)
    assert torch.equal(totals[0], totals[1])


def test_draws_depend_on_the_image_and_not_on_its_index(kind, network, batch):
    """Reversing the unlabelled images and their seeds changes no loss: processes share a batch."""
    method, model = built(kind, network)
    backwards = batch._replace(x_u=batch.x_u.flip(0), seeds_u=batch.seeds_u.flip(0))
    total = losses_of(method, model, batch, 1.0).total
    torch.testing.assert_close(losses_of(method, model, backwards, 1.0).total, total)


def test_a_method_learns_one_batch(kind, network, batch):
    method, model = built(kind, network)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    labelled_losses = []
    for _ in range(30):
        losses = losses_of(method, model, batch, progress=1.0)
        labelled_losses.append(losses.terms["labelled"].item())
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
    assert labelled_losses[-1] < 0.8 * labelled_losses[0]


def gradient(kind, network, batch, **settings):
    """The gradient of all weights of a new model in one vector."""
    method, model = built(kind, network, **settings)
    losses_of(method, model, batch, progress=1.0).total.backward()
    gradients = [w.grad.flatten() for w in model.parameters() if w.grad is not None]
    return torch.cat(gradients)


def test_without_alpha_unlabelled_images_matter_only_if_the_method_says_so(kind, network, batch):
    has_alpha = "alpha" in {field.name for field in fields(kind)}
    settings = {"alpha": 0.0} if has_alpha else {}
    other_images = batch._replace(x_u=batch.x_u.flip(-1) + 1)
    first = gradient(kind, network, batch, **settings)
    second = gradient(kind, network, other_images, **settings)
    assert kind(**settings).learns_from_unlabelled() == (not torch.equal(first, second))


def test_by_default_a_method_learns_from_the_unlabelled_images_it_uses(kind):
    assert kind().learns_from_unlabelled() == kind().uses_unlabelled()


def test_a_method_survives_yaml(kind):
    run = untrained({"name": kind.name()}, (16, 16))
    assert run.method == kind()
    assert run_from(run.mapping(), "a test") == run
