"""The paper's equations, and how its methods follow from one another."""

from math import log

import pytest
import torch
from torch import distributions
from torch.distributions import kl_divergence

from segpl.em.bound import Bound
from segpl.em.objectives import IMAGE_OBJECTIVES, dice_loss, dice_per_image
from segpl.em.priors import Categorical, Normal
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_elbo import SegPLElbo
from segpl.methods.segpl_vi import SegPLVI
from segpl.methods.supervised import Supervised


def theta_gradients(method, model, batch):
    """The gradient of each weight of theta, by the weight's name in theta."""
    model.zero_grad()
    method.losses(model, batch, progress=1.0).total.backward()
    gradients = {}
    for name, weight in model.named_parameters():
        gradients[name.removeprefix("theta.")] = weight.grad.clone()
    return gradients


def assert_contains(gradients, expected):
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, msg=name)


def test_a_batch_has_no_field_for_labels_of_unlabelled_images():
    about_unlabelled_images = {name for name in Batch._fields if name.endswith("_u")}
    assert about_unlabelled_images == {"x_u", "seeds_u"}
    about_labelled_images = {name for name in Batch._fields if name.endswith(("_l", "_p"))}
    assert about_unlabelled_images | about_labelled_images == set(Batch._fields)


def test_eq_1_segpl_labels_the_unlabelled_images_by_the_network_before_the_step(network, batch):
    model = network()
    losses = SegPL(threshold=0.45).losses(model, batch, progress=1.0)
    assert torch.equal(losses.y_u, (model(batch.x_u).sigmoid() > 0.45).float())
    assert not losses.y_u.requires_grad


def test_eq_2_a_small_step_with_the_labels_fixed_lowers_the_loss(network, batch):
    model = network()
    method = SegPL(alpha=0.3)
    before = method.losses(model, batch, progress=1.0)
    before.total.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.001 * weight.grad
        p_l = model(batch.x_l).sigmoid()
        p_u = model(batch.x_u).sigmoid()
        labelled = method.segmentation_loss(p_l, batch.y_l)
        unlabelled = method.segmentation_loss(p_u, before.y_u)
    assert labelled + 0.3 * unlabelled < before.total


def test_eq_3_segpl_by_hand(network, batch):
    model = network()
    p_l = model(batch.x_l).sigmoid()
    p_u = model(batch.x_u).sigmoid()
    y_u = (p_u > 0.6).float()
    by_hand = dice_loss(p_l, batch.y_l) + 0.3 * dice_loss(p_u, y_u)
    method = SegPL(objective="dice", alpha=0.3, threshold=0.6)
    torch.testing.assert_close(method.losses(model, batch, progress=1.0).total, by_hand)


def test_eq_3_with_alpha_0_is_supervised(network, batch):
    model = network()
    supervised = theta_gradients(Supervised(), model, batch)
    assert_contains(theta_gradients(SegPL(alpha=0), model, batch), supervised)


def test_warm_up_scales_only_the_unlabelled_term(network, batch):
    model = network()
    method = SegPL(alpha=0.4, start=0.2, warm_up=0.4)
    before = method.losses(model, batch, progress=0.1).terms
    during = method.losses(model, batch, progress=0.4).terms
    after = method.losses(model, batch, progress=1.0).terms
    assert before["unlabelled"].item() == 0
    assert during["unlabelled"].item() == pytest.approx(after["unlabelled"].item() / 2)
    assert before["labelled"].item() == after["labelled"].item()


def without_spread(method, network):
    """A model whose posterior is a point at 1/2, whatever the image."""
    model = method.build(network)
    logit_mu, log_sigma = model["phi"].numbers
    torch.nn.init.zeros_(logit_mu.weight)
    torch.nn.init.constant_(logit_mu.bias, 0.0)
    torch.nn.init.zeros_(log_sigma.weight)
    torch.nn.init.constant_(log_sigma.bias, -20.0)
    return model


def test_segpl_vi_without_spread_at_one_half_learns_as_segpl(network, batch):
    method = SegPLVI(alpha=0.7)
    model = without_spread(method, network)
    segpl = theta_gradients(SegPL(alpha=0.7), model["theta"], batch)
    assert_contains(theta_gradients(method, model, batch), segpl)


def test_segpl_vi_without_spread_at_one_half_predicts_as_segpl(network, batch):
    method = SegPLVI()
    model = without_spread(method, network)
    p, samples = method.predict(model, batch.x_u, samples=3)
    torch.testing.assert_close(p, model["theta"](batch.x_u).sigmoid())
    torch.testing.assert_close(samples, p.expand_as(samples))


