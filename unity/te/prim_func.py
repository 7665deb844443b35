"""``create_prim_func``: tensors to a PrimFunc with one block per compute, serial loops, exact reads and writes.

Parameters stand in the order given; tensors not given are allocated inside. The result shares no variable with the
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..ir import build
from ..ir.buffer import Buffer, BufferRegion, Range, make_buffer
from ..ir.common_subtrees import bind_shared
from ..ir.expr import Var
from ..ir.function import PrimFunc
from ..ir.names import NameSupply
from ..ir.node import replace
from ..ir.scalar import BufferLoad, IterVar, Reduce
from ..ir.stmt import AllocBuffer, Bind, Block, BlockRealize, BufferStore, Evaluate, For, Stmt, seq
from ..ir.types import VOID_TYPE, Expr, prim_type
from ..ir.walk import free_vars, fresh_copy, rewrite, substitute
from ..support.errors import TypeRuleError
from ..support.recursion import deep_recursion
from .tensor import Compute, Extern, ProducerLoad, Tensor
from .value import Value, to_scalar, unwrap

TRUE = build.const(True)
LAYOUT_FREE = "layout_free_placeholders"
"""The attribute of a compute that names inputs whose layout may be chosen."""


def create_prim_func(
    args: Sequence[Tensor | Value | Var], index_dtype_override: Literal["int64"] | None = None, *, name: str | None = None,
    attrs: dict[str, Any] | None = None,
) -> PrimFunc:  # fmt: skip
    """Return the tensor program that computes tensors: placeholders and scalars are inputs, computed tensors outputs.

    ``args``: the parameters in order. ``index_dtype_override``: an argument of TVM; known sizes are int64 always. ``name``: the
    global symbol. ``attrs``: further attributes. Raises TypeRuleError E217 for a placeholder that is used but not given, and for a
    symbol that no parameter defines.
    """
    with deep_recursion():
        return _Builder().build(args, name, dict(attrs or {}), None)


def create_prim_func_with_symbols(
    args: Sequence[Tensor | Value | Var], attrs: dict[str, Any] | None = None
) -> tuple[PrimFunc, list[Var]]:
    """Do as ``create_prim_func`` (``args``, ``attrs``), but make scalar parameters of symbols that no argument defines;
    also return these, in order.
    """
    symbols: list[Var] = []
    with deep_recursion():
        return _Builder().build(args, None, dict(attrs or {}), symbols), symbols


class _Builder:
    def __init__(self) -> None:
        self.names = NameSupply()
        self.block_names = NameSupply()
        self.buffers: dict[Tensor, Buffer] = {}
        self.layout_free: list[Tensor] = []

    def buffer(self, tensor: Tensor) -> Buffer:
        found = self.buffers.get(tensor)
        if found is None:
            name = self.names.fresh(tensor.name)
            found = self.buffers[tensor] = make_buffer(name, tensor.data_type, tensor.shape)
        return found

    def build(
        self, args: Sequence[Tensor | Value | Var], name: str | None, attrs: dict[str, Any], symbols: list[Var] | None
    ) -> PrimFunc:
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        given: list[Tensor] = []
        for arg in args:
            if isinstance(arg, Tensor):
                if arg in self.buffers:
                    raise TypeRuleError("E217", f"tensor {arg.name} is given twice")
                buffer = self.buffer(arg)
                handle = Var(self.names.fresh(f"{buffer.name}_handle"), prim_type("handle"))
                params.append(handle)
                buffer_map[handle] = buffer
                given.append(arg)
            else:
                scalar = unwrap(arg)
                if not isinstance(scalar, Var):
                    raise TypeRuleError("E217", "an argument must be a tensor or a scalar variable")
                self.names.fresh(scalar.name)
                params.append(scalar)
        stages = sort_stages([t for t in given if t.op is not None])
        stmts: list[Stmt] = []
        for stage in stages:
            for tensor in stage.outputs:
                if tensor not in self.buffers:
                    stmts.append(AllocBuffer(self.buffer(tensor)))
        for stage in stages:
            stmts.append(self.compute(stage) if isinstance(stage, Compute) else self.extern(stage))
        for tensor in self.buffers:
            if tensor.op is None and tensor not in given:
                raise TypeRuleError("E217", f"placeholder {tensor.name} is used but not among the arguments")
        if name is not None:
            attrs = {"global_symbol": name, **attrs}
        free = [place for place, arg in enumerate(args) if isinstance(arg, Tensor) and arg in self.layout_free]
        if free:
            attrs = {**attrs, "layout_free_buffers": tuple(free)}
        func = PrimFunc(tuple(params), buffer_map, seq(*stmts), VOID_TYPE, attrs)
        loose = free_vars(func)
        if loose and symbols is not None:
            symbols.extend(loose)
            func = PrimFunc((*params, *loose), buffer_map, func.body, VOID_TYPE, attrs)
        elif loose:
            names = ", ".join([v.name for v in loose])
            raise TypeRuleError(
                "E217", f"no argument defines the variables {names}", help="pass them: create_prim_func([A, C, n])"
            )
        return fresh_copy(func)

    def load(self, node: ProducerLoad) -> Expr:
        return BufferLoad(self.buffer(node.tensor), node.indices, node.ty)

    def compute(self, stage: Compute) -> Stmt:
        bodies = [rewrite(bind_shared(b), {ProducerLoad: self.load}) for b in stage.bodies]
        reduces = [a.iter_var for a in stage.reduce_axes]
        if any(
            [r.dom is not None and build.is_int(r.dom.extent, 0) for r in reduces]
        ):  # nothing to reduce: the neutral element
            first = bodies[0]
            assert type(first) is Reduce
            bodies, reduces = list(first.combiner.identity), []
        loops: list[tuple[Var, Expr, Expr]] = []
        mapping: dict[Var, Expr] = {}
        iter_vars: list[IterVar] = []
        shape = stage.outputs[0].shape
        for axis, extent in zip(stage.axes, shape):
            inner = Var(f"v_{axis.name}", axis.ty)
            mapping[axis] = inner
            loops.append((Var(axis.name, axis.ty), build.const(0, build.dtype_of(axis)), extent))
            iter_vars.append(IterVar(inner, Range(loops[-1][1], extent), "S"))
        for iv in reduces:
            assert iv.dom is not None
            inner = Var(f"v_{iv.var.name}", iv.var.ty)
            mapping[iv.var] = inner
            loops.append((Var(iv.var.name, iv.var.ty), iv.dom.min, iv.dom.extent))
            iter_vars.append(IterVar(inner, Range(iv.dom.min, iv.dom.extent), "R"))
        values: list[Expr] = [v for v, _, _ in loops]
        if not iter_vars:
            zero = build.const(0, "int64")
            iter_vars = [IterVar(Var("vi", zero.ty), Range(zero, build.const(1, "int64")), "S")]
            values = [zero]
        targets = [(self.buffer(t), tuple([mapping[a] for a in stage.axes])) for t in stage.outputs]
        init: Stmt | None = None
        if reduces:
            reduce = bodies[0]
            assert type(reduce) is Reduce
            init = seq(
                *[BufferStore(b, substitute(v, mapping), i) for (b, i), v in zip(targets, reduce.combiner.identity)]
            )
            body = self.update(reduce, targets, mapping)
        else:
            body = seq(
                *[BufferStore(b, substitute(value, mapping), index) for (b, index), value in zip(targets, bodies)]
            )
        marks = self.marks(stage)
        block = Block(tuple(iter_vars), None, None, (), (), marks, self.block_names.fresh(stage.name), body, init)
        stmt: Stmt = BlockRealize(tuple(values), TRUE, block)
        for loop_var, low, extent in reversed(loops):
            stmt = For(loop_var, low, extent, "serial", stmt)
        return stmt

    def update(self, reduce: Reduce, targets: list[tuple[Buffer, tuple[Expr, ...]]], mapping: dict[Var, Expr]) -> Stmt:
        """One step of a reduction: combine what the targets hold with the source, or with the neutral element where the condition
        does not hold. A predicate of the block would keep it from initialising."""
        combiner = reduce.combiner
        known = dict(mapping)
        for var, (buffer, index) in zip(combiner.lhs, targets):
            known[var] = BufferLoad(buffer, index, prim_type(buffer.dtype))
        for var, source, neutral in zip(combiner.rhs, reduce.source, combiner.identity):
            known[var] = substitute(build.if_then_else(reduce.condition, source, neutral), mapping)
        results = [substitute(r, known) for r in combiner.result]
        if len(results) == 1:
            return BufferStore(targets[0][0], results[0], targets[0][1])
        stmts: list[Stmt] = []
        held: list[Var] = []
        for (buffer, _), value in zip(targets, results):
            held.append(Var(f"v_{buffer.name}", value.ty))
            stmts.append(Bind(held[-1], value))
        stmts += [BufferStore(buffer, var, index) for (buffer, index), var in zip(targets, held)]
        return seq(*stmts)

    def extern(self, stage: Extern) -> Stmt:
        inputs, outputs = [self.buffer(t) for t in stage.inputs], [self.buffer(t) for t in stage.outputs]
        made = stage.emit(inputs, outputs)
        body = made if isinstance(made, Stmt) else Evaluate(to_scalar(made))
        reads, writes = tuple([_full_region(b) for b in inputs]), tuple([_full_region(b) for b in outputs])
        name = self.block_names.fresh(stage.name)
        body = rewrite(body, {Block: lambda block: replace(block, name=self.block_names.fresh(block.name))})
        return BlockRealize((), TRUE, Block((), reads, writes, (), (), self.marks(stage), name, body, None))

    def marks(self, stage: Compute | Extern) -> dict[str, Any]:
        """The attributes of a stage for its block; the tensors of ``layout_free_placeholders`` are an attribute of the program.
        Raises TypeRuleError E217 for other tensors."""
        found = dict(stage.attrs)
        self.layout_free += found.pop(LAYOUT_FREE, ())
        for name, value in found.items():
            if any([isinstance(v, Tensor) for v in (value if isinstance(value, (list, tuple)) else (value,))]):
                raise TypeRuleError("E217", f"attribute {name!r} of {stage.name} holds a tensor",
                                    help=f"attributes are numbers, strings, lists, dicts; {LAYOUT_FREE} takes tensors")  # fmt: skip
        return found


def _full_region(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range(build.const(0, build.dtype_of(n)), n) for n in buffer.shape]))


def sort_stages(roots: Sequence[Tensor]) -> list[Compute | Extern]:
    """Return the computations behind the tensors ``roots``, producers first."""
    order: list[Compute | Extern] = []
    seen: set[int] = set()
    stack: list[tuple[Compute | Extern, bool]] = [(t.op, False) for t in reversed(roots) if t.op is not None]
    while stack:
        op, done = stack.pop()
        if done:
            order.append(op)
            continue
        if id(op) in seen:
            continue
        seen.add(id(op))
        stack.append((op, True))
        stack += [(t.op, False) for t in reversed(op.inputs) if t.op is not None and id(t.op) not in seen]
    return order
