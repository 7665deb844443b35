"""inject_prefetch: the last tiles of each panel, of a loop over tiles that asks for it, fetch the panel that follows.

A loop with the annotation ``software_prefetch_panel: n`` goes over tiles, ``n`` of which, one after the other, read the same panel
in vectors; with ``n`` = 1 it goes over panels, and a loop inside it over the tiles. In each innermost step of the last tiles of a
panel stands a ``T.prefetch`` of what the same step reads ``n`` iterations later: one line of the panel for each of these tiles,
or as many as it takes. So a panel comes into the second-level cache while the arithmetic goes on, just before it is used.

Rewrite, ``v = T.Ramp(t // 2 * 2048 + k * 16, 1, 16)``, one line a step:
``for t in T.serial(64, annotations={"software_prefetch_panel": 2}): for k in 128: s(W[v])`` ->
``for t in 64: for k in 128: { if 1 - t % 2 < 1: prefetch W[min(t + 2, 63) // 2 * 2048 + k * 16]; s(W[v]) }``.
For flat buffers. Invariant: what is fetched is an element that a later iteration reads, or one of the last panel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.build import add, buffer_load, dtype_of, floormod, int_imm, intrinsic, is_int, lt, minimum, mul, sub
from ....ir.expr import Call, IntImm, Var, op
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Ramp
from ....ir.stmt import AllocBuffer, Bind, Evaluate, For, IfThenElse, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import collect, rewrite, substitute, used_vars
from ....support.errors import PassError
from ...infra.passes import prim_func_pass

SOFTWARE_PREFETCH_PANEL = "software_prefetch_panel"
"""Annotation of a loop over tiles: how many of them read one panel."""

SOFTWARE_PREFETCH_ONCE = "software_prefetch_once"
"""Annotation of such a loop beside it, 1 where a panel that is done with is not read again soon."""

ONCE, SECOND_LEVEL = 0, 2
"""The locality of ``T.prefetch`` for lines that are used once the panel before them is done with: they may leave all caches after
that, or stay in the second one."""


def _fetch_panels(loop: For) -> Stmt:
    """The loop with panels fetched ahead where it asks for it. Raises PassError E532 for a count of tiles below one."""
    tiles = loop.note(SOFTWARE_PREFETCH_PANEL)
    if tiles is None:
        return loop
    if not isinstance(tiles, int) or tiles < 1:
        raise PassError(
            "E532", f"{SOFTWARE_PREFETCH_PANEL} of loop {loop.loop_var.name} must be a count of tiles", loop.span
        )
    locality = ONCE if loop.note(SOFTWARE_PREFETCH_ONCE) == 1 else SECOND_LEVEL
    bare = loop.without_notes(SOFTWARE_PREFETCH_PANEL, SOFTWARE_PREFETCH_ONCE)
    serial = [part for part in collect(bare.body, For) if part.kind == "serial"]
    steps = {part.loop_var: part for part in serial if not [f for f in collect(part.body, For) if f.kind == "serial"]}

    def step(part: For) -> Stmt:
        if part.loop_var not in steps:
            return part
        around = [f for f in serial if part.loop_var in {inner.loop_var for inner in collect(f.body, For)}]
        fetches = _Panel(bare, tiles, around, steps[part.loop_var], locality).fetches()
        return replace(part, body=seq(*fetches, part.body)) if fetches else part

    return replace(bare, body=rewrite(bare.body, {For: step}))


class _Panel:
    """The panel that one innermost loop fetches: ``around`` are the loops between it and the loop over tiles, outermost first."""

    def __init__(self, loop: For, tiles: int, around: Sequence[For], step: For, locality: int) -> None:
        self.loop, self.tiles, self.around, self.step, self.locality = loop, tiles, around, step, locality
        self.ty = prim_type(dtype_of(loop.loop_var))

    def fetches(self) -> list[Stmt]:
        """One statement for each place that the step reads in vectors."""
        lines = {part.loop_var: part for part in collect(self.step.body, For)}
        return [
            self.fetch(load, base, lines)
            for load, base in _first_elements(self.loop, self.step)
            if len([v for v in lines if v in used_vars(base)]) <= 1
        ]

    def fetch(self, load: BufferLoad, base: Expr, lines: dict[Var, For]) -> Stmt:
        """The lines that one tile fetches of what a load reads."""
        loop, used = self.loop, set(used_vars(base))
        last = add(loop.min, sub(loop.extent, int_imm(1, self.ty)))
        values: dict[Var, Expr] = {loop.loop_var: minimum(add(loop.loop_var, int_imm(self.tiles, self.ty)), last)}
        lines_loop = next((part for var, part in lines.items() if var in used), None)
        count = lines_loop.extent.value if lines_loop is not None and type(lines_loop.extent) is IntImm else 1
        left = self.left(used)
        each = count if left is None else -(-count // self.tiles) if self.tiles > 1 else 1
        first = int_imm(0, self.ty) if left is None else mul(left, int_imm(each, self.ty))
        made = []
        for line in range(each):
            if lines_loop is not None:
                values[lines_loop.loop_var] = minimum(add(first, int_imm(line, self.ty)), int_imm(count - 1, self.ty))
            there = buffer_load(load.buffer, substitute(base, values))
            made.append(prefetch_of(there, self.locality))
        fetching = -(-count // each)
        if left is None or (self.tiles > 1 and fetching >= self.tiles):
            return seq(*made)
        return IfThenElse(lt(left, int_imm(fetching, self.ty)), seq(*made), None)

    def left(self, used: set[Var]) -> Expr | None:
        """Tiles of the panel that remain behind this one; None where the panel has no tiles."""
        if self.tiles > 1:
            loop = self.loop
            number = loop.loop_var if is_int(loop.min, 0) else sub(loop.loop_var, loop.min)
            return sub(int_imm(self.tiles - 1, self.ty), floormod(number, int_imm(self.tiles, self.ty)))
        inner = [part for part in self.around if part.loop_var not in used]
        if not inner or dtype_of(inner[-1].loop_var) is not dtype_of(self.loop.loop_var):
            return None
        return sub(sub(add(inner[-1].min, inner[-1].extent), int_imm(1, self.ty)), inner[-1].loop_var)


def prefetch_of(load: BufferLoad, locality: int) -> Stmt:
    """``T.prefetch`` of an element, to be read."""
    pointer = PointerType(prim_type(load.buffer.dtype), load.buffer.scope)
    where = Call(op("T.address_of"), (load,), {}, (), pointer)
    return Evaluate(intrinsic("prefetch", where, 0, locality, 1))


def _first_elements(loop: For, step: For) -> list[tuple[BufferLoad, Expr]]:
    """Loads of vectors in a step whose elements move with it and with a loop around it, each with the index of the first; none in
    whose index a variable stands that the loop's body binds, or what is loaded or called; each place once."""
    bound = {part.var for part in collect(loop.body, Bind)}
    own = {alloc.buffer for alloc in collect(loop.body, AllocBuffer)}
    found: list[tuple[BufferLoad, Expr]] = []
    for load in collect(step.body, BufferLoad):
        vector = load.indices[0]
        if load.buffer in own or type(vector) is not Ramp:
            continue
        index = vector.base
        used = set(used_vars(index))
        if not {loop.loop_var, step.loop_var} <= used or used & bound or collect(index, (BufferLoad, Call)):
            continue
        known = [base for other, base in found if other.buffer is load.buffer]
        if not any([structural_equal(index, base) for base in known]):
            found.append((load, index))
    return found


@prim_func_pass()
def inject_prefetch(func: PrimFunc) -> PrimFunc:
    """Fetch panels ahead where a loop over tiles asks for it. For flat buffers and the annotation ``software_prefetch_panel``."""
    return rewrite(func, {For: _fetch_panels})
