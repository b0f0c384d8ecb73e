"""Priors and posteriors against scipy, and Eq. 4 by hand."""

import numpy as np
import pytest
import scipy.stats
import torch

from segpl.em.objectives import dice_per_image
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.thresholds import Beta, Categorical, Confident, Fixed, Normal, Prior, Uniform

P = torch.rand(4, 2, 6, 6, generator=torch.Generator().manual_seed(0))
SEEDS = torch.tensor([1, 2, 3, 4])


def at_start(prior, p=P):
    """The posterior before phi has learnt anything."""
    return prior.posterior([p.new_full(p.shape[:2], start) for start in prior.starts], p, 1.0)


@pytest.mark.parametrize(
    "prior",
    [Normal(mean=0.4), Beta(a=3, b=5), Fixed(threshold=0.3), Uniform()],
    ids=lambda prior: prior.name(),
)
def test_the_first_posterior_is_the_prior(prior):
    torch.testing.assert_close(at_start(prior).kl, torch.zeros(4, 2), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 0.1), (0.4, 0.3), (0.9, 0.2), (0.05, 0.4)])
def test_normal_quantiles_are_those_of_a_normal_cut_to_0_and_1(mean, deviation):
    level = torch.tensor([[0.01, 0.3], [0.5, 0.77], [0.9, 0.99], [0.2, 0.6]])
    ours = at_start(Normal(mean=mean, deviation=deviation)).quantile(level)
    cut = scipy.stats.truncnorm(
        -mean / deviation, (1 - mean) / deviation, loc=mean, scale=deviation
    )
    np.testing.assert_allclose(ours.numpy(), cut.ppf(level.numpy()), atol=1e-4)


def test_beta_quantiles_are_scipys_and_its_draws_follow_them():
    posterior = at_start(Beta(a=3, b=6))
    level = torch.full((4, 2), 0.3)
    np.testing.assert_allclose(
        posterior.quantile(level).numpy(), scipy.stats.beta.ppf(0.3, 3, 6), atol=1e-4
    )
    wide = at_start(Beta(a=3, b=6), torch.rand(2000, 1, 2))
    drawn = wide.draw(torch.arange(2000)).flatten().numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.beta(3, 6).cdf).pvalue > 0.01


def test_eq_6_draws_follow_the_cut_normal():
    drawn = at_start(Normal(), torch.rand(2000, 1, 2)).draw(torch.arange(2000)).flatten().numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.truncnorm(-5, 5, 0.5, 0.1).cdf).pvalue > 0.01


def test_labels_cut_at_uniform_thresholds_are_foreground_as_often_as_their_probability_says():
    p = torch.tensor([0.1, 0.5, 0.83]).expand(4000, 1, 3)
    threshold = at_start(Uniform(), p).draw(torch.arange(4000))
    torch.testing.assert_close(pseudo_label(p, threshold).mean((0, 1)), p[0, 0], atol=0.02, rtol=0)


@pytest.mark.parametrize("kind", Prior.family().values(), ids=Prior.family())
def test_a_draw_belongs_to_the_seed_of_the_image(kind):
    posterior, turned = at_start(kind()), at_start(kind(), P.flip(0))
    torch.testing.assert_close(posterior.draw(SEEDS).flip(0), turned.draw(SEEDS.flip(0)))
    assert ((posterior.draw(SEEDS) > 0) & (posterior.draw(SEEDS) < 1)).all()


def test_eq_4_by_hand():
    """Four voxels, three thresholds: the pseudo-labels, their Dice with p, and Bayes' rule, worked out on paper."""
    p = torch.tensor([[[0.1, 0.4, 0.6, 0.8]]])  # sums to 1.9
    dice = [  # 2 sum(p y) / (sum p + sum y)
        2 * 1.8 / (1.9 + 3),  # T = 0.2 keeps 0.4, 0.6, 0.8
        2 * 1.4 / (1.9 + 2),  # T = 0.5 keeps 0.6, 0.8
        2 * 0.8 / (1.9 + 1),  # T = 0.7 keeps 0.8
    ]
    prior = np.array([0.25, 0.5, 0.25])
    by_hand = np.exp(-(1 - np.array(dice))) * prior
    by_hand /= by_hand.sum()
    posterior = Categorical(thresholds=(0.2, 0.5, 0.7), weights=(1, 2, 1)).posterior(
        [], p, kl_weight=1.0
    )
    np.testing.assert_allclose(posterior.chances[0, 0].numpy(), by_hand, atol=1e-4)
    kl = (by_hand * np.log(by_hand / prior)).sum()
    assert posterior.kl.item() == pytest.approx(kl, abs=1e-4)
    assert posterior.mean.item() == pytest.approx((by_hand * [0.2, 0.5, 0.7]).sum(), abs=1e-4)
    levels = [by_hand[0] - 0.01, by_hand[0] + 0.01, 0.999]
    drawn = [posterior.quantile(torch.tensor([[level]])).item() for level in levels]
    assert drawn == pytest.approx([0.2, 0.5, 0.7])


def test_eq_7_the_exact_posterior_minimises_the_bound():
    """No other distribution over the grid has a smaller expected loss plus weighted KL (Eq. 7)."""
    weight, thresholds = 0.3, (0.2, 0.4, 0.6, 0.8)
    posterior = Categorical(thresholds=thresholds).posterior([], P, weight)
    losses = torch.stack([dice_per_image(P, (t < P).float()) for t in thresholds], -1)

    def bound(chances):
        return (chances * losses).sum(-1) + weight * (
            chances * (chances * len(thresholds)).log()
        ).sum(-1)

    best = bound(posterior.chances)
    for seed in range(20):
        other = torch.rand(4, 2, 4, generator=torch.Generator().manual_seed(seed)) + 1e-3
        assert (bound(other / other.sum(-1, keepdim=True)) >= best - 1e-6).all()


def test_a_confident_prior_follows_the_model():
    sure, shy = Confident(), torch.tensor([[[0.0, 0.3]]])
    assert sure.centre(shy).item() == pytest.approx((0.5 + 0.15) / 2)
    assert sure.centre(torch.tensor([[[0.0, 1.0]]])).item() == pytest.approx(0.5)
