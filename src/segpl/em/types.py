"""What flows between the stages: a batch into a method, its losses out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segpl.em.tensors import Boxes, Probabilities, Samples, Scalar


class Batch(NamedTuple):
    """The paper's X_L, Y_L and X_U of one training step."""

    x_l: Float[Tensor, "L C *space"]
    """Labelled images."""
    y_l: Float[Tensor, "L K *space"]
    """Their labels: K binary channels, so nested regions are K separate sigmoids."""
    x_p: Float[Tensor, "L C *space"]
    """Partners: a second labelled image for each of the first, to exchange boxes with."""
    y_p: Float[Tensor, "L K *space"]
    """The partners' labels."""
    x_u: Float[Tensor, "U C *space"]
    """Unlabelled images. A batch has no field for their labels."""
    seeds_l: Int[Tensor, " L"]
    """One seed per labelled image. Everything drawn for the image in this step comes from it."""
    seeds_u: Int[Tensor, " U"]
    """One seed per unlabelled image."""
    ignored_l: Float[Tensor, "L 1 *space"] | None = None
    """1 at the voxels of labelled images that no loss counts; None if no label has such voxels."""
    ignored_p: Float[Tensor, "L 1 *space"] | None = None
    """The same for the partners."""

    @property
    def counted_l(self) -> Float[Tensor, "L 1 *space"] | None:
        """How much each voxel of the labelled images counts; None if all count once."""
        return None if self.ignored_l is None else weights_without(self.ignored_l)

    @property
    def counted_labels(self) -> Float[Tensor, "N K *space"]:
        """The labels of labelled images and partners; their mean is that of the counted voxels."""
        labels = torch.cat([self.y_l, self.y_p])
        if self.ignored_l is None or self.ignored_p is None:
            return labels
        return labels * weights_without(torch.cat([self.ignored_l, self.ignored_p]))

    @property
    def x(self) -> Float[Tensor, "N C *space"]:
        """Labelled images, then unlabelled images, for a single forward pass."""
        return torch.cat([self.x_l, self.x_u])

    def split(
        self, p: Float[Tensor, "N K *space"]
    ) -> tuple[Float[Tensor, "L K *space"], Float[Tensor, "U K *space"]]:
        """The predictions (p_l, p_u) of labelled and unlabelled images, from those of `x`."""
        p_l, p_u = p.split([len(self.x_l), len(self.x_u)])
        return p_l, p_u

    @classmethod
    def join(cls, batches: Sequence["Batch"]) -> "Batch":
        """One batch with the images of several, one batch after the other."""
        fields: list[Any] = []
        for tensors in zip(*batches, strict=True):
            is_absent = tensors[0] is None
            fields.append(None if is_absent else torch.cat(tensors))
        return cls(*fields)

    def parts(self, count: int) -> list["Batch"]:
        """The inverse of `join` for `count` batches of the same size."""
        fields: list[Any] = []
        for tensor in self:
            if tensor is None:
                fields.append([None] * count)
            else:
                fields.append(tensor.unflatten(0, (count, len(tensor) // count)))
        return [Batch(*tensors) for tensors in zip(*fields, strict=True)]

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        fields: list[Any] = []
        for tensor in self:
            fields.append(None if tensor is None else tensor.to(device))
        return Batch(*fields)


def weights_without(ignored: Float[Tensor, "L 1 *space"]) -> Float[Tensor, "L 1 *space"]:
    """0 for ignored voxels; the others share the weight of all, so a mean over all is theirs."""
    counted = 1 - ignored
    return counted / counted.mean().clamp(min=1e-6)


def counted_part(
    boxes: Boxes,
    ignored: Float[Tensor, "P 1 *space"] | None,
    partner: Int[Tensor, " B"],
) -> Boxes:
    """The boxes without the voxels that are ignored in the partners which they show."""
    if ignored is None:
        return boxes
    return boxes * (1 - ignored[partner])


LABEL_TERMS = ("labelled", "mixed_true")
"""Losses against true labels: of labelled images, and of the labelled voxels of mixed images."""
PSEUDO_LABEL_TERMS = ("unlabelled", "first", "second")
"""Losses against pseudo-labels: of one network, or of each of two networks."""


@dataclass(frozen=True)
class Losses:
    """The loss terms of a method on one batch, and the pseudo-labels behind them."""

    terms: dict[str, Scalar]
    """Their sum is the training loss."""
    y_u: Float[Tensor, "U K *space"] | None = None
    """The pseudo-label (Eq. 1) of each unlabelled image; None for methods without one."""
    threshold: Float[Tensor, "U K"] | None = None
    """T of each unlabelled image and class; None for methods that draw none."""
    logged: dict[str, Scalar] = field(default_factory=dict)
    """Values that are logged and not minimised."""

    @property
    def total(self) -> Scalar:
        """The training loss (Eq. 3, Eq. 8)."""
        terms = list(self.terms.values())
        zero = terms[0].new_zeros(())
        return sum(terms, start=zero)

    @property
    def unlabelled_to_labelled(self) -> Scalar:
        """The loss against pseudo-labels divided by the loss against labels.

        Other terms, such as the KL or a puzzle, count on neither side.
        """
        labelled = self._sum(LABEL_TERMS)
        unlabelled = self._sum(PSEUDO_LABEL_TERMS)
        return unlabelled / labelled.clamp(min=1e-6)

    def _sum(self, names: tuple[str, ...]) -> Scalar:
        """The sum of the named losses, minimised or only logged; 0 if there are none."""
        values = self.terms | self.logged
        present = [values[name] for name in names if name in values]
        if not present:
            return torch.tensor(0.0)
        return torch.stack(present).sum()


class Predicted(NamedTuple):
    """What a method predicts for a batch of images."""

    p: Probabilities
    """The probability to report."""
    samples: Samples
    """S predictions for masks and their spread: a mask is where their mean exceeds 1/2."""
