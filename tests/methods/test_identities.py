"""Where one method must equal another, and what each method learns from."""

from copy import deepcopy

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss

from segpl.em.exchange import Sides, draw_boxes, exchange, invert_half
from segpl.em.label_shapes import keep_largest, keep_nested
from segpl.em.priors import Beta, Categorical, Confident, Fixed, Normal, Uniform
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch
from segpl.foundation.draws import Purpose, uniform
from segpl.foundation.errors import UserError
from segpl.methods.bcp import BCP
from segpl.methods.cct import CCT
from segpl.methods.cps import CPS
from segpl.methods.deep_ensemble import DeepEnsemble
from segpl.methods.fixmatch import FixMatch
from segpl.methods.mean_teacher import MeanTeacher
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_elbo import SegPLElbo
from segpl.methods.segpl_em import SegPLEM
from segpl.methods.segpl_vi import SegPLVI
from segpl.methods.self_loop import SelfLoop, distant_permutations, shuffle_tiles


def gradients(loss, network):
    """The gradient of a loss with respect to each weight of a network; 0 if it has none."""
    weights = dict(network.named_parameters())
    of_weights = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
    return dict(zip(weights, of_weights, strict=True))


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, gradient in first.items():
        torch.testing.assert_close(gradient, second[name], msg=name)


def built(method, network):
    torch.manual_seed(3)
    return method.build(network)


def without_unlabelled(batch):
    """A batch whose unlabelled images turn every loss that reads them into NaN."""
    return batch._replace(x_u=batch.x_u * float("nan"))


# CPS


def test_cps_with_equal_networks_has_equal_losses_and_gradients(network, batch):
    method = CPS()
    model = built(method, network)
    model[1].load_state_dict(model[0].state_dict())
    losses = method.losses(model, batch, 1.0)
    assert torch.equal(losses.terms["first"], losses.terms["second"])
    first = gradients(losses.total, model[0])
    second = gradients(method.losses(model, batch, 1.0).total, model[1])
    assert_same(first, second)


def test_cps_networks_start_differently_and_teach_each_other(network, batch):
    method = CPS(objective="dice", alpha=1.0)
    model = built(method, network)
    p_1 = model[0](batch.x).sigmoid()
    p_2 = model[1](batch.x).sigmoid()
    assert not torch.allclose(p_1, p_2)
    terms = method.losses(model, batch, 1.0).terms
    expected = method.segmentation_loss(p_1, pseudo_label(p_2, 0.5))
    torch.testing.assert_close(terms["first"], expected)


def test_cps_predicts_by_the_network_that_has_a_voice(network, batch):
    model = built(CPS(), network)
    p_1 = model[0](batch.x_l).sigmoid()
    p_2 = model[1](batch.x_l).sigmoid()
    expected = {"first": p_1, "second": p_2, "both": (p_1 + p_2) / 2}
    for voice, p in expected.items():
        torch.testing.assert_close(CPS(voice=voice).predict(model, batch.x_l).p, p)


# Mean teacher


def test_mean_teacher_with_decay_0_is_its_student(network):
    method = MeanTeacher(decay=0.0)
    model = built(method, network)
    method.after_step(model)
    with torch.no_grad():
        for weight in model["student"].parameters():
            weight.add_(0.1)
    method.after_step(model)
    student = model["student"].parameters()
    teacher = model["teacher"].module.parameters()
    for teacher_weight, student_weight in zip(teacher, student, strict=True):
        assert torch.equal(teacher_weight, student_weight)


# CCT


def authors_consistency(p, target):
    """Their weight times the mean squared difference of a softmax over 21 classes.

    Foreground and background are two of the classes, and the network is sure that it is no other.
    """
    p_of_classes = torch.zeros(21, *p.shape)
    target_of_classes = torch.zeros(21, *p.shape)
    p_of_classes[:2] = torch.stack([p, 1 - p])
    target_of_classes[:2] = torch.stack([target, 1 - target])
    return 30 * mse_loss(p_of_classes, target_of_classes)


def test_cct_weighs_its_consistency_as_its_authors_do(network, batch):
    method = CCT(noise=0.0, dropout=0.0)
    model = built(method, network)
    with torch.no_grad():
        for weight in model["others"].parameters():
            weight.mul_(1.5)  # so that the decoders disagree with the main one
    target = model["theta"](batch.x_u).sigmoid()
    features = model["theta"].trunk(batch.x_u)
    is_background = target.amax(1, keepdim=True) <= 0.5
    perturbed = [features, features, features * is_background]
    of_decoders = []
    for decoder, own_features in zip(model["others"], perturbed, strict=True):
        p = decoder(own_features).sigmoid()
        of_decoders.append(authors_consistency(p, target))
    expected = torch.stack(of_decoders).mean()
    assert expected > 0
    terms = method.losses(model, batch, 1.0).terms
    torch.testing.assert_close(terms["unlabelled"], expected, rtol=2e-3, atol=0)


