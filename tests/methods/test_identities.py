"""Where one method must equal another, and what each does to its weights."""

import pytest
import torch

from segpl.em.exchange import Sides, draw_boxes, exchange, one_way_or_other
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.shapes import keep_largest, keep_nested
from segpl.em.thresholds import Beta, Categorical, Confident, CutNormal, Fixed, Normal, Uniform
from segpl.foundation.errors import UserError
from segpl.methods.bcp import BCP
from segpl.methods.cps import CPS
from segpl.methods.deep_ensemble import DeepEnsemble
from segpl.methods.fixmatch import FixMatch
from segpl.methods.mean_teacher import MeanTeacher
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_elbo import SegPLElbo
from segpl.methods.segpl_em import SegPLEM
from segpl.methods.segpl_vi import SegPLVI
from segpl.methods.self_loop import far_apart, shuffled


def gradients(losses, network, term=None):
    """The gradients of one term, or of all, with respect to one network."""
    loss = losses.terms[term] if term else losses.total
    weights = dict(network.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {
        name: g if g is not None else torch.zeros_like(w)
        for (name, w), g in zip(weights.items(), found, strict=True)
    }


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, gradient in first.items():
        torch.testing.assert_close(gradient, second[name], msg=name)


def built(method, network):
    torch.manual_seed(3)
    return method.build(network)


def test_cps_with_twins_has_both_losses_equal(network, batch):
    method = CPS()
    model = built(method, network)
    model[1].load_state_dict(model[0].state_dict())
    terms = method.losses(model, batch, 1.0).terms
    assert torch.equal(terms["first"], terms["second"])
    assert_same(
        gradients(method.losses(model, batch, 1.0), model[0]),
        gradients(method.losses(model, batch, 1.0), model[1]),
    )


def test_cps_networks_start_differently_and_teach_each_other(network, batch):
    method = CPS(objective="dice", alpha=1.0)
    model = built(method, network)
    p_1, p_2 = (each(torch.cat([batch.x_l, batch.x_u])).sigmoid() for each in model)
    assert not torch.allclose(p_1, p_2)
    terms = method.losses(model, batch, 1.0).terms
    torch.testing.assert_close(terms["first"], method.fit(p_1, pseudo_label(p_2, 0.5)))
    for voice, p in (("first", p_1), ("second", p_2), ("both", (p_1 + p_2) / 2)):
        torch.testing.assert_close(CPS(voice=voice).predict(model, batch.x_l)[0], p[:2])


def test_mean_teacher_with_decay_0_is_its_student(network, batch):
    method = MeanTeacher(decay=0.0)
    model = built(method, network)
    method.after_step(model)
    with torch.no_grad():
        for weight in model["student"].parameters():
            weight.add_(0.1)
    method.after_step(model)
    for mine, theirs in zip(
        model["teacher"].module.parameters(), model["student"].parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    "base", [SegPLVI(), MeanTeacher(), SegPL(alpha=0.3)], ids=lambda method: method.name()
)
def test_deep_ensemble_of_one_is_its_base(base, network, batch):
    ensemble = DeepEnsemble(base=base, members=1)
    model = built(ensemble, network)
    ours, theirs = ensemble.losses(model, batch, 1.0), base.losses(model[0], batch, 1.0)
    assert torch.equal(ours.total, theirs.total)
    for samples in (1, 3):
        assert torch.equal(
            ensemble.predict(model, batch.x_u, samples), base.predict(model[0], batch.x_u, samples)
        )


def test_deep_ensemble_members_disagree_and_their_mean_is_the_prediction(network, batch):
    ensemble = DeepEnsemble(members=3)
    model = built(ensemble, network)
    members = ensemble.predict(model, batch.x_u, samples=3)
    assert members.std(0).max() > 0
    torch.testing.assert_close(ensemble.predict(model, batch.x_u)[0], members.mean(0))
    assert ensemble.predict(model, batch.x_u, samples=6).shape[0] == 6
    with pytest.raises(UserError, match="5 samples of 3 members would favour some: ask for 3"):
        ensemble.predict(model, batch.x_u, samples=5)


def test_fixmatch_without_views_or_limit_has_segpls_unlabelled_gradient(network, batch):
    method = FixMatch(alpha=0.3, noise=0.0, strength=0.0, confidence=0.0)
    model = built(method, network)
    ours, theirs = method.losses(model, batch, 1.0), SegPL(alpha=0.3).losses(model, batch, 1.0)
    assert_same(gradients(ours, model, "unlabelled"), gradients(theirs, model, "unlabelled"))


def test_fixmatch_leaves_out_voxels_that_are_not_sure(network, batch):
    model = built(FixMatch(), network)
    nothing = (
        FixMatch(objective="dice", confidence=1.0).losses(model, batch, 1.0).terms["unlabelled"]
    )
    assert nothing.item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("prior", [Fixed(), Fixed(threshold=0.3)])
def test_segpl_em_without_view_average_or_exchange_has_segpls_unlabelled_gradient(
    prior, network, batch
):
    method = SegPLEM(
        start=0, warm_up=0, prior=prior, decay=0.0, strength=0.0, exchange=0.0, confidence=0.5
    )
    model = built(method, network)
    ours = method.losses(model, batch, 1.0)
    theirs = SegPL(alpha=1.0, threshold=prior.threshold).losses(model["theta"], batch, 1.0)
    assert ours.watched["mixed_true"].item() == pytest.approx(0, abs=1e-6)
    assert_same(
        gradients(ours, model["theta"], "mixed"),
        gradients(theirs, model["theta"], "unlabelled"),
    )


def test_segpl_em_mixes_images_labels_and_weights_alike(network, batch):
    """Inside and outside the box by hand; alpha weighs pseudo-labels, and unsure ones do not count."""
    method = SegPLEM(alpha=0.5, start=0, warm_up=0, strength=0.0, confidence=0.85)
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    mixed = method._mixed(batch, method._e_step(model, batch))
    partner = torch.tensor([0, 1, 0])
    is_true = mixed.is_true > 0
    assert 0 < mixed.is_true.mean() < 1
    assert torch.equal(mixed.x, torch.where(is_true, batch.x_p[partner], batch.x_u))
    assert torch.equal(mixed.y, torch.where(is_true, batch.y_p[partner], losses.y_u))
    p_u = model["average"].module(batch.x_u).sigmoid()
    is_sure = (p_u <= 0.15) | (p_u >= 0.85)
    assert 0 < is_sure.float().mean() < 1
    weights = torch.where(is_true, 1.0, torch.where(is_sure, 0.5, 0.0))
    p_m = model["theta"](mixed.x).sigmoid()
    torch.testing.assert_close(losses.terms["mixed"], method.fit(p_m, mixed.y, where=weights))
    in_labelled = method.fit(p_m, mixed.y, where=mixed.is_true)
    torch.testing.assert_close(losses.watched["mixed_true"], in_labelled)


def test_segpl_em_keeps_the_largest_component_and_nested_regions(network, batch):
    method = SegPLEM(
        start=0, warm_up=0, prior=Fixed(threshold=0.1), single_component=(0,), nested=((1, 0),)
    )
    model = built(method, network)
    free = SegPLEM(start=0, warm_up=0, prior=Fixed(threshold=0.1)).losses(model, batch, 1.0).y_u
    kept = method.losses(model, batch, 1.0).y_u
    assert torch.equal(kept, keep_nested(keep_largest(free, [0]), [(1, 0)]))
    assert kept.sum() < free.sum()


def test_bcp_learns_from_mixed_images_alone(network, batch):
    """Whole labelled images never reach the student once pre-training is over: outside the boxes they do not count."""
    method = BCP()
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    partner = torch.tensor([0, 1, 0])
    boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(2 / 3, 2 / 3))
    is_true = one_way_or_other(boxes, batch.seeds_u)
    x = exchange(batch.x_l[partner], batch.x_u, is_true)
    y = exchange(batch.y_l[partner], losses.y_u, is_true)
    p = model["student"](x).sigmoid()
    torch.testing.assert_close(losses.terms["labelled"], method.fit(p, y, where=is_true))
    torch.testing.assert_close(
        losses.terms["unlabelled"], 0.5 * method.fit(p, y, where=1 - is_true)
    )


