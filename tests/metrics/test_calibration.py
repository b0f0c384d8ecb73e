"""Calibration and risk-coverage: by hand, by definition, and against other libraries."""

from itertools import permutations, product

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


def ece_of(p, truth):
    return ece(reliability(p, truth))


def classwise_ece_of(p, truth):
    return classwise_ece(reliability(p, truth))


def aurc_of(p, truth):
    return aurc(mistakes(p, truth))


def risks_of(p, truth, coverages):
    """The risk of the first region at each coverage."""
    return risk_coverage(mistakes(p, truth), torch.tensor(coverages))[0].tolist()


CALIBRATION = [brier, negative_log_likelihood, ece_of, classwise_ece_of]
SHAPES = pytest.mark.parametrize("shape", [(3, 200), (3, 9, 8), (3, 9, 8, 1), (3, 5, 6, 7)])


def random_case(shape, dtype=torch.float64):
    """Probabilities that are neither calibrated nor hopeless, and the truth."""
    draw = torch.Generator().manual_seed(0)
    p = torch.rand(shape, generator=draw, dtype=dtype)
    truth = torch.rand(shape, generator=draw, dtype=dtype) < p**2
    return p, truth


def flat_regions(p, truth):
    """The voxels of each region: probabilities and labels."""
    return zip(p.flatten(1), truth.flatten(1).int(), strict=True)


def one_region(p, truth):
    """A case of a few voxels."""
    return torch.tensor([p], dtype=torch.float32), torch.tensor([truth], dtype=torch.bool)


# Brier score, likelihood and calibration errors


def test_brier_is_the_equation_of_the_appendix():
    p, truth = random_case((1, 4, 5))
    total = 0.0
    for i, j in product(range(4), range(5)):
        total += (float(p[0, i, j]) - float(truth[0, i, j])) ** 2
    assert brier(p, truth).item() == pytest.approx(total / (4 * 5))


@SHAPES
def test_brier_agrees_with_scikit_learn(shape):
    p, truth = random_case(shape)
    expected = [brier_score_loss(y, q) for q, y in flat_regions(p, truth)]
    assert brier(p, truth).tolist() == pytest.approx(expected)


@SHAPES
def test_likelihood_agrees_with_scikit_learn(shape):
    p, truth = random_case(shape)
    expected = [log_loss(y, q) for q, y in flat_regions(p, truth)]
    assert negative_log_likelihood(p, truth).tolist() == pytest.approx(expected)


@SHAPES
def test_classwise_ece_agrees_with_torchmetrics(shape):
    p, truth = random_case(shape)
    expected = []
    for q, y in flat_regions(p, truth):
        expected.append(binary_calibration_error(q, y, n_bins=20, norm="l1").item())
    assert classwise_ece_of(p, truth).tolist() == pytest.approx(expected, abs=1e-6)


@SHAPES
def test_ece_agrees_with_torchmetrics(shape):
    """20 bins from 0 to 1 are ten above one half."""
    p, truth = random_case(shape)
    expected = []
    for q, y in flat_regions(p, truth):
        both = torch.stack([1 - q, q], dim=1)
        error = multiclass_calibration_error(both, y, num_classes=2, n_bins=20, norm="l1")
        expected.append(error.item())
    assert ece_of(p, truth).tolist() == pytest.approx(expected, abs=1e-6)


def test_calibration_errors_by_hand():
    """Confidence is 0.92 four times, and three labels are right.

    Of the voxels with p = 0.92 half are foreground, of those with p = 0.08 none.
    """
    case = one_region([0.92, 0.92, 0.08, 0.08], [True, False, False, False])
    assert ece_of(*case).item() == pytest.approx(0.92 - 0.75)
    assert classwise_ece_of(*case).item() == pytest.approx((2 * 0.42 + 2 * 0.08) / 4)


@pytest.mark.parametrize("score", CALIBRATION)
def test_certain_and_right_is_perfect(score):
    case = one_region([1.0, 0.0], [True, False])
    assert score(*case).item() == pytest.approx(0, abs=1e-5)


