"""A trained model, read from its run directory."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from segpl.foundation.errors import UserError
from segpl.rundir import RUN_FILE, WEIGHTS_FILE
from segpl.settings.run import Run, read_task


def load_model(directory: Path, run: Run) -> nn.Module:
    """The trained model of a run, in evaluation mode.

    It has the best weights on the validation cases or, without any, the last.
    """
    file = directory / WEIGHTS_FILE
    if not file.is_file():
        raise UserError(
            f"{directory} has no {WEIGHTS_FILE} because its training has not ended: "
            "continue it with segpl train --resume."
        )
    model = run.build(read_task(directory))
    try:
        model.load_state_dict(load_file(file))
    except (SafetensorError, RuntimeError):
        raise UserError(
            f"{file} does not hold the weights that {RUN_FILE} describes: train the run again."
        ) from None
    return model.eval()
