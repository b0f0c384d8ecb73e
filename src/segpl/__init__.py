"""Semi-supervised segmentation of medical images by Bayesian pseudo-labels."""

import os

# Threads that wait should sleep, not spin: beside other busy processes, spinning made a training step on two cores
# several times slower, at worst about twenty times. OpenMP reads this when torch is loaded, hence here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