def test_bcp_pre_trains_on_labels_alone(network, batch):
    method = BCP()
    model = built(method, network)
    alone = method.losses(model, batch._replace(x_u=batch.x_u * float("nan")), progress=0.24)
    assert list(alone.terms) == ["labelled"]
    torch.testing.assert_close(
        alone.total, method.fit(model["student"](batch.x_l).sigmoid(), batch.y_l)
    )


def test_segpl_em_looks_at_no_unlabelled_image_before_they_count(network, batch):
    """And what it learns from the labels is what it would learn with them in the batch at weight 0."""
    method = SegPLEM(start=0.5, warm_up=0)
    model = method.build(network)
    alone = method.losses(model, batch._replace(x_u=batch.x_u * float("nan")), progress=0.49)
    assert list(alone.terms) == ["labelled"]
    assert alone.y_u is None
    torch.testing.assert_close(
        alone.total, method.losses(model, batch, progress=0.5).terms["labelled"]
    )


def test_segpl_em_labels_by_the_average_and_learns_by_theta(network, batch):
    method = SegPLEM()
    model = built(method, network)
    label = method.losses(model, batch, 1.0).y_u
    with torch.no_grad():
        for weight in model["theta"].parameters():
            weight.mul_(-1)
    assert torch.equal(method.losses(model, batch, 1.0).y_u, label)
    method.losses(model, batch, 1.0).total.backward()
    assert all(weight.grad is None for weight in model["average"].parameters())


