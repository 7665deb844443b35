"""Graph operators, one file per family. One row = name, parameters, type rule, lowering, gradient, numpy meaning, doc.

``unity.op.add(x, y)`` builds a typed call; ``unity.ir.op.OPS["R.add"]`` is the row. Importing this package fills the table.
"""

from . import (
    attention,
    bessel,
    bessel_kinds,
    binary,
    channel,
    channel_norm,
    contraction,
    conv,
    conv_transpose,
    core,
    create,
    elementwise,
    error_functions,
    factor,
    float_parts,
    gamma,
    grad,
    gradients,
    grouped,
    incomplete,
    index,
    layout,
    linalg,
    loss,
    manipulate,
    matrix_exp,
    memory,
    nn,
    norm,
    orthogonal,
    polynomials,
    pool,
    pool_indices,
    powers,
    quantization,
    recurrent,
    recurrent_backward,
    reduce,
    resize,
    running,
    sample,
    scan,
    scatter,
    search,
    slicing,
    sorting,
    special,
    spectral,
    statistics,
)  # fmt: skip
from .table import Operator, bind_arguments, constant, to_expr, usage

_FAMILIES = (
    core,
    memory,
    elementwise,
    binary,
    reduce,
    linalg,
    manipulate,
    layout,
    slicing,
    create,
    index,
    nn,
    norm,
    conv,
    pool,
    scan,
    sorting,
    contraction,
    conv_transpose,
    loss,
    channel,
    statistics,
    search,
    powers,
    resize,
    sample,
    scatter,
    quantization,
    attention,
    channel_norm,
    special,
    error_functions,
    bessel,
    bessel_kinds,
    gamma,
    running,
    recurrent,
    recurrent_backward,
    pool_indices,
    factor,
    orthogonal,
    spectral,
    matrix_exp,
    float_parts,
    incomplete,
    polynomials,
    grad,
    grouped,
)

OPERATORS: dict[str, Operator] = {
    value.info.name: value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Operator)
}
"""Operators by script name."""


def __getattr__(name: str) -> Operator:
    """``unity.op.add``; the part after ``R.`` with dots as underscores (``unity.op.nn_relu``)."""
    found = _BY_ATTRIBUTE.get(name)
    if found is None:
        raise AttributeError(f"module 'unity.op' has no operator {name!r}")
    return found


_BY_ATTRIBUTE = {name[2:].replace(".", "_"): value for name, value in OPERATORS.items()}

__all__ = [
    "OPERATORS",
    "Operator",
    "bind_arguments",
    "constant",
    "gradients",
    "to_expr",
    "usage",
]
