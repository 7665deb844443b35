"""Samples that rows give rise to: of pointwise operators the parameters, the type rule and the domain say all.

``CASES``: inputs of every data type that the type rule takes; ``GRADIENT_CASES``: inputs in float64.
"""

import numpy as np
from op_values import RNG, f

from unity.ir import Var
from unity.ir.build import const
from unity.ir.op import OPS, REQUIRED
from unity.ir.relation import tensor_type
from unity.op import OPERATORS
from unity.support.errors import TypeRuleError

SHAPES = {
    1: [((3, 5),), ((0, 3),)],
    2: [((3, 4), (4,)), ((2, 1), (1, 3)), ((0, 4), (1, 4))],
    3: [((3, 4), (4,), (1,))],
}
"""Shapes of so many operands."""
DTYPES = ("float32", "float64", "float16", "int32", "uint8", "bool")


def takes(info, dtype):
    """Does the type rule take operands of a data type?"""
    x = Var("x", tensor_type([const(3, "int64")], dtype))
    try:
        OPERATORS[info.name](*[x] * operands(info))
    except TypeRuleError:
        return False
    return True


def operands(info):
    return len([p for p in info.params if p.kind == "expr"])


def values(info, shape, dtype):
    low, high = info.domain
    if dtype.startswith("float"):
        return f(*shape, dtype=dtype, low=low, high=high)
    return RNG.integers(0, 2 if dtype == "bool" else 6, shape).astype(dtype)


def cases(info):
    """Inputs of a pointwise operator; none where an attribute must be given."""
    if not info.pointwise or any([p.kind == "attr" and p.default is REQUIRED for p in info.params]):
        return []
    count, name = operands(info), info.name[2:]
    known = [d for d in DTYPES if takes(info, d)]
    assert known, f"{info.name} takes no data type of {DTYPES}"
    made = [(name, [values(info, s, known[0]) for s in shapes], {}) for shapes in SHAPES[count]]
    return made + [(name, [values(info, s, d) for s in SHAPES[count][0]], {}) for d in known[1:]]


def gradient_cases(info):
    """Inputs of a pointwise operator inside of its domain, whose gradient is compared with differences."""
    if not callable(info.grad) or not cases(info) or not takes(info, "float64"):
        return []
    low, high = info.domain
    edge = 0.05 * (high - low)
    return [
        (info.name[2:], [RNG.uniform(low + edge, high - edge, s) for s in shapes], {})
        for shapes in SHAPES[operands(info)]
        if np.prod(shapes[0])
    ]


CASES = [case for info in OPS.values() for case in cases(info)]
GRADIENT_CASES = [case for info in OPS.values() for case in gradient_cases(info)]
