"""Temperature: it moves no mask, and the fit finds the temperature that made the data."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from segpl.foundation.errors import UserError
from segpl.inference.temperature import (
    apply_temperature,
    fit_temperature,
    read_temperature,
    save_temperature,
)


def overconfident(factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities whose logits are `factor` times those that the truth was drawn with."""
    draw = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(2, 60, 60, 20, generator=draw)
    truth = torch.rand(logits.shape, generator=draw) < logits.sigmoid()
    return (factor * logits).sigmoid(), truth


def test_temperature_1_changes_nothing():
    p = torch.rand(3, 4, 5)
    assert apply_temperature(p, 1.0) is p


def test_temperature_moves_no_mask_and_orders_confidence():
    p = torch.rand(2, 30, 30)
    confidence = (p - 0.5).abs()
    cool = apply_temperature(p, 0.1)
    assert torch.equal(cool > 0.5, p > 0.5)
    assert ((cool - 0.5).abs() >= confidence - 1e-6).all()
    warm = apply_temperature(p, 15.0)
    assert torch.equal(warm > 0.5, p > 0.5)
    assert ((warm - 0.5).abs() <= confidence + 1e-6).all()


def test_temperature_by_hand():
    odds = (0.8 / 0.2) ** 0.5  # 2 to 1
    expected = odds / (1 + odds)
    assert apply_temperature(torch.tensor([0.8]), 2.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_fit_finds_the_temperature_that_made_the_data(factor):
    fitted = fit_temperature([overconfident(factor)])
    assert fitted["temperature"] == pytest.approx(factor, rel=0.03)
    assert fitted["nll_after"] <= fitted["nll_before"]


def test_the_fit_agrees_with_gradient_descent_on_the_voxels():
    p, truth = overconfident(2.0)
    log_temperature = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([log_temperature], max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        logits = p.logit(eps=1e-7) / log_temperature.exp()
        value = binary_cross_entropy_with_logits(logits, truth.float())
        value.backward()
        return value

    optimiser.step(loss)
    fitted = fit_temperature([(p, truth)])
    assert fitted["temperature"] == pytest.approx(log_temperature.exp().item(), rel=1e-3)
    assert fitted["nll_after"] == pytest.approx(loss().item(), rel=1e-4)


def test_saturated_probabilities_keep_the_fit_finite():
    """Half wrong at full confidence: the temperature is the highest that is allowed."""
    p = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    truth = torch.tensor([[False, True, False, True]])
    fitted = fit_temperature([(p, truth)])
    assert fitted["temperature"] == pytest.approx(20, rel=0.01)


def test_a_saved_temperature_is_read_again(tmp_path):
    save_temperature(tmp_path, {"temperature": 1.5, "nll_before": 1.0, "nll_after": 0.9})
    assert read_temperature(tmp_path) == 1.5


def test_a_temperature_that_was_not_fitted_is_an_error(tmp_path):
    with pytest.raises(UserError, match="segpl evaluate"):
        read_temperature(tmp_path / "nowhere")
