"""What all other packages build on: errors, files, seeded draws, progress and provenance."""
