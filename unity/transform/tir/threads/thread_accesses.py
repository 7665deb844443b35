"""Accesses to memory shared by threads, and which of them can conflict; used by ``thread_sync``.

Two accesses meet if one thread touches some element in the first and another thread touches it in the second, in any iterations
of their loops. What cannot be decided counts as meeting. Invariant: no statement is changed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....arith.analyzer import Analyzer
from ....ir.analysis.threads import OWN_BARRIERS
from ....ir.build import add, conjuncts, is_int, scalar_type, sub
from ....ir.expr import Call, IntImm, Op, Var
from ....ir.node import Node
from ....ir.scalar import EQ, Add, BufferLoad, Cast, FloorDiv, FloorMod, Max, Min, Mul, Sub
from ....ir.stmt import AttrStmt, Block, BufferStore, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr, PointerType
from ....ir.walk import children, collect, free_vars, substitute
from ....support.source import Span

_SOURCES = {("T.ptx_ldmatrix", 5), ("T.ptx_wgmma", 6), ("T.ptx_wgmma", 8)}
"""Pointers that an instruction only reads through: its name and the argument's place."""
LARGEST = 1 << 18
"""Most points (threads times iterations) that are enumerated."""


@dataclass(slots=True, eq=False)
class Access:
    """An access of memory behind ``data``; ``indices`` None means anywhere, one of them None anywhere along its axis. Threads
    make it that have the number ``only`` along the axes there."""

    data: Var
    writes: bool
    indices: tuple[Expr | None, ...] | None
    span: Span | None
    only: dict[Var, int]


def scope_of(var: Any) -> str:
    """Storage scope of a pointer variable."""
    ty = getattr(var, "ty", None)
    return ty.scope if isinstance(ty, PointerType) else "global"


def has_barriers(kernel: Stmt) -> bool:
    """True if a kernel creates mbarriers, or has the attribute "own_barriers": its threads wait for each other only where it says
    so."""
    made = any([call.op_name == "T.create_barriers" for call in collect(kernel, Call)])
    return made or any([attr.key == OWN_BARRIERS for attr in collect(kernel, AttrStmt)])


def _matrix_row(node: Node) -> BufferLoad | None:
    """The element at which ``ldmatrix`` begins to read a row, if its address is that of an element."""
    if type(node) is not Call or node.op_name != "T.ptx_ldmatrix" or not is_int(node.args[6], 0):
        return None
    source = node.args[5]
    found = source.args[0] if type(source) is Call and source.op_name == "T.address_of" else None
    return found if type(found) is BufferLoad else None


class Accesses:
    """Finds accesses of one storage scope. A view of a region counts as an access to its buffer, anywhere."""

    def __init__(self, scope: str, body: Stmt) -> None:
        self.scope = scope
        self.values: dict[Var, Expr] = {}
        """The values that variables of indices stand for: block iterators, other names of a thread axis."""
        self.only: dict[Var, int] = {}
        """Numbers of the threads that the conditions around leave."""
        self.viewed: dict[Var, Var] = {}
        for block in collect(body, Block):
            for match in block.match_buffers:
                self.viewed[match.buffer.data] = match.source.buffer.data

    def _access(
        self, data: Var, writes: bool, indices: tuple[Expr | None, ...] | None, span: Span | None
    ) -> list[Access]:
        while data in self.viewed:
            data, indices = self.viewed[data], None
        if scope_of(data) != self.scope:
            return []
        if indices is not None and self.values:
            indices = tuple([None if i is None else substitute(i, self.values) for i in indices])
        return [Access(data, writes, indices, span, self.only)]

    def of(self, node: Node) -> list[Access]:
        """All accesses in an expression or simple statement, in order."""
        found: list[Access] = []
        row = _matrix_row(node)
        if row is not None:
            found += self._access(row.buffer.data, False, (*row.indices[:-1], None), row.span)
        for child in row.indices if row is not None else children(node):
            found += self.of(child)
        match node:
            case BufferLoad():
                found += self._access(node.buffer.data, False, node.indices, node.span)
            case BufferStore():
                found += self._access(node.buffer.data, True, node.indices, node.span)
            case Call() if type(node.op) is Op:
                found += self._call(node)
        return found

    def _call(self, call: Call) -> list[Access]:
        """Accesses through pointers: they read and write anywhere, unless the call says that it only reads."""
        name = call.op_name
        found: list[Access] = []
        if name == "T.tvm_access_ptr" and isinstance(call.args[1], Var):
            mode = call.args[4].value if type(call.args[4]) is IntImm else 3
            if mode & 1:
                found += self._access(call.args[1], False, None, call.span)
            if mode & 2:
                found += self._access(call.args[1], True, None, call.span)
            return found
        for index, arg in enumerate(call.args):
            data = (
                arg
                if isinstance(arg, Var)
                else arg.buffer.data
                if name == "T.address_of" and type(arg) is BufferLoad
                else None
            )
            if data is not None:
                found += self._access(data, False, None, call.span)
                if (name, index) not in _SOURCES:
                    found += self._access(data, True, None, call.span)
        return found


