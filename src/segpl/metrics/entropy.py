"""The uncertainty of a probability."""

import numpy as np
from jaxtyping import Float


def entropy(p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The entropy of a binary label in bits: 1 for p = 0.5, 0 for p = 0 and p = 1."""
    q = 1 - p
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -p * np.log2(p) - q * np.log2(q)
    # 0 log 0 is computed as NaN, but its limit is 0.
    return np.nan_to_num(bits)
