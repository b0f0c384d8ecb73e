"""What holds for every method, without naming one: whoever adds a method is tested by this file."""

from dataclasses import fields

import pytest
import torch
from untrained import untrained

from segpl.cli import describe
from segpl.methods import METHODS
from segpl.settings.run import run_from

TYPES = list(METHODS.values())
pytestmark = pytest.mark.parametrize("kind", TYPES, ids=list(METHODS))


def built(kind, network, **settings):
    torch.manual_seed(0)
    method = kind(**settings)
    return method, method.build(network)


def test_losses_are_finite_and_add_up(kind, network, batch):
    method, model = built(kind, network)
    losses = method.losses(model, batch, progress=0.5)
    assert all(torch.isfinite(term) for term in losses.terms.values())
    assert losses.total.item() == pytest.approx(
        sum(term.item() for term in losses.terms.values()), rel=1e-5
    )


def test_every_trainable_weight_gets_a_gradient(kind, network, batch):
    method, model = built(kind, network)
    method.losses(model, batch, progress=1.0).total.backward()
    idle = [
        name
        for name, weight in model.named_parameters()
        if weight.requires_grad and not moved(weight)
    ]
    assert not idle


def moved(weight):
    return weight.grad is not None and weight.grad.abs().max() > 0


def test_predictions_are_probabilities(kind, network, batch, patch):
    method, model = built(kind, network)
    p = method.predict(model, batch.x_u, samples=5)
    assert p.shape == (5, 3, 2, *patch)
    assert p.min() >= 0
    assert p.max() <= 1


def test_same_seed_same_loss(kind, network, batch):
    first, again = (
        method.losses(model, batch, 0.7).total
        for method, model in [built(kind, network) for _ in range(2)]
    )
    assert torch.equal(first, again)


def test_draws_belong_to_the_image_not_to_its_place(kind, network, batch):
    """Turning the unlabelled images round turns what is drawn for them round, so processes can share a batch."""
    method, model = built(kind, network)
    turned = batch._replace(x_u=batch.x_u.flip(0), seeds_u=batch.seeds_u.flip(0))
    straight, round_ = (method.losses(model, each, 1.0).total for each in (batch, turned))
    torch.testing.assert_close(straight, round_)


def test_learns_one_batch(kind, network, batch):
    method, model = built(kind, network)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    history = []
    for _ in range(30):
        loss = method.losses(model, batch, progress=1.0)
        history.append(loss.terms["labelled"].item())
        optimiser.zero_grad()
        loss.total.backward()
        optimiser.step()
    assert history[-1] < 0.8 * history[0]


def test_says_whether_unlabelled_images_have_a_part_in_its_weights(kind, network, batch):
    """With an alpha of 0: other unlabelled images give other gradients exactly if the method says that it learns."""
    has_alpha = "alpha" in {field.name for field in fields(kind)}
    settings = {"alpha": 0.0} if has_alpha else {}
    gradients = []
    for images in (batch.x_u, batch.x_u.flip(-1) + 1):
        method, model = built(kind, network, **settings)
        method.losses(model, batch._replace(x_u=images), progress=1.0).total.backward()
        gradients.append(
            torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])
        )
    learns = not torch.equal(*gradients)
    assert method.learns_from_unlabelled() == learns
    assert kind().learns_from_unlabelled() == kind().uses_unlabelled()


def test_survives_yaml(kind, network, batch):
    run = untrained({"name": kind.name()}, (16, 16))
    assert run.method == kind()
    assert run_from(run.mapping(), "a test") == run


def test_help_text_names_it_and_all_its_settings(kind, network, batch):
    described = describe.methods()[kind.name()]
    assert described.text == kind.__doc__.splitlines()[0]
    documented = {setting.name for setting in (*described.settings, *describe.shared_settings())}
    assert {field.name for field in fields(kind)} <= documented
