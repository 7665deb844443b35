"""Tensor expressions: ``placeholder``, ``compute``, reductions, and ``create_prim_func``.

>>> A = te.placeholder((n, 128), "float32", "A")
>>> B = te.compute((n, 128), lambda i, j: te.exp(A[i, j]) + 1.0, "B")
>>> func = te.create_prim_func([A, B])
"""

from .math import (
    abs, acos, acosh, asin, asinh, atan, atan2, atanh, ceil, cos, cosh, erf, exp, floor, hypot, isfinite, isinf, isnan, log, log10,
    log1p, log2, nearbyint, pow, power, round, rsqrt, sigmoid, sin, sinh, sqrt, tan, tanh, trunc,
)  # fmt: skip
from .prim_func import create_prim_func, create_prim_func_with_symbols, sort_stages
from .reduction import ReduceAxis, comm_reducer, highest, lowest, max, min, prod, reduce_axis, sum
from .tensor import Compute, Extern, Tensor, compute, extern, placeholder
from .value import (
    Value, all, any, const, if_then_else, infinity, intrinsic, max_value, maximum, min_value, minimum, select, to_scalar, truncdiv,
    truncmod, unwrap, var,
)  # fmt: skip

__all__ = [name for name in dir() if not name.startswith("_")]
