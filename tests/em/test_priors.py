"""Priors and posteriors of the threshold: against scipy, and Eq. 4 and 7 by hand."""

import numpy as np
import pytest
import scipy.stats
import torch

from segpl.em.bound import Bound
from segpl.em.objectives import IMAGE_OBJECTIVES, dice_per_image
from segpl.em.posteriors import TruncatedNormalPosterior
from segpl.em.priors import Beta, Categorical, Confident, Fixed, Normal, Prior, Uniform
from segpl.em.pseudo_labels import pseudo_label

P = torch.rand(4, 2, 6, 6, generator=torch.Generator().manual_seed(0))
SEEDS = torch.tensor([1, 2, 3, 4])
DICE = Bound(IMAGE_OBJECTIVES["dice"], kl_weight=1.0)


def initial_posterior(prior, p=P):
    """The posterior before phi has learnt anything."""
    phi_outputs = [p.new_full(p.shape[:2], output) for output in prior.initial_outputs]
    return prior.posterior(phi_outputs, p, DICE)


def draws(prior, count=2000):
    """The thresholds of many images with one class, drawn from the initial posterior."""
    posterior = initial_posterior(prior, torch.rand(count, 1, 2))
    return posterior.draw(torch.arange(count)).flatten().numpy()


def assert_distributed(sample, distribution):
    assert scipy.stats.kstest(sample, distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    "prior",
    [Normal(mean=0.4), Beta(a=3, b=5), Fixed(threshold=0.3), Uniform()],
    ids=lambda prior: prior.name(),
)
def test_the_initial_posterior_is_the_prior(prior):
    kl = initial_posterior(prior).kl
    torch.testing.assert_close(kl, torch.zeros(4, 2), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 0.1), (0.4, 0.3), (0.9, 0.2), (0.05, 0.4)])
def test_normal_quantiles_are_those_of_a_normal_truncated_to_0_and_1(mean, deviation):
    level = torch.tensor([[0.01, 0.3], [0.5, 0.77], [0.9, 0.99], [0.2, 0.6]])
    quantile = initial_posterior(Normal(mean=mean, deviation=deviation)).quantile(level)
    low = -mean / deviation
    high = (1 - mean) / deviation
    expected = scipy.stats.truncnorm(low, high, loc=mean, scale=deviation).ppf(level.numpy())
    np.testing.assert_allclose(quantile.numpy(), expected, atol=1e-4)


def test_eq_6_draws_follow_the_truncated_normal():
    assert_distributed(draws(Normal()), scipy.stats.truncnorm(-5, 5, 0.5, 0.1))


def test_beta_quantiles_are_those_of_scipy():
    level = torch.full((4, 2), 0.3)
    quantile = initial_posterior(Beta(a=3, b=6)).quantile(level)
    np.testing.assert_allclose(quantile.numpy(), scipy.stats.beta.ppf(0.3, 3, 6), atol=1e-4)


def test_beta_draws_follow_the_beta_distribution():
    assert_distributed(draws(Beta(a=3, b=6)), scipy.stats.beta(3, 6))


def test_labels_cut_at_uniform_thresholds_are_foreground_as_often_as_their_probability_says():
    p = torch.tensor([0.1, 0.5, 0.83]).expand(4000, 1, 3)
    threshold = initial_posterior(Uniform(), p).draw(torch.arange(4000))
    foreground = pseudo_label(p, threshold).mean((0, 1))
    torch.testing.assert_close(foreground, p[0, 0], atol=0.02, rtol=0)


@pytest.mark.parametrize("prior", Prior.family().values(), ids=Prior.family())
def test_a_draw_depends_on_its_image_and_seed_only(prior):
    threshold = initial_posterior(prior()).draw(SEEDS)
    reversed_threshold = initial_posterior(prior(), P.flip(0)).draw(SEEDS.flip(0))
    torch.testing.assert_close(threshold.flip(0), reversed_threshold)


@pytest.mark.parametrize("prior", Prior.family().values(), ids=Prior.family())
def test_a_draw_lies_between_0_and_1(prior):
    threshold = initial_posterior(prior()).draw(SEEDS)
    assert ((threshold > 0) & (threshold < 1)).all()


