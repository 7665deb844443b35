"""What programs on stacks of matrices are written with: operand types, shifted loops, numbers kept in memory, reflections.

Not here: the factorisations themselves (``factor.py``, ``orthogonal.py``, ``spectral.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.relation import dims, unequal
from ...ir.stmt import AllocBuffer, BufferStore, For, Stmt, seq
from ...ir.types import Expr, TensorType, prim_type
from ..moves.scan import read
from ..nests import local_buffer, serial_loop
from ..rules import ZERO, fail, float_tensor

FAMILY = "linear algebra"
WIDE = "float64"
"""What orthogonal factorisations are computed in; they are rounded once."""


def number(value: float) -> Expr:
    """A number in the wide type."""
    return build.const(value, WIDE)


def zero() -> Expr:
    """0.0 in the wide type."""
    return number(0.0)


def matrices(call: Call, index: int, what: str) -> TensorType:
    """Type of an argument that is a stack of matrices of floats. Raises E210 to E212."""
    ty = float_tensor(call, index, what)
    if ty.ndim in (0, 1):
        raise fail(call, "E212", f"{what} must have at least two axes, got {ty.ndim}", None, call.args[index])
    return ty


def square_matrices(call: Call, index: int, what: str) -> TensorType:
    """As ``matrices``, of square ones. Raises E213."""
    ty = matrices(call, index, what)
    known = dims(ty)
    if known is not None and unequal(known[-1], known[-2]):
        raise fail(call, "E213", f"{what} must be square, got {ty}", None, call.args[index])
    return ty


def rank_bound(shape: Sequence[Expr]) -> Expr:
    """The smaller side of matrices of a shape."""
    return build.minimum(shape[-2], shape[-1])


def shifted(begin: Expr, end: Expr, body: Callable[[Var], Stmt], name: str) -> Stmt:
    """A loop from ``begin`` up to ``end``; never, where that is not above it."""
    index = Var(name, prim_type("int64"))
    return For(index, begin, build.maximum(build.sub(end, begin), ZERO), "serial", body(index))


class Matrix:
    """One matrix of a stack in a buffer, or a buffer that is a matrix."""

    def __init__(self, buffer: Buffer, lead: Sequence[Expr] = ()) -> None:
        self.buffer, self.lead = buffer, tuple(lead)
        self.rows, self.columns = buffer.shape[-2:]

    def at(self, i: Expr, j: Expr) -> Expr:
        """An element."""
        return read(self.buffer, (*self.lead, i, j))

    def put(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        """Set an element."""
        return BufferStore(self.buffer, value, (*self.lead, i, j))

    def each(self, value: Callable[[Expr, Expr], Expr]) -> Stmt:
        """Set every element."""
        return serial_loop(
            self.rows, lambda i: serial_loop(self.columns, lambda j: self.put(i, j, value(i, j)), "j"), "i"
        )

    def unit(self) -> Stmt:
        """Make it the identity."""
        return self.each(lambda i, j: build.select(build.eq(i, j), number(1.0), zero()))


class Numbers:
    """Numbers a program keeps and changes, by name."""

    def __init__(self, *names: str, dtype: str = WIDE) -> None:
        self.buffer = local_buffer("numbers", dtype, len(names))
        self._places = {name: (build.const(n, "int64"),) for n, name in enumerate(names)}

    def alloc(self) -> Stmt:
        """The memory, in front of the statements that use it."""
        return AllocBuffer(self.buffer)

    def __getitem__(self, name: str) -> Expr:
        return read(self.buffer, self._places[name])

    def put(self, name: str, value: Expr) -> Stmt:
        """Change a number."""
        return BufferStore(self.buffer, value, self._places[name])

    def add(self, name: str, value: Expr) -> Stmt:
        """Add to a number."""
        return self.put(name, build.add(self[name], value))

    def sum(self, name: str, extent: Expr, value: Callable[[Expr], Expr]) -> Stmt:
        """Set a number to the sum of ``value(i)`` for i below ``extent``."""
        return seq(self.put(name, zero()), serial_loop(extent, lambda i: self.add(name, value(i)), "i"))


def reflect(source: Matrix, j: Expr, factor: Expr, target: Matrix, first: Expr, dots: Buffer) -> Stmt:
    """``target -= factor v (v^T target)`` in the columns from ``first`` on.

    v is 1 at j, the column j of ``source`` below that, 0 above; ``dots`` holds a number for each column.
    """
    below, rows, columns = build.add(j, 1), source.rows, target.columns

    def dot(c: Expr) -> Expr:
        return read(dots, (c,))

    def gather(i: Var) -> Stmt:
        more = lambda c: BufferStore(dots, build.add(dot(c), build.mul(source.at(i, j), target.at(i, c))), (c,))  # noqa: E731
        return shifted(first, columns, more, "c")

    def spread(i: Var) -> Stmt:
        less = lambda c: target.put(i, c, build.sub(target.at(i, c), build.mul(source.at(i, j), dot(c))))  # noqa: E731
        return shifted(first, columns, less, "c")

    def scale(c: Var) -> Stmt:
        scaled = BufferStore(dots, build.mul(dot(c), factor), (c,))
        return seq(scaled, target.put(j, c, build.sub(target.at(j, c), dot(c))))

    return seq(
        shifted(first, columns, lambda c: BufferStore(dots, target.at(j, c), (c,)), "c"),
        shifted(below, rows, gather, "i"),
        shifted(first, columns, scale, "c"),
        shifted(below, rows, spread, "i"),
    )


def widened(x: te.Tensor) -> te.Tensor:
    """A tensor in the wide type."""
    if x.dtype == WIDE:
        return x
    return te.compute(x.shape, lambda *i: x[i].astype(WIDE), "wide")  # type: ignore[no-any-return]


__all__ = [
    "FAMILY", "WIDE", "Matrix", "Numbers", "matrices", "number", "rank_bound", "reflect", "shifted", "square_matrices", "widened",
    "zero",
]  # fmt: skip
