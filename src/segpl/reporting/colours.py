"""The colours of regions, the same in every figure."""

COLOURS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd")
"""Red for the whole tumour, green for its core, blue for the enhancing core, as in the paper."""
