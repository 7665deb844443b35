"""Questions of gradient rules about their operands: known shapes, constant sizes, fields of tuples. Not here: any rule."""

from __future__ import annotations

from ...ir.expr import Call, IntImm, Tuple, TupleGetItem
from ...ir.relation import dims
from ...ir.types import Expr
from ..common.type_rules import fail


def operand_shape(call: Call, x: Expr) -> tuple[Expr, ...]:
    """Dimensions of an operand of ``call``. Raises TypeRuleError E218 where its shape is not known."""
    known = dims(x.ty)
    if known is None:
        raise fail(call, "E218", f"the gradient needs the shape of {x.ty}", "name it with R.match_cast")
    return known


def operand_sizes(call: Call, x: Expr) -> list[int]:
    """Dimensions of an operand of ``call`` as integers. Raises TypeRuleError E218 where one is symbolic or unknown."""
    shape = operand_shape(call, x)
    found = [d.value for d in shape if type(d) is IntImm]
    if len(found) != len(shape):
        raise fail(call, "E218", f"the gradient needs constant sizes, got {x.ty}", "name them with R.match_cast")
    return found


def field_of(value: Expr, index: int) -> Expr:
    """A field of a tuple: itself where the tuple is written out."""
    return value.fields[index] if type(value) is Tuple else TupleGetItem(value, index)
