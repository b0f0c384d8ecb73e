"""What holds for every shift, and for some."""

import pytest
import torch

from segpl.errors import UserError
from segpl.evaluation.shifts import FGSM, PGD, SHIFTS, OutOfDistribution, parse_shifts
from segpl.losses import dice_loss


@pytest.fixture
def predict(network):
    torch.manual_seed(0)
    model = network().requires_grad_(False)
    return lambda x: model(x).sigmoid()[None]


@pytest.mark.parametrize("name", SHIFTS)
def test_level_0_changes_nothing_bit_for_bit(name, batch, predict):
    assert torch.equal(SHIFTS[name](0)(batch.x_l, batch.y_l, predict, 1), batch.x_l)


@pytest.mark.parametrize("name", SHIFTS)
def test_same_seed_same_shift(name, batch, predict):
    first, again = (SHIFTS[name](0.1)(batch.x_l, batch.y_l, predict, 5) for _ in range(2))
    assert torch.equal(first, again)


def test_ood_is_the_papers_mix(batch, predict):
    half, whole = (OutOfDistribution(level)(batch.x_l, batch.y_l, predict, 3) for level in (0.5, 1.0))
    torch.testing.assert_close(half, 0.5 * whole + 0.5 * batch.x_l)
    other = OutOfDistribution(1.0)(batch.x_l, batch.y_l, predict, 4)
    assert not torch.allclose(whole, other)


def loss(x, batch, predict):
    return dice_loss(predict(x)[0], batch.y_l).item()


def test_fgsm_steps_along_the_sign_of_the_gradient(batch, predict):
    x = batch.x_l.clone().requires_grad_()
    dice_loss(predict(x)[0], batch.y_l).backward()
    moved = FGSM(0.01)(batch.x_l, batch.y_l, predict, 0)
    torch.testing.assert_close(moved, batch.x_l + 0.01 * x.grad.sign())
    assert loss(moved, batch, predict) > loss(batch.x_l, batch, predict)


def test_pgd_stays_in_its_ball_and_is_at_least_as_strong_as_fgsm(batch, predict):
    attacked = PGD(0.05)(batch.x_l, batch.y_l, predict, 0)
    assert (attacked - batch.x_l).abs().max() <= 0.05 + 1e-6
    assert loss(attacked, batch, predict) >= loss(FGSM(0.05)(batch.x_l, batch.y_l, predict, 0), batch, predict)


@pytest.mark.parametrize(
    "text", ["fog=1", "ood=much", "0.1", "ood", "ood=", "clean=1", "ood=-1", "ood=nan", "fgsm=inf"]
)
def test_a_shift_that_is_none(text):
    with pytest.raises(UserError, match=f"--shift {text} (is not a shift|has no usable level)"):
        parse_shifts([text])


def test_the_same_shift_twice_is_one():
    assert [shift.name for shift in parse_shifts(["ood=0.1", "ood=0.1", "fgsm=0.1"])] == ["clean", "ood", "fgsm"]
