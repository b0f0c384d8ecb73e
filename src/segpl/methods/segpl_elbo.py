"""SegPL-ELBO: SegPL-VI with a threshold whose posterior learns from the data."""

from dataclasses import dataclass
from typing import Literal

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.foundation.errors import UserError
from segpl.methods.base import Model, Thresholded


@dataclass(frozen=True)
class SegPLElbo(Thresholded):
    """As segpl-vi, but the bound of Eq. 7 is maximised over phi as well as theta.

    T is a single number, so the expectation over T is an exact sum over a grid of thresholds,
    E[L] = sum_g L(t_g) [F(b_(g+1)) - F(b_g)], where F is the posterior's distribution function and
    t_g the middle of the cell from b_g to b_(g+1). The gradient reaches phi through F. L needs
    none, so the indicator p > T is not relaxed.

    With `evidence: unlabelled`, L(T) is the M-step's loss of an unlabelled image against the
    pseudo-label that T cuts from it, as in Eq. 7. No such label was observed: log P(y_u | x_u, T)
    with a y_u made by T is not a likelihood, and phi learns a generalised (Gibbs) posterior. It
    favours the T whose pseudo-labels the network agrees with most, right or wrong. For the
    cross-entropy that is T = 1/2; only the Dice in the objective can prefer another.

    With `evidence: labelled`, L(T) is minus the log-likelihood per voxel of the labels of a
    labelled image, whose voxels are foreground with probability sigmoid(logit p - logit T). These
    labels are observed. Neighbouring voxels are not independent, so all voxels of an image count
    as one observation; a `kl_weight` of 1 / voxels counts each voxel.

    A slope of L moves the mean of a Normal posterior by about slope * sigma_beta^2 / kl_weight
    away from the prior: with the paper's prior and weight, by a few thousandths.

    In both cases alpha plays no part: it says how far theta trusts the pseudo-labels, not what an
    image says about its threshold. phi does not change the features that it reads.
    """

    evidence: Literal["unlabelled", "labelled"] = "unlabelled"
    """The images that phi learns from: unlabelled ones against their own pseudo-labels (Eq. 7), or
    labelled ones against their labels."""

    def __post_init__(self) -> None:
        """Refuse evidence from labels if there is no phi that could learn from it."""
        if self.evidence == "labelled" and not self.prior.initial_outputs:
            raise UserError(
                "segpl-elbo: evidence is labelled, but no network learns the posterior of the "
                f"prior {self.prior.name()}: choose the prior normal, beta or confident, or "
                "evidence unlabelled.",
                where=("evidence",),
            )

    def learns_from_unlabelled(self) -> bool:
        """Yes if phi learns from them; otherwise unless alpha is 0."""
        return self.evidence == "unlabelled" or self.alpha > 0

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 3 for theta, Eq. 7 for phi."""
        alpha = self.unlabelled_weight(progress)
        theta = model["theta"]
        features = theta.features(batch.x)
        p_l, p_u = batch.split(theta.head(features).sigmoid())

        # E-step (Eq. 5, 6 and 1)
        features = features.detach()
        posterior = self.posterior(model, features, p_u.detach())
        threshold = posterior.draw(batch.seeds_u).detach()
        y_u = pseudo_label(p_u, threshold)

        # Eq. 7, whose gradient reaches phi alone
        if self.evidence == "labelled":
            posterior_l = self.posterior(model, features[: len(p_l)], p_l.detach())
            expected_loss = posterior_l.expected_label_loss(p_l, batch.y_l, batch.counted_l).mean()
            kl = posterior_l.kl.mean()
        else:
            expected_loss = posterior.expected_loss(p_u, self.bound.objective).mean()
            kl = posterior.kl.mean()

        # M-step: the first two terms train theta (Eq. 3), the last two train phi (Eq. 7)
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, y_u),
            "evidence": expected_loss,
            "kl": self.kl_weight * kl,
        }
        bound = -terms["evidence"] - terms["kl"]
        logged = posterior.summary() | {"bound": bound.detach()}
        return Losses(terms, y_u, threshold, logged)
