"""A guard that steps in when pseudo-labels collapse, and a monitor of their convergence."""

from collections import deque
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from lightning import Callback, Trainer
from torch import Tensor, nn

from segpl.em.types import Batch, Losses
from segpl.foundation.progress import console
from segpl.settings.run import Run
from segpl.training.checkpoints import model_weights, read_checkpoint
from segpl.training.pseudo_label_health import Reference, collapse, foreground_share

Checkpoint = dict[str, Any]


@dataclass
class GuardState:
    """What the guard did so far; part of every checkpoint."""

    alpha_factor: float = 1.0
    """The factor on alpha, reduced at each action."""
    was_healthy: bool = False
    """Whether the pseudo-labels were ever healthy. From then on the last checkpoint is, too."""
    actions: list[dict[str, Any]] | None = field(default_factory=list)
    """The actions as in `facts.json`; None where a resumed run cannot know them."""

    def to_checkpoint(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "caution": self.alpha_factor,
            "healthy": self.was_healthy,
            "acts": self.actions,
        }

    @staticmethod
    def from_checkpoint(values: dict[str, Any]) -> "GuardState":
        """The state from plain values; version 0.1 did not keep the actions."""
        return GuardState(values["caution"], values["healthy"], values.get("acts"))


@runtime_checkable
class GuardedLearner(Protocol):
    """What the guard and the monitor need of the Lightning module that learns."""

    run: Run
    model: nn.Module
    reference: Reference
    guard_state: GuardState
    validation_is_current: bool
    """Whether the weights are still those of the last validation."""
    epoch_metrics: dict[str, float]
    """What is logged once per validation."""

    def initial_weights(self) -> dict[str, Tensor]:
        """The weights that the run began with."""

    def probe_on_device(self) -> Batch:
        """The same few images at every validation, on the device of the model."""

    def is_at_validation(self) -> bool:
        """Whether no step was made since the last validation."""


