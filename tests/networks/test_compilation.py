"""Compiled networks have the same losses, and a compiler that fails does not end a run."""

import pytest
import torch

from segpl.em.types import Losses
from segpl.methods import METHODS
from segpl.networks.compilation import WORTHWHILE_OPERATIONS, Compiler, worth_compiling
from segpl.networks.unet import UNet

pytestmark = pytest.mark.usefixtures("utf_8")


def total_and_gradients(method, network, batch, wanted):
    """The loss and the gradients of one step, with or without compilation."""
    torch.manual_seed(0)
    model = method.build(network)
    compiler = Compiler(model, wanted)
    total = compiler(lambda: method.losses(model, batch, progress=0.5)).total
    total.backward()
    if wanted:
        assert compiler.stance == "default", "the compiler must not have failed"
    gradients = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            gradients[name] = weight.grad
    return total.detach(), gradients


def test_compiled_networks_have_the_losses_and_gradients_of_uncompiled_ones(network, batch):
    """segpl-em calls one network with gradients and another one, the average, without."""
    method = METHODS["segpl-em"]()
    total, gradients = total_and_gradients(method, network, batch, wanted=False)
    compiled_total, compiled_gradients = total_and_gradients(method, network, batch, wanted=True)
    torch.testing.assert_close(compiled_total, total, atol=1e-5, rtol=1e-5)
    assert compiled_gradients.keys() == gradients.keys()
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert (compiled_gradients[name] - gradient).abs().max() < 1e-4 * largest


class FailsOnce:
    """Losses that raise an error at the first call only, as a compiler would."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("no C++ compiler\nlong story")
        return Losses({"labelled": torch.ones(())})


def test_after_a_failure_this_and_later_steps_run_uncompiled():
    losses = FailsOnce()
    compiler = Compiler(UNet(1, 1, 4, (16, 16)), wanted=True)
    assert compiler(losses).total == 1
    assert losses.calls == 2, "the failed step is repeated"
    assert compiler(losses).total == 1
    assert losses.calls == 3, "the next step is computed once"


def test_a_failure_is_reported_in_one_sentence(capsys):
    compiler = Compiler(UNet(1, 1, 4, (16, 16)), wanted=True)
    compiler(FailsOnce())
    message = " ".join(capsys.readouterr().err.split())
    assert message == (
        "The networks could not be compiled (no C++ compiler): continuing without compilation."
    )


def test_an_error_that_is_not_the_compilers_is_raised():
    def losses():
        raise RuntimeError("out of memory")

    compiler = Compiler(UNet(1, 1, 4, (16, 16)), wanted=True)
    with pytest.raises(RuntimeError, match="out of memory"):
        compiler(losses)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LONG_RUN = 1.1 * WORTHWHILE_OPERATIONS[DEVICE]
SHORT_RUN = 0.9 * WORTHWHILE_OPERATIONS[DEVICE]


def test_long_runs_on_volumes_are_worth_compiling():
    assert worth_compiling(LONG_RUN, axes=3)
    assert not worth_compiling(SHORT_RUN, axes=3)


def test_long_runs_on_planes_are_worth_compiling_on_a_gpu_only():
    assert worth_compiling(LONG_RUN, axes=2) == (DEVICE == "cuda")
