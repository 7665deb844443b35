"""Graph operators, one folder per family, one file per idea.

One row = name, parameters, type rule, lowering, gradient, numpy meaning, doc. ``unity.op.add(x, y)`` builds a typed call;
``unity.ir.op.OPS["R.add"]`` is the row. Importing this package fills the table.
"""

from ..ir.expr import TupleGetItem
from ..ir.types import GRAPH
from . import (
    core,
    elementwise as elements,
    grad,
    linalg,
    manipulate as moves,
    memory,
    nn,
    reduction as lines,
)
from .common.table import OPERATORS, Operator, bind_arguments, constant, to_expr, usage


def __getattr__(name: str) -> Operator:
    """``unity.op.add``; the part after ``R.`` with dots as underscores (``unity.op.nn_relu``)."""
    found = _BY_ATTRIBUTE.get(name)
    if found is None:
        raise AttributeError(f"module 'unity.op' has no operator {name!r}")
    return found


GRAPH.update(
    {"add": OPERATORS["R.add"], "sub": OPERATORS["R.subtract"], "mul": OPERATORS["R.multiply"], "divide": OPERATORS["R.divide"],
     "floordiv": OPERATORS["R.floor_divide"], "floormod": OPERATORS["R.mod"], "power": OPERATORS["R.power"],
     "negative": OPERATORS["R.negative"], "astype": OPERATORS["R.astype"], "item": TupleGetItem}
)  # fmt: skip
_BY_ATTRIBUTE = {name[2:].replace(".", "_"): value for name, value in OPERATORS.items()}

__all__ = [
    "OPERATORS",
    "Operator",
    "bind_arguments",
    "constant",
    "to_expr",
    "usage",
]
