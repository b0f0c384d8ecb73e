"""The bound of Eq. 7 and its gradient, against an exact sum over the probabilities of an image."""

import numpy as np
import pytest
import scipy.stats
import torch

from segpl.em.bound import Bound
from segpl.em.objectives import IMAGE_OBJECTIVES
from segpl.em.priors import Beta, Categorical, Confident, Fixed, Normal, Uniform

STEP = 1e-3
"""Of finite differences."""


def noise(count):
    return torch.rand(count, generator=torch.Generator().manual_seed(count))


def confident():
    """A tenth of the voxels is foreground, and few voxels are in doubt."""
    return torch.cat([0.02 * noise(3500), noise(100), 1 - 0.02 * noise(400)])


def timid():
    """No probability reaches 0.45."""
    return torch.cat([0.1 * noise(3500), 0.1 + 0.35 * noise(500)])


def mixed():
    """Much background near 0, and foreground of all probabilities."""
    return torch.cat([0.03 * noise(3000), noise(1000)])


NETWORKS = {"confident": confident, "timid": timid, "mixed": mixed}
PRIORS = {"normal": Normal(mean=0.45), "beta": Beta(a=9, b=11)}
WEIGHTS = {"with kl": 1.0, "without kl": 0.0}


def exact_loss(p, above, name):
    """The loss of p against a label that holds the voxels `above`."""
    smoothing = 1.0 if name == "batch-dice+bce" else 1e-5
    dice = (2 * p[above].sum() + smoothing) / (p.sum() + above.sum() + smoothing)
    likelihood = np.where(above, p, 1 - p)
    bce = -np.log(likelihood).mean()
    return 1 - dice if name == "dice" else 0.5 * (1 - dice) + 0.5 * bce


def exact_losses(p, name):
    """L(T) between any two neighbouring probabilities: the edges, and one loss for each gap."""
    edges = np.concatenate([[0.0], np.unique(p), [1.0]])
    losses = [exact_loss(p, p > edge, name) for edge in edges[:-1]]
    return edges, np.array(losses)


def normal_bound(outputs, edges, losses, kl_weight):
    mu = 1 / (1 + np.exp(-outputs[0]))
    sigma = np.exp(outputs[1])
    prior = PRIORS["normal"]
    truncated = scipy.stats.truncnorm(-mu / sigma, (1 - mu) / sigma, loc=mu, scale=sigma)
    variance_ratio = (sigma**2 + (mu - prior.mean) ** 2) / (2 * prior.deviation**2)
    kl = np.log(prior.deviation / sigma) + variance_ratio - 0.5
    return -(losses * np.diff(truncated.cdf(edges))).sum() - kl_weight * kl


def beta_bound(outputs, edges, losses, kl_weight):
    posterior = scipy.stats.beta(*np.exp(outputs))
    prior = scipy.stats.beta(PRIORS["beta"].a, PRIORS["beta"].b)
    kl = posterior.expect(lambda t: posterior.logpdf(t) - prior.logpdf(t))
    return -(losses * np.diff(posterior.cdf(edges))).sum() - kl_weight * kl


EXACT_BOUNDS = {"normal": normal_bound, "beta": beta_bound}


def finite_differences(function, at):
    gradient = []
    for index in range(len(at)):
        shift = np.zeros(len(at))
        shift[index] = STEP
        gradient.append((function(at + shift) - function(at - shift)) / (2 * STEP))
    return np.array(gradient)


