"""Making a module that shows a wrong pass smaller, while it still does.

``shrink(mod, name, fails)`` tries in turn: other functions dropped; the function cut off after a binding and that value
returned; bindings made parameters; statements of tensor programs dropped; static sizes made small. Every candidate is verified
before ``fails`` is asked, which runs the pass and both modules. Source: delta debugging (Zeller and Hildebrandt, 2002).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor
from ...ir.analysis import use_counts
from ...ir.analysis.use import reachable_functions
from ...ir.build import const
from ...ir.expr import Binding, BindingBlock, Constant, IntImm, SeqExpr, Tuple, Var
from ...ir.function import Function, PrimFunc, seq_body
from ...ir.infer import find_impure_call
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.relation import dims, tensor_type
from ...ir.stmt import SeqStmt
from ...ir.types import TensorType
from ...ir.verifier.verifier import is_well_formed
from ...ir.walk import Rewriter, collect
from ...support.errors import UnityError
from ..relax.interprocedural.clean_signatures import needed_params
from ..relax.normalize.dead_code import clean_function
from ..relax.rewriting.graph_rewriter import without
from ..relax.rewriting.reinfer_types import retype, substitute_folded

Fails = Callable[[IRModule], bool]
_SMALL = (1, 2, 3)
_SCANNED = 40
"""Bindings tried one by one after the bisection."""


class Shrinker:
    """One search. ``tried`` counts candidates; none is tried after ``deadline`` (of ``time.monotonic``)."""

    def __init__(self, mod: IRModule, name: str, fails: Fails, deadline: float) -> None:
        self.mod, self.name, self.fails, self.deadline = mod, name, fails, deadline
        self.tried = 0

    def accept(self, candidate: IRModule | None) -> bool:
        """Take a candidate that is valid and still fails."""
        if candidate is None or candidate is self.mod or time.monotonic() > self.deadline:
            return False
        self.tried += 1
        try:
            good = is_well_formed(candidate) and self.fails(candidate)
        except UnityError:
            return False
        if good:
            self.mod = candidate
        return good

    def run(self) -> IRModule:
        """The smallest module found."""
        self.drop_functions()
        if isinstance(self.mod[self.name], Function):
            self.drop_bindings()
            self.cut_off()
            self.bindings_to_parameters()
            self.drop_functions()
        self.drop_statements()
        self.shrink_sizes()
        if isinstance(self.mod[self.name], Function):
            self.bindings_to_parameters()
        return self.mod

    # ---- functions

    def drop_functions(self) -> None:
        """Keep what the function needs."""
        needed = reachable_functions(self.mod, [self.name])
        extra = {n: None for n in self.mod.functions if n not in needed}
        if extra:
            self.accept(self.mod.with_functions(extra))

    def _with(self, fn: Function | PrimFunc | None) -> IRModule | None:
        return None if fn is None else self.mod.with_functions({self.name: fn})

    # ---- graph functions

    def _bindings(self) -> list[Binding]:
        return seq_body(self.mod[self.name]).bindings

    def cut_off(self) -> None:
        """Return the first value that shows the difference: bisection, then the values before it one by one."""
        bindings = self._bindings()
        low, high = 0, len(bindings) - 1
        while low <= high:
            middle = (low + high) // 2
            if self.accept(self._with(_returning(self.mod[self.name], middle))):
                high = middle - 1
            else:
                low = middle + 1
        for index in range(min(len(self._bindings()) - 1, _SCANNED)):
            if self.accept(self._with(_returning(self.mod[self.name], index))):
                break
        fn = self.mod[self.name]
        body = seq_body(fn)
        if type(body.body) is Tuple:
            for item in body.body.fields:
                if isinstance(item, Var) and self.accept(self._with(_closed(fn, body.blocks, item))):
                    break

    def drop_bindings(self) -> None:
        """Drop calls of which only the effect is seen, such as checks of sizes."""
        counts = use_counts(self.mod[self.name])
        for binding in [b for b in self._bindings() if not counts.get(b.var)]:
            fn = self.mod[self.name]
            self.accept(self._with(replace(fn, body=without(seq_body(fn), lambda b: b is binding))))  # noqa: B023

    def bindings_to_parameters(self) -> None:
        """Take values as inputs that need not be computed, in groups that get smaller."""
        size = max(len(self._bindings()) - 1, 1)
        while size >= 1:
            start = 0
            while start < len(self._bindings()):
                chosen = [b.var for b in self._bindings()[start : start + size]]
                if not self.accept(self._with(_as_params(self.mod[self.name], chosen))):
                    start += size
            size //= 2

    # ---- tensor programs

    def drop_statements(self) -> None:
        """Drop statements of sequences."""
        for name in [n for n, f in self.mod.functions.items() if isinstance(f, PrimFunc)]:
            for parent in collect(self.mod[name].body, SeqStmt):
                for stmt in parent.stmts:
                    fn = self.mod[name]
                    self.accept(self.mod.with_functions({name: replace(fn, body=_Without(stmt)(fn.body))}))

    # ---- sizes

    def shrink_sizes(self) -> None:
        """Make static sizes small, the largest first."""
        for size in sorted(_static_sizes(self.mod), reverse=True):
            for small in _SMALL:
                if small < size and self.accept(with_size(self.mod, size, small)):
                    break


def _closed(fn: Function, blocks: tuple[BindingBlock, ...], value: Var) -> Function | None:
    """The function returning a value; inner variables of a dataflow block become outputs."""
    mapping: dict[Any, Any] = {}
    if value.dataflow:
        mapping[value] = Var(value.name, value.ty, value.span)
    body = Rewriter(mapping=mapping)(SeqExpr(blocks, mapping.get(value, value)))
    made = clean_function(replace(fn, body=body, ret_ty=value.ty))
    if isinstance(made.body, SeqExpr) and find_impure_call(made.body) is None and not made.pure:
        made = replace(made, pure=True)
    kept = needed_params(made)
    return replace(made, params=tuple([made.params[i] for i in kept]))


def _returning(fn: Function, index: int) -> Function | None:
    """The function cut off after a binding, returning its value; None where that is not a tensor."""
    blocks: list[BindingBlock] = []
    for block in seq_body(fn).blocks:
        taken = block.bindings[: index + 1]
        blocks.append(block if len(taken) == len(block.bindings) else type(block)(taken, block.span))
        if index < len(block.bindings):
            value = block.bindings[index].var
            return _closed(fn, tuple(blocks), value) if isinstance(value.ty, TensorType) else None
        index -= len(block.bindings)
    return None


def _as_params(fn: Function, chosen: list[Var]) -> Function | None:
    """The function with variables as parameters instead of bindings; None when nothing can be chosen."""
    body = seq_body(fn)
    gone = {v: Var(v.name, v.ty, v.span) for v in chosen if isinstance(v.ty, TensorType) and v is not body.body}
    if not gone:
        return None
    mapping: dict[Any, Any] = dict(gone)
    inner = Rewriter(mapping=mapping)(without(body, lambda b: b.var in gone))
    made = clean_function(replace(fn, params=(*fn.params, *gone.values()), body=inner))
    kept = needed_params(made)
    return replace(made, params=tuple([made.params[i] for i in kept]))


class _Without(Rewriter):
    def __init__(self, gone: Any) -> None:
        super().__init__()
        self.gone = gone

    def enter(self, node: Any) -> Any | None:
        if type(node) is SeqStmt and any([s is self.gone for s in node.stmts]):
            rest = tuple([self.visit(s) for s in node.stmts if s is not self.gone])
            return rest[0] if len(rest) == 1 else SeqStmt(rest, node.span)
        return None


def _static_sizes(mod: IRModule) -> set[int]:
    """Sizes above 1 in types of graph functions and in shapes of buffers."""
    found: set[int] = set()
    for fn in mod.functions.values():
        shapes: list[Any] = []
        if isinstance(fn, Function):
            shapes = [dims(v.ty) or () for v in collect(fn, Var) if isinstance(v.ty, TensorType)]
        elif isinstance(fn, PrimFunc):
            shapes = [b.shape for b in fn.buffer_map.values()]
        found.update([d.value for shape in shapes for d in shape if type(d) is IntImm and d.value > 1])
    return found


def with_size(mod: IRModule, size: int, small: int) -> IRModule | None:
    """The module with one static size replaced by another everywhere, types deduced anew; None where that cannot be."""

    def number(node: IntImm) -> Any:
        return IntImm(small, node.ty) if node.value == size and node.ty.dtype.bits >= 32 else node

    def constant(node: Constant) -> Any:
        shape = node.data.shape
        if size not in shape:
            return node
        cut = tuple([slice(0, small) if n == size else slice(None) for n in shape])
        data = np.ascontiguousarray(node.data.numpy()[cut])
        return Constant(Tensor(data), tensor_type([const(n, "int64") for n in data.shape], node.data.dtype))

    changes: dict[str, Any] = {}
    try:
        for name, fn in mod.functions.items():
            made = substitute_folded(fn, {}, {IntImm: number, Constant: constant})
            changes[name] = retype(made) if isinstance(made, Function) else made
    except UnityError:
        return None
    return mod.with_functions(changes)


def shrink(mod: IRModule, name: str, fails: Fails, seconds: float) -> tuple[IRModule, int]:
    """A smaller module whose function ``name`` still fails, and the number of candidates tried."""
    search = Shrinker(mod, name, fails, time.monotonic() + seconds)
    return search.run(), search.tried
