"""MONAI's own network, for comparison: no change of axes, norms or memory format for speed."""

from monai.networks.nets import DynUNet
from torch import Tensor

from segpl.networks.unet import UNet, strides


def monai_reference(theta: UNet, inputs: int) -> DynUNet:
    """The same function as `theta` with the same weights, as MONAI computes it."""
    levels = strides(theta.patch)
    network = DynUNet(
        spatial_dims=len(theta.patch),
        in_channels=inputs,
        out_channels=theta.regions,
        kernel_size=[3] * len(levels),
        strides=levels,
        upsample_kernel_size=levels[1:],
        filters=theta.widths,
        norm_name=("INSTANCE", {"affine": True}),
    )
    # Not strict, because DynUNet lists its layers a second time, one by one.
    network.load_state_dict(_monai_weights(theta), strict=False)
    return network


def _monai_weights(theta: UNet) -> dict[str, Tensor]:
    """The weights of `theta` under MONAI's names, with slices last in 3D kernels."""
    modules = {"skip_layers": theta.body, "output_block": theta.head.block}
    weights = {}
    for module_name, module in modules.items():
        for name, weight in module.state_dict().items():
            if weight.ndim == 5:
                weight = weight.movedim(2, -1)
            weights[f"{module_name}.{name}"] = weight
    return weights
