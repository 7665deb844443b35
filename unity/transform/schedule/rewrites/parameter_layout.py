"""Layouts of parameters: what a new layout means for the signature, for those who call the function, and for cells that nothing
maps to.

Not here: the accesses in the body (``transform/schedule/primitives/layout.py``). Invariant: every size of the function is still
known from its arguments, and no function of the module passes an argument in the old layout.
"""

from __future__ import annotations

from ....arith.index_map import IndexMap
from ....ir.analysis import called_functions
from ....ir.buffer import Buffer
from ....ir.build import eq, intrinsic, logical_not, logical_or, ne
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad
from ....ir.stmt import BufferStore, Evaluate, Stmt
from ....ir.types import Expr
from ....ir.walk import collect
from ..core.refuse import refuse
from ..core.sref import Sref
from ..core.state import ScheduleState

Pad = int | float | IndexMap | None
"""The value of cells that nothing maps to: a number, or a function of their indices; None: what they held before."""


def parameter_of(state: ScheduleState, func: str, buffer: Buffer) -> Var | None:
    """The parameter that a buffer is bound to."""
    return next((p for p, b in state.shells[func].buffer_map.items() if b is buffer), None)


def is_written(state: ScheduleState, func: str, buffer: Buffer) -> bool:
    """True if the function stores into a buffer."""
    return any([s.buffer is buffer for s in collect(state.root(func).realize, BufferStore)])


def require_free_layout(state: ScheduleState, block: Sref, buffer: Buffer) -> None:
    """Refuse E444 where the memory of a parameter is not compact, or a function of the module passes it."""
    if buffer.strides or buffer.elem_offset is not None:
        refuse(
            "E444",
            f"parameter {buffer.name} has strides or an offset of its own",
            "compact memory",
            block,
            "cache_read or cache_write gives a compact copy",
        )
    callers = [name for name, fn in state.base.functions.items() if block.func in called_functions(fn)]
    if callers:
        refuse(
            "E444",
            f"{callers[0]} calls {block.func} with {buffer.name} in its present layout",
            "no callers in the module",
            block,
            "transform a copy (cache_read, cache_write), or schedule the program alone, "
            f"unity.Schedule(mod[{block.func!r}]), and let {callers[0]} pass R.layout_transform(...)",
        )


def set_parameter(state: ScheduleState, block: Sref, param: Var, old: Buffer, made: Buffer) -> None:
    """Let a parameter come in another layout. Refuses E444 where a size would be known from no argument any more."""
    shell = state.shells[block.func]
    buffers = {p: made if p is param else b for p, b in shell.buffer_map.items()}
    known = {*shell.params, *[d for b in buffers.values() for d in (*b.shape, *b.strides) if isinstance(d, Var)]}
    lost = [d.name for d in old.shape if isinstance(d, Var) and d not in known]
    if lost:
        refuse(
            "E444",
            f"{lost[0]} is known only as a dimension of {old.name}: in the new layout no argument gives it",
            "sizes known from arguments",
            block,
            f"a map that keeps {lost[0]} as a dimension, or a copy of {old.name} (cache_read, cache_write)",
        )
    state.set_shell(block.func, with_fields(shell, buffer_map=buffers))


def assumption(load: BufferLoad, condition: Expr, value: Expr) -> Stmt:
    """``T.assume``: where the condition holds, the caller passes ``value``."""
    is_nan = type(getattr(value, "value", 0)) is float and value.value != value.value  # type: ignore[attr-defined]
    holds = ne(load, load) if is_nan else eq(load, value)
    return Evaluate(intrinsic("assume", logical_or(logical_not(condition), holds)))
