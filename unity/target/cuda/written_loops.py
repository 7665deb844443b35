"""Loops of kernels that are written out: arrays of a thread are in registers where their places are constants."""

from __future__ import annotations

from ...ir.expr import Call, IntImm, Var
from ...ir.scalar import BufferLoad
from ...ir.stmt import BufferStore, For
from ...ir.types import Expr, PointerType
from ...ir.walk import collect, uses_any
from ...transform.tir.blocks.lower_opaque_block import leaves_loop
from ...transform.tir.loops.unroll_loop import statement_count

MOST_WRITTEN = 4096
"""Most stores and calls that a loop over memory of a thread becomes where nobody asks for it."""


def is_written_out(stmt: For) -> bool:
    """True for a loop that is unrolled, and for one that goes over memory of the thread, which has to be in registers."""
    if type(stmt.extent) is not IntImm or type(stmt.min) is not IntImm or stmt.step is not None:
        return False
    count = stmt.extent.value
    asked = stmt.note("unroll", 0)
    if asked == 1 < count or leaves_loop(stmt.body):
        return False
    return asked >= count or (count * statement_count(stmt.body) <= MOST_WRITTEN and _goes_over_registers(stmt))


def _goes_over_registers(stmt: For) -> bool:
    for part in collect(stmt.body, (BufferLoad, BufferStore, Call)):
        if type(part) is Call:  # the number of an element stands behind the pointer
            places = [behind for base, behind in zip(part.args, part.args[1:]) if is_local(base)]
        else:
            places = [*part.indices] if is_local(part.buffer.data) else []
        if any([uses_any(place, (stmt.loop_var,)) for place in places]):
            return True
    return False


def is_local(pointer: Expr) -> bool:
    """True for a pointer to memory of a thread."""
    return (
        isinstance(pointer, Var)
        and isinstance(pointer.ty, PointerType)
        and (pointer.ty.scope == "local" or pointer.ty.scope.startswith("wmma."))
    )
