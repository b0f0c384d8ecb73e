"""The colours of regions, the same in every picture."""

COLOURS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd")
"""Whole tumour red, core green, enhancing core blue, as in the paper."""