_Split = tuple[Expr, list[tuple[bool, Expr]]]


@dataclass(slots=True)
class _Owners:
    """The points of an access: the element of each by its indices, and its thread number along the axes ``seen`` in them."""

    cells: list[np.ndarray]
    threads: np.ndarray
    seen: set[Var]


class Conflicts:
    """Decides whether different threads can access the same place, by enumerating all threads and loop iterations.

    ``threads`` maps thread variables to extents (None: not known), ``ranges`` loop variables to (first, count) where constant.
    """

    def __init__(self, threads: Mapping[Var, int | None]) -> None:
        self.threads = threads
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.used: dict[Expr, list[Var]] = {}
        """The variables of indices; below what was found of these, which are asked about in many pairs."""
        self.splits: dict[tuple[Expr, frozenset[Var]], _Split | None] = {}
        self.owners: dict[tuple[Expr, ...], _Owners | None] = {}

    def clash(self, first: list[Access], second: list[Access], fixed: set[Var]) -> tuple[Access, Access] | None:
        """Two accesses that can meet. ``fixed``: variables that have the same value in both and in all threads."""
        for a in first:
            for b in second:
                if a.data is b.data and (a.writes or b.writes) and self._may_alias(a, b, fixed):
                    return a, b
        return None

    def numbers(self, cond: Expr, values: Mapping[Var, Expr]) -> dict[Var, int]:
        """The numbers along axes of threads that a condition asks for: ``tx == 0 and ty == 3``."""
        parts = [part for part in conjuncts(substitute(cond, values)) if type(part) is EQ]
        pairs = [pair for part in parts for pair in ((part.a, part.b), (part.b, part.a))]
        return {v: n.value for v, n in pairs if type(v) is Var and v in self.threads and type(n) is IntImm}

    def _may_alias(self, a: Access, b: Access, fixed: set[Var]) -> bool:
        if all([v in a.only and a.only[v] == b.only.get(v) for v, n in self.threads.items() if n != 1]):
            return False  # one thread makes both
        if a.indices is None or b.indices is None or len(a.indices) != len(b.indices):
            return True
        left: list[Expr] = []
        right: list[Expr] = []
        for x, y in zip(a.indices, b.indices):
            if x is None or y is None:
                continue
            constant = [frozenset([v for v in self._variables(index) if v in fixed]) for index in (x, y)]
            if all([len(of) == len(self.used[index]) for of, index in zip(constant, (x, y))]) and _disjoint(x, y):
                return False
            first, second = [self._split(index, of) for of, index in zip(constant, (x, y))]
            if first is None or second is None or not _same_terms(first[1], second[1]):
                continue  # an axis that tells nothing
            left.append(first[0])
            right.append(second[0])
        one, other = self._owners(tuple(left)), self._owners(tuple(right))
        if not left or one is None or other is None:
            return self._several_threads()
        both = one.seen & other.seen
        several = any([extent is None or extent > 1 for v, extent in self.threads.items() if v not in both])
        return _shared_cell(one, other, several)

    def _several_threads(self) -> bool:
        return any([extent is None or extent > 1 for extent in self.threads.values()])

    def _variables(self, index: Expr) -> list[Var]:
        if index not in self.used:
            self.used[index] = free_vars(index)
        return self.used[index]

    def _split(self, index: Expr, fixed: frozenset[Var]) -> _Split | None:
        """An index as a sum of a part over threads and iterations, and signed terms of fixed variables. None if they mix."""
        key = index, fixed
        if key not in self.splits:
            self.splits[key] = self._terms(index, fixed)
        return self.splits[key]

    def _terms(self, index: Expr, fixed: frozenset[Var]) -> _Split | None:
        moving: Expr = IntImm(0, scalar_type(index))
        terms: list[tuple[bool, Expr]] = []
        pending = [(True, index)]
        while pending:
            plus, part = pending.pop()
            if isinstance(part, (Add, Sub)):
                pending += [(plus if type(part) is Add else not plus, part.b), (plus, part.a)]
                continue
            variables = free_vars(part)
            if collect(part, BufferLoad) or any([call.op_name not in _BITS for call in collect(part, Call)]):
                return None
            if variables and all([v in fixed for v in variables]):
                terms.append((plus, part))
            elif all([v in self.threads or v in self.ranges for v in variables]):
                moving = add(moving, part) if plus else sub(moving, part)
            else:
                return None
        return moving, terms

    def _owners(self, parts: tuple[Expr, ...]) -> _Owners | None:
        """The points of an access, over all threads and iterations that tell elements apart; None if unknown or too many."""
        if parts not in self.owners:
            self.owners[parts] = self._points(parts)
        return self.owners[parts]

    def _points(self, parts: tuple[Expr, ...]) -> _Owners | None:
        used = dict.fromkeys([v for part in parts for v in free_vars(part)])
        seen = [v for v in self.threads if v in used]
        sizes = [-1 if (n := self.threads[v]) is None else n for v in seen]
        turning = [v for v in used if v not in self.threads]
        axes = [*[(0, n) for n in sizes], *[self.ranges[v] for v in turning]]
        counts = [count for _, count in axes]
        if min(counts, default=1) < 0 or math.prod(counts) > LARGEST:
            return None
        values = {
            v: np.arange(low, low + count).reshape([-1 if k == axis else 1 for k in range(len(axes))])
            for axis, (v, (low, count)) in enumerate(zip([*seen, *turning], axes))
        }
        threads = np.zeros([1] * len(axes), np.int64)
        for v, n in zip(seen, sizes):
            threads = threads * n + values[v]
        columns = []
        for part in parts:
            found = values_of(part, values)
            if found is None:
                return None
            columns.append(np.broadcast_to(found, counts).reshape(-1))
        return _Owners(columns, np.broadcast_to(threads, counts).reshape(-1), set(seen))


