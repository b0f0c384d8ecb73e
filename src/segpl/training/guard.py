"""The health of pseudo-labels while a method learns from them, and a guard that steps in when they collapse."""

from collections import deque
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from lightning import Callback, Trainer
from torch import Tensor, nn

from segpl.em.types import Batch, Losses
from segpl.foundation.progress import console
from segpl.settings.run import Run


@runtime_checkable
class Learner(Protocol):
    """What the monitor needs of the thing that learns."""

    run: Run
    model: nn.Module
    reference: "Reference"
    caution: float
    """The factor that alpha is backed off by."""
    healthy: bool
    """Whether pseudo-labels have been healthy once: the guard keeps the last checkpoint so from then on."""
    validation_counts: bool
    """Whether the weights are still those of the last validation, so that its score is theirs."""
    guard_acts: list[dict[str, Any]] | None
    """What the guard did so far; None where a resumed run cannot know."""
    milestones: dict[str, float]
    """What is logged once a validation."""

    def first_weights(self) -> dict[str, Tensor]:
        """The weights that the run began with."""

    def probe_here(self) -> Batch:
        """The same few images at every validation, where the model is."""


def health(losses: Losses, batch: Batch) -> dict[str, Tensor]:
    """What is logged of one step: foreground in pseudo-labels and labels, the threshold, and who pulls harder."""
    seen = {}
    if losses.y_u is not None:
        seen["pseudo_foreground"] = losses.y_u.mean()
        seen["labelled_foreground"] = batch.y_l.mean()
        seen["unlabelled_to_labelled"] = losses.pull
    if losses.threshold is not None:
        seen |= {
            "threshold": losses.threshold.mean(),
            "threshold_spread": losses.threshold.std(correction=0),
        }
    return seen


def shares(y: Float[Tensor, "B K *space"]) -> Float[Tensor, " K"]:
    """The foreground's share of the voxels, region by region."""
    return y.flatten(2).mean((0, 2))


class Reference(NamedTuple):
    """What the labels hold, to judge pseudo-labels by: of whole volumes, as the unlabelled ones are."""

    share: Float[Tensor, " K"]
    """The foreground's share of the voxels."""
    met: Float[Tensor, " K"]
    """How likely a patch that is drawn anywhere meets a region."""


def reference(labels: Sequence[Bool[Tensor, "K X Y Z"]], patch: tuple[int, ...]) -> Reference:
    """The means over the labelled volumes."""
    share = torch.stack([shares(y[None].float()) for y in labels]).mean(0)
    return Reference(share, torch.stack([met(y, patch) for y in labels]).mean(0))


def met(y: Bool[Tensor, "K X Y Z"], patch: tuple[int, ...]) -> Float[Tensor, " K"]:
    """The share of all patches of a volume that meet each region: axis by axis, whether there is any in reach."""
    for axis, wanted in enumerate((*patch, 1)[:3], start=1):
        places = y.shape[axis] - min(wanted, y.shape[axis]) + 1
        before = torch.zeros_like(y.narrow(axis, 0, 1), dtype=torch.int16)
        sums = torch.cat([before, y.cumsum(axis, dtype=torch.int16)], axis)
        y = sums.narrow(axis, sums.shape[axis] - places, places) > sums.narrow(axis, 0, places)
    return y.flatten(1).float().mean(1)


def collapse(
    pseudo: Float[Tensor, " K"], labelled: Float[Tensor, " K"], expected: Float[Tensor, " K"]
) -> str | None:
    """What is wrong with the pseudo-labels of some region, in words, or nothing.

    Empty: under a hundredth of what the labels hold, though `expected`, the number of patches that would meet the
    region if the unlabelled scans are like the labelled ones, leaves a chance below 1 % that none did. Full: nearer to
    everything than to what the labels hold.
    """
    if ((labelled > 0) & (expected >= 5) & (pseudo < 0.01 * labelled)).any():
        return "empty"
    return "full" if (pseudo > (1 + labelled) / 2).any() else None


