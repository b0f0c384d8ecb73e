"""Dropout of whole feature maps, drawn for each image from its own seed."""

from jaxtyping import Float
from torch import Tensor

from segpl.em.tensors import Seeds
from segpl.foundation.draws import Purpose, uniform


def draw_dropout(
    seeds: Seeds, *shape: int, dropout: float, like: Tensor
) -> Float[Tensor, "B *shape"]:
    """Factors for feature maps: 0 for a share of `dropout`, 1 / (1 - dropout) for the others.

    The factors have the data type and device of `like`.
    """
    drawn = uniform(seeds, *shape, purpose=Purpose.FEATURE_DROPOUT)
    is_kept = (drawn >= dropout).to(like)
    return is_kept / max(1 - dropout, 1e-6)
