"""The whole table of torch operators, one entry per overload name: importing this module fills ``ATEN``.

Here: the entries of operators whose rows name torch's. Their arguments are the row's, in its order.
"""

from __future__ import annotations

from typing import Any

from ....ir.op import OpInfo, Param
from ....ir.types import Expr
from ....op.common.table import OPERATORS, Operator
from ..context.context import ATEN, Args, Context, Translate, aten, is_float
from . import (  # noqa: F401 - they fill the table
    bags,
    index,
    loss,
    math,
    memory,
    nn,
    norm,
    pad,
    reduce,
    resize,
    rnn,
    scatter,
    shape,
    view,
    window,
)  # fmt: skip


def _operand_dtype(info: OpInfo, c: Context, operands: list[Any]) -> str:
    """The dtype in which torch computes with the operands."""
    if info.torch_operands == "result":
        return c.dtype
    if info.torch_operands == "float" and not any([isinstance(v, Expr) and is_float(v) for v in operands]):
        return "float32"
    return c.promoted(*operands)


def _translation(operator: Operator) -> Translate:
    params = operator.info.params

    def translate(c: Context, a: Args) -> Expr:
        values = list(zip(params, vars(a).values()))
        dtype = _operand_dtype(operator.info, c, [v for p, v in values if p.kind == "expr"])
        return operator(*[c.cast(v, dtype) if p.kind == "expr" else _attribute(p, v) for p, v in values])

    return translate


def _attribute(param: Param, value: Any) -> Any:
    """An attribute of ours from torch's: numbers may be written as integers there."""
    return float(value) if isinstance(param.default, float) and isinstance(value, int) else value


_ENTERED: set[str] = set()


def enter_rows() -> None:
    """Enter the rows that name operators of torch; once each, those of a user's package as soon as they are there."""
    for name, operator in OPERATORS.items():
        if operator.info.torch and name not in _ENTERED:
            _ENTERED.add(name)
            aten(*operator.info.torch)(_translation(operator))


enter_rows()


def supported() -> list[str]:
    """Names of all torch operators with a translation, sorted."""
    return sorted(ATEN)


__all__ = ["ATEN", "enter_rows", "supported"]
