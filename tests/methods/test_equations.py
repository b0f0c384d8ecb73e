"""The paper's equations, and the identities between its methods."""

from math import log

import pytest
import torch
from torch import distributions
from torch.distributions import kl_divergence

from segpl.em.objectives import dice_loss
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.thresholds import Normal
from segpl.em.types import Batch
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_vi import SegPLVI
from segpl.methods.supervised import Supervised


def gradients(method, model, batch, progress=1.0):
    model.zero_grad()
    method.losses(model, batch, progress).total.backward()
    return {
        name.removeprefix("theta."): weight.grad.clone()
        for name, weight in model.named_parameters()
    }


def test_a_batch_has_no_room_for_labels_of_unlabelled_images():
    assert Batch._fields == ("x_l", "y_l", "x_p", "y_p", "x_u", "seeds_l", "seeds_u")


def test_eq_2_a_small_step_with_the_labels_fixed_lowers_the_loss(network, batch):
    model, method = network(), SegPL(alpha=0.3)
    before = method.losses(model, batch, 1.0)
    before.total.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.001 * weight.grad
        p_l, p_u = model(batch.x_l).sigmoid(), model(batch.x_u).sigmoid()
        after = method.fit(p_l, batch.y_l) + 0.3 * method.fit(p_u, before.y_u)
    assert after < before.total


def test_eq_3_segpl_by_hand(network, batch):
    model = network()
    p_l, p_u = model(batch.x_l).sigmoid(), model(batch.x_u).sigmoid()
    by_hand = dice_loss(p_l, batch.y_l) + 0.3 * dice_loss(p_u, (p_u > 0.6).float())
    torch.testing.assert_close(
        SegPL(objective="dice", alpha=0.3, threshold=0.6).losses(model, batch, 1.0).total, by_hand
    )


def test_eq_3_with_alpha_0_is_supervised(network, batch):
    model = network()
    ours, theirs = gradients(SegPL(alpha=0), model, batch), gradients(Supervised(), model, batch)
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, msg=name)


def test_warm_up_scales_only_the_unlabelled_term(network, batch):
    model, method = network(), SegPL(alpha=0.4, start=0.2, warm_up=0.4)
    terms = [method.losses(model, batch, progress).terms for progress in (0.1, 0.4, 1.0)]
    assert terms[0]["unlabelled"].item() == 0
    assert terms[1]["unlabelled"].item() == pytest.approx(terms[2]["unlabelled"].item() / 2)
    assert terms[0]["labelled"].item() == terms[2]["labelled"].item()


def without_spread(method, network):
    """A model whose posterior is a point at 1/2, whatever the image."""
    model = method.build(network)
    for layer, bias in zip(model["phi"].numbers, (0.0, -20.0), strict=True):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.constant_(layer.bias, bias)
    return model


def test_segpl_vi_without_spread_at_one_half_is_segpl(network, batch):
    method = SegPLVI(alpha=0.7)
    model = without_spread(method, network)
    ours, theirs = (
        gradients(method, model, batch),
        gradients(SegPL(alpha=0.7), model["theta"], batch),
    )
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, msg=name)
    p = method.predict(model, batch.x_u, samples=3)
    torch.testing.assert_close(p, model["theta"](batch.x_u).sigmoid().expand_as(p))


def test_eq_8_kl_equals_torch_distributions():
    mu, sigma, mu_beta, sigma_beta = 0.62, 0.23, 0.4, 0.1
    eq_8 = (
        torch.log(torch.tensor(sigma_beta))
        - torch.log(torch.tensor(sigma))
        + (sigma**2 + (mu - mu_beta) ** 2) / (2 * sigma_beta**2)
        - 0.5
    )
    numbers = [torch.full((1, 1), log(mu / (1 - mu))), torch.full((1, 1), log(sigma))]
    posterior = Normal(mean=mu_beta, deviation=sigma_beta).posterior(
        numbers, torch.rand(1, 1, 4, 4), kl_weight=1.0
    )
    torch.testing.assert_close(posterior.kl.squeeze(), eq_8)
    torch.testing.assert_close(
        kl_divergence(distributions.Normal(mu, sigma), distributions.Normal(mu_beta, sigma_beta)),
        eq_8,
    )


def test_eq_8_is_eq_3_plus_the_kl(network, batch):
    method = SegPLVI(objective="dice", alpha=0.5, prior=Normal(mean=0.4))
    model = method.build(network)
    torch.nn.init.constant_(model["phi"].numbers[0].bias, 1.0)  # off the prior
    losses = method.losses(model, batch, 1.0)
    mu, log_sigma = model["phi"](model["theta"].features(batch.x_u))
    eq_8 = (
        log(0.1)
        - log_sigma
        + (log_sigma.exp() ** 2 + (mu.sigmoid() - 0.4) ** 2) / (2 * 0.1**2)
        - 0.5
    )
    torch.testing.assert_close(losses.terms["kl"], eq_8.mean())
    p_u = model["theta"](batch.x_u).sigmoid()
    torch.testing.assert_close(losses.terms["unlabelled"], 0.5 * dice_loss(p_u, losses.y_u))


def test_segpl_vi_gives_phi_no_gradient_from_the_data(network, batch):
    method = SegPLVI(alpha=1.0, kl_weight=0.0)
    model = method.build(network)
    method.losses(model, batch, 1.0).total.backward()
    assert all(weight.grad is None or not weight.grad.any() for weight in model["phi"].parameters())


def test_samples_of_segpl_vi_are_masks_cut_at_t(network, batch):
    method = SegPLVI()
    model = method.build(network)
    torch.nn.init.constant_(model["phi"].numbers[0].bias, 0.8)
    features = model["theta"].features(batch.x_u)
    p = model["theta"].head(features).sigmoid()
    posterior = method.posterior(model, features, p)
    (sample,) = method.predict(model, batch.x_u)
    median = posterior.quantile(torch.full_like(posterior.mean, 0.5))
    assert torch.equal(sample > 0.5, pseudo_label(p, median) > 0)
