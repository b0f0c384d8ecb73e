"""Whole volumes from a network that sees patches."""

from collections.abc import Callable

from jaxtyping import Float
from monai.inferers import sliding_window_inference
from torch import Tensor

Predict = Callable[[Float[Tensor, "B C *space"]], Float[Tensor, "S B K *space"]]


def predict_volume(
    predict: Predict, x: Float[Tensor, "C X Y Z"], patch: tuple[int, ...], overlap: float = 0.25
) -> Float[Tensor, "S K X Y Z"]:
    """Probabilities of a whole volume: overlapping windows blended by a Gaussian; 2D networks go slice by slice."""
    flat = len(patch) == 2
    images = x.permute(3, 0, 1, 2) if flat else x[None]
    shape: list[int] = []

    def windows(piece: Tensor) -> Tensor:
        p = predict(piece)
        shape[:] = p.shape[0], p.shape[2]
        return p.transpose(0, 1).flatten(1, 2)  # MONAI knows batch and channels: samples travel as channels

    p = sliding_window_inference(images, patch, 4, windows, overlap=overlap, mode="gaussian")
    p = p.unflatten(1, shape)
    return p.permute(1, 2, 3, 4, 0) if flat else p[0]


def mask(p: Float[Tensor, "S K *space"]) -> Tensor:
    """Where the mean over the samples exceeds one half."""
    return p.mean(0) > 0.5
