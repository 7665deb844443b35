"""Statements of tensor programs. Sequences are flat; Bind, AllocBuffer, AllocConst and DeclBuffer scope over the rest of theirs."""

from __future__ import annotations

from typing import Any

from ..ffi.tensor import Tensor
from ..support.source import Span
from .buffer import Buffer, BufferRegion, MatchBufferRegion
from .expr import IntImm, Var
from .node import Aside, Def, Node, Own, node, replace, same_items
from .scalar import IterVar
from .types import Expr

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")
BACKWARDS = "backwards"
"""Key of an attribute around a loop whose iterations are as independent as those of a parallel one: where its value holds, each
thread runs its share of them (all, where the loop is serial) from the last to the first."""


class Stmt(Node):
    """Base of all statements."""

    __slots__ = ()


@node
class For(Stmt):
    """Loop ``for loop_var in [min, min + extent)`` in steps of ``step`` (None is 1; ``extent`` counts values before stepping).

    ``kind`` is one of LOOP_KINDS; ``thread`` names the axis ("threadIdx.x") of a thread binding.
    """

    loop_var: Def[Var]
    min: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread: str | None = None
    annotations: dict[str, Any] | None = None
    step: Expr | None = None
    span: Aside[Span | None] = None

    @property
    def counts_up(self) -> bool:
        """True if the loop runs from 0 in steps of 1."""
        return _is(self.min, 0) and (self.step is None or _is(self.step, 1))

    def note(self, key: str, default: Any = None) -> Any:
        """The value of the annotation ``key``, a number instead of a constant; ``default`` where there is none."""
        value = default if self.annotations is None else self.annotations.get(key, default)
        return value.value if type(value) is IntImm else value

    def without_notes(self, *keys: str) -> For:
        """The loop without the annotations ``keys``."""
        kept = {key: value for key, value in (self.annotations or {}).items() if key not in keys}
        return replace(self, annotations=kept or None)


def _is(expr: Expr, number: int) -> bool:
    return type(expr) is IntImm and expr.value == number


@node
class While(Stmt):
    """Loop while ``cond`` holds."""

    cond: Expr
    body: Stmt
    span: Aside[Span | None] = None


@node
class Break(Stmt):
    """Leave the innermost loop."""

    span: Aside[Span | None] = None


@node
class Continue(Stmt):
    """Go on with the next iteration of the innermost loop."""

    span: Aside[Span | None] = None


@node
class Return(Stmt):
    """Leave the function with a value (None: without)."""

    value: Expr | None
    span: Aside[Span | None] = None


@node
class IfThenElse(Stmt):
    """Conditional statement."""

    cond: Expr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Aside[Span | None] = None


@node
class SeqStmt(Stmt):
    """Statements in order. Flat: no SeqStmt directly inside (use ``seq``); empty means nothing."""

    stmts: tuple[Stmt, ...]
    span: Aside[Span | None] = None


@node
class Bind(Stmt):
    """Immutable scalar: ``var = value``."""

    var: Def[Var]
    value: Expr
    span: Aside[Span | None] = None


@node
class AllocBuffer(Stmt):
    """Memory for ``buffer`` until the end of the sequence."""

    buffer: Own[Buffer]
    annotations: dict[str, Any] | None = None
    span: Aside[Span | None] = None


@node
class AllocConst(Stmt):
    """``buffer`` holds constant data."""

    buffer: Own[Buffer]
    data: Tensor
    span: Aside[Span | None] = None


@node
class DeclBuffer(Stmt):
    """``buffer`` is a view of memory whose pointer exists already (``buffer.data``)."""

    buffer: Own[Buffer]
    span: Aside[Span | None] = None


@node
class AttrStmt(Stmt):
    """Attribute ``key`` = ``value`` on ``node`` for the statement ``body`` (pragmas, thread extents)."""

    node: Any
    key: str
    value: Any
    body: Stmt
    span: Aside[Span | None] = None


def turned_loop(stmt: AttrStmt) -> For | None:
    """The loop that an attribute lets run backwards."""
    inner: Stmt = stmt
    while type(inner) is AttrStmt:
        inner = inner.body
    return inner if stmt.key == BACKWARDS and type(inner) is For else None


@node
class AssertStmt(Stmt):
    """Fail with ``kind: message`` unless ``cond`` holds."""

    cond: Expr
    message: str
    kind: str = "RuntimeError"
    span: Aside[Span | None] = None


@node
class BufferStore(Stmt):
    """``buffer[indices] = value``; a vector last index stores lanes, ``predicate`` masks them."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    span: Aside[Span | None] = None


@node
class Evaluate(Stmt):
    """Evaluate an expression for its effect."""

    value: Expr
    span: Aside[Span | None] = None


@node
class Block(Stmt):
    """Schedulable unit: iterators, regions read and written, optional initialisation of a reduction, body.

    ``reads`` / ``writes`` None means not written in the program: derived on demand from the body (analysis.block_regions).
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...] | None
    writes: tuple[BufferRegion, ...] | None
    alloc_buffers: Own[tuple[Buffer, ...]]
    match_buffers: tuple[MatchBufferRegion, ...]
    annotations: dict[str, Any]
    name: str
    body: Stmt
    init: Stmt | None = None
    span: Aside[Span | None] = None

    @property
    def name_hint(self) -> str:
        """TVM's name of ``name``."""
        return self.name


@node
class BlockRealize(Stmt):
    """A block executed with ``iter_values`` for its iterators, where ``predicate`` holds."""

    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: Block
    span: Aside[Span | None] = None

    @property
    def bindings(self) -> list[tuple[IterVar, Expr]]:
        """The iterators with their values."""
        return list(zip(self.block.iter_vars, self.iter_values))


def seq(*stmts: Stmt, span: Span | None = None, old: Stmt | None = None) -> Stmt:
    """Return ``stmts`` in order as one flat statement at ``span``; a single one stands alone, ``old`` where it is that sequence."""
    flat = flat_statements(stmts)
    if type(old) is SeqStmt and same_items(old.stmts, flat):
        return old
    return flat[0] if len(flat) == 1 else SeqStmt(flat, span=span)


NOTHING = SeqStmt(())
"""The statement that does nothing."""


def is_nothing(stmt: Stmt | None) -> bool:
    """True for an empty sequence, and for no statement."""
    return stmt is None or (type(stmt) is SeqStmt and not stmt.stmts)


def statements_of(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of a body in order."""
    return body.stmts if type(body) is SeqStmt else (body,)


def flat_statements(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements with sequences among them spliced in: what a rewrite puts in place of one statement may be several."""
    if not any([type(stmt) is SeqStmt for stmt in stmts]):
        return stmts
    return tuple([part for stmt in stmts for part in statements_of(stmt)])
