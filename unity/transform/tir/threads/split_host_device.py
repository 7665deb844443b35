"""split_host_device: kernels become separate functions, called by the program that held them.

Rewrite: ``def main(A: T.Buffer((n,)), ..): with T.launch_thread("blockIdx.x", n) as bx: A[bx] = ..`` ->
``def main_kernel(A: T.handle("float32", "global"), n: T.int64): with T.launch_thread("blockIdx.x", n) as bx: { A_1 =
T.decl_buffer((n,), data=A); A_1[bx] = .. }`` (private, ``calling_conv`` 2) and ``def main(..): main_kernel(A.data, n)``.

The parameters of a kernel are the pointers that it uses (first those of the program's parameters, in their order) and then its
symbols. The extents of the launch are expressions of these. Run it after ``unify_thread_binding``.
"""

from __future__ import annotations

from typing import Any

from ....ir.analysis.threads import DEVICE_KERNEL_LAUNCH, is_device_function, is_thread_axis
from ....ir.buffer import Buffer
from ....ir.expr import Call, GlobalVar, Var
from ....ir.function import PrimFunc
from ....ir.module import IRModule
from ....ir.node import Node, replace
from ....ir.stmt import AllocBuffer, AllocConst, DeclBuffer, Evaluate, SeqStmt, Stmt, seq
from ....ir.types import VOID_TYPE, Expr, PointerType, PrimType, prim_type
from ....ir.walk import StatementRewriter, children, collect, free_vars, fresh_copy, nodes_in, rewrite, substitute
from ...infra.passes import module_pass
from .unify_thread_binding import launch_of, with_launch

KEPT = ("target", "tir.noalias")
"""Attributes that kernels take over from their program."""


def _buffers_around(kernel: Stmt) -> list[Buffer]:
    """Buffers that a kernel uses and that are declared outside of it."""
    declared = {part.buffer for part in collect(kernel, (AllocBuffer, AllocConst, DeclBuffer))}
    return [buffer for buffer in collect(kernel, Buffer) if buffer not in declared]


class _Split(StatementRewriter):
    def __init__(self, func: PrimFunc, name: str, taken: set[str]) -> None:
        super().__init__()
        self.func, self.name, self.taken = func, name, taken
        self.order = {buffer.data: index for index, buffer in enumerate(func.buffer_map.values())}
        self.made: dict[str, PrimFunc] = {}

    def enter(self, node: Any) -> Any | None:
        return self._launch(node) if is_thread_axis(node) else None

    def _launch(self, kernel: Stmt) -> Stmt:
        """The call of a kernel, which becomes a function."""
        buffers = sorted(_buffers_around(kernel), key=lambda buffer: self.order.get(buffer.data, len(self.order)))
        elements = {buffer.data: prim_type(buffer.dtype) for buffer in reversed(buffers)}
        given = free_vars(kernel)
        pointers = [v for v in given if v in elements or not isinstance(v.ty, PrimType) or v.ty.dtype.code == "handle"]
        pointers.sort(key=lambda v: self.order.get(v, len(self.order)))
        arguments = [*pointers, *[v for v in given if v not in pointers]]
        mapping: dict[Node, Node] = {}
        for var in arguments:
            ty = var.ty
            if var in elements and not isinstance(ty, PointerType):
                ty = PointerType(elements[var])
            mapping[var] = Var(var.name, ty, var.span)
        views = {buffer: self._view(buffer) for buffer in buffers}
        axes, body = launch_of(substitute(kernel, {old: new for old, new in views.items() if old is not new}))
        code = fresh_copy(with_launch(axes, seq(*[DeclBuffer(view) for view in views.values()], body)), mapping)
        attrs = {"calling_conv": DEVICE_KERNEL_LAUNCH, "tir.is_global_func": True}
        attrs |= {key: self.func.attrs[key] for key in KEPT if key in self.func.attrs}
        params = tuple([v for v in mapping.values() if isinstance(v, Var)])
        name = self._name()
        self.made[name] = PrimFunc(params, {}, code, VOID_TYPE, attrs, self.func.span)
        values: tuple[Expr, ...] = tuple(arguments)
        return Evaluate(Call(GlobalVar(name), values, {}, (), prim_type("int32"), getattr(kernel, "span", None)))

    def _view(self, buffer: Buffer) -> Buffer:
        """The buffer that a kernel declares for one outside of it; the pointer of a parameter points to its element 0."""
        moved = buffer.data in self.order and buffer.elem_offset is not None
        return replace(buffer, elem_offset=None) if moved else buffer

    def _name(self) -> str:
        number, name = 0, f"{self.name}_kernel"
        while name in self.taken:
            number += 1
            name = f"{self.name}_kernel_{number}"
        self.taken.add(name)
        return name


def _without_views(body: Stmt) -> Stmt:
    """A program without unused views."""
    used = {b for node in nodes_in(body) if type(node) is not DeclBuffer for b in children(node) if type(b) is Buffer}

    def kept(stmt: SeqStmt) -> Stmt:
        parts = [part for part in stmt.stmts if type(part) is not DeclBuffer or part.buffer in used]
        return stmt if len(parts) == len(stmt.stmts) else seq(*parts)

    return rewrite(body, {SeqStmt: kept})


@module_pass()
def split_host_device(mod: IRModule) -> IRModule:
    """Make each kernel a function."""
    changes: dict[str, PrimFunc] = {}
    taken = set(mod.functions)
    for name, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or is_device_function(func):
            continue
        split = _Split(func, name, taken)
        body = split(func.body)
        if split.made:
            changes[name] = replace(func, body=_without_views(body))
            changes.update(split.made)
    return mod.with_functions(changes)
