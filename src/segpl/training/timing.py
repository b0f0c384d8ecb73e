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
"""Shares of the run at which steps are timed: methods that start with labels only speed up."""
SHARE_OF_STEPS = 0.85
"""Share of the time that steps take; views, validation and checkpoints take the rest."""


def seconds_per_step(run: Run, task: Task) -> float:
    """The mean of a few training steps on noise, with a model that is thrown away."""
    device = choose_device()
    model = run.build(task).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=run.learning_rate)
    batch = _noise(run, task, device)
    seconds = []
    warm_up = MOMENTS[-1]
    for progress in (warm_up, *MOMENTS):
        started = time.perf_counter()
        loss = run.method.losses(model, batch, progress).total
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        run.method.after_step(model)
        loss.item()  # waits for a GPU
        seconds.append(time.perf_counter() - started)
    return statistics.mean(seconds[1:])  # the first step is slower than the rest


def seconds_of_training(run: Run, task: Task) -> float:
    """The estimated duration of a run's training on this machine, in one process."""
    return run.steps * seconds_per_step(run, task) / SHARE_OF_STEPS


def within_minutes(run: Run, task: Task, minutes: float) -> Run:
    """The run with as many steps as fit into `minutes` on this machine, and with the reason."""
    seconds = seconds_per_step(run, task)
    steps = max(1, int(SHARE_OF_STEPS * 60 * minutes / seconds))
    why = f"{minutes:g} minutes at {seconds:.2g} s a step on the machine where the run began"
    return replace(run, steps=steps, why={**run.why, "steps": why})


def _noise(run: Run, task: Task, device: torch.device) -> Batch:
    """A random batch of the run's shape."""
    labelled = run.labelled_per_step
    unlabelled = run.unlabelled_per_step
    channels = len(task.channels)
    regions = len(task.regions)
    x_l = torch.randn(labelled, channels, *run.patch, device=device)
    uniform = torch.rand(labelled, regions, *run.patch, device=device)
    y_l = (uniform > 0.9).float()
    x_u = torch.randn(unlabelled, channels, *run.patch, device=device)
    return Batch(
        x_l=x_l,
        y_l=y_l,
        x_p=x_l,
        y_p=y_l,
        x_u=x_u,
        seeds_l=torch.arange(labelled, device=device),
        seeds_u=torch.arange(unlabelled, device=device),
    )
