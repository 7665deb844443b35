"""Options of ``unity.compile`` that most builds do without, loaded for the first that has one: fewer bits, chosen kernels."""

from ..precision.precision import reduction_of
from ..precision.reduced import compile_reduced
from .choose import analytic_choices, choose_measured

__all__ = ["analytic_choices", "choose_measured", "compile_reduced", "reduction_of"]