def test_certain_and_wrong_is_worst_and_finite():
    case = one_region([1.0, 0.0], [False, True])
    assert brier(*case) == 1
    assert ece_of(*case) == 1
    assert classwise_ece_of(*case) == 1
    assert negative_log_likelihood(*case).item() == pytest.approx(np.log(2 * 65535))


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (brier, 0.0625),
        (negative_log_likelihood, -np.log(0.75)),
        (ece_of, 0.25),
        (classwise_ece_of, 0.25),
    ],
)
def test_an_empty_truth_has_a_defined_score(score, expected):
    p = torch.full((1, 4, 4, 1), 0.25)
    truth = torch.zeros(1, 4, 4, 1, dtype=torch.bool)
    assert score(p, truth).item() == pytest.approx(expected)


# Reliability


def test_reliability_agrees_with_a_histogram():
    p, truth = random_case((2, 6, 7, 8))
    counts = reliability(p, truth)
    for region in range(2):
        q = p[region].flatten().numpy()
        y = truth[region].flatten().double().numpy()
        weights = Reliability(voxels=np.ones_like(q), confidence=q, foreground=y)
        for sums, weight in zip(counts, weights, strict=True):
            expected, _ = np.histogram(q, bins=20, range=(0, 1), weights=weight)
            assert sums.dtype == torch.float64
            np.testing.assert_allclose(sums[region].numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_edge_belongs_to_the_more_confident_bin(dtype):
    """0 and 1 share the outer bins with 0.05 and 0.95; 0.5 is background."""
    edges = torch.arange(21, dtype=dtype) / 20
    truth = torch.zeros(1, 21, dtype=torch.bool)
    background_bins = [2] + 9 * [1]
    foreground_bins = [0] + 8 * [1] + [2]
    voxels = reliability(edges[None], truth).voxels[0]
    assert voxels.tolist() == background_bins + foreground_bins


def test_means_of_hard_masks_are_grouped_by_their_confidence():
    """Means of five masks lie on edges: p and 1 - p have the same confidence and count together."""
    p = (torch.arange(6) / 5).repeat(1000)[None]
    truth = torch.rand(p.shape, generator=torch.Generator().manual_seed(0)) < p + 0.1
    confidence = torch.maximum(p, 1 - p)
    is_right = (p > 0.5) == truth
    expected = 0.0
    for level in (0.6, 0.8, 1.0):
        group = (confidence - level).abs() < 1e-3
        gap = confidence[group].mean() - is_right[group].float().mean()
        expected += (gap.abs() * group.float().mean()).item()
    assert ece_of(p, truth).item() == pytest.approx(expected, abs=1e-6)


HALF = torch.tensor(0.5)
HALF_AND_A_LITTLE_MORE = torch.stack([HALF, HALF.nextafter(torch.tensor(1.0))])[None]
BACKGROUND_AND_FOREGROUND = torch.tensor([[False, True]])
FOREGROUND_AND_BACKGROUND = torch.tensor([[True, False]])


def test_one_half_is_counted_as_background_and_a_little_more_as_foreground():
    counts = reliability(HALF_AND_A_LITTLE_MORE, BACKGROUND_AND_FOREGROUND)
    assert counts.voxels[0].nonzero().flatten().tolist() == [9, 10]


@pytest.mark.parametrize("truth", [BACKGROUND_AND_FOREGROUND, FOREGROUND_AND_BACKGROUND])
def test_labels_of_confidence_one_half_are_off_by_one_half(truth):
    assert ece_of(HALF_AND_A_LITTLE_MORE, truth).item() == pytest.approx(0.5)


def test_one_half_is_a_mistake_if_the_truth_is_foreground():
    assert aurc_of(HALF_AND_A_LITTLE_MORE, BACKGROUND_AND_FOREGROUND).item() == 0
    assert aurc_of(HALF_AND_A_LITTLE_MORE, FOREGROUND_AND_BACKGROUND).item() == 1


def test_reliabilities_of_cases_add_up_to_that_of_all_voxels():
    p, truth = random_case((2, 40))
    first = reliability(p[:, :10], truth[:, :10])
    second = reliability(p[:, 10:], truth[:, 10:])
    together = reliability(p, truth)
    torch.testing.assert_close(first.voxels + second.voxels, together.voxels)
    torch.testing.assert_close(first.confidence + second.confidence, together.confidence)
    torch.testing.assert_close(first.foreground + second.foreground, together.foreground)


# Risk and coverage


def risks_by_definition(is_wrong):
    """The share of mistakes among the first n voxels, for every n."""
    return [np.mean(is_wrong[:n]) for n in range(1, len(is_wrong) + 1)]


def most_confident_first(p, truth):
    """Whether each voxel of a region is wrong, in the order of confidence."""
    order = np.argsort(-np.maximum(p, 1 - p).numpy().ravel())
    is_wrong = (p > 0.5) != truth
    return is_wrong.numpy().ravel()[order]


def test_aurc_without_ties_is_its_definition():
    p, truth = random_case((3, 5, 6, 4))
    expected = []
    for q, y in zip(p, truth, strict=True):
        expected.append(np.mean(risks_by_definition(most_confident_first(q, y))))
    assert aurc_of(p, truth).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("coverage", [1 / 120, 0.25, 0.5, 1.0])
def test_risk_without_ties_is_its_definition(coverage):
    p, truth = random_case((3, 5, 6, 4))
    risks = risk_coverage(mistakes(p, truth), torch.tensor([coverage]))[:, 0]
    kept = round(coverage * 120)
    expected = []
    for q, y in zip(p, truth, strict=True):
        expected.append(most_confident_first(q, y)[:kept].mean())
    assert risks.tolist() == pytest.approx(expected)


def case_with_ties():
    """Three voxels of confidence 1, three of 0.75, one of 0.5."""
    return one_region(
        [1.0, 0.0, 1.0, 0.25, 0.75, 0.75, 0.5],
        [True, True, True, False, False, True, True],
    )


def mean_risks_over_orders():
    """The mean risks over every order of the tied voxels, given which of them are wrong."""
    certain = [False, True, False]
    unsure = [False, True, False]
    undecided = [True]
    risks = []
    for certain_order, unsure_order in product(permutations(certain), permutations(unsure)):
        risks.append(risks_by_definition([*certain_order, *unsure_order, *undecided]))
    return np.mean(risks, axis=0)


def test_aurc_of_ties_is_the_mean_over_every_order_of_them():
    assert aurc_of(*case_with_ties()).item() == pytest.approx(mean_risks_over_orders().mean())


def test_risks_of_ties_are_the_mean_over_every_order_of_them():
    coverages = (torch.arange(1, 8) / 7).tolist()
    risks = risks_of(*case_with_ties(), coverages)
    np.testing.assert_allclose(risks, mean_risks_over_orders(), rtol=1e-6)


def test_the_order_of_voxels_does_not_matter():
    p, truth = random_case((2, 60))
    p = (p * 4).round() / 4  # few levels, many ties
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(aurc_of(p[:, order], truth[:, order]), aurc_of(p, truth))


def test_if_all_voxels_are_equally_confident_the_risk_is_the_error_rate_at_every_coverage():
    p = torch.ones(1, 8)
    truth = torch.tensor([[True] * 6 + [False] * 2])
    assert aurc_of(p, truth).item() == pytest.approx(0.25)
    assert risks_of(p, truth, [0, 0.01, 0.5, 0.77, 1]) == pytest.approx([0.25] * 5)


FOREGROUND_THREE_TIMES = torch.tensor([[True, True, True, False]])


def test_aurc_is_low_if_the_mistake_is_the_least_confident_voxel():
    p = torch.tensor([[0.9, 0.9, 0.9, 0.6]])
    area = (0 + 0 + 0 + 1 / 4) / 4
    assert aurc_of(p, FOREGROUND_THREE_TIMES).item() == pytest.approx(area)
    risks = risks_of(p, FOREGROUND_THREE_TIMES, [0, 0.75, 1])
    assert risks == pytest.approx([0, 0, 0.25])


def test_aurc_is_high_if_the_mistake_is_the_most_confident_voxel():
    p = torch.tensor([[0.6, 0.6, 0.6, 0.9]])
    area = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert aurc_of(p, FOREGROUND_THREE_TIMES).item() == pytest.approx(area)


@pytest.mark.parametrize("score", [*CALIBRATION, aurc_of])
def test_each_region_has_its_own_score(score):
    p, truth = random_case((3, 5, 6, 4))
    separately = [score(p[k : k + 1], truth[k : k + 1]) for k in range(3)]
    torch.testing.assert_close(score(p, truth), torch.cat(separately))
