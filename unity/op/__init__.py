"""Graph operators, one folder per family, one file per idea.

One row = name, parameters, type rule, lowering, gradient, numpy meaning, doc. ``unity.op.add(x, y)`` builds a typed call;
``unity.ir.op.OPS["R.add"]`` is the row. Importing this package fills the table.
"""

from ..ir.expr import TupleGetItem
from ..ir.op import usage
from ..ir.types import GRAPH
from ..support.arguments import make_public
from . import core, elementwise, linalg, manipulate, memory, nn, reduction
from .common.gradients import elementwise_grad, unary_grad
from .common.table import OPERATORS, Operator, R, attribute, bind_arguments, constant, optional, row, to_expr
from .elementwise.unary import unary


def __getattr__(name: str) -> Operator:
    """``unity.op.add``; the part after ``R.`` with dots as underscores (``unity.op.nn_gelu``)."""
    for path, operator in OPERATORS.items():
        if path[2:].replace(".", "_") == name:
            globals()[name] = operator
            return operator
    raise AttributeError(f"module 'unity.op' has no operator {name!r}")


GRAPH.update(add=R.add, sub=R.subtract, mul=R.multiply, divide=R.divide, floordiv=R.floor_divide, floormod=R.mod)
GRAPH.update(power=R.power, negative=R.negative, astype=R.astype, item=TupleGetItem)

SHIPPED = frozenset(OPERATORS)
"""Names of the operators of this package; others are of a user's."""

__all__ = [
    "OPERATORS",
    "SHIPPED",
    "Operator",
    "R",
    "attribute",
    "bind_arguments",
    "constant",
    "elementwise_grad",
    "optional",
    "row",
    "to_expr",
    "unary",
    "unary_grad",
    "usage",
]

make_public(globals(), __all__)
