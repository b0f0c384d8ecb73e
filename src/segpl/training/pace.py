"""How long a training step takes on this machine, and how many steps fit into a given time."""

import statistics
import time
from dataclasses import replace

import torch

from segpl.data.cases import Task
from segpl.em.types import Batch
from segpl.foundation.device import choose_device
from segpl.settings.run import Run

MOMENTS = (0.05, 0.25, 0.45, 0.65, 0.85)
"""Where in the run the timed steps are taken: methods that begin with labels alone are faster at first."""
IN_STEPS = 0.85
"""Share of the time that is left for steps; views, validation and checkpoints take the rest."""


def seconds_per_step(run: Run, task: Task) -> float:
    """Seconds of a training step, from a few steps on noise with a model that is thrown away."""
    device = choose_device()
    model = run.build(task).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=run.learning_rate)
    batch = _noise(run, task, device)
    seconds = []
    for progress in (
        MOMENTS[-1],
        *MOMENTS,
    ):  # the first step is slower than the rest, and not counted
        started = time.perf_counter()
        loss = run.method.losses(model, batch, progress).total
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        run.method.after_step(model)
        loss.item()  # waits for a GPU
        seconds.append(time.perf_counter() - started)
    return statistics.mean(seconds[1:])


def seconds_of_training(run: Run, task: Task) -> float:
    """Seconds that the training of a run takes here in one process: the estimate that is shown to users."""
    return run.steps * seconds_per_step(run, task) / IN_STEPS


def within_minutes(run: Run, task: Task, minutes: float) -> Run:
    """The run with as many steps as fit into `minutes` on this machine, and the reason written down."""
    seconds = seconds_per_step(run, task)
    steps = max(1, int(IN_STEPS * 60 * minutes / seconds))
    why = f"{minutes:g} minutes at {seconds:.2g} s a step on the machine where the run began"
    return replace(run, steps=steps, why={**run.why, "steps": why})


def _noise(run: Run, task: Task, device: torch.device) -> Batch:
    """A batch of the run's shape."""
    unlabelled = run.batch * run.ratio if run.method.uses_unlabelled() else 0
    x_l = torch.randn(run.batch, len(task.channels), *run.patch, device=device)
    y_l = (torch.rand(run.batch, len(task.regions), *run.patch, device=device) > 0.9).float()
    x_u = torch.randn(unlabelled, len(task.channels), *run.patch, device=device)
    return Batch(
        x_l=x_l,
        y_l=y_l,
        x_p=x_l,
        y_p=y_l,
        x_u=x_u,
        seeds_l=torch.arange(run.batch, device=device),
        seeds_u=torch.arange(unlabelled, device=device),
    )
