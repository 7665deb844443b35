"""lower_warp_memory: memory of a warp (scope "warp") is kept in the registers of its lanes.

Element ``e`` of a buffer belongs to lane ``e // m % 32``. ``m`` is the number of contiguous elements of a lane, which is the
factor of the lane number in the indices of the stores. A lane writes only its own elements and reads those of other lanes by
shuffles. Instructions that take a pointer and an offset (``T.ptx_mma``, ``T.ptx_ldmatrix``) get those of the lane.

Rewrite, ``m`` = 8: ``W: alloc (256,) warp; W[tx * 8 + r] = a; b = W[(tx ^ 1) * 8 + r]`` -> ``W: alloc (8,) local; W[r] = a;
b = T.tvm_warp_shuffle(mask, W[r], tx ^ 1, 32, 32)``. Run it after ``flatten_buffer``, before loops are vectorized.

Raises PassError E377 if it cannot show that each lane writes only its own elements. Source: TVM's LowerWarpMemory.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.threads import axis_of, is_thread_axis
from ....ir.buffer import Buffer, Range
from ....ir.build import add, cast, const, dtype_of, floordiv, floormod, int_imm, intrinsic, mul
from ....ir.expr import Call, IntImm, Op, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, FloorMod
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, Stmt
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import Rewriter, collect, rewrite
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import slope
from ..buffers.versions import OFFSET_BEHIND
from .lower_thread_allreduce import WARP

_MASK = (1 << WARP) - 1


class _Warps(Rewriter):
    """Puts the warp memory of one kernel into registers."""

    def __init__(self, kernel: Stmt) -> None:
        super().__init__({BufferLoad: self._load, BufferStore: self._store, Call: self._call, AllocBuffer: self._alloc})
        self.analyzer = Analyzer()
        self.tx: Var | None = None
        whole = False
        for stmt in collect(kernel, (AttrStmt, For)):
            if is_thread_axis(stmt):
                axis = axis_of(stmt)
                if axis.tag == "threadIdx.x":
                    self.tx, whole = axis.var, type(axis.extent) is IntImm and axis.extent.value == WARP
                self.analyzer.bind(axis.var, Range(int_imm(0, prim_type(dtype_of(axis.var))), axis.extent))
            elif type(stmt) is For:
                self.analyzer.bind(stmt.loop_var, Range(stmt.min, stmt.extent))
        if self.tx is None:
            raise PassError("E377", "memory of a warp without an axis threadIdx.x", getattr(kernel, "span", None))
        self.lane = self.tx if whole else Var("lane", self.tx.ty)
        if not whole:
            self.analyzer.bind_range(self.lane, 0, WARP - 1)
        self.made: dict[Var, tuple[Buffer, int]] = {}
        """By pointer: the registers of a lane, and its number of contiguous elements."""
        for alloc in collect(kernel, AllocBuffer):
            if alloc.buffer.scope == "warp":
                self._register(alloc.buffer, kernel)

    def _in_lane(self, index: Expr) -> Expr:
        """An index in terms of the lane, where the block has more threads along x."""
        if self.lane is self.tx:
            return index
        lane, tx = self.lane, self.tx

        def named(part: FloorMod) -> Expr:
            return lane if part.a is tx and type(part.b) is IntImm and part.b.value == WARP else part

        return rewrite(index, {FloorMod: named})

    def _own(self, index: Expr) -> Expr:
        """An index in terms of the program's variables again."""
        tx = self.tx
        assert tx is not None
        if self.lane is tx:
            return index
        return Rewriter(mapping={self.lane: floormod(tx, const(WARP, dtype_of(tx)))})(index)

    def _register(self, buffer: Buffer, kernel: Stmt) -> None:
        written = [s.indices[0] for s in collect(kernel, BufferStore) if s.buffer is buffer]
        for call in collect(kernel, Call):
            if type(call.op) is Op and call.op.name in OFFSET_BEHIND:
                written += [call.args[k + 1] for k, a in enumerate(call.args[:-1]) if a is buffer.data]
        steps = {slope(self._in_lane(index), self.lane) for index in written}
        step = steps.pop() if len(steps) == 1 else None
        size = buffer.shape[0]
        if step is None or step <= 0 or type(size) is not IntImm or size.value % (WARP * step):
            raise PassError(
                "E377", f"{buffer.name}: it is not seen which elements belong to which lane of the warp", buffer.span,
                help="write memory of a warp at index lane * m + r, with one m, and let it have a multiple of 32 * m elements",
            )  # fmt: skip
        data = Var(buffer.data.name, PointerType(prim_type(buffer.dtype), "local"), buffer.data.span)
        shape = (const(size.value // WARP, "int64"),)
        self.made[buffer.data] = replace(buffer, data=data, shape=shape), step

    def _split(self, index: Expr, step: int) -> tuple[Expr, Expr]:
        """The register and the lane of an element."""
        index = self._in_lane(index)
        group = WARP * step
        register = add(mul(floordiv(index, group), step), floormod(index, step))
        lane = floordiv(floormod(index, group), step)
        return self._own(self.analyzer.simplify(register)), self.analyzer.simplify(lane)

    def _load(self, node: BufferLoad) -> Expr:
        found = self.made.get(node.buffer.data)
        if found is None:
            return node
        register, lane = self._split(node.indices[0], found[1])
        value = replace(node, buffer=found[0], indices=(register,))
        if self.analyzer.can_prove_equal(lane, self.lane):
            return value
        lanes = [
            const(_MASK, "uint32"),
            value,
            cast(self._own(lane), "int32"),
            const(WARP, "int32"),
            const(WARP, "int32"),
        ]
        return intrinsic("tvm_warp_shuffle", *lanes, span=node.span)

    def _store(self, node: BufferStore) -> BufferStore:
        found = self.made.get(node.buffer.data)
        if found is None:
            return node
        register, lane = self._split(node.indices[0], found[1])
        if not self.analyzer.can_prove_equal(lane, self.lane):
            text = f"{node.buffer.name}: a lane writes an element of another lane, number {lane}"
            raise PassError("E377", text, node.span, help="let each lane write its own, and read those of others")
        return replace(node, buffer=found[0], indices=(register,))

    def _call(self, node: Call) -> Call:
        if type(node.op) is not Op or not any([a in self.made for a in node.args]):
            return node
        if node.op.name not in OFFSET_BEHIND:
            raise PassError("E377", f"{node.op.name} takes memory of a warp as a whole", node.span)
        args = list(node.args)
        for index, arg in enumerate(node.args[:-1]):
            found = self.made.get(arg) if isinstance(arg, Var) else None
            if found is not None:
                args[index] = found[0].data
                args[index + 1] = self._split(args[index + 1], found[1])[0]
        return replace(node, args=tuple(args))

    def _alloc(self, node: AllocBuffer) -> AllocBuffer:
        found = self.made.get(node.buffer.data)
        return node if found is None else replace(node, buffer=found[0])


class _Kernels(Rewriter):
    def enter(self, node: Any) -> Any | None:
        if not is_thread_axis(node):
            return None
        uses = any([alloc.buffer.scope == "warp" for alloc in collect(node, AllocBuffer)])
        return _Warps(node)(node) if uses else node


@prim_func_pass()
def lower_warp_memory(func: PrimFunc) -> PrimFunc:
    """Move memory of warps to registers. Requires flat buffers and unified kernels, gives memory of threads and shuffles."""
    return replace(func, body=_Kernels()(func.body))