# Deep ensemble


ONE_MEMBER = pytest.mark.parametrize(
    "base", [SegPLVI(), MeanTeacher(), SegPL(alpha=0.3)], ids=lambda method: method.name()
)


@ONE_MEMBER
def test_a_deep_ensemble_of_one_learns_as_its_base(base, network, batch):
    ensemble = DeepEnsemble(base=base, members=1)
    model = built(ensemble, network)
    expected = base.losses(model[0], batch, 1.0).total
    assert torch.equal(ensemble.losses(model, batch, 1.0).total, expected)


@ONE_MEMBER
@pytest.mark.parametrize("samples", [1, 3])
def test_a_deep_ensemble_of_one_predicts_as_its_base(base, samples, network, batch):
    ensemble = DeepEnsemble(base=base, members=1)
    model = built(ensemble, network)
    expected = base.predict(model[0], batch.x_u, samples)
    predicted = ensemble.predict(model, batch.x_u, samples)
    assert torch.equal(predicted.p, expected.p)
    assert torch.equal(predicted.samples, expected.samples)


def test_a_deep_ensemble_predicts_the_mean_of_members_that_disagree(network, batch):
    ensemble = DeepEnsemble(members=3)
    model = built(ensemble, network)
    p, members = ensemble.predict(model, batch.x_u, samples=3)
    assert members.std(0).max() > 0
    torch.testing.assert_close(p, members.mean(0))
    assert torch.equal(ensemble.predict(model, batch.x_u).p, p)


def test_a_member_of_a_deep_ensemble_learns_from_its_own_batch_alone(network, batch):
    base = SegPL(alpha=0.3)
    ensemble = DeepEnsemble(base=base, members=2)
    model = built(ensemble, network)
    others = batch._replace(x_l=batch.x_l + 1, x_u=batch.x_u.flip(-1))
    total = ensemble.losses(model, Batch.join([batch, others]), 1.0).total
    for member, own_batch in zip(model, [batch, others], strict=True):
        expected = base.losses(member, own_batch, 1.0).total
        assert_same(gradients(total, member), gradients(expected, member))


def test_samples_of_a_deep_ensemble_are_a_multiple_of_its_members(network, batch):
    ensemble = DeepEnsemble(members=3)
    model = built(ensemble, network)
    assert len(ensemble.predict(model, batch.x_u, samples=6).samples) == 6
    message = "5 samples cannot be shared equally among 3 members: ask for a multiple of 3"
    with pytest.raises(UserError, match=message):
        ensemble.predict(model, batch.x_u, samples=5)


# FixMatch


def test_fixmatch_without_views_and_confidence_has_the_unlabelled_gradient_of_segpl(network, batch):
    method = FixMatch(alpha=0.3, noise=0.0, strength=0.0, confidence=0.0)
    model = built(method, network)
    fixmatch = method.losses(model, batch, 1.0).terms["unlabelled"]
    segpl = SegPL(alpha=0.3).losses(model, batch, 1.0).terms["unlabelled"]
    assert_same(gradients(fixmatch, model), gradients(segpl, model))


def test_fixmatch_leaves_out_voxels_that_are_not_confident(network, batch):
    method = FixMatch(objective="dice", confidence=1.0)
    model = built(method, network)
    terms = method.losses(model, batch, 1.0).terms
    assert terms["unlabelled"].item() == pytest.approx(0, abs=1e-5)


# SegPL-EM


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_segpl_em_without_view_average_and_exchange_has_the_unlabelled_gradient_of_segpl(
    threshold, network, batch
):
    method = SegPLEM(
        start=0,
        warm_up=0,
        prior=Fixed(threshold=threshold),
        decay=0.0,
        strength=0.0,
        exchange=0.0,
        confidence=0.5,
    )
    model = built(method, network)
    theta = model["theta"]
    losses = method.losses(model, batch, 1.0)
    assert losses.logged["mixed_true"].item() == pytest.approx(0, abs=1e-6)
    segpl = SegPL(alpha=1.0, threshold=threshold).losses(theta, batch, 1.0)
    mixed_gradients = gradients(losses.terms["mixed"], theta)
    assert_same(mixed_gradients, gradients(segpl.terms["unlabelled"], theta))


