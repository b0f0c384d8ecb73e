"""The masks and probabilities of test cases, as figures and viewers want them: in the geometry of the label."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.data.cases import Region
from segpl.files import write_nifti
from segpl.windows import fold


def save_mask(
    file: Path, found: Bool[Tensor, "K X Y Z"], regions: tuple[Region, ...], affine: Float[np.ndarray, "4 4"]
) -> None:
    """One label map, as the training data have it."""
    write_nifti(file, fold(found, regions), affine)


def save_probabilities(file: Path, p: Float[Tensor, "K X Y Z"], affine: Float[np.ndarray, "4 4"]) -> None:
    """Per cent as whole numbers, one volume per region: what eyes can tell apart, in a hundredth of the space."""
    write_nifti(file, (100 * p).round().byte().permute(1, 2, 3, 0).numpy(), affine)
