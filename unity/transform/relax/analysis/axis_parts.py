"""Reads of a tensor through reshapes, permutations and slices: of which parts of its axes the axes of the result consist.

Example: of x (2, 12) ``R.permute_dims(R.reshape(x, (2, 3, 4)), (1, 0, 2))`` has the axes (b), (a), (c), where x has (a), (b, c).
A slice of one index, or of one of several equal pieces of an axis, fixes a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....ir.build import const, int_value
from ....ir.expr import Call
from ....ir.op import row_of
from ....ir.relation import Answer, dims, same_dim
from ....ir.types import Expr
from ....op.common.table import R
from ....op.manipulate.manipulate import permutation


@dataclass(slots=True, eq=False)
class Part:
    """A part of an axis. ``index``: the only one that is read, None for all."""

    size: Expr
    index: int | None = None


Axis = list[Part]
"""The parts of an axis, from the outermost."""


@dataclass(slots=True)
class Read:
    """``own``: axes of the tensor that is read; ``axes``: those of the result. Axes of size 1 have no parts."""

    own: list[Axis]
    axes: list[Axis] = field(default_factory=list)

    @classmethod
    def whole(cls, shape: tuple[Expr, ...]) -> Read:
        """A tensor itself."""
        made: list[Axis] = [[] if int_value(size) == 1 else [Part(size)] for size in shape]
        return cls(made, [list(axis) for axis in made])

    def follow(self, call: Call) -> bool:
        """Read the result of a call on what was read before. False, with no meaning left, for other operators and sizes that do
        not say which parts they are."""
        name, shape = call.op_name, dims(call.ty)
        if shape is None:
            return False
        if row_of(call).view:
            return self._reshape(shape)
        if name == R.permute_dims.name:
            self.axes = [self.axes[axis] for axis in permutation(call, len(self.axes))]
            return True
        if name == R.broadcast_to.name:
            given = dims(call.args[0].ty)
            return given is not None and len(given) == len(shape) and all(
                [same_dim(a, b) is Answer.YES for a, b in zip(given, shape)]
            )  # fmt: skip
        return name == R.strided_slice.name and self._slice(call)

    def _split(self, part: Part, sizes: tuple[int, int]) -> tuple[Part, Part]:
        """Replace a part by two, the outer one first, wherever it stands."""
        assert int_value(part.size) == sizes[0] * sizes[1]
        made = Part(const(sizes[0], "int64")), Part(const(sizes[1], "int64"))
        for axis in (*self.own, *self.axes):
            for at in [at for at, old in enumerate(axis) if old is part]:
                axis[at : at + 1] = [one for one in made if int_value(one.size) != 1]
        return made

    def _reshape(self, shape: tuple[Expr, ...]) -> bool:
        found: list[Axis] = []
        rest = [part for axis in self.axes for part in axis]
        for size in shape:
            axis: Axis = []
            wanted = int_value(size)
            if wanted is None:
                if not rest or same_dim(rest[0].size, size) is not Answer.YES:
                    return False
                axis.append(rest.pop(0))
            while wanted is not None and wanted != 1:
                first = int_value(rest[0].size) if rest else None
                if not first:
                    return False
                if wanted % first == 0:
                    axis.append(rest.pop(0))
                    wanted //= first
                elif first % wanted == 0:
                    outer, rest[0] = self._split(rest[0], (wanted, first // wanted))
                    axis.append(outer)
                    wanted = 1
                else:
                    return False
            found.append(axis)
        self.axes = found
        return not rest

    def _slice(self, call: Call) -> bool:
        given, shape = dims(call.args[0].ty), dims(call.ty)
        axes, begin, strides = [call.attrs.get(name) for name in ("axes", "begin", "strides")]
        if given is None or shape is None or len(call.args) != 1 or axes is None or begin is None:
            return False
        if strides is not None and any([_number(step) != 1 for step in strides]):
            return False
        found = []
        for axis, first in [(int(axis) % len(given), _number(first)) for axis, first in zip(axes, begin)]:
            whole, taken = int_value(given[axis]), int_value(shape[axis])
            if first is None or not whole or not taken:
                return False
            if whole != taken:
                found.append(self._fix(axis, first + whole if first < 0 else first, taken, whole))
        return all(found)

    def _fix(self, axis: int, first: int, taken: int, whole: int) -> bool:
        """Read one of several equal pieces of an axis."""
        if whole % taken or first % taken:
            return False
        outer, inner, left, index = [*self.axes[axis]], Axis(), taken, first // taken
        while left > 1:  # parts from the innermost that a piece consists of
            last = outer.pop()
            size = int_value(last.size)
            if size and left % size == 0:
                inner.insert(0, last)
                left //= size
            elif size and size % left == 0:
                ahead, behind = self._split(last, (size // left, left))
                outer.append(ahead)
                inner.insert(0, behind)
                left = 1
            else:
                return False
        for part in reversed(outer):
            size = int_value(part.size)
            if not size:
                return False
            index, part.index = divmod(index, size)
        self.axes[axis] = inner
        return True


def _number(value: object) -> int | None:
    """The number of an attribute."""
    return value if type(value) is int else int_value(value) if isinstance(value, Expr) else None
