"""Scores of masks and probabilities, and the uncertainty of a probability: pure functions."""
