"""Temperature: what it leaves alone, and that the fit finds the temperature that made the data."""

import pytest
import torch

from segpl.foundation.errors import UserError
from segpl.inference.temperature import (
    fit_temperature,
    read_temperature,
    save_temperature,
    tempered,
)


def overconfident(factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities whose logits are `factor` times those that the truth was drawn with."""
    draw = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(2, 60, 60, 20, generator=draw)
    truth = torch.rand(logits.shape, generator=draw) < logits.sigmoid()
    return (factor * logits).sigmoid(), truth


def test_temperature_1_changes_nothing():
    p = torch.rand(3, 4, 5)
    assert tempered(p, 1.0) is p


def test_temperature_moves_no_mask_and_orders_confidence():
    p = torch.rand(2, 30, 30)
    cool, warm = tempered(p, 0.1), tempered(p, 15.0)
    assert torch.equal(cool > 0.5, p > 0.5)
    assert torch.equal(warm > 0.5, p > 0.5)
    assert ((cool - 0.5).abs() >= (p - 0.5).abs() - 1e-6).all()
    assert ((warm - 0.5).abs() <= (p - 0.5).abs() + 1e-6).all()


def test_temperature_by_hand():
    assert tempered(torch.tensor([0.8]), 2.0).item() == pytest.approx(
        2 / 3
    )  # sqrt(0.8 / 0.2) = 2 to 1


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_fit_finds_the_temperature_that_made_the_data(factor):
    fitted = fit_temperature([overconfident(factor)])
    assert fitted["temperature"] == pytest.approx(factor, rel=0.03)
    assert fitted["nll_after"] <= fitted["nll_before"]


def test_the_fit_agrees_with_gradient_descent_on_the_voxels():
    p, truth = overconfident(2.0)
    scale = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([scale], max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(
            p.logit(eps=1e-7) / scale.exp(), truth.float()
        )
        value.backward()
        return value

    optimiser.step(loss)
    fitted = fit_temperature([(p, truth)])
    assert fitted["temperature"] == pytest.approx(scale.exp().item(), rel=1e-3)
    assert fitted["nll_after"] == pytest.approx(loss().item(), rel=1e-4)


def test_saturated_probabilities_keep_the_fit_finite():
    p = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    fitted = fit_temperature([(p, torch.tensor([[False, True, False, True]]))])
    assert fitted["temperature"] == pytest.approx(
        20, rel=0.01
    )  # half wrong at full confidence: as unsure as allowed


def test_saved_and_read(tmp_path):
    save_temperature(tmp_path, {"temperature": 1.5, "nll_before": 1.0, "nll_after": 0.9})
    assert read_temperature(tmp_path) == 1.5
    with pytest.raises(UserError, match="segpl evaluate"):
        read_temperature(tmp_path / "nowhere")
