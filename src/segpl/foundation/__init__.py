"""What everything else stands on: errors, files, seeded draws, progress and provenance."""
