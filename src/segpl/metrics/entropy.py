"""How unsure a probability is."""

import numpy as np
from jaxtyping import Float


def entropy(p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The entropy of a binary answer in bits: 1 where both are equally likely, 0 where one is certain."""
    q = 1 - p
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 log 0 is 0, the limit
        bits = -p * np.log2(p) - q * np.log2(q)
    return np.nan_to_num(bits)
