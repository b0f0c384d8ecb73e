"""A run's prediction as a TorchScript program, which needs neither segpl nor Python."""

import torch

from segpl.exporting.substitutes import PORTABLE, tracing
from segpl.exporting.trained import Trained, prediction_module
from segpl.exporting.verification import tracing_example, verify


def to_torchscript(trained: Trained) -> torch.jit.ScriptModule:
    """Trace the prediction, and check the program against the run."""
    example = tracing_example(trained)
    with tracing(PORTABLE):
        program = torch.jit.trace(prediction_module(trained), (example,), check_trace=False)
    verify(trained, program, "TorchScript")
    return program