class Monitor(Callback):
    """Says how far the pseudo-labels of the same few images moved between validations: the convergence of EM."""

    def __init__(self) -> None:
        self.before: Tensor | None = None

    def on_train_start(self, trainer: Trainer, learner: Any) -> None:
        """Label the probe with the weights at hand; after a resume they are the checkpoint's, so nothing is lost."""
        self.before = self._label(learner)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Label it again, and compare."""
        now = self._label(learner)
        if now is not None and self.before is not None:
            learner.milestones["pseudo_changed"] = float((now != self.before).float().mean())
        self.before = now

    @torch.no_grad()
    def _label(self, learner: Learner) -> Tensor | None:
        return learner.run.method.losses(learner.model, learner.probe_here(), progress=1.0).y_u


class Guard(Callback):
    """Backs alpha off and goes back to healthy weights when the pseudo-labels go empty or full and the labels are not.

    Judged on the later half of the steps before a validation. Weights that were never healthy may just be young: they
    are left alone while the labels pull much harder than the pseudo-labels. Otherwise the first time only alpha is
    backed off, and the second time the run begins again from its first weights. The third time is the last: scans that
    are as empty as their pseudo-labels must not hold up the labelled ones for ever.
    """

    FACTOR, TIMES = 0.1, 3
    YOUNG = 0.3
    """While the unlabelled images pull less than this share of the labelled ones, a bad start is not their doing."""

    def __init__(self, last_checkpoint: Path, steps: int):
        self.last_checkpoint = last_checkpoint
        self.pseudo: deque[Tensor] = deque(maxlen=steps)
        self.pulls: deque[Tensor] = deque(maxlen=steps)

    def watch(self, losses: Losses) -> None:
        """Take down one step."""
        if losses.y_u is not None:
            self.pseudo.append(shares(losses.y_u.detach()))
            self.pulls.append(losses.pull.detach())

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Judge, and act."""
        learner.validation_counts = True
        counts = learner.run.method.unlabelled_weight(trainer.global_step / learner.run.steps)
        pseudo, pulls = list(self.pseudo), list(self.pulls)
        self.pseudo.clear()
        self.pulls.clear()
        if not pseudo or not counts:
            return
        # All processes must judge alike: their means are one.
        seen = trainer.strategy.reduce(torch.stack(pseudo).mean(0), reduce_op="mean")
        pull = trainer.strategy.reduce(torch.stack(pulls).mean(), reduce_op="mean")
        patches = len(pseudo) * learner.run.batch * learner.run.ratio
        share, chance = (part.to(seen) for part in learner.reference)
        wrong = collapse(seen, share, patches * chance)
        if wrong is None:
            learner.healthy = True
        if (
            wrong is None
            or self._acts(learner) == self.TIMES
            or (not learner.healthy and pull < self.YOUNG)
        ):
            return
        learner.caution *= self.FACTOR
        self._record(trainer.global_step, learner, wrong)
        went_back = self._go_back(trainer, learner)
        console.print(
            f"step {trainer.global_step}: the pseudo-labels have gone {wrong} and the labels are not. alpha is now "
            f"{learner.caution:g} of what it was{went_back}. (Switch this off with --set guard=false.)"
        )

    def _record(self, step: int, learner: Learner, wrong: str) -> None:
        if learner.guard_acts is not None:
            act = {"after_step": step, "alpha_factor": learner.caution, "pseudo_labels": wrong}
            learner.guard_acts.append(act)

    def _acts(self, learner: Learner) -> int:
        """How often it has stepped in; alpha itself keeps count."""
        return round(log(learner.caution, self.FACTOR))

    def _go_back(self, trainer: Trainer, learner: Learner) -> str:
        optimiser = trainer.optimizers[0]
        rates = [group["lr"] for group in optimiser.param_groups]
        if learner.healthy:
            checkpoint = torch.load(self.last_checkpoint, map_location="cpu", weights_only=False)
            weights = {
                name.removeprefix("model."): weight
                for name, weight in checkpoint["state_dict"].items()
            }
            optimiser.load_state_dict(checkpoint["optimizer_states"][0])
            said = ", and the weights are those of the last healthy checkpoint"
        elif self._acts(learner) > 1:
            weights, said = (
                learner.first_weights(),
                ", and the run begins again from its first weights",
            )
            optimiser.state.clear()
        else:
            return ""
        learner.model.load_state_dict(weights)
        learner.validation_counts = False
        for group, rate in zip(
            optimiser.param_groups, rates, strict=True
        ):  # the decay goes on where it is
            group["lr"] = rate
        return said
