"""Memory that is the same for all threads of a block: cells of each thread's own that all threads give the same values, and buffers
that a kernel only reads. A barrier may stand under a condition on them.

All cells of a thread are taken for such at first; those are taken away that a store gives something else, at places that differ or
under a condition that differs, until nothing changes. Not here: shared memory, which others may write at the time.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import const, dtype_of
from ....ir.expr import Call, Op, Var
from ....ir.node import Node
from ....ir.scalar import BufferLoad, Let
from ....ir.stmt import (
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    Return,
    Stmt,
    While,
)
from ....ir.types import Expr
from ....ir.walk import children, collect, free_vars, rewrite
from .thread_accesses import scope_of


class Uniform:
    """The expressions of a kernel that are the same for all threads of a block. ``varying``: variables that are not."""

    def __init__(self, kernel: Stmt, threads: set[Var]) -> None:
        self.varying = set(threads)
        self.cells: set[Var] = set()
        if collect(kernel, (Break, Continue, Return)):
            return  # the threads that go on are not all
        stored = {store.buffer.data for store in collect(kernel, BufferStore)}
        loaded = {load.buffer.data for load in collect(kernel, BufferLoad)}
        self.cells = {v for v in loaded if scope_of(v) == "local" or (scope_of(v) == "global" and v not in stored)}
        for part in collect(kernel, (Call, Evaluate, Block)):
            self.cells -= _given_away(part)
        count = -1
        while count != len(self.cells) - len(self.varying):
            count = len(self.cells) - len(self.varying)
            self._visit(kernel, True)

    def varies(self, expr: Expr) -> bool:
        """True if an expression may differ between the threads of a block: parts that the program says do not are left out."""
        expr = rewrite(expr, {Call: lambda c: const(0, dtype_of(c)) if c.op_name == "T.tvm_thread_invariant" else c})
        if any([v in self.varying for v in free_vars(expr)]) or collect(expr, Let):
            return True
        calls = [call for call in collect(expr, Call) if type(call.op) is Op and _exchanges(call.op.name)]
        return bool(calls) or any([load.buffer.data not in self.cells for load in collect(expr, BufferLoad)])

    def _visit(self, node: Any, all_run: bool) -> None:
        match node:
            case BufferStore():
                if not all_run or any([self.varies(e) for e in (node.value, *node.indices)]):
                    self.cells.discard(node.buffer.data)
                return
            case Bind():
                if self.varies(node.value):
                    self.varying.add(node.var)
            case For() if node.kind != "thread_binding":
                if any([self.varies(e) for e in (node.min, node.extent, *([] if node.step is None else [node.step]))]):
                    self.varying.add(node.loop_var)
                    all_run = False
            case While() | IfThenElse():
                all_run = all_run and not self.varies(node.cond)
            case BlockRealize():
                uneven = {iterator.var for iterator, value in node.bindings if self.varies(value)}
                self.varying |= uneven
                all_run = all_run and not self.varies(node.predicate) and not (uneven and node.block.init is not None)
        for child in children(node):
            if isinstance(child, Stmt) or type(child) is Block:
                self._visit(child, all_run)


def _given_away(node: Node) -> set[Var]:
    """Memory that a call, a statement for its effect or a view may write."""
    if isinstance(node, Block):
        return {match.source.buffer.data for match in node.match_buffers}
    if isinstance(node, Evaluate) or (isinstance(node, Call) and node.op_name == "T.address_of"):
        return {load.buffer.data for load in collect(node, BufferLoad)}
    return {arg for arg in node.args if isinstance(arg, Var)} if isinstance(node, Call) else set()


def _exchanges(name: str) -> bool:
    return name.startswith(("T.tvm_warp", "T.tvm_thread", "T.atomic", "T.ptx", "T.call_extern", "T.call_llvm"))
