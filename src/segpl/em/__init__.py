"""The pieces that EM methods are made of: views of an image, exchange between images, a prior on label shapes."""
