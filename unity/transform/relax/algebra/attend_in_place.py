"""Attention reads its tensors where they are, and stores its result as it is wanted: its layouts say how.

Rewrite: ``R.nn.attention`` of what reshapes, permutations and slices made of a tensor x -> ``R.nn.attention`` of x, with the order
of its axes as layout; a slice of one index, or of one of equal pieces (query, key and value of one product), is a digit there.
``R.permute_dims(R.nn.attention(..))`` -> ``R.nn.attention(..)`` with another layout of the result.

Left as they are: reads whose last axis is not the width of heads, which would not be contiguous.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import const
from ....ir.expr import Call, ShapeExpr, Var
from ....ir.function import Function
from ....ir.node import replace
from ....ir.op import row_of
from ....ir.relation import Answer, dims, same_dims
from ....ir.types import Expr
from ....op.common.table import R
from ....op.common.type_rules import product
from ....op.manipulate.manipulate import permutation, reshape
from ....op.nn.attention import AXES, layouts
from ...infra.backend import machine_in_use
from ...infra.passes import function_pass
from ..analysis.axis_parts import Read
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from .fuse_attention import ATTENTION

MOVES = (R.permute_dims.name, R.strided_slice.name)
"""Operators that a read in place spares."""
FOLLOWED = (*MOVES, R.broadcast_to.name)


@function_pass()
def attend_in_place(fn: Function, *, where_fast: bool = False) -> Function:
    """Let attention read and store in place of permutations and slices.

    ``where_fast``: places of a sequence that lie a batch apart only where the machine in use reads them as fast as neighbours.
    """
    near = where_fast and not machine_in_use().transposes_operands
    source: dict[Var, Call] = {}
    known = Definitions(fn)

    def readable(value: Expr, at: Var) -> bool:
        return isinstance(value, Var) and known.usable(value, at)

    def chain_of(value: Expr, at: Var) -> list[Call]:
        """The calls that made a value, the last one first."""
        found: list[Call] = []
        while isinstance(value, Var) and value in source and readable(source[value].args[0], at):
            call = source[value]
            if not (row_of(call).view or call.op_name in FOLLOWED):
                break
            found.append(call)
            value = call.args[0]
        return found

    def read(call: Call, rewriter: GraphRewriter, at: Var) -> Call:
        orders, args = list(layouts(call)), list(call.args)
        for index in range(3):
            calls = chain_of(args[index], at) if set(orders[index]) == set(AXES) else []
            while calls and not any([one.op_name in MOVES for one in calls]):
                calls.pop()
            while calls:
                base = calls[-1].args[0]
                found = _read_from(base, calls, orders[index])
                if found is not None and not (near and _sequence_major(found[0])):
                    orders[index], shape = found
                    own = dims(base.ty)
                    is_whole = own is not None and same_dims(own, shape) is Answer.YES
                    args[index] = base if is_whole else rewriter.emit(reshape(base, ShapeExpr(shape)))
                    break
                calls.pop()
        return _with_layouts(call, orders, args)

    def stored(value: Call, inner: Call) -> Call | None:
        """The attention that stores what a permutation makes of its result."""
        orders = list(layouts(inner))
        orders[3] = "".join([orders[3][axis] for axis in permutation(value, 4)])
        if orders[3][-1] != "D" or (near and _sequence_major(orders[3])):
            return None
        return replace(_with_layouts(inner, orders, list(inner.args)), ty=value.ty)

    def change(value: Call, rewriter: GraphRewriter) -> Call:
        made, var = value, rewriter.var
        if value.op_name in ATTENTION:
            made = read(value, rewriter, var)
        elif value.op_name == R.permute_dims.name and isinstance(value.args[0], Var):
            inner = source.get(value.args[0])
            if inner is not None and inner.op_name in ATTENTION and known.uses.get(value.args[0]) == 1:
                beside = known.home.get(value.args[0]) is known.home.get(var)
                if beside and not known.changed.intersection([arg for arg in inner.args if isinstance(arg, Var)]):
                    made = stored(value, inner) or value
        source[var] = made
        return made

    return rewrite_calls(fn, change)


def _sequence_major(order: str) -> bool:
    """True if places of a sequence lie a batch apart."""
    return order.index("S") < order.index("B")


def _with_layouts(call: Call, orders: list[str], args: list[Expr]) -> Call:
    layout = ",".join(orders) if len(set(orders)) > 1 else orders[0]
    if layout == call.attrs.get("layout", AXES) and args == list(call.args):
        return call
    return replace(call, args=tuple(args), attrs={**call.attrs, "layout": layout})


def _read_from(base: Expr, calls: list[Call], order: str) -> tuple[str, tuple[Expr, ...]] | None:
    """The layout by which a tensor is read, and the shape it has to have; None where no layout says it."""
    own = dims(base.ty)
    if own is None:
        return None
    reading = Read.whole(own)
    for call in reversed(calls):
        if not reading.follow(call):
            return None
    letters = {id(part): letter for letter, axis in zip(order, reading.axes) for part in axis}
    found: list[tuple[str, list[Any]]] = []
    for part in [part for axis in reading.own for part in axis]:
        name = letters.get(id(part), "") if part.index is None else str(part.index)
        if len(name) != 1:
            return None  # not read at all, or at a place that no digit names
        if found and found[-1][0] == name and part.index is None:
            found[-1][1].append(part)
        else:
            found.append((name, [part]))
    for letter, axis in zip(order, reading.axes):
        if not axis:  # of one element: it may stand anywhere, but the width
            found.insert(len(found) if letter == "D" else 0, (letter, []))
    names = "".join([name for name, _ in found])
    runs = dict(found)
    if any([names.count(letter) != 1 for letter in AXES]) or names[-1] != "D":
        return None
    if any([runs[letter] != axis for letter, axis in zip(order, reading.axes)]):
        return None
    one = const(1, "int64")
    return names, tuple([product([part.size for part in parts]) if parts else one for _, parts in found])
