from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

from segpl.metrics.calibration import (
    Reliability,
    aurc,
    brier,
    classwise_ece,
    ece,
    mistakes,
    negative_log_likelihood,
    reliability,
    risk_coverage,
)

ALL = [
    brier,
    negative_log_likelihood,
    lambda p, y: ece(reliability(p, y)),
    lambda p, y: classwise_ece(reliability(p, y)),
]


def random_case(shape, dtype=torch.float64):
    """Probabilities that are neither calibrated nor hopeless."""
    draw = torch.Generator().manual_seed(0)
    p = torch.rand(shape, generator=draw, dtype=dtype)
    return p, torch.rand(shape, generator=draw, dtype=dtype) < p**2


def case(p, truth):
    """One region of a few voxels."""
    return torch.tensor([p], dtype=torch.float32), torch.tensor([truth], dtype=torch.bool)


def test_brier_is_the_equation_of_the_appendix():
    p, y = random_case((1, 4, 5))
    height, width = p.shape[1:]
    total = sum(
        (float(p[0, i, j]) - float(y[0, i, j])) ** 2 for i in range(height) for j in range(width)
    )
    assert brier(p, y).item() == pytest.approx(total / (height * width))


@pytest.mark.parametrize("shape", [(3, 200), (3, 9, 8), (3, 9, 8, 1), (3, 5, 6, 7)])
def test_agree_with_other_libraries_on_random_input(shape):
    p, truth = random_case(shape)
    counted = reliability(p, truth)
    for k in range(len(p)):
        y, q = truth[k].flatten().int(), p[k].flatten()
        assert brier(p, truth)[k].item() == pytest.approx(brier_score_loss(y, q))
        assert negative_log_likelihood(p, truth)[k].item() == pytest.approx(log_loss(y, q))
        classwise = binary_calibration_error(q, y, n_bins=20, norm="l1")
        assert classwise_ece(counted)[k].item() == pytest.approx(classwise.item(), abs=1e-6)
        both = torch.stack([1 - q, q], dim=1)  # twenty bins from 0 to 1 are ten above one half
        top = multiclass_calibration_error(both, y, num_classes=2, n_bins=20, norm="l1")
        assert ece(counted)[k].item() == pytest.approx(top.item(), abs=1e-6)


