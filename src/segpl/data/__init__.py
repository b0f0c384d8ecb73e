"""From image files to the batches of a training run."""
