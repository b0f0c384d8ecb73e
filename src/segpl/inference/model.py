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
        weights = load_file(file)
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError):
        raise UserError(
            f"{file} does not hold the weights that {RUN_FILE} describes: train the run again."
        ) from None
    if not all(weight.isfinite().all() for weight in weights.values()):
        raise UserError(
            f"{file} holds weights that are NaN or infinite: copy it again, or train the run again."
        )
    return model.eval()
