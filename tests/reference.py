"""A reference implementation of predicting a volume: MONAI's sliding windows, all in memory."""

from monai.inferers import sliding_window_inference


def reference_volume(predict, x, patch):
    """All samples [S K X Y Z] of a volume [C X Y Z].

    `predict` maps [B C *space] to [S B K *space]. With a 2D patch, slices along Z are the batch.
    """
    is_2d = len(patch) == 2
    images = x.permute(3, 0, 1, 2) if is_2d else x[None]
    samples_and_regions = []

    def predict_windows(windows):
        p = predict(windows)
        samples_and_regions[:] = p.shape[0], p.shape[2]
        # MONAI expects [B C *space], so samples and regions together are the channels.
        return p.transpose(0, 1).flatten(1, 2)

    channels = sliding_window_inference(
        images, patch, 4, predict_windows, overlap=0.25, mode="gaussian"
    )
    p = channels.unflatten(1, samples_and_regions)
    return p.permute(1, 2, 3, 4, 0) if is_2d else p[0]
