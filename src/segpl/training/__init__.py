"""The only training loop, and what watches it."""
