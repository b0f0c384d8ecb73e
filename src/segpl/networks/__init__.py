"""theta, phi, and how they are arranged for speed."""