def test_segpl_em_mixes_images_and_labels_alike(network, batch):
    method = SegPLEM(start=0, warm_up=0, strength=0.0)
    e_step = method._e_step(built(method, network), batch)
    mixed = method._mix(batch, e_step)
    is_true = mixed.is_true > 0
    partner = torch.tensor([0, 1, 0])
    assert 0 < mixed.is_true.mean() < 1
    assert torch.equal(mixed.x, torch.where(is_true, batch.x_p[partner], batch.x_u))
    assert torch.equal(mixed.y, torch.where(is_true, batch.y_p[partner], e_step.y_u))


def test_segpl_em_weights_pseudo_labels_by_alpha_and_unsure_ones_by_0(network, batch):
    method = SegPLEM(alpha=0.5, start=0, warm_up=0, strength=0.0, confidence=0.85)
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    mixed = method._mix(batch, method._e_step(model, batch))

    p_u = model["average"].module(batch.x_u).sigmoid()
    is_sure = (p_u <= 0.15) | (p_u >= 0.85)
    assert 0 < is_sure.float().mean() < 1
    pseudo_label_weights = torch.where(is_sure, 0.5, 0.0)
    weights = torch.where(mixed.is_true > 0, 1.0, pseudo_label_weights)

    p_m = model["theta"](mixed.x).sigmoid()
    expected = method.segmentation_loss(p_m, mixed.y, where=weights)
    torch.testing.assert_close(losses.terms["mixed"], expected)
    expected_true = method.segmentation_loss(p_m, mixed.y, where=mixed.is_true)
    torch.testing.assert_close(losses.logged["mixed_true"], expected_true)


def test_segpl_em_keeps_the_largest_component_and_nested_regions(network, batch):
    settings = {"start": 0, "warm_up": 0, "prior": Fixed(threshold=0.1)}
    method = SegPLEM(**settings, single_component=(0,), nested=((1, 0),))
    model = built(method, network)
    kept = method.losses(model, batch, 1.0).y_u
    unchanged = SegPLEM(**settings).losses(model, batch, 1.0).y_u
    assert torch.equal(kept, keep_nested(keep_largest(unchanged, [0]), [(1, 0)]))
    assert kept.sum() < unchanged.sum()


def test_segpl_em_cuts_at_the_threshold_that_matches_the_size_of_the_labels(network, batch):
    method = SegPLEM(start=0, warm_up=0, match_size=True)
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    expected = model["sizes"].threshold()
    assert torch.equal(losses.threshold, expected.expand_as(losses.threshold))
    p_u = model["average"].module(batch.x_u).sigmoid()
    assert torch.equal(losses.y_u, pseudo_label(p_u, losses.threshold))


def test_looking_at_pseudo_labels_changes_no_running_mean(network, batch):
    method = SegPLEM(start=0, warm_up=0, match_size=True)
    model = built(method, network)
    method.losses(model, batch, 1.0)
    with torch.no_grad():
        method.losses(model, batch._replace(y_l=1 - batch.y_l), 1.0)
    assert model["sizes"].updates == 1


def test_segpl_em_does_not_read_unlabelled_images_before_they_count(network, batch):
    """What it learns from the labels is the same as later, with the unlabelled images."""
    method = SegPLEM(start=0.5, warm_up=0)
    model = method.build(network)
    before = method.losses(model, without_unlabelled(batch), progress=0.49)
    assert list(before.terms) == ["labelled"]
    assert before.y_u is None
    after = method.losses(model, batch, progress=0.5)
    torch.testing.assert_close(before.total, after.terms["labelled"])


def test_segpl_em_labels_by_the_average(network, batch):
    method = SegPLEM()
    model = built(method, network)
    y_u = method.losses(model, batch, 1.0).y_u
    with torch.no_grad():
        for weight in model["theta"].parameters():
            weight.mul_(-1)
    assert torch.equal(method.losses(model, batch, 1.0).y_u, y_u)


def test_segpl_em_gives_the_average_no_gradient(network, batch):
    method = SegPLEM()
    model = built(method, network)
    method.losses(model, batch, 1.0).total.backward()
    assert all(weight.grad is None for weight in model["average"].parameters())


# BCP


