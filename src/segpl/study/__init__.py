"""Studies: many runs from one file, resumable, on this machine or a cluster; and searches of settings."""
