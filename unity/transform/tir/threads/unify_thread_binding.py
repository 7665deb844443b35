"""unify_thread_binding: a kernel binds each axis of its launch once, at its top.

Rewrite: ``for i in T.thread_binding(n, "blockIdx.x"): { for j in T.thread_binding(64, "threadIdx.x"): a(i, j); for k in
T.thread_binding(64, "threadIdx.x"): b(i, k) }`` -> ``with T.launch_thread("blockIdx.x", n) as bx:
with T.launch_thread("threadIdx.x", 64) as tx: { a(bx, tx); b(bx, tx) }``. Axes of virtual threads stay as attributes. Memory of a
kernel (scopes other than "global") that is allocated around it moves inside; each kernel that uses it gets its own.

Run it after ``compact_thread_buffers``, which finds the owner of a buffer by the place of its allocation. Raises PassError E373 if
the extents of an axis differ, or depend on values that the kernel computes.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.threads import ThreadAxis, axis_of, is_thread_axis, is_virtual
from ....ir.buffer import Buffer
from ....ir.build import add, cast, dtype_of, is_int
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, IterVar
from ....ir.stmt import NOTHING, AllocBuffer, AllocConst, AttrStmt, Bind, DeclBuffer, For, SeqStmt, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, StatementRewriter, collect, free_vars, fresh_copy, substitute, used_vars
from ....support.errors import Note, PassError
from ...infra.passes import prim_func_pass

HELP = (
    "bind each axis with one extent, given by parameters and shapes, and guard what fewer threads do with a condition"
)


class _Axes(Rewriter):
    """Collects the launch axes of a kernel and removes their bindings."""

    def __init__(self, outside: set[Var]) -> None:
        super().__init__()
        self.outside = outside
        self.analyzer = Analyzer([v for v in outside if dtype_of(v).is_integral])
        self.found: dict[str, tuple[IterVar, Expr, ThreadAxis]] = {}
        """By tag: the axis, its extent as an expression of variables outside the kernel, where it was first bound."""
        self.bound: dict[Var, Expr] = {}

    def enter(self, node: Any) -> Any | None:
        if type(node) is Bind and not collect(node.value, (BufferLoad, Call)):
            self.bound[node.var] = substitute(node.value, self.bound)
        if not is_thread_axis(node):
            return None
        axis = axis_of(node)
        if is_virtual(axis.tag):
            return self._virtual(node, axis)
        here = self._axis(node, axis)
        self.mapping[axis.var] = add(here, self.visit(node.min)) if type(node) is For else here
        return self.visit(node.body)

    def leave(self, node: Any) -> Any:
        if type(node) is not Call or node.op_name != "T.tvm_thread_allreduce":
            return node
        first = 2 + 2 * getattr(node.args[0], "value", 0)
        axes = [
            var for axis in node.args[first:] for var in used_vars(axis)
        ]  # bare, whatever the variables of loops were
        return replace(node, args=(*node.args[:first], *axes))

    def _virtual(self, node: For | AttrStmt, axis: ThreadAxis) -> Stmt | None:
        if type(node) is AttrStmt:
            return None
        assert type(node) is For
        own = IterVar(axis.var, None, "thread", "vthread" + axis.tag[7:], axis.span)
        low: Expr = self.visit(node.min)
        if not is_int(low, 0):
            own = IterVar(Var(axis.var.name, axis.var.ty, axis.var.span), None, "thread", own.thread_tag, axis.span)
            self.mapping[axis.var] = add(own.var, low)
        return AttrStmt(own, "virtual_thread", self.visit(axis.extent), self.visit(node.body), axis.span)

    def _axis(self, node: For | AttrStmt, axis: ThreadAxis) -> Expr:
        """The variable of the launch that stands for an axis."""
        extent = substitute(axis.extent, self.bound)
        if collect(extent, BufferLoad) or any([v not in self.outside for v in free_vars(extent)]):
            raise PassError(
                "E373", f"the extent of {axis.tag} depends on what the kernel computes", axis.span, help=HELP
            )
        known = self.found.get(axis.tag)
        if known is None:
            own = node.node if type(node) is AttrStmt else None
            if own is None or own.dom is not None:
                var = Var(axis.tag.replace(".", "_"), prim_type(dtype_of(axis.var)), axis.var.span)
                own = IterVar(var, None, "thread", axis.tag, axis.span)
            known = self.found[axis.tag] = own, cast(extent, dtype_of(own.var)), axis
        elif not self.analyzer.can_prove_equal(known[1], cast(extent, dtype_of(known[0].var))):
            text = f"{axis.tag} has the extent {extent} here and {known[1]} elsewhere in the kernel"
            raise PassError("E373", text, axis.span, [Note("the other one", known[2].span)], HELP)
        return cast(known[0].var, dtype_of(axis.var))


def launch_of(kernel: Stmt) -> tuple[list[AttrStmt], Stmt]:
    """The launch axes at the top of a kernel, and the statement inside of them."""
    axes: list[AttrStmt] = []
    while type(kernel) is AttrStmt and is_thread_axis(kernel) and not is_virtual(kernel.node.thread_tag):
        axes.append(kernel)
        kernel = kernel.body
    return axes, kernel


def with_launch(axes: list[AttrStmt], body: Stmt) -> Stmt:
    """A kernel of a launch."""
    for axis in reversed(axes):
        body = replace(axis, body=body)
    return body


def _is_unified(kernel: Stmt) -> bool:
    axes, body = launch_of(kernel)
    tags = [axis.node.thread_tag for axis in axes]
    inner = [a for a in collect(body, (For, AttrStmt)) if is_thread_axis(a)]
    virtual = [a for a in inner if type(a) is AttrStmt and is_virtual(axis_of(a).tag)]
    return bool(tags) and tags == sorted(set(tags)) and len(virtual) == len(inner)


def _unified(kernel: Stmt) -> Stmt:
    if _is_unified(kernel):
        return kernel
    axes = _Axes(set(free_vars(kernel)))
    body = axes(kernel)
    found = [AttrStmt(own, "thread_extent", extent, body, axis.span) for own, extent, axis in axes.found.values()]
    return with_launch(sorted(found, key=lambda axis: str(axis.node.thread_tag)), body)


class _Kernels(StatementRewriter):
    """Unifies the kernels of a program and gives them their memory."""

    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self.used = {v for kernel in kernels_of(body) for v in used_vars(kernel)}
        self.tables = {part.buffer.data for part in collect(body, AllocConst)}
        self.around: list[AllocBuffer | AllocConst | DeclBuffer] = []
        self.given: set[Buffer] = set()

    def enter(self, node: Any) -> Any | None:
        if isinstance(node, (AllocBuffer, AllocConst, DeclBuffer)):
            own = node.buffer.data in self.tables or node.buffer.scope != "global"
            if own and node.buffer.data in self.used:
                self.around.append(node)
                return NOTHING
        return self._kernel(_unified(node)) if is_thread_axis(node) else None

    def leave(self, node: Any) -> Any:
        return node.stmts[0] if type(node) is SeqStmt and len(node.stmts) == 1 else node

    def _kernel(self, kernel: Stmt) -> Stmt:
        used = set(used_vars(kernel))
        held = [part for part in self.around if part.buffer.data in used]
        if not held:
            return kernel
        axes, body = launch_of(kernel)
        body = seq(*held, body)
        if self.given & {part.buffer for part in held}:
            body = fresh_copy(body)
        self.given |= {part.buffer for part in held}
        return with_launch(axes, body)


def kernels_of(body: Stmt) -> list[Stmt]:
    """The kernels of a program: the statements under its outermost thread axes."""
    found: list[Stmt] = []

    class Walk(StatementRewriter):
        def enter(self, node: Any) -> Any | None:
            if is_thread_axis(node):
                found.append(node)
                return node
            return None

    Walk()(body)
    return found


@prim_func_pass()
def unify_thread_binding(func: PrimFunc) -> PrimFunc:
    """Bind all axes of a launch once at the top of each kernel, and allocate its memory inside."""
    return replace(func, body=_Kernels(func.body)(func.body))