def test_a_draw_from_the_very_end_of_a_posterior_has_a_finite_gradient():
    mu = torch.full((1, 2), 0.5, requires_grad=True)
    sigma = torch.full((1, 2), 0.01)
    posterior = TruncatedNormalPosterior(mu, sigma, mu_beta=torch.tensor(0.5), sigma_beta=0.1)
    posterior.quantile(torch.tensor([[0.0, 1.0]])).sum().backward()
    assert mu.grad.isfinite().all()


THRESHOLDS = np.array([0.2, 0.5, 0.7])
PRIOR = np.array([0.25, 0.5, 0.25])


def eq_4_by_hand():
    """Bayes' rule for four voxels and three thresholds, worked out on paper."""
    dice = np.array(  # 2 sum(p y) / (sum p + sum y), with sum p = 1.9
        [
            2 * 1.8 / (1.9 + 3),  # T = 0.2 keeps 0.4, 0.6, 0.8
            2 * 1.4 / (1.9 + 2),  # T = 0.5 keeps 0.6, 0.8
            2 * 0.8 / (1.9 + 1),  # T = 0.7 keeps 0.8
        ]
    )
    likelihood = np.exp(-(1 - dice))
    joint = likelihood * PRIOR
    return joint / joint.sum()


def eq_4_posterior():
    p = torch.tensor([[[0.1, 0.4, 0.6, 0.8]]])
    prior = Categorical(thresholds=(0.2, 0.5, 0.7), weights=(1, 2, 1))
    return prior.posterior([], p, DICE)


def test_eq_4_probabilities_by_hand():
    probabilities = eq_4_posterior().probabilities[0, 0]
    np.testing.assert_allclose(probabilities.numpy(), eq_4_by_hand(), atol=1e-4)


def test_eq_4_mean_and_kl_by_hand():
    posterior = eq_4_posterior()
    by_hand = eq_4_by_hand()
    kl = (by_hand * np.log(by_hand / PRIOR)).sum()
    assert posterior.kl.item() == pytest.approx(kl, abs=1e-4)
    assert posterior.mean.item() == pytest.approx((by_hand * THRESHOLDS).sum(), abs=1e-4)


def test_eq_4_quantiles_by_hand():
    first_probability = eq_4_by_hand()[0]
    quantiles = []
    for level in (first_probability - 0.01, first_probability + 0.01, 0.999):
        quantile = eq_4_posterior().quantile(torch.tensor([[level]], dtype=torch.float32))
        quantiles.append(quantile.item())
    assert quantiles == pytest.approx(THRESHOLDS)


def test_eq_7_the_exact_posterior_minimises_the_bound():
    """No other distribution over the thresholds has a smaller expected loss plus weighted KL."""
    thresholds = (0.2, 0.4, 0.6, 0.8)
    kl_weight = 0.3
    weighted = DICE._replace(kl_weight=kl_weight)
    posterior = Categorical(thresholds=thresholds).posterior([], P, weighted)
    losses = torch.stack([dice_per_image(P, (t < P).float()) for t in thresholds], -1)

    def bound(probabilities):
        expected_loss = (probabilities * losses).sum(-1)
        kl = (probabilities * (probabilities * len(thresholds)).log()).sum(-1)
        return expected_loss + kl_weight * kl

    smallest = bound(posterior.probabilities)
    for seed in range(20):
        weights = torch.rand(4, 2, 4, generator=torch.Generator().manual_seed(seed)) + 1e-3
        other = weights / weights.sum(-1, keepdim=True)
        assert (bound(other) >= smallest - 1e-6).all()


@pytest.mark.parametrize(("largest", "mu_beta"), [(0.3, (0.5 + 0.15) / 2), (1.0, 0.5)])
def test_a_confident_prior_moves_half_way_to_the_middle_of_the_image(largest, mu_beta):
    p = torch.tensor([[[0.0, largest]]])
    assert Confident().mu_beta(p).item() == pytest.approx(mu_beta)
