"""The plain way to predict a volume, to compare with: MONAI's sliding windows, all in memory."""

from monai.inferers import sliding_window_inference


def reference_volume(predict, x, patch):
    """All samples [S K X Y Z] of a volume [C X Y Z]; `predict` maps [B C *space] to [S B K *space]."""
    flat = len(patch) == 2
    images = x.permute(3, 0, 1, 2) if flat else x[None]
    shape = []

    def windows(piece):
        p = predict(piece)
        shape[:] = p.shape[0], p.shape[2]
        return p.transpose(0, 1).flatten(
            1, 2
        )  # MONAI knows batch and channels: samples travel as channels

    p = sliding_window_inference(
        images, patch, 4, windows, overlap=0.25, mode="gaussian"
    ).unflatten(1, shape)
    return p.permute(1, 2, 3, 4, 0) if flat else p[0]