def _disjoint(x: Expr, y: Expr) -> bool:
    """True if two indices of fixed variables are never equal, such as two versions of a buffer: ``(k + 1) % 2`` and ``k % 2``."""
    if collect(x, (BufferLoad, Call)):
        return False
    period = 0
    for index in (x, y):
        if type(index) is FloorMod and type(index.b) is IntImm:
            period = math.gcd(period, index.b.value)
    x, y = [index.a if type(index) is FloorMod and type(index.b) is IntImm else index for index in (x, y)]
    distance = Analyzer().simplify(sub(x, y))
    return type(distance) is IntImm and bool(distance.value % period if period else distance.value)


def _same_terms(a: list[tuple[bool, Expr]], b: list[tuple[bool, Expr]]) -> bool:
    rest = list(b)
    for plus, term in a:
        found = [k for k, (sign, other) in enumerate(rest) if sign is plus and structural_equal(term, other)]
        if not found:
            return False
        rest.pop(found[0])
    return not rest


def _shared_cell(a: _Owners, b: _Owners, several: bool) -> bool:
    """True if one thread touches an element in ``a`` and another touches it in ``b``. ``several``: several threads have the same
    number."""
    if not len(a.threads) or not len(b.threads):
        return False
    number = np.zeros(len(a.threads) + len(b.threads), np.int64)
    for columns in zip(a.cells, b.cells):
        both = np.concatenate(columns)
        low, high = int(both.min()), int(both.max())
        number = number * (high - low + 1) + (both - low)
        if int(number.max()) >= LARGEST:
            number = np.unique(number, return_inverse=True)[1]
    one, other = number[: len(a.threads)], number[len(a.threads) :]
    owner = np.full(int(number.max()) + 1, -1)
    owner[one] = a.threads
    if several:
        return bool((owner[other] >= 0).any())
    shared = np.zeros(len(owner), bool)
    shared[one[owner[one] != a.threads]] = True
    return bool(((owner[other] >= 0) & ((owner[other] != b.threads) | shared[other])).any())


_NUMPY: dict[type, Callable[[Any, Any], Any]] = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, FloorDiv: np.floor_divide, FloorMod: np.remainder, Min: np.minimum,
    Max: np.maximum,
}  # fmt: skip
_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "T.bitwise_xor": np.bitwise_xor, "T.bitwise_and": np.bitwise_and, "T.bitwise_or": np.bitwise_or,
}  # fmt: skip


def values_of(expr: Expr, values: Mapping[Var, np.ndarray]) -> np.ndarray | None:
    """The values of an integer expression at many points; None if it holds anything other than index arithmetic."""
    if isinstance(expr, Var):
        return values.get(expr)
    if type(expr) is IntImm:
        return np.asarray(expr.value, np.int64)
    if type(expr) is Cast and expr.ty.dtype.is_integral and expr.ty.dtype.bits >= 32:
        return values_of(expr.value, values)
    function = _BITS.get(expr.op_name) if type(expr) is Call else _NUMPY.get(type(expr))
    if function is None:
        return None
    first, second = expr.args if type(expr) is Call else (expr.a, expr.b)  # type: ignore[attr-defined]
    a, b = values_of(first, values), values_of(second, values)
    if a is None or b is None or (isinstance(expr, (FloorDiv, FloorMod)) and not np.all(b)):
        return None
    found: np.ndarray = function(a, b)
    return found
