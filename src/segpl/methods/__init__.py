"""Every method by name: a method is one file in this folder and its line below."""

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
"""What learns where no method is named."""
BASELINE = supervised.Supervised.name()
"""What the others are compared with: labels alone."""
PAPERS = segpl.SegPL.name()
"""What a preset of the paper trains where no method is named."""
PAPERS_OWN = frozenset({PAPERS, segpl_vi.SegPLVI.name(), segpl_elbo.SegPLElbo.name()})
"""The forms that the paper describes: what a preset says under `paper` is meant for them."""
