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
