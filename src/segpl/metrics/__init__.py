"""How good masks and probabilities are: pure functions."""