def test_eq_4_the_posterior_of_segpl_vi_is_bayes_rule_over_the_thresholds(network, batch):
    prior = Categorical(thresholds=(0.3, 0.5, 0.7), weights=(1, 1, 2))
    method = SegPLVI(objective="dice", prior=prior)
    model = method.build(network)
    features = model["theta"].features(batch.x_u)
    p = model["theta"].head(features).sigmoid()
    joint = []
    for threshold, weight in zip(prior.thresholds, prior.weights, strict=True):
        likelihood = (-dice_per_image(p, pseudo_label(p, threshold))).exp()
        joint.append(likelihood * weight / 4)
    expected = torch.stack(joint, dim=-1)
    expected = expected / expected.sum(-1, keepdim=True)
    probabilities = method.posterior(model, features, p).probabilities
    torch.testing.assert_close(probabilities, expected, atol=1e-4, rtol=1e-4)


def test_eq_5_and_eq_6_phi_gives_the_mean_and_the_standard_deviation_of_t(network, batch):
    method = SegPLVI()
    model = method.build(network)
    features = model["theta"].features(batch.x_u)
    logit_mu, log_sigma = model["phi"](features)
    posterior = method.posterior(model, features, batch.x_u.sigmoid())
    torch.testing.assert_close(posterior.mean, logit_mu.sigmoid())
    torch.testing.assert_close(posterior.standard_deviation, log_sigma.exp())


def test_eq_7_the_bound_of_segpl_elbo_is_the_mean_over_many_draws_of_t(network, batch):
    method = SegPLElbo(objective="dice", prior=Normal(mean=0.45, deviation=0.15), kl_weight=0.7)
    model = method.build(network)
    bound = method.losses(model, batch, progress=1.0).logged["bound"]

    features = model["theta"].features(batch.x_u)
    p = model["theta"].head(features).sigmoid()
    posterior = method.posterior(model, features, p)
    levels = (torch.arange(500) + 0.5) / 500
    losses = []
    for level in levels:
        threshold = posterior.quantile(torch.full_like(posterior.mean, level.item()))
        losses.append(dice_per_image(p, pseudo_label(p, threshold)))
    expected_loss = torch.stack(losses).mean()
    by_hand = -expected_loss - 0.7 * posterior.kl.mean()
    torch.testing.assert_close(bound, by_hand.detach(), atol=3e-3, rtol=0)


def eq_8_kl(mu, sigma, mu_beta, sigma_beta):
    """KL(p(T) || q(beta)) as Eq. 8 writes it."""
    return (
        log(sigma_beta)
        - torch.log(sigma)
        + (sigma**2 + (mu - mu_beta) ** 2) / (2 * sigma_beta**2)
        - 0.5
    )


MU = torch.tensor(0.62)
SIGMA = torch.tensor(0.23)


def test_eq_8_is_the_kl_of_torch_distributions():
    posterior = distributions.Normal(MU, SIGMA)
    prior = distributions.Normal(0.4, 0.1)
    torch.testing.assert_close(kl_divergence(posterior, prior), eq_8_kl(MU, SIGMA, 0.4, 0.1))


def test_eq_8_is_the_kl_of_the_posterior():
    phi_outputs = [MU.logit().reshape(1, 1), SIGMA.log().reshape(1, 1)]
    p = torch.rand(1, 1, 4, 4)
    bound = Bound(IMAGE_OBJECTIVES["dice"], kl_weight=1.0)
    posterior = Normal(mean=0.4, deviation=0.1).posterior(phi_outputs, p, bound)
    torch.testing.assert_close(posterior.kl.squeeze(), eq_8_kl(MU, SIGMA, 0.4, 0.1))


def test_eq_8_is_eq_3_plus_the_kl(network, batch):
    method = SegPLVI(objective="dice", alpha=0.5, prior=Normal(mean=0.4))
    model = method.build(network)
    torch.nn.init.constant_(model["phi"].numbers[0].bias, 1.0)  # away from the prior
    losses = method.losses(model, batch, progress=1.0)

    theta = model["theta"]
    logit_mu, log_sigma = model["phi"](theta.features(batch.x_u))
    kl = eq_8_kl(logit_mu.sigmoid(), log_sigma.exp(), 0.4, 0.1)
    torch.testing.assert_close(losses.terms["kl"], kl.mean())

    p_u = theta(batch.x_u).sigmoid()
    torch.testing.assert_close(losses.terms["unlabelled"], 0.5 * dice_loss(p_u, losses.y_u))


def test_segpl_vi_gives_phi_no_gradient_from_the_data(network, batch):
    method = SegPLVI(alpha=1.0, kl_weight=0.0)
    model = method.build(network)
    method.losses(model, batch, progress=1.0).total.backward()
    for weight in model["phi"].parameters():
        assert weight.grad is None or not weight.grad.any()


def test_a_sample_of_segpl_vi_is_a_mask_cut_at_t(network, batch):
    method = SegPLVI()
    model = method.build(network)
    torch.nn.init.constant_(model["phi"].numbers[0].bias, 0.8)
    features = model["theta"].features(batch.x_u)
    p = model["theta"].head(features).sigmoid()
    posterior = method.posterior(model, features, p)
    median = posterior.quantile(torch.full_like(posterior.mean, 0.5))
    (sample,) = method.predict(model, batch.x_u).samples
    assert torch.equal(sample > 0.5, pseudo_label(p, median) > 0)