@pytest.mark.parametrize("kl_weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("name", IMAGE_OBJECTIVES)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("prior", PRIORS)
def test_eq_7_the_bound_and_its_gradient_are_the_exact_ones(prior, network, name, kl_weight):
    p = network()
    edges, losses = exact_losses(p.double().numpy(), name)
    # away from the prior, so that the KL has a gradient too
    outputs = np.add(PRIORS[prior].initial_outputs, [0.3, -0.2])

    def exact(at):
        return EXACT_BOUNDS[prior](at, edges, losses, kl_weight)

    phi_outputs = [torch.full((1, 1), output, requires_grad=True) for output in outputs.tolist()]
    bound = Bound(IMAGE_OBJECTIVES[name], kl_weight)
    maps = p.reshape(1, 1, -1)
    value = bound.value(PRIORS[prior].posterior(phi_outputs, maps, bound), maps)
    gradient = [slope.item() for slope in torch.autograd.grad(value.sum(), phi_outputs)]

    assert value.item() == pytest.approx(exact(outputs), abs=1e-3)
    expected = finite_differences(exact, outputs)
    assert gradient == pytest.approx(expected, rel=0.02, abs=1e-3)
    clear = np.abs(expected) > 2e-3
    assert (np.sign(gradient) == np.sign(expected))[clear].all()


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_eq_7_the_bound_of_a_categorical_posterior_is_the_log_of_its_evidence(network):
    """At the posterior of Eq. 4 the bound is tight: w log sum_i p(T = i) exp(-L(i) / w)."""
    bound = Bound(IMAGE_OBJECTIVES["dice+bce"], kl_weight=0.3)
    p = network().reshape(1, 1, -1)
    prior = Categorical(thresholds=(0.2, 0.5, 0.7), weights=(1, 2, 1))
    value = bound.value(prior.posterior([], p, bound), p)
    voxels = p.flatten().double().numpy()
    losses = [exact_loss(voxels, voxels > t, "dice+bce") for t in prior.thresholds]
    evidence = (np.array([0.25, 0.5, 0.25]) * np.exp(-np.array(losses) / 0.3)).sum()
    assert value.item() == pytest.approx(0.3 * np.log(evidence), abs=1e-5)


def test_eq_4_the_categorical_posterior_uses_the_objective_of_the_bound():
    p = timid().reshape(1, 1, -1)
    voxels = p.flatten().double().numpy()
    prior = Categorical(thresholds=(0.1, 0.3, 0.5))
    for name, objective in IMAGE_OBJECTIVES.items():
        posterior = prior.posterior([], p, Bound(objective, kl_weight=0.1))
        losses = np.array([exact_loss(voxels, voxels > t, name) for t in prior.thresholds])
        expected = np.exp(-losses / 0.1) / np.exp(-losses / 0.1).sum()
        np.testing.assert_allclose(posterior.probabilities[0, 0].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("prior", [Normal(deviation=0.3), Confident(), Beta(a=0.7, b=2), Uniform()])
def test_the_cells_of_a_posterior_hold_all_its_probability(prior):
    p = torch.rand(2, 3, 5)
    phi_outputs = [p.new_full((2, 3), output) for output in prior.initial_outputs]
    posterior = prior.posterior(phi_outputs, p, Bound(IMAGE_OBJECTIVES["dice"], 1.0))
    probabilities = posterior.support().probabilities
    assert (probabilities >= 0).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 3))


def test_a_fixed_threshold_is_expected_with_certainty():
    p = mixed().reshape(1, 1, -1)
    voxels = p.flatten().double().numpy()
    bound = Bound(IMAGE_OBJECTIVES["dice"], kl_weight=1.0)
    value = bound.value(Fixed(threshold=0.3).posterior([], p, bound), p)
    assert value.item() == pytest.approx(-exact_loss(voxels, voxels > 0.3, "dice"), abs=1e-5)


def test_only_a_posterior_that_images_can_change_has_a_bound_in_its_summary():
    p = torch.rand(2, 1, 5)
    bound = Bound(IMAGE_OBJECTIVES["dice"], kl_weight=1.0)
    for prior, is_inferred in ((Fixed(), False), (Uniform(), False), (Categorical(), True)):
        summary = bound.summary(prior.posterior([], p, bound), p)
        assert ("bound" in summary) == is_inferred
