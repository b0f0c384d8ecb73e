"""Shaping one number per image so that it can be combined with the whole image."""

from jaxtyping import Shaped
from torch import Tensor


def append_axes(values: Shaped[Tensor, "B *any"], like: Tensor) -> Shaped[Tensor, "B *more"]:
    """`values` with axes of length 1 appended until it has as many axes as `like`.

    Values of shape (B,) or (B, K) then broadcast over images of shape (B, K, *space).
    """
    missing = like.ndim - values.ndim
    return values.reshape(*values.shape, *[1] * missing)
