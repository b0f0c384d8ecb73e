"""Every method by name: a method is one file here and one line in this one."""

from segpl.methods.base import Method, SemiSupervised
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_vi import SegPLVI
from segpl.methods.supervised import Supervised

METHODS: dict[str, type[Method]] = {method.name(): method for method in (Supervised, SegPL, SegPLVI)}

__all__ = ["METHODS", "Method", "SemiSupervised"]
