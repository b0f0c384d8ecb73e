"""Names for the tensors that scores are computed from, with their shapes.

K regions, and a plane or a volume as `space`. The tests check these shapes at run time.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Masks = Bool[Tensor, "K *space"]
"""True for foreground."""
Volumes = Bool[Tensor, "K X Y Z"]
"""Masks of a volume; a plane has one slice."""
Probabilities = Float[Tensor, "K *space"]
"""The foreground probability of each voxel."""
Scores = Float[Tensor, " K"]
"""One score per region."""
Counts = Int[Tensor, " K"]
"""One count per region."""
Spacing = tuple[float, float, float]
"""The size of a voxel in mm."""
