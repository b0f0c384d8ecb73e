"""Studies: many runs from one file, resumable, here or on a cluster; and searches of settings."""