def test_bcp_learns_from_mixed_images_only(network, batch):
    method = BCP()
    model = built(method, network)
    losses = method.losses(model, batch, 1.0)
    boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(2 / 3, 2 / 3))
    is_true = invert_half(boxes, batch.seeds_u)
    partner = torch.tensor([0, 1, 0])
    x = exchange(batch.x_l[partner], batch.x_u, is_true)
    y = exchange(batch.y_l[partner], losses.y_u, is_true)
    p = model["student"](x).sigmoid()
    labelled = method.segmentation_loss(p, y, where=is_true)
    unlabelled = method.segmentation_loss(p, y, where=1 - is_true)
    torch.testing.assert_close(losses.terms["labelled"], labelled)
    torch.testing.assert_close(losses.terms["unlabelled"], 0.5 * unlabelled)


def test_bcp_pre_trains_on_labels_alone(network, batch):
    method = BCP()
    model = built(method, network)
    losses = method.losses(model, without_unlabelled(batch), progress=0.24)
    assert list(losses.terms) == ["labelled"]
    p_l = model["student"](batch.x_l).sigmoid()
    torch.testing.assert_close(losses.total, method.segmentation_loss(p_l, batch.y_l))


# Posteriors of the threshold


@pytest.mark.parametrize("prior", [Normal(), Beta(), Confident()], ids=lambda prior: prior.name())
@pytest.mark.parametrize(("kind", "is_reached"), [(SegPLElbo, True), (SegPLVI, False)])
def test_the_data_reach_every_weight_of_phi_in_segpl_elbo_and_none_in_segpl_vi(
    kind, is_reached, prior, network, batch
):
    method = kind(prior=prior, kl_weight=0.0)
    model = built(method, network)
    total = method.losses(model, batch, 1.0).total
    for gradient in gradients(total, model["phi"]).values():
        assert gradient.any() == is_reached


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
    samples = method.predict(model, batch.x_u, samples=3).samples
    assert len(samples) == 3
    assert (samples[0] >= samples[2] - 1e-6).all(), "a higher threshold can only shrink the mask"


def biased_low(method, network, batch):
    """A model with logits between -2.2 and -0.2: p never reaches 0.46, so T = 0.5 is wrong."""
    model = built(method, network)
    theta = model["theta"]
    last_layer = theta.head.block.conv.conv
    with torch.no_grad():
        logits = theta(batch.x_u)
        scale = 2.0 / (logits.amax() - logits.amin())
        last_layer.weight.mul_(scale)
        last_layer.bias.mul_(scale).sub_(scale * logits.amax() + 0.2)
    assert theta(batch.x_u).sigmoid().max() < 0.46
    return model


def learnt_threshold(method, network, batch, steps=60):
    """The posterior mean of T after training phi alone."""
    model = biased_low(method, network, batch)
    optimiser = torch.optim.Adam(model["phi"].parameters(), lr=0.02)
    for step in range(steps):
        new_draws = batch._replace(seeds_u=batch.seeds_u + 100 * step)
        losses = method.losses(model, new_draws, 1.0)
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
    return losses.logged["posterior_mean"].item()


def test_the_data_do_not_move_a_wrong_threshold_in_segpl_vi(network, batch):
    method = SegPLVI(objective="dice", kl_weight=0.1)
    assert learnt_threshold(method, network, batch) == pytest.approx(0.5, abs=0.01)


def test_the_data_move_a_wrong_threshold_in_segpl_elbo(network, batch):
    prior = Normal(deviation=0.2)  # wide enough to reach the probabilities of this network
    method = SegPLElbo(objective="dice", prior=prior, kl_weight=0.1)
    assert learnt_threshold(method, network, batch) < 0.45


def test_the_data_move_a_wrong_threshold_with_the_categorical_prior(network, batch):
    method = SegPLVI(objective="dice", prior=Categorical(), kl_weight=0.1)
    model = biased_low(method, network, batch)
    assert method.losses(model, batch, 1.0).logged["posterior_mean"].item() < 0.4


@pytest.mark.parametrize("objective", ["dice", "dice+bce"])
def test_the_categorical_prior_weighs_thresholds_by_the_objective_of_the_method(
    objective, network, batch
):
    prior = Categorical(thresholds=(0.2, 0.5, 0.8))
    method = SegPLVI(objective=objective, prior=prior, kl_weight=0.1)
    model = built(method, network)
    features = model["theta"].features(batch.x_u)
    p = model["theta"].head(features).sigmoid()
    posterior = method.posterior(model, features, p)

    alone = p[1:2, :1]  # one image and class
    losses = [method.segmentation_loss(alone, pseudo_label(alone, t)) for t in prior.thresholds]
    expected = (-torch.stack(losses) / 0.1).softmax(0)
    torch.testing.assert_close(posterior.probabilities[1, 0], expected, atol=1e-4, rtol=1e-3)