class Monitor(Callback):
    """Logs the share of pseudo-label voxels that changed between validations, for fixed images.

    This is the convergence of EM.
    """

    def __init__(self) -> None:
        self.previous: Tensor | None = None

    def on_train_start(self, trainer: Trainer, learner: Any) -> None:
        """Make the first pseudo-labels, unless the checkpoint has those of the last validation."""
        if self.previous is None:
            self.previous = self._pseudo_labels(learner)

    def on_save_checkpoint(self, trainer: Trainer, learner: Any, checkpoint: Checkpoint) -> None:
        """Keep the pseudo-labels of the last validation, if the weights have changed since."""
        if not learner.is_at_validation():
            checkpoint["monitor"] = self.previous

    def on_load_checkpoint(self, trainer: Trainer, learner: Any, checkpoint: Checkpoint) -> None:
        """Compare with what was kept."""
        kept = checkpoint.get("monitor")
        if kept is not None:
            self.previous = kept.to(learner.device)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Make them again, and compare."""
        current = self._pseudo_labels(learner)
        if current is not None and self.previous is not None:
            changed = (current != self.previous).float().mean()
            learner.epoch_metrics["pseudo_changed"] = float(changed)
        self.previous = current

    @torch.no_grad()
    def _pseudo_labels(self, learner: GuardedLearner) -> Tensor | None:
        batch = learner.probe_on_device()
        return learner.run.method.losses(learner.model, batch, progress=1.0).y_u


class Guard(Callback):
    """Acts when pseudo-labels become empty or full although the labels are not.

    It judges the later half of the steps before each validation. It reduces alpha and returns to
    healthy weights: those of the last checkpoint if pseudo-labels were ever healthy. If they never
    were, the first action only reduces alpha, and the second restarts from the initial weights.
    Weights that were never healthy may only need time, so nothing happens while the loss against
    labels is much larger than the loss against pseudo-labels. After three actions the guard stops:
    scans that truly hold no foreground must not hold up the training for ever.
    """

    FACTOR = 0.1
    """Each action multiplies alpha by this."""
    MOST_ACTIONS = 3
    EARLY_RATIO = 0.3
    """Below this ratio of the losses, pseudo-labels cannot be the reason for a bad start."""

    def __init__(self, last_checkpoint: Path, steps: int):
        """`steps` is the number of steps before a validation that are judged."""
        self.last_checkpoint = last_checkpoint
        self.shares: deque[Tensor] = deque(maxlen=steps)
        self.ratios: deque[Tensor] = deque(maxlen=steps)

    def on_save_checkpoint(self, trainer: Trainer, learner: Any, checkpoint: Checkpoint) -> None:
        """Keep what is to be judged at the next validation: the means over all processes."""
        checkpoint["guarded"] = {
            "shares": [trainer.strategy.reduce(x, reduce_op="mean") for x in self.shares],
            "ratios": [trainer.strategy.reduce(x, reduce_op="mean") for x in self.ratios],
        }

    def on_load_checkpoint(self, trainer: Trainer, learner: Any, checkpoint: Checkpoint) -> None:
        """Judge it together with the steps that follow."""
        kept = checkpoint.get("guarded", {})
        self.shares.extend(x.to(learner.device) for x in kept.get("shares", ()))
        self.ratios.extend(x.to(learner.device) for x in kept.get("ratios", ()))

    def watch(self, losses: Losses) -> None:
        """Remember the pseudo-labels of one step, if the method made any."""
        if losses.y_u is not None:
            self.shares.append(foreground_share(losses.y_u.detach()))
            self.ratios.append(losses.unlabelled_to_labelled.detach())

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Judge the pseudo-labels since the last validation, and act if need be."""
        learner.validation_is_current = True
        shares = list(self.shares)
        ratios = list(self.ratios)
        self.shares.clear()
        self.ratios.clear()
        progress = trainer.global_step / learner.run.steps
        if not shares or not learner.run.method.unlabelled_weight(progress):
            return
        # The mean over all processes, so that all of them decide alike.
        share = trainer.strategy.reduce(torch.stack(shares).mean(0), reduce_op="mean")
        ratio = trainer.strategy.reduce(torch.stack(ratios).mean(), reduce_op="mean")
        problem = self._problem(share, len(shares), learner)
        if problem is None:
            learner.guard_state.was_healthy = True
            return
        is_early = not learner.guard_state.was_healthy and ratio < self.EARLY_RATIO
        if is_early or self._count_actions(learner) == self.MOST_ACTIONS:
            return
        self._act(problem, trainer, learner)

    def _problem(self, share: Tensor, steps: int, learner: GuardedLearner) -> str | None:
        """Compare the pseudo-labels of these steps with the labelled volumes."""
        patches = steps * learner.run.batch * learner.run.ratio
        labelled = learner.reference.foreground.to(share)
        meeting_probability = learner.reference.meeting_probability.to(share)
        return collapse(share, labelled, patches * meeting_probability)

    def _act(self, problem: str, trainer: Trainer, learner: GuardedLearner) -> None:
        state = learner.guard_state
        state.alpha_factor *= self.FACTOR
        if state.actions is not None:
            action = {
                "after_step": trainer.global_step,
                "alpha_factor": state.alpha_factor,
                "pseudo_labels": problem,
            }
            state.actions.append(action)
        replaced = self._replace_weights(trainer, learner)
        console.print(
            f"Step {trainer.global_step}: the pseudo-labels have become {problem}, but the labels "
            f"are not. Alpha is now {state.alpha_factor:g} of its first value{replaced}. "
            "Turn this guard off with --set guard=false."
        )

    def _count_actions(self, learner: GuardedLearner) -> int:
        """The number of actions so far, from the factor on alpha."""
        return round(log(learner.guard_state.alpha_factor, self.FACTOR))

    def _replace_weights(self, trainer: Trainer, learner: GuardedLearner) -> str:
        """Return to earlier weights, if there are any to trust; say so in half a sentence."""
        optimiser = trainer.optimizers[0]
        learning_rates = [group["lr"] for group in optimiser.param_groups]
        if learner.guard_state.was_healthy:
            checkpoint = read_checkpoint(self.last_checkpoint)
            weights = model_weights(checkpoint)
            optimiser.load_state_dict(checkpoint["optimizer_states"][0])
            replaced = ", and the weights are those of the last healthy checkpoint"
        elif self._count_actions(learner) > 1:
            weights = learner.initial_weights()
            optimiser.state.clear()
            replaced = ", and training starts again from the initial weights"
        else:
            return ""
        learner.model.load_state_dict(weights)
        learner.validation_is_current = False
        # The decay of the learning rate continues where it was.
        for group, learning_rate in zip(optimiser.param_groups, learning_rates, strict=True):
            group["lr"] = learning_rate
        return replaced
