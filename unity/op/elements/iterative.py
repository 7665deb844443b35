"""Elementwise operators that iterate until a value stands: each element is a small program on numbers it keeps.

Floats are computed in float64 and rounded once. Not here: the operators (``polynomials.py``, ``incomplete.py``, ``divisors.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.stmt import BufferStore, Stmt, seq
from ...ir.types import Expr, Type
from ..linalg.matrices import WIDE, Numbers
from ..lines.reduce import cast_tensor
from ..lowering import broadcast_indices, result_dims, result_dtype, short_name
from ..moves.scan import loops, read
from ..rules import broadcast_type, float_tensor, same_dtype

Program = Callable[[Numbers, list[Expr]], Stmt]
"""(numbers, the operands' elements) -> statements that leave the result in the number ``value``."""


def two_floats(call: Call) -> Type:
    """Type rule: two float tensors that broadcast."""
    types = [float_tensor(call, index, f"x{index + 1}") for index in range(2)]
    return broadcast_type(call, types, same_dtype(call, *types))


def iterated(
    call: Call, inputs: Sequence[te.Tensor], names: Sequence[str], program: Program, kind: str = WIDE
) -> te.Tensor:
    """The operands broadcast and the program run for each element; ``names`` are the numbers it keeps besides ``value``, of a
    ``kind``."""
    shape = result_dims(call)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def element(i: list[Var]) -> Stmt:
            kept = Numbers("value", *names, *[f"given {n}" for n in range(len(ins))], dtype=kind)
            places = [[_index(v) for v in broadcast_indices(b.shape, i, shape)] for b in ins]
            loads = [kept.put(f"given {n}", read(b, place)) for n, (b, place) in enumerate(zip(ins, places))]
            given = [kept[f"given {n}"] for n in range(len(ins))]
            return seq(kept.alloc(), *loads, program(kept, given), BufferStore(outs[0], kept["value"], tuple(i)))

        return loops(shape, element)

    wide = [cast_tensor(t, DataType(kind), "wide") for t in inputs]
    made = te.extern(shape, wide, emit, short_name(call), kind)
    return cast_tensor(made, result_dtype(call), "cast")


def _index(value: te.Value | Expr | int) -> Expr:
    made: Expr = build.const(value, "int64") if isinstance(value, int) else te.unwrap(value)
    return made


def computed(fn: Callable[..., te.Value], *given: Expr) -> Expr:
    """A function of te.Values applied to expressions."""
    made: Expr = te.unwrap(fn(*[te.Value(g) for g in given]))
    return made


def chosen(cases: Sequence[tuple[Expr, Expr]], otherwise: Expr) -> Expr:
    """The value of the first case whose condition holds."""
    made = otherwise
    for cond, value in reversed(cases):
        made = build.select(cond, value, made)
    return made


__all__ = ["Program", "chosen", "computed", "iterated", "two_floats"]