def test_reliability_agrees_with_a_histogram():
    p, truth = random_case((2, 6, 7, 8))
    counted = reliability(p, truth)
    assert (
        counted.voxels.dtype
        == counted.confidence.dtype
        == counted.foreground.dtype
        == torch.float64
    )
    for k in range(2):
        q, y = p[k].flatten().numpy(), truth[k].flatten().double().numpy()
        for part, weights in zip(counted, (None, q, y), strict=True):
            expected = np.histogram(q, bins=20, range=(0, 1), weights=weights)[0]
            np.testing.assert_allclose(part[k].numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_edge_belongs_to_the_surer_bin(dtype):
    edges = torch.arange(21, dtype=dtype) / 20
    voxels = reliability(edges[None], torch.zeros(1, 21, dtype=torch.bool)).voxels[0]
    assert voxels.tolist() == [2] + 9 * [1] + [0] + 8 * [1] + [
        2
    ]  # 0 and 1 have no bin beyond; 0.5 is background


def test_means_of_hard_masks_are_grouped_by_their_confidence():
    """The mean of five masks lies on edges: p and 1 - p are equally sure, and must count together."""
    p = (torch.arange(6) / 5).repeat(1000)[None]
    truth = torch.rand(p.shape, generator=torch.Generator().manual_seed(0)) < p + 0.1
    sure, right = torch.maximum(p, 1 - p), (p > 0.5) == truth
    groups = [(sure - level).abs() < 1e-3 for level in (0.6, 0.8, 1.0)]
    expected = sum(
        (sure[group].mean() - right[group].float().mean()).abs() * group.float().mean()
        for group in groups
    )
    assert ece(reliability(p, truth)).item() == pytest.approx(expected.item(), abs=1e-6)


def test_one_half_is_background_and_a_hair_more_is_foreground():
    half = torch.tensor(0.5)
    p = torch.stack([half, half.nextafter(torch.tensor(1.0))])[None]
    counted = reliability(p, torch.tensor([[False, True]]))
    assert counted.voxels[0].nonzero().flatten().tolist() == [9, 10]
    assert ece(counted).item() == pytest.approx(0.5)  # right twice, half sure
    assert ece(reliability(p, torch.tensor([[True, False]]))).item() == pytest.approx(
        0.5
    )  # wrong twice
    assert aurc(mistakes(p, torch.tensor([[False, True]]))).item() == 0
    assert aurc(mistakes(p, torch.tensor([[True, False]]))).item() == 1


def test_calibration_errors_by_hand():
    counted = reliability(*case([0.92, 0.92, 0.08, 0.08], [True, False, False, False]))
    # Confidence 0.92 four times and three right; foreground said 0.92 and was 0.5, said 0.08 and was 0.
    assert ece(counted).item() == pytest.approx(0.92 - 0.75)
    assert classwise_ece(counted).item() == pytest.approx((2 * 0.42 + 2 * 0.08) / 4)


def test_reliabilities_of_cases_add_up_to_that_of_all_voxels():
    p, truth = random_case((2, 40))
    cases = [reliability(p[:, part], truth[:, part]) for part in (slice(0, 10), slice(10, 40))]
    total = Reliability(*(first + second for first, second in zip(*cases, strict=True)))
    for added, counted in zip(total, reliability(p, truth), strict=True):
        torch.testing.assert_close(added, counted)


def test_saturated_probabilities_by_hand():
    right, wrong = case([1.0, 0.0], [True, False]), case([1.0, 0.0], [False, True])
    for score in ALL:
        assert score(*right).item() == pytest.approx(0, abs=1e-5)
    assert brier(*wrong) == ece(reliability(*wrong)) == classwise_ece(reliability(*wrong)) == 1
    assert negative_log_likelihood(*wrong).item() == pytest.approx(np.log(2 * 65535))  # finite


@pytest.mark.parametrize("score", ALL)
def test_an_empty_truth_has_a_defined_score(score):
    p, truth = torch.full((1, 4, 4, 1), 0.25), torch.zeros(1, 4, 4, 1, dtype=torch.bool)
    expected = {brier: 0.0625, negative_log_likelihood: -np.log(0.75)}.get(score, 0.25)
    assert score(p, truth).item() == pytest.approx(expected)


def mean_risk(wrong):
    """By the definition: the share of mistakes among the first n, meaned over n."""
    return np.mean([np.mean(wrong[:n]) for n in range(1, len(wrong) + 1)])


def test_aurc_without_ties_is_its_definition():
    p, truth = random_case((3, 5, 6, 4))
    for k in range(3):
        order = np.argsort(-np.maximum(p[k], 1 - p[k]).numpy().ravel())
        wrong = ((p[k] > 0.5) != truth[k]).numpy().ravel()[order]
        assert aurc(mistakes(p, truth))[k].item() == pytest.approx(mean_risk(wrong))
        for coverage in (1 / 120, 0.25, 0.5, 1.0):
            risk = risk_coverage(mistakes(p, truth), torch.tensor([coverage]))[k, 0].item()
            assert risk == pytest.approx(wrong[: round(coverage * 120)].mean())


def test_aurc_of_ties_is_the_mean_over_every_order_of_them():
    p, truth = case(
        [1.0, 0.0, 1.0, 0.25, 0.75, 0.75, 0.5], [True, True, True, False, False, True, True]
    )
    sure, unsure, undecided = (
        [False, True, False],
        [False, True, False],
        [True],
    )  # which of them are wrong
    orders = [[*a, *b, *undecided] for a in permutations(sure) for b in permutations(unsure)]
    assert aurc(mistakes(p, truth)).item() == pytest.approx(
        np.mean([mean_risk(order) for order in orders])
    )
    risks = risk_coverage(mistakes(p, truth), torch.arange(1, 8) / 7)[0]
    expected = np.mean([[np.mean(order[:n]) for n in range(1, 8)] for order in orders], axis=0)
    np.testing.assert_allclose(risks.numpy(), expected)


def test_the_order_of_voxels_does_not_matter():
    p, truth = random_case((2, 60))
    p = (p * 4).round() / 4  # few levels, many ties
    shuffled = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        aurc(mistakes(p, truth)), aurc(mistakes(p[:, shuffled], truth[:, shuffled]))
    )


def test_when_all_voxels_are_equally_sure_the_risk_is_the_error_rate_at_every_coverage():
    p, truth = torch.ones(1, 8), torch.tensor([[True] * 6 + [False] * 2])
    assert aurc(mistakes(p, truth)).item() == pytest.approx(0.25)
    risks = risk_coverage(mistakes(p, truth), torch.tensor([0, 0.01, 0.5, 0.77, 1]))[0]
    assert risks.tolist() == pytest.approx([0.25] * 5)


def test_aurc_rewards_doubt_where_the_mistakes_are():
    truth = torch.tensor([[True, True, True, False]])
    honest, deluded = torch.tensor([[0.9, 0.9, 0.9, 0.6]]), torch.tensor([[0.6, 0.6, 0.6, 0.9]])
    assert aurc(mistakes(honest, truth)).item() == pytest.approx((0 + 0 + 0 + 1 / 4) / 4)
    assert aurc(mistakes(deluded, truth)).item() == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert risk_coverage(mistakes(honest, truth), torch.tensor([0, 0.75, 1]))[
        0
    ].tolist() == pytest.approx([0, 0, 0.25])


def test_regions_are_scored_apart():
    p, truth = random_case((3, 5, 6, 4))
    for score in (*ALL, lambda p, truth: aurc(mistakes(p, truth))):
        alone = torch.cat([score(p[k : k + 1], truth[k : k + 1]) for k in range(3)])
        torch.testing.assert_close(score(p, truth), alone)