def bounds_while_phi_learns(method, network, batch, steps=30):
    """The logged bound at each step while phi alone is trained, from a posterior off the prior."""
    model = biased_low(method, network, batch)
    with torch.no_grad():
        model["phi"].numbers[0].bias += 0.4
    optimiser = torch.optim.SGD(model["phi"].parameters(), lr=0.05)
    bounds = []
    for _ in range(steps):
        losses = method.losses(model, batch, 1.0)
        bounds.append(losses.logged["bound"].item())
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
    return bounds


@pytest.mark.parametrize("evidence", ["unlabelled", "labelled"])
@pytest.mark.parametrize("prior", [Normal(), Beta(), Confident()], ids=lambda prior: prior.name())
@pytest.mark.parametrize("objective", ["dice", "batch-dice+bce"])
def test_training_phi_alone_raises_the_bound_at_every_step(
    objective, prior, evidence, network, batch
):
    method = SegPLElbo(objective=objective, prior=prior, evidence=evidence, kl_weight=0.1)
    bounds = torch.tensor(bounds_while_phi_learns(method, network, batch))
    assert bounds[-1] > bounds[0] + 1e-4
    assert (bounds.diff() > -1e-6).all()


def test_the_bound_of_segpl_elbo_is_what_its_last_two_terms_minimise(network, batch):
    method = SegPLElbo(kl_weight=0.3)
    losses = method.losses(built(method, network), batch, 1.0)
    bound = -(losses.terms["evidence"] + losses.terms["kl"])
    torch.testing.assert_close(losses.logged["bound"], bound.detach())


def test_segpl_vi_logs_the_bound_that_segpl_elbo_maximises(network, batch):
    model = built(SegPLElbo(), network)
    elbo = SegPLElbo().losses(model, batch, 1.0).logged
    vi = SegPLVI().losses(model, batch, 1.0).logged
    torch.testing.assert_close(vi["bound"], elbo["bound"])


def test_segpl_em_logs_the_bound_of_the_categorical_prior_only(network, batch):
    inferred = SegPLEM(prior=Categorical())
    assert "bound" in inferred.losses(built(inferred, network), batch, 1.0).logged
    fixed = SegPLEM()
    assert "bound" not in fixed.losses(built(fixed, network), batch, 1.0).logged


def test_the_labels_of_a_timid_network_lower_the_threshold(network, batch):
    """p never reaches 0.46, but some of its voxels are foreground: so labels say."""
    labels = torch.ones_like(batch.y_l)
    all_foreground = batch._replace(y_l=labels)
    method = SegPLElbo(evidence="labelled", kl_weight=0.1)
    assert learnt_threshold(method, network, all_foreground) < 0.45
    all_background = batch._replace(y_l=torch.zeros_like(labels))
    assert learnt_threshold(method, network, all_background) > 0.55


def test_with_evidence_from_labels_phi_learns_nothing_from_unlabelled_images(network, batch):
    method = SegPLElbo(evidence="labelled", alpha=0.0)
    assert not method.learns_from_unlabelled()
    model = built(method, network)
    other_images = batch._replace(x_u=batch.x_u.flip(-1) + 1)
    first = gradients(method.losses(model, batch, 1.0).total, model)
    second = gradients(method.losses(model, other_images, 1.0).total, model)
    assert_same(first, second)


def test_evidence_from_labels_needs_a_posterior_that_a_network_learns():
    with pytest.raises(UserError, match="prior categorical: choose the prior normal"):
        SegPLElbo(evidence="labelled", prior=Categorical())


def test_probabilities_of_0_and_1_do_not_break_the_posterior(network, batch):
    """There the logarithms of the cross-entropy are infinite."""
    method = SegPLElbo()
    model = method.build(network)
    theta = model["theta"]
    with torch.no_grad():
        weight, bias = theta.head.parameters()
        weight.mul_(1e4)
        all_but_class = (0, *range(2, batch.x_u.ndim))
        bias -= theta(batch.x_u).mean(all_but_class)  # foreground and background in equal parts
    p = theta(batch.x_u).sigmoid()
    assert (p == 0).any()
    assert (p == 1).any()
    method.losses(model, batch, progress=0.5).total.backward()
    assert all(weight.grad.isfinite().all() for weight in model["phi"].parameters())


