"""Control flow and numbers read out of tensors: ``torch.cond`` becomes a conditional, ``item()`` a symbol bound at run time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from .... import op
from ....ir.expr import If, Tuple, TupleGetItem, Var
from ....ir.relation import Answer, is_subtype
from ....ir.types import Expr, PrimType, ShapeType, prim_type
from ..context.context import Context, dtype_of, number, rank_of, refuse
from ..context.report import Gap

READS = ("aten._local_scalar_dense.default", "aten.item.default")
"""Operators that read a number out of a tensor."""


ASSERTIONS = ("aten._assert_async.default", "aten._assert_async.msg")
"""Operators that stop unless a tensor of one element holds."""

FLOAT_ARITHMETIC: dict[Any, Callable[..., Expr]] = {
    operator.add: op.add, operator.sub: op.subtract, operator.mul: op.multiply, operator.truediv: op.divide,
    operator.pow: op.power, operator.mod: op.floor_mod, operator.floordiv: op.floor_divide, operator.neg: op.negative,
}  # fmt: skip
"""Python's operators on floats that were read out of tensors, or made of sizes."""
_MATH: dict[str, Callable[..., Expr]] = {
    "sqrt": op.sqrt, "sin": op.sin, "cos": op.cos, "tan": op.tan, "asin": op.asin, "acos": op.acos, "atan": op.atan,
    "sinh": op.sinh, "cosh": op.cosh, "tanh": op.tanh,
}  # fmt: skip
"""Functions of ``math``, as torch traces them for such floats: ``torch._sym_sqrt``."""


def float_number(c: Context, node: Any, args: list[Any]) -> Expr:
    """A Python float known only from the data: a float64 tensor of rank 0 that counts as a number in promotions. Raises Gap."""
    if str(node.target) in READS:
        made = c.reshape(c.cast(args[0], "float64"), [])
    else:
        name = getattr(node.target, "__name__", str(node.target))
        fn = FLOAT_ARITHMETIC.get(node.target) or _MATH.get(name.removeprefix("_sym_"))
        values = [c.cast(v, "float64") for v in args]
        if fn is None and name != "sym_float":
            raise Gap(f"{name} of a float that depends on the data")
        made = values[0] if fn is None else fn(*values)
    found = c.emit(made)
    c.numbers.add(found)
    return found


def read_number(c: Context, x: Expr) -> Expr:
    """The one number of an integer or bool tensor as a symbol, read when the program runs. Raises Gap."""
    refuse(dtype_of(x) not in ("int64", "int32", "int16", "int8", "uint8", "bool"), "a number that is not an integer")
    flag = isinstance(c.value, c.torch.SymBool)
    values = c.emit(op.reshape(c.cast(x, "int64"), (1,)))
    symbol = c.symbols.bind_flag(c.value) if flag else c.symbols.bind(c.value)
    c.builder.match_cast(c.emit(op.tensor_to_shape(values)), ShapeType((symbol,), 1))
    return c.symbols.expr(c.value) if flag else symbol


_FLOATS: dict[str, Callable[..., Expr]] = {
    "Add": op.add, "Mul": op.multiply, "FloatTrueDiv": op.divide, "IntTrueDiv": op.divide, "FloatPow": op.power,
    **{f"OpaqueUnaryFn_{name}": fn for name, fn in _MATH.items()},
}  # fmt: skip
_ROUNDED = {"TruncToInt": op.trunc, "FloorToInt": op.floor, "CeilToInt": op.ceil, "RoundToInt": op.round}


def rounded_size(c: Context, e: Any) -> Expr:
    """A size rounded from floats, computed in float64 as torch does and read when the program runs. Raises Gap."""

    def value(part: Any) -> Expr:
        kind = type(part).__name__
        if part.is_Float or part.is_Integer:
            return number(float(part), "float64")
        if part.is_integer:
            return c.cast(c.symbols.convert(part), "float64")
        if kind == "ToFloat":
            return value(part.args[0])
        fn = _FLOATS.get(kind)
        refuse(fn is None, f"sizes with {kind} are not expressible: {part}")
        assert fn is not None
        parts = [value(other) for other in part.args]
        return reduce(fn, parts) if len(parts) > 1 else fn(parts[0])

    rounded = c.cast(c.emit(_ROUNDED[type(e).__name__](value(e.args[0]))), "int64")
    symbol = Var("size", prim_type("int64"))
    values = c.emit(op.reshape(rounded, (1,)))
    c.builder.match_cast(c.emit(op.tensor_to_shape(values)), ShapeType((symbol,), 1))
    return symbol


class Parts:
    """A node that holds graphs, as loops and conditionals do, and how these are translated."""

    def __init__(
        self, c: Context, values: dict[Any, Any], node: Any, run: Callable[[Any], None], value_of: Callable[[Any], Any]
    ) -> None:
        self.c, self.values, self.node, self.run, self.value_of = c, values, node, run, value_of

    def graph(self, index: int) -> Any:
        """A graph among the arguments."""
        return getattr(self.node.graph.owning_module, self.node.args[index].target).graph

    def results(self, graph: Any, operands: Sequence[Any]) -> list[Any]:
        """The results of a graph for operands."""
        self.values |= zip([n for n in graph.nodes if n.op == "placeholder"], operands)
        self.run(graph.nodes)
        given = next(n for n in graph.nodes if n.op == "output").args[0]
        return self.value_of(list(given) if isinstance(given, (list, tuple)) else [given])  # type: ignore[no-any-return]


def conditional(parts: Parts) -> list[Expr]:
    """The results of a ``torch.cond``: both graphs become branches over the operands' own variables. Raises Gap."""
    c, node = parts.c, parts.node
    cond, given = parts.value_of([node.args[0], node.args[3]])
    if not isinstance(cond, Expr):
        cond = c.symbols.expr(cond)
    if not isinstance(cond.ty, PrimType) and rank_of(cond):
        cond = c.reshape(cond, [])
    branches = []
    for index in (1, 2):
        c.builder.begin_sequence()
        with c.symbols.scope():
            results = parts.results(parts.graph(index), given)
        branches.append(c.builder.end_sequence(c.builder.emit(Tuple(tuple(results)))))
    wanted = c.type_of(node.meta["val"])
    for branch in branches:
        if is_subtype(branch.ty, wanted) is not Answer.YES:
            raise Gap(f"a branch of type {branch.ty}, torch's result is {wanted}")
    made = c.emit(If(c.emit(cond), branches[0], branches[1], wanted))
    return [c.emit(TupleGetItem(made, i)) for i in range(len(node.meta["val"]))]
