"""Semi-supervised segmentation of medical images by Bayesian pseudo-labels."""

__version__ = "0.1.0"
