"""Compiled networks: the same losses and gradients, and no run lost to a compiler that fails."""

import pytest
import torch

from segpl.em.types import Losses
from segpl.methods import METHODS
from segpl.networks.arrangement import REPAYS, Compiler, repays
from segpl.networks.unet import UNet

pytestmark = pytest.mark.usefixtures("utf_8")


def losses_and_gradients(method, network, batch, wanted):
    torch.manual_seed(0)
    model = method.build(network)
    compiler = Compiler(model, wanted)
    found = compiler(lambda: method.losses(model, batch, progress=0.5))
    found.total.backward()
    gradients = {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    return compiler.stance, found.total.detach(), gradients


def test_compiled_networks_have_the_losses_and_gradients_of_plain_ones(network, batch):
    """An averaged network labels and another one learns, so both ways of being called are compiled."""
    method = METHODS["segpl-em"]()
    _, plain, expected = losses_and_gradients(method, network, batch, wanted=False)
    stance, compiled, found = losses_and_gradients(method, network, batch, wanted=True)
    assert stance == "default", "the compiler must not have failed"
    torch.testing.assert_close(compiled, plain, atol=1e-5, rtol=1e-5)
    assert found.keys() == expected.keys()
    largest = max(gradient.abs().max() for gradient in expected.values())
    assert max((found[name] - expected[name]).abs().max() for name in expected) < 1e-4 * largest


def test_a_compiler_that_fails_costs_a_line_and_not_the_run(capsys):
    called = []

    def losses():
        called.append(True)
        if len(called) == 1:
            raise RuntimeError("no C++ compiler\nlong story")
        return Losses({"labelled": torch.ones(())})

    compiler = Compiler(UNet(1, 1, 4, (16, 16)), wanted=True)
    assert compiler(losses).total == compiler(losses).total == 1
    assert len(called) == 3, "the failed step is done again, and the next ones are not tried"
    said = " ".join(capsys.readouterr().err.split())
    assert said == "The networks could not be compiled (no C++ compiler): going on without."


def test_an_error_that_is_not_the_compilers_is_not_swallowed():
    def losses():
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        Compiler(UNet(1, 1, 4, (16, 16)), wanted=True)(losses)


def test_long_runs_are_compiled_and_short_ones_are_not():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert repays(1.1 * REPAYS[device], axes=3)
    assert not repays(0.9 * REPAYS[device], axes=3)
    assert repays(1.1 * REPAYS[device], axes=2) == (device == "cuda")
