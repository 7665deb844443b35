"""Greatest common divisor and least common multiple of integers, as numpy and torch define them: never negative, 0 with 0 is 0.

Invariant: computed in 64 bits and cut to the operands' dtype, so a multiple too large for it wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.stmt import AllocBuffer, BufferStore, Stmt, While, seq
from ...ir.types import Expr, Type
from ..common.loop_nests import local_buffer, loops, read
from ..common.lowering import broadcast_indices, cast_tensor, result_dims, result_dtype, short_name
from ..common.table import Operator, row
from ..common.type_rules import broadcast_type, fail, same_dtype, tensor_arg


class Numbers:
    """Numbers a program keeps and changes, by name."""

    def __init__(self, *names: str, dtype: str) -> None:
        self.buffer = local_buffer("numbers", dtype, len(names))
        self._places = {name: (build.const(n, "int64"),) for n, name in enumerate(names)}

    def alloc(self) -> Stmt:
        """The memory, in front of the statements that use it."""
        return AllocBuffer(self.buffer)

    def __getitem__(self, name: str) -> Expr:
        return read(self.buffer, self._places[name])

    def put(self, name: str, value: Expr) -> Stmt:
        """Change a number."""
        return BufferStore(self.buffer, value, self._places[name])


Program = Callable[[Numbers, list[Expr]], Stmt]
"""(numbers, the operands' elements) -> statements that leave the result in the number ``value``."""


def _integers(call: Call) -> Type:
    types = [tensor_arg(call, index, f"x{index + 1}") for index in range(2)]
    dtype = same_dtype(call, *types)
    if dtype is not None and (dtype.is_bool or not dtype.is_integral):
        raise fail(call, "E211", f"expected integer tensors, got {dtype.name}", arg=0)
    return broadcast_type(call, types, dtype)


def _size(value: Expr) -> Expr:
    return build.select(build.lt(value, 0), 0 - value, value)


def _euclid(kept: Numbers, given: list[Expr]) -> Stmt:
    """The divisor in ``value``."""
    step = seq(
        kept.put("held", build.truncmod(kept["value"], kept["rest"])),
        kept.put("value", kept["rest"]),
        kept.put("rest", kept["held"]),
    )
    return seq(
        kept.put("value", _size(given[0])),
        kept.put("rest", _size(given[1])),
        While(build.ne(kept["rest"], 0), step),
    )


def _multiple(kept: Numbers, given: list[Expr]) -> Stmt:
    zero, one = [build.const(n, build.dtype_of(kept["value"])) for n in (0, 1)]
    divisor = build.select(build.eq(kept["value"], zero), one, kept["value"])
    whole = build.truncdiv(_size(given[0]), divisor)
    return seq(_euclid(kept, given), kept.put("value", whole * _size(given[1])))


def _iterated(call: Call, inputs: Sequence[te.Tensor], names: Sequence[str], program: Program, kind: str) -> te.Tensor:
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


def _row(name: str, program: Program, ref: np.ufunc, doc: str, torch: tuple[str, ...] = ()) -> Operator:
    def lower(call: Call, *inputs: te.Tensor) -> te.Tensor:
        kind = "uint64" if result_dtype(call).is_uint else "int64"
        return _iterated(call, inputs, ("rest", "held"), program, kind)

    return row(name, ("x1", "x2"), _integers, doc, family="binary", lower=lower, ref=ref, pointwise=True, torch=torch)


gcd = _row("gcd", _euclid, np.gcd, "Returns the greatest common divisor of integers, never negative.", ("gcd",))
lcm = _row("lcm", _multiple, np.lcm, "Returns the least common multiple of integers, never negative; 0 if either is 0.")
