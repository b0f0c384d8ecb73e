"""Names for the tensors that flow through the package, with their shapes.

B images of C channels, K classes (regions), and a plane or a volume as `space`. The tests check
these shapes at run time.
"""

from jaxtyping import Float, Int
from torch import Tensor

Images = Float[Tensor, "B C *space"]
"""Grey values."""
Features = Float[Tensor, "B F *space"]
"""Feature maps at the resolution of the image."""
Logits = Float[Tensor, "B K *space"]
"""The network's output before the sigmoid."""
Probabilities = Float[Tensor, "B K *space"]
"""The foreground probability of each voxel."""
Labels = Float[Tensor, "B K *space"]
"""1 for foreground, 0 for background."""
Samples = Float[Tensor, "S B K *space"]
"""S samples of probabilities."""
Boxes = Float[Tensor, "B 1 *space"]
"""1 inside a box, 0 outside; the same for all classes."""
VoxelWeights = Float[Tensor, "B #K *space"]
"""How much each voxel counts; with one channel, the same for all classes."""

PerImage = Float[Tensor, " B"]
"""One number per image."""
PerClass = Float[Tensor, "B K"]
"""One number per image and class, such as the threshold T."""
Scalar = Float[Tensor, ""]
"""A single number, such as a loss."""
Seeds = Int[Tensor, " B"]
"""One seed per image; all random numbers of an image come from its own seed."""
