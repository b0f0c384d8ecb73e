"""The only path from a trained run and a scan to probabilities."""
