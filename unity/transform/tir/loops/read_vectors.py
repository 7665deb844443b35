"""read_vectors: an unrolled loop over neighbours in global memory reads them at once.

Rewrite: ``for e in T.unroll(4): if i < n: S[0] = S[0] + A[i * 4 + e]`` -> ``if i < n: { for e in T.vectorized(4): V[e] =
A[i * 4 + e]; for e in T.unroll(4): S[0] = S[0] + V[e] }`` with ``V`` in memory of the thread, where the first of the neighbours is
proved to lie where a vector may. Only for what the kernel does not write, and reads in every iteration. For programs without
blocks whose buffers have one axis, before vectorized loops are lowered.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.reductions import REDUCTION
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import const, dtype_of
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc, may_alias
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, IfThenElse, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.walk import StatementRewriter, collect, rewrite, substitute, uses_any
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import slope
from .hoist_if_then_else import is_plain
from .version_predicates import has_choices

VECTOR_BYTES = 16


class _Read(StatementRewriter):
    def __init__(self, written: set[Var]) -> None:
        super().__init__()
        self.written = written

    def leave(self, node: Any) -> Any:
        if type(node) is not For or node.kind != "unrolled" or type(node.extent) is not IntImm:
            return node
        made = self._inside(node, node.body)
        return node if made is None else made

    def _inside(self, loop: For, body: Stmt) -> Stmt | None:
        """The loop with what it reads in vectors, in the conditions that are the same for all iterations; None if it reads none."""
        if type(body) is AttrStmt and body.key == REDUCTION:
            made = self._inside(loop, body.body)
            return None if made is None else replace(body, body=made)
        if (
            type(body) is IfThenElse
            and body.else_case is None
            and is_plain(body.cond)
            and not uses_any(body.cond, (loop.loop_var,))
        ):
            made = self._inside(loop, body.then_case)
            return None if made is None else replace(body, then_case=made)
        return self._read(loop, body) if type(body) is BufferStore and not has_choices(body) else None

    def _read(self, loop: For, store: BufferStore) -> Stmt | None:
        """The loop with what it reads in vectors; None if it reads none."""
        assert type(loop.extent) is IntImm
        ana = Analyzer()
        loads: list[BufferLoad] = []
        for load in collect(store, BufferLoad):
            fits = loop.extent.value * load.buffer.dtype.itemsize in (VECTOR_BYTES // 2, VECTOR_BYTES)
            if (
                fits
                and self._is_vector(load, loop, ana)
                and not any([structural_equal(load, other) for other in loads])
            ):
                loads.append(load)
        if not loads:
            return None
        vectors = [_vector_of(load, loop) for load in loads]
        copies: list[Stmt] = []
        for load, vector in zip(loads, vectors):
            lane = Var(loop.loop_var.name, loop.loop_var.ty)
            value = substitute(load, {loop.loop_var: lane})
            copies.append(AllocBuffer(vector))
            copies.append(replace(loop, loop_var=lane, kind="vectorized", body=BufferStore(vector, value, (lane,))))

        def element(load: BufferLoad) -> BufferLoad:
            found = [v for v, known in zip(vectors, loads) if structural_equal(load, known)]
            return BufferLoad(found[0], (loop.loop_var,), load.ty) if found else load

        return seq(*copies, replace(loop, body=rewrite(store, {BufferLoad: element})))

    def _is_vector(self, load: BufferLoad, loop: For, ana: Analyzer) -> bool:
        """True if a load reads neighbours in the iterations of a loop, the first of which is at a multiple of their number."""
        buffer = load.buffer
        if (
            buffer.scope != "global"
            or buffer.data in self.written
            or len(load.indices) != 1
            or load.predicate is not None
        ):
            return False
        if buffer.strides or buffer.elem_offset is not None or slope(load.indices[0], loop.loop_var) != 1:
            return False
        first = ana.modular_set(substitute(load.indices[0], {loop.loop_var: const(0, dtype_of(loop.loop_var))}))
        assert type(loop.extent) is IntImm
        return first.coeff % loop.extent.value == 0 and first.base % loop.extent.value == 0


def _vector_of(load: BufferLoad, loop: For) -> Buffer:
    """The memory of a thread for what the iterations of a loop read."""
    return make_buffer(f"{load.buffer.name}_vector", load.buffer.dtype, (loop.extent,), "local")


@prim_func_pass()
def read_vectors(func: PrimFunc) -> PrimFunc:
    """Read neighbours in global memory at once, where an unrolled loop takes one after another."""
    if may_alias(func):
        return func  # what is stored may be what is read
    written = {store.buffer.data for store in collect(func.body, BufferStore)}
    for call in collect(func.body, Call):  # what is given a pointer may write
        addressed = call.args if call.op_name == "T.address_of" else ()
        written.update([arg for arg in call.args if type(arg) is Var])
        written.update([arg.buffer.data for arg in addressed if type(arg) is BufferLoad])
    return replace(func, body=_Read(written)(func.body))
