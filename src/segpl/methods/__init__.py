"""Every method by name: a method is one file in this folder and one line below."""

from segpl.methods import (
    bcp,
    cct,
    cps,
    deep_ensemble,
    fixmatch,
    mean_teacher,
    segpl,
    segpl_elbo,
    segpl_em,
    segpl_vi,
    self_loop,
    supervised,
)
from segpl.methods.base import Method

METHODS: dict[str, type[Method]] = Method.family()

DEFAULT = segpl_em.SegPLEM.name()
"""The method that is trained if none is named."""
BASELINE = supervised.Supervised.name()
"""The method that the others are compared with: labels alone."""
PAPER_DEFAULT = segpl.SegPL.name()
"""The method that a preset of the paper trains if none is named."""
PAPER_METHODS = frozenset({PAPER_DEFAULT, segpl_vi.SegPLVI.name(), segpl_elbo.SegPLElbo.name()})
"""The paper's own methods: the settings under `paper` in a preset are for them."""
