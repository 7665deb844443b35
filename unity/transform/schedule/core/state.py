"""ScheduleState: the functions being scheduled and the index of their loops and blocks, updated by every rewrite.

Not here: what a primitive checks or rewrites. Invariants: every loop and block reachable from a root is in the index,
with the node that stands there; a rewrite touches the replaced subtree and its ancestors only; ``rollback`` undoes
everything since ``begin``. A function's body is held as one root block whose allocations are the function's; ``module``
gives the outer form back.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ....arith.index_map import IndexMap
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.module import IRModule
from ....ir.node import replace as with_fields
from ....ir.stmt import AllocBuffer, Block, BlockRealize, For, Stmt
from ....ir.types import PointerType
from ....ir.walk import nodes_in
from ....support.arguments import guarded_class
from ....support.errors import InternalError, ScheduleError
from ....support.recursion import deep_recursion
from .sref import Item, Sref, items_below, items_in, key_of, statements_in
from .tree import as_root, outer_form, swap

_R = TypeVar("_R")


def cached_until_change(ask: Callable[[ScheduleState, Sref], _R]) -> Callable[[ScheduleState, Sref], _R]:
    """A question about a loop or block whose answer is cached until the program changes."""

    @functools.wraps(ask)
    def asked(state: ScheduleState, at: Sref) -> _R:
        key = (ask, at)
        if key not in state.now:
            state.now[key] = ask(state, at)
        found: _R = state.now[key]
        return found

    return asked


@dataclass(slots=True, frozen=True)
class LayoutChange:
    """A parameter that a step gave another layout."""

    func: str
    param: Var
    index_map: IndexMap
    pad_value: Any


_MARKS = {"kind", "thread", "annotations"}
"""Fields that say how a loop runs: no question that is cached until the program changes depends on them."""


@guarded_class
class ScheduleState:
    """Functions by name as trees of srefs.

    ``index[func]`` finds an sref by loop variable or block. ``cache`` holds analyses keyed by the (immutable) nodes
    they depend on, so it never has to be invalidated; ``now`` holds what is known of srefs as they stand, which every change
    forgets. ``values`` are the sampled integers by the variables that stand for them.
    """

    def __init__(self, mod: IRModule, rng: random.Random) -> None:
        self.given = mod
        self.base = IRModule(dict(mod.functions), mod.attrs, mod.global_infos, mod.name)
        self.rng = rng
        self.shells: dict[str, PrimFunc] = {}
        self.roots: dict[str, Sref] = {}
        self.wrapped: dict[str, bool] = {}
        self.index: dict[str, dict[Any, Sref]] = {}
        self.cache: dict[Any, Any] = {}
        self.now: dict[Any, Any] = {}
        self.values: dict[Var, int] = {}
        self.draws = True
        """Refusals are shown with iterations that meet in a cell."""
        self.assumptions: list[str] = []
        self.relaid: list[LayoutChange] = []
        self.owning: set[str] = set()
        """Functions that allocate buffers inside loops."""
        self._undo: list[Callable[[], None]] | None = None
        self._built: dict[str, tuple[PrimFunc, Any, PrimFunc]] = {}
        self._module: tuple[dict[str, PrimFunc], IRModule] = ({}, self.base)
        self._start: dict[str, tuple[PrimFunc, Any]] = {}

    # ---- functions

    def root(self, func: str) -> Sref:
        """The root block of a tensor program of the module. Raises ScheduleError E407 for a name that is none."""
        found = self.roots.get(func)
        if found is not None:
            return found
        fn = self.base.functions.get(func)
        if not isinstance(fn, PrimFunc):
            what = "a graph function" if fn is not None else "no function of the module"
            known = ", ".join(self.base.prim_funcs()) or "none"
            raise ScheduleError(
                "E407", f"{func!r} is {what}: there is no tensor program to schedule", help=f"tensor programs: {known}"
            )
        body, wrapped = as_root(fn.body)
        self.shells[func], self.wrapped[func], self.index[func] = fn, wrapped, {}
        root = self.roots[func] = Sref(func, body, None)
        self.index[func][body.block] = root
        with deep_recursion():
            self._enter(root, body)
        if any([type(n) is AllocBuffer for n in statements_in(body)]):
            self.owning.add(func)
        self._built[func] = (fn, body, fn)
        return root

    def _enter(self, parent: Sref, node: Item) -> None:
        for inner in items_below(node):
            made = Sref(parent.func, inner, parent)
            self.index[parent.func][key_of(inner)] = made
            self._enter(made, inner)

    def function(self, func: str) -> PrimFunc:
        """The function as it stands, in its outer form."""
        root = self.root(func)
        shell, body, built = self._built[func]
        if shell is not self.shells[func] or body is not root.node:
            shell = self.shells[func]
            built = with_fields(shell, body=outer_form(root.realize) if self.wrapped[func] else root.node)
            self._built[func] = (shell, root.node, built)
        return built

    def before(self, func: str) -> PrimFunc:
        """The function as it stood when the running step began."""
        shell, body = self._start.get(func, (self.shells[func], self.roots[func].node))
        return with_fields(shell, body=outer_form(body) if self.wrapped[func] else body)

    def module(self) -> IRModule:
        """The module as it stands; the same object when nothing changed."""
        changed = {name: self.function(name) for name in self.roots}
        changed = {name: fn for name, fn in changed.items() if fn is not self.base.functions[name]}
        if not changed:
            return self.given
        last, made = self._module
        if last.keys() != changed.keys() or any([last[name] is not fn for name, fn in changed.items()]):
            made = self.base.with_functions(changed)
            self._module = (changed, made)
        return made

    @property
    def mod(self) -> IRModule:
        """TVM's name of ``module()``."""
        return self.module()

    def changed_underneath(self) -> str | None:
        """Name of a function of the module given at the start that is not the one the schedule started from."""
        return next(
            (name for name in self.roots if self.given.functions.get(name) is not self.base.functions[name]), None
        )

    def set_shell(self, func: str, shell: PrimFunc) -> None:
        """Change parameters, buffer map or attributes of a function (its ``body`` is ignored)."""
        old = self.shells[func]
        self.shells[func] = shell
        self.now.clear()
        self._log(lambda: self.shells.__setitem__(func, old))

    def cached(self, key: Any, make: Callable[[], _R]) -> _R:
        """The result of ``make``, which depends on the nodes of ``key`` alone."""
        found = self.cache.get(key, self)
        if found is self:
            found = self.cache[key] = make()
        return found  # type: ignore[no-any-return]

    # ---- lookup

    def sref(self, func: str, node: Item | Var | Block) -> Sref:
        """The sref of a loop, block or loop variable that stands in the function. Raises InternalError E901 if there is
        none."""
        found = self.index[func].get(key_of(node) if isinstance(node, (For, BlockRealize)) else node)
        if found is None:
            raise InternalError("E901", f"schedule: no loop or block {getattr(node, 'name', node)!r} in the index")
        return found

    def children(self, at: Sref) -> list[Sref]:
        """Loops and blocks directly below, in program order."""
        index = self.index[at.func]
        return [index[key_of(node)] for node in items_below(at.node)] if at.node is not None else []

    @cached_until_change
    def blocks_below(self, at: Sref) -> tuple[Sref, ...]:
        """Blocks below whose nearest enclosing block is ``at`` or the block that holds the loop ``at``, in program
        order."""
        found: list[Sref] = []
        pending = list(reversed(self.children(at)))
        while pending:
            child = pending.pop()
            if child.is_block:
                found.append(child)
            else:
                pending.extend(reversed(self.children(child)))
        return tuple(found)

    # ---- changes

    def begin(self) -> None:
        """Start a step: from here ``rollback`` undoes."""
        self._undo = []
        self.assumptions = []
        self.relaid = []
        self._start = {name: (self.shells[name], root.node) for name, root in self.roots.items()}

    def commit(self) -> None:
        """End a step, keeping its changes."""
        self._undo = None

    def rollback(self) -> None:
        """Undo all changes since ``begin``."""
        undo, self._undo = self._undo or [], None
        self.now.clear()
        for action in reversed(undo):
            action()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo at the end what is done inside, and forget what was assumed. Refusals inside are not drawn."""
        outer = self._undo is None
        if self._undo is None:
            self.begin()
        assert self._undo is not None
        count, assumed = len(self._undo), list(self.assumptions)
        try:
            with self.without_pictures():
                yield
        finally:
            for action in reversed(self._undo[count:]):
                action()
            self.now.clear()
            del self._undo[count:]
            self.assumptions = assumed
            if outer:
                self._undo = None

    @contextmanager
    def without_pictures(self) -> Iterator[None]:
        """Draw no refusals inside: nobody sees them."""
        draws, self.draws = self.draws, False
        try:
            yield
        finally:
            self.draws = draws

    def _log(self, action: Callable[[], None]) -> None:
        if self._undo is not None:
            self._undo.append(action)

    def _set(self, sref: Sref, node: Item | None, parent: Sref | None) -> None:
        """Let an sref stand for another node, or for nothing."""
        self.now.clear()
        index = self.index[sref.func]
        old_node, old_parent, old_gone = sref.node, sref.parent, sref.gone
        old_key = key_of(old_node) if old_node is not None else None
        new_key = key_of(node) if node is not None else None
        if node is None:
            sref.gone = sref.name
        sref.node, sref.parent = node, parent
        if old_key is not new_key:
            if old_key is not None and index.get(old_key) is sref:
                del index[old_key]
            if new_key is not None:
                index[new_key] = sref
        if self._undo is not None:

            def undo() -> None:
                if new_key is not None and index.get(new_key) is sref:
                    del index[new_key]
                sref.node, sref.parent, sref.gone = old_node, old_parent, old_gone
                if old_key is not None:
                    index[old_key] = sref

            self._undo.append(undo)

    def replace(self, old: Sref, new: Stmt, blocks: Mapping[Block, Block] | None = None) -> None:
        """Put the statement ``new`` where the loop or block ``old`` stands.

        Loops of ``new`` with a known loop variable and blocks that are unchanged keep their srefs; ``blocks`` says
        which block became which. What is no longer there goes stale. An empty sequence removes ``old``.
        """
        with deep_recursion():
            self._replace(old, new, blocks or {})

    def change(self, at: Sref, blocks: Mapping[Block, Block] | None = None, **fields: Any) -> None:
        """Give the loop or block ``at`` other fields; ``blocks`` as in ``replace``, without ``at``."""
        if at.is_block:
            new = with_fields(at.block, **fields)
            self.replace(at, with_fields(at.realize, block=new), {**(blocks or {}), at.block: new})
        else:
            known = dict(self.now) if fields.keys() <= _MARKS else {}
            self.replace(at, with_fields(at.loop, **fields), blocks)
            self.now.update(known)

    def _replace(self, old: Sref, new: Stmt, blocks: Mapping[Block, Block]) -> None:
        parent, before = old.parent, old.node
        assert before is not None
        if new is before:
            return
        index = self.index[old.func]
        origin = {made: known for known, made in blocks.items() if known in index}
        seen: set[Sref] = set()
        kept: set[int] = set()

        def insert(node: Item, above: Sref | None) -> None:
            known = (
                index.get(origin.get(node.block, node.block)) if type(node) is BlockRealize else index.get(key_of(node))
            )
            if known is None or known in seen:
                if known in seen:
                    raise InternalError(
                        "E901", f"schedule: {known.name if known else ''!r} stands twice in a rewritten statement"
                    )
                known = Sref(old.func, None, None)
            seen.add(known)
            if known.node is node:
                kept.add(id(node))
                if known.parent is not above:
                    self._set(known, node, above)
                return
            self._set(known, node, above)
            for inner in items_below(node):
                insert(inner, known)

        gone: list[Sref] = []

        def leave(node: Item, known: Sref) -> None:
            gone.append(known)
            for inner in items_below(node):
                leave(inner, index[key_of(inner)])

        leave(before, old)  # before any sref moves: the old subtree as the index knows it
        if parent is None:
            assert type(new) is BlockRealize, "the root block can only become another root block"
        for node in items_in(new):
            insert(node, parent)
        for known in gone:
            if known not in seen and not self._below_kept(known, kept):
                self._set(known, None, None)
        self._rebuild_above(parent, before, new)

    def _below_kept(self, known: Sref, kept: set[int]) -> bool:
        """True if the sref is inside a subtree that was moved as it is."""
        at: Sref | None = known
        while at is not None and at.node is not None:
            if id(at.node) in kept:
                return True
            at = at.parent
        return False

    def _rebuild_above(self, at: Sref | None, old: Stmt, new: Stmt) -> None:
        while at is not None:
            before = at.node
            assert before is not None
            rebuilt = swap(before, old, new)
            self._set(at, rebuilt, at.parent)  # type: ignore[arg-type]
            at, old, new = at.parent, before, rebuilt

    # ---- checks

    def check(self) -> None:
        """Raise InternalError E901 when the index does not describe the functions (the debug mask asks for it)."""
        for func, root in self.roots.items():
            known = set(self.index[func])
            pending: list[tuple[Item, Sref | None]] = [(root.realize, None)]
            while pending:
                node, parent = pending.pop()
                found = self.index[func].get(key_of(node))
                if found is None or found.node is not node or found.parent is not parent:
                    raise InternalError(
                        "E901", f"schedule: the index lost {getattr(key_of(node), 'name', '')!r} of {func}"
                    )
                known.discard(key_of(node))
                pending += [(inner, found) for inner in items_below(node)]
            if known:
                raise InternalError(
                    "E901", f"schedule: {func} no longer has {next(iter(known)).name!r}, the index does"
                )

    def copy(self, rng: random.Random) -> tuple[ScheduleState, dict[Sref, Sref]]:
        """An independent state, and which sref became which."""
        made = ScheduleState(self.given, rng)
        made.base = self.base
        made.values, made.draws = dict(self.values), self.draws
        made.owning = set(self.owning)
        made.shells, made.wrapped, made.cache = dict(self.shells), dict(self.wrapped), dict(self.cache)
        made._built = dict(self._built)
        moved: dict[Sref, Sref] = {}
        for func, index in self.index.items():
            for known in index.values():
                moved[known] = Sref(func, known.node, None)
            made.index[func] = {key: moved[known] for key, known in index.items()}
            made.roots[func] = moved[self.roots[func]]
        for known, new in moved.items():
            new.parent = moved[known.parent] if known.parent is not None else None
        return made, moved


Pointers = tuple[frozenset[Var], tuple[Var, ...], bool]


def pointers(state: ScheduleState, item: Item) -> Pointers:
    """Pointers used anywhere in a loop or block; those it allocates outside of inner loops and blocks; whether any stand inside."""

    def find() -> Pointers:
        below = items_below(item)
        inner = [pointers(state, i) for i in below]
        nodes = nodes_in(item, {id(i) for i in below})
        used = frozenset([n for n in nodes if type(n) is Var and type(n.ty) is PointerType])
        own = tuple([n.buffer.data for n in nodes if type(n) is AllocBuffer])
        return used.union(*[i[0] for i in inner]), own, bool(own) or any([i[2] for i in inner])

    return state.cached(("held", item), find)
