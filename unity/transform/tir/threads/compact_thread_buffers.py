"""compact_thread_buffers: shared, warp and local buffers of kernels shrink to the part that one owner touches.

A schedule caches whole tensors: ``C_local`` of scope "local" has the shape of C, though each thread uses a few elements. Every
owner (a block for shared memory, a warp, a thread) has its own copy, so the launch axes that tell owners apart are constants
for it and need no room in the buffer. Loops around all accesses count as constants too if each iteration writes what it reads.
The accesses in the other loops span a box: the buffer gets its size, and indices become relative to its corner.

Rewrite: ``L: alloc (64, 64) local; for tx in threads(64): for j: L[tx, j] = ..; .. = L[tx, j]`` -> ``L: alloc (1, 64)`` and
``L[0, j]``. Buffers with strides or an offset, and those whose pointer is used, stay as they are. For loops: run it after
blocks are lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith.analyzer import Analyzer
from ....arith.intset import union
from ....ir.analysis.threads import as_loop, is_thread_axis
from ....ir.analysis.use import size_symbols
from ....ir.buffer import Buffer, Range
from ....ir.build import dtype_of, int_imm, is_int
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.intrinsic import INTRINSICS
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import AttrStmt, Bind, For, Stmt
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, free_vars
from ...infra.passes import prim_func_pass
from ..analysis.touched_regions import Access, AccessWalk, MoveAccesses, Scope, box, touched_range, written_before_read

OWNED_BY = {
    "shared": ("blockIdx",),
    "shared.dyn": ("blockIdx",),
    "warp": ("blockIdx",),
    "local": ("blockIdx", "threadIdx"),
}
"""Launch axes that tell the owners of a scope apart. The threads of a warp share its memory; the virtual threads of a thread share
what it allocates around them."""


class _Compact:
    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = Analyzer(size_symbols(func))
        self.values: dict[Var, Expr] = {bind.var: bind.value for bind in collect(func.body, Bind)}
        for loop in [
            *collect(func.body, For),
            *[as_loop(axis) for axis in collect(func.body, AttrStmt) if is_thread_axis(axis)],
        ]:
            self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))

    def __call__(self, body: Stmt) -> Stmt:
        walk = AccessWalk(body)
        moves = {}
        for buffer, scope in walk.scopes.items():
            accesses = walk.accesses(buffer) if buffer.scope in OWNED_BY else None
            made = self._shrunk(buffer, scope, accesses) if accesses else None
            if made is not None:
                moves[buffer] = made
        return MoveAccesses(moves, self.analyzer)(body) if moves else body

    def _shrunk(self, buffer: Buffer, scope: Scope, accesses: list[Access]) -> tuple[Buffer, list[Expr]] | None:
        """The buffer of the cells that one owner touches, and the corner at which they begin."""
        if buffer.strides or buffer.elem_offset is not None or not buffer.shape:
            return None
        owned = (*OWNED_BY[buffer.scope], "vthread", "cthread")
        around = [loop for loop in scope.loops if is_thread_axis(loop)]
        sharing = [axis for axis in around if not (axis.thread or "").startswith(owned)]
        fixed = self._fixed(buffer, accesses, sharing)
        moving = [
            Access(a.node, (*sharing, *[l for l in a.loops if l.loop_var not in fixed]), a.conditions) for a in accesses
        ]
        boxes = [box(access, self.analyzer) for access in moving]
        inner = {l.loop_var for a in accesses for l in a.loops}
        corner: list[Expr] = []
        shape: list[Expr] = []
        for axis, extent in enumerate(buffer.shape):
            cells = union([b[axis] for b in boxes], self.analyzer)
            # registers have constant indices: those of a thread are relative to its first cell
            low, size = touched_range(cells, extent, self.analyzer, buffer.scope == "local")
            used = free_vars(low)
            seen = [v for v in used if v in inner]
            unknown = any([v not in {l.loop_var for l in a.loops} for v in seen for a in accesses])
            bound = [v for v in used if v in self.values]
            changing = {l.loop_var for l in (*sharing, *collect(scope.stmt, For))} if bound else set()
            if unknown or any([self._moves(v, changing) for v in bound]):
                # a corner that some access does not know, or that may differ between threads and iterations
                low, size = int_imm(0, prim_type(dtype_of(extent))), extent
            padding = buffer.scope != "local" and axis == len(buffer.shape) - 1
            if (
                padding
                and type(extent) is IntImm
                and type(size) is IntImm
                and 4 * (extent.value - size.value) <= size.value
            ):
                size = extent  # what a kernel leaves free on purpose keeps the rows of shared memory in different banks
            corner.append(low)
            shape.append(size)
        if all([a is b for a, b in zip(shape, buffer.shape)]) and all([is_int(low, 0) for low in corner]):
            return None
        return replace(buffer, shape=tuple(shape), data=Var(buffer.data.name, buffer.data.ty)), corner

    def _moves(self, var: Var, changing: set[Var]) -> bool:
        """True if a bound value may differ where variables do, or is not computed from variables alone."""
        value = self.values[var]
        if collect(value, BufferLoad) or any([INTRINSICS[c.op_name].effect != "pure" for c in collect(value, Call)]):
            return True
        return any([v in changing or (v in self.values and self._moves(v, changing)) for v in free_vars(value)])

    def _fixed(self, buffer: Buffer, accesses: Sequence[Access], sharing: Sequence[For]) -> set[Var]:
        """Loop variables that are constants to an owner, which the threads of the axes ``sharing`` are together."""
        owned = OWNED_BY[buffer.scope]
        found = {
            loop.loop_var for a in accesses for loop in a.loops if is_thread_axis(loop) and (loop.thread or "").startswith(owned)
        }  # fmt: skip
        common = list(accesses[0].loops)
        for access in accesses[1:]:
            same = [a is b for a, b in zip(common, access.loops)]
            common = common[: same.index(False) if False in same else len(same)]
        for depth in range(len(common), 0, -1):
            inside = [  # each access by threads of its own: those around all of them are not the same in two accesses
                Access(a.node, (*[replace(axis) for axis in sharing], *a.loops[depth:]), a.conditions) for a in accesses
            ]
            if written_before_read(inside, self.analyzer):
                return found | {loop.loop_var for loop in common[:depth] if not is_thread_axis(loop)}
        return found


@prim_func_pass()
def compact_thread_buffers(func: PrimFunc) -> PrimFunc:
    """Shrink shared, warp and local buffers of GPU programs to what one owner touches. For programs without blocks."""
    return replace(func, body=_Compact(func)(func.body))