# Self-loop


def encoder_and_decoder(theta, batch):
    """The weights that a puzzle reaches, and the others."""
    weights = list(theta.parameters())
    bottleneck = theta.encode(batch.x)
    reached = torch.autograd.grad(bottleneck.sum(), weights, allow_unused=True)
    encoder = [w for w, slope in zip(weights, reached, strict=True) if slope is not None]
    decoder = [w for w, slope in zip(weights, reached, strict=True) if slope is None]
    return encoder, decoder


def puzzle_losses_by_hand(model, batch, answers):
    """The cross-entropy of one puzzle of all images, from the definition."""
    orders = distant_permutations(16, 24)
    puzzle = shuffle_tiles(batch.x, orders[answers], tiles=4)
    features = model["theta"].encode(puzzle).flatten(2).mean(2)
    return cross_entropy(model["solver"](features), answers)


def test_self_loop_averages_the_predictions_after_each_update_by_a_puzzle(network, batch):
    method = SelfLoop(stages=3, rate=0.05)
    model = built(method, network)
    seeds = torch.cat([batch.seeds_l, batch.seeds_u])
    answers = (24 * uniform(seeds, 3, purpose=Purpose.PUZZLE)).long()

    refined = deepcopy(model)
    weights = list(refined.parameters())
    predictions = []
    for stage in range(3):
        loss = puzzle_losses_by_hand(refined, batch, answers[:, stage])
        slopes = torch.autograd.grad(loss, weights, materialize_grads=True)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                if slope.any():
                    weight -= 0.05 * weight.norm() / slope.norm() * slope
            predictions.append(refined["theta"](batch.x_u).sigmoid())
    expected = torch.stack(predictions).mean(0)

    p_u = model["theta"](batch.x_u).sigmoid()
    assert (expected - p_u).abs().max() > 0.01
    losses = method.losses(model, batch, 1.0)
    unlabelled = 0.05 * method.segmentation_loss(p_u, expected)
    torch.testing.assert_close(losses.terms["unlabelled"], unlabelled)
    assert torch.equal(losses.y_u, pseudo_label(expected, 0.5))


def test_the_stages_of_self_loop_update_the_encoder_of_a_copy(network, batch, monkeypatch):
    method = SelfLoop()
    model = built(method, network)
    before = deepcopy(model.state_dict())
    copies = []
    monkeypatch.setattr(
        "segpl.methods.self_loop.deepcopy",
        lambda original: copies.append(deepcopy(original)) or copies[0],
    )
    method.losses(model, batch, 1.0)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
    encoder, decoder = encoder_and_decoder(model["theta"], batch)
    refined_encoder, refined_decoder = encoder_and_decoder(copies[0]["theta"], batch)
    for weight, refined in zip(decoder, refined_decoder, strict=True):
        assert torch.equal(weight, refined)
    moved = [not torch.equal(w, r) for w, r in zip(encoder, refined_encoder, strict=True)]
    assert sum(moved) > len(moved) / 2, "weights of 0, the first biases, stay"


def test_self_loop_learns_only_the_puzzle_during_pre_training(network, batch):
    method = SelfLoop()
    losses = method.losses(built(method, network), batch, progress=0.1)
    assert list(losses.terms) == ["jigsaw"]
    assert losses.y_u is None


def test_jigsaw_orders_are_permutations():
    orders = distant_permutations(9, 24)
    assert orders.shape == (24, 9)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(9).repeat(24, 1))


def test_jigsaw_orders_are_far_apart():
    orders = distant_permutations(9, 24)
    distances = (orders[:, None] != orders[None]).sum(-1)
    itself = 9 * torch.eye(24, dtype=torch.long)
    assert (distances + itself).min() >= 6


def test_a_puzzle_in_the_original_order_is_the_image(batch):
    original_order = torch.arange(16).repeat(5, 1)
    assert torch.equal(shuffle_tiles(batch.x, original_order, 4), batch.x)


def test_a_puzzle_holds_the_tiles_in_the_given_order(batch):
    x = batch.x
    swapped = torch.arange(16).repeat(5, 1)
    swapped[:, [0, 5]] = swapped[:, [5, 0]]
    puzzle = shuffle_tiles(x, swapped, 4)
    assert torch.equal(puzzle[:, :, :4, :4], x[:, :, 4:8, 4:8])
    assert torch.equal(puzzle[:, :, 8:], x[:, :, 8:])