@pytest.mark.parametrize("prior", [Normal(), Beta(), Confident()], ids=lambda prior: prior.name())
def test_the_data_reach_phi_in_segpl_elbo_and_not_in_segpl_vi(prior, network, batch):
    """With the KL switched off, phi of segpl-elbo is moved in every weight, phi of segpl-vi in none."""
    for method, reached in (
        (SegPLElbo(prior=prior, kl_weight=0.0), True),
        (SegPLVI(prior=prior, kl_weight=0.0), False),
    ):
        model = built(method, network)
        found = gradients(method.losses(model, batch, 1.0), model["phi"])
        assert {bool(gradient.abs().max() > 0) for gradient in found.values()} == {reached}


@pytest.mark.parametrize(
    "prior",
    [Fixed(), Uniform(), Normal(), Beta(), Confident(), Categorical()],
    ids=lambda prior: prior.name(),
)
@pytest.mark.parametrize("kind", [SegPLVI, SegPLElbo, SegPLEM])
def test_any_prior_goes_with_any_thresholded_method(kind, prior, network, batch):
    method = kind(prior=prior)
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    losses.total.backward()
    assert ((losses.threshold > 0) & (losses.threshold < 1)).all()
    p = method.predict(model, batch.x_u, samples=3)
    assert p.shape[0] == 3
    assert (p[0] >= p[2] - 1e-6).all(), "a higher threshold can only shrink the mask"


def biased_low(method, network, batch):
    """A model whose probabilities are right in order but never exceed 0.45: one half is a wrong threshold."""
    model = built(method, network)
    theta = model["theta"]
    with torch.no_grad():
        logits = theta(batch.x_u)
        low, high = logits.amin(), logits.amax()
        last = theta.head.block.conv.conv
        last.weight.mul_(2.0 / (high - low))
        last.bias.mul_(2.0 / (high - low)).sub_(2.0 * high / (high - low) + 0.2)
    assert theta(batch.x_u).sigmoid().max() < 0.46
    return model


def learnt_threshold(method, network, batch, steps=60):
    """Where the posterior's mean goes when only phi learns."""
    model = biased_low(method, network, batch)
    optimiser = torch.optim.Adam(model["phi"].parameters(), lr=0.02)
    for step in range(steps):
        own = batch._replace(seeds_u=batch.seeds_u + 100 * step)
        losses = method.losses(model, own, 1.0)
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
    return losses.watched["posterior_mean"].item()


def test_a_wrong_threshold_is_moved_by_the_data_in_segpl_elbo_and_stays_in_segpl_vi(network, batch):
    settings = {"objective": "dice", "kl_weight": 0.1}
    assert learnt_threshold(SegPLVI(**settings), network, batch) == pytest.approx(0.5, abs=0.01)
    assert learnt_threshold(SegPLElbo(**settings), network, batch) < 0.45


def test_a_wrong_threshold_is_moved_by_the_categorical_posterior(network, batch):
    method = SegPLVI(prior=Categorical(), kl_weight=0.1)
    model = biased_low(method, network, batch)
    assert method.losses(model, batch, 1.0).watched["posterior_mean"].item() < 0.4


def test_jigsaw_orders_are_permutations_far_apart():
    orders = far_apart(9, 24)
    assert orders.shape == (24, 9)
    assert all(sorted(order.tolist()) == list(range(9)) for order in orders)
    distances = (orders[:, None] != orders[None]).sum(-1) + 9 * torch.eye(24, dtype=torch.long)
    assert distances.min() >= 6


def test_a_puzzle_holds_the_same_pieces(patch, batch):
    still = torch.arange(16).repeat(5, 1)
    x = torch.cat([batch.x_l, batch.x_u])
    assert torch.equal(shuffled(x, still, 4), x)
    swapped = still.clone()
    swapped[:, [0, 5]] = swapped[:, [5, 0]]
    puzzle = shuffled(x, swapped, 4)
    assert torch.equal(puzzle[:, :, :4, :4], x[:, :, 4:8, 4:8])
    assert torch.equal(puzzle[:, :, 8:], x[:, :, 8:])


def test_a_network_that_is_certain_does_not_break_the_thresholds_posterior(network, batch):
    """Probabilities of exactly 0 and 1: the label's slope would be infinite, and phi's weights no numbers."""
    method = SegPLElbo()
    model = method.build(network)
    with torch.no_grad():
        weight, bias = model["theta"].head.parameters()
        weight.mul_(1e4)
        spatial = (0, *range(2, batch.x_u.ndim))
        bias -= model["theta"](batch.x_u).mean(spatial)  # half of the voxels on either side
    p = model["theta"](batch.x_u).sigmoid()
    assert (p == 0).any()
    assert (p == 1).any()
    method.losses(model, batch, progress=0.5).total.backward()
    assert all(weight.grad.isfinite().all() for weight in model["phi"].parameters())


def test_a_draw_from_the_very_end_of_a_posterior_has_a_slope():
    mu = torch.full((1, 2), 0.5, requires_grad=True)
    drawn = CutNormal(mu, torch.full((1, 2), 0.01), torch.tensor(0.5), 0.1).quantile(
        torch.tensor([[0.0, 1.0]])
    )
    drawn.sum().backward()
    assert mu.grad.isfinite().all()
