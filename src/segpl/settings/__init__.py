"""Everything that determines a training, and what the data suggest for it."""
