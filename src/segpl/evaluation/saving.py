"""The masks, probabilities and looks of test cases, as figures and viewers want them: in the geometry of the label."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from segpl.data.cases import Region
from segpl.foundation.files import write_bytes, write_nifti
from segpl.inference.windows import fold


def save_mask(
    file: Path,
    found: Bool[Tensor, "K X Y Z"],
    regions: tuple[Region, ...],
    affine: Float[np.ndarray, "4 4"],
) -> None:
    """One label map, as the training data have it."""
    write_nifti(file, fold(found, regions), affine)


def save_probabilities(
    file: Path, p: Float[Tensor, "K X Y Z"], affine: Float[np.ndarray, "4 4"]
) -> None:
    """Per cent as whole numbers, one volume per region: what eyes can tell apart, in a hundredth of the space."""
    write_nifti(file, (100 * p).round().byte().permute(1, 2, 3, 0).numpy(), affine)


def save_slice(
    file: Path,
    x: Float[Tensor, "C X Y Z"],
    clean: Float[Tensor, "C X Y Z"],
    truth: Bool[Tensor, "K *space"],
) -> None:
    """The first channel of the slice with most foreground as a PNG, rows along Y, as bright as the clean image is."""
    share = (truth.any(0).flatten(0, 1).sum(0).argmax() + 0.5) / truth.shape[
        -1
    ]  # the label may have another grid
    place = int(share * x.shape[-1])
    low, high = np.quantile(clean[0, ..., place].numpy(), (0.005, 0.995))
    grey = ((x[0, ..., place].cpu().numpy() - low) / max(high - low, 1e-6)).clip(0, 1)
    stream = io.BytesIO()
    Image.fromarray((255 * grey.T).round().astype(np.uint8)).save(stream, "png")
    write_bytes(file, stream.getvalue())
