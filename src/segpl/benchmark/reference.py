"""The network as MONAI gives it, for comparison: axes as in the image, instance norms, memory as it comes."""

from monai.networks.nets import DynUNet

from segpl.networks.unet import UNet, strides


def as_monai_gives_it(theta: UNet, inputs: int) -> DynUNet:
    """The same function with the same weights, without any arrangement for speed."""
    levels = strides(theta.patch)
    plain = DynUNet(
        spatial_dims=len(theta.patch),
        in_channels=inputs,
        out_channels=theta.regions,
        kernel_size=[3] * len(levels),
        strides=levels,
        upsample_kernel_size=levels[1:],
        filters=theta.widths,
        norm_name=("INSTANCE", {"affine": True}),
    )
    parts = {"skip_layers": theta.body, "output_block": theta.head.block}
    weights = {
        f"{part}.{name}": weight
        for part, net in parts.items()
        for name, weight in net.state_dict().items()
    }
    plain.load_state_dict(
        {name: w.movedim(2, -1) if w.ndim == 5 else w for name, w in weights.items()}, strict=False
    )
    return plain  # not strict: DynUNet lists its layers a second time, one by one
