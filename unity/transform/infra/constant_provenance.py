"""Constants that remember how a build made them of its module's constants, so that another build can make them of others.

A build whose result is to be cached runs on ``Ledger.module``: every constant is ``Tracked``. What a pass computes of
constants it makes with ``derive`` (or tells with ``tracked``): the step is written down in the ledger. Invariant: a pass learns
nothing of the elements of a tracked tensor that the ledger does not know - any other look at them is an observation, kept as a
checksum of what was seen. So two builds of equal modules, whose observed constants are equal, take the same steps and end with
the same program.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...ffi.dtype import DataType, from_numpy
from ...ffi.tensor import Tensor
from ...ir.expr import Constant
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.pack import NotPackable, pack_value, unpack_value
from ...ir.walk import rewrite

OPEN_BYTES = 64
"""Elements of constants up to this size are part of what names a build."""
RECIPES: dict[str, Callable[..., np.ndarray]] = {}
"""Steps that make a constant of others, by name: a function of arrays, numbers, strings and tuples of them that gives an array."""
_ARRAY: Any = Tensor.__dict__["_array"]
LITERAL_BYTES = 1 << 20
"""Tensors that passes make of nothing are written down up to this size."""
Step = tuple[str, Any]
"""The name of a recipe, and its arguments as JSON data in which a number stands for a tensor: a row of the ledger."""
Literal = tuple[str, list[int], str]
"""dtype, shape and elements of a tensor."""


def recipe(name: str) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Register a function under a name of ``RECIPES``."""

    def register(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        RECIPES[name] = function
        return function

    return register


class Tracked(Tensor):
    """A tensor with a row in a ledger. Whoever takes its elements other than by ``peek`` observes it."""

    __slots__ = ()

    @property
    def _array(self) -> np.ndarray:
        ledger, row = _ORIGINS[self]
        ledger.observe(row, self)
        return _ARRAY.__get__(self)  # type: ignore[no-any-return]

    @_array.setter
    def _array(self, array: np.ndarray) -> None:
        _ARRAY.__set__(self, array)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of any tensor; no look at its elements."""
        return peek(self).shape

    @property
    def ndim(self) -> int:
        """As of any tensor; no look at its elements."""
        return peek(self).ndim

    @property
    def size(self) -> int:
        """As of any tensor; no look at its elements."""
        return peek(self).size

    @property
    def dtype(self) -> str:
        """As of any tensor; no look at its elements."""
        return self.data_type.name

    @property
    def data_type(self) -> DataType:
        """As of any tensor; no look at its elements."""
        return from_numpy(peek(self).dtype)

    @property
    def data_ptr(self) -> int:
        """As of any tensor; no look at its elements."""
        return _plain(self).data_ptr


_ORIGINS: WeakKeyDictionary[Tensor, tuple[Ledger, int]] = WeakKeyDictionary()


def peek(tensor: Tensor) -> np.ndarray:
    """The memory of a constant, for its shape and order, and for elements that ``derive`` or ``tracked`` account for.

    Raises FFIError E714 where it was discarded.
    """
    return _ARRAY.__get__(tensor) if type(tensor) is Tracked else tensor.numpy()


def _plain(tensor: Tensor) -> Tensor:
    return Tensor(peek(tensor))


def peeked(value: Any) -> Any:
    """Nested tuples with the arrays of their tensors."""
    if isinstance(value, Tensor):
        return peek(value)
    return tuple([peeked(v) for v in value]) if isinstance(value, tuple) else value


def derive(name: str, *args: Any) -> Tensor:
    """A constant made by a recipe of tensors, numbers, strings and tuples of them."""
    return tracked(RECIPES[name](*[peeked(a) for a in args]), name, *args)


def tracked(made: np.ndarray, name: str, *args: Any) -> Tensor:
    """The result of a recipe for these arguments, as a tensor with a row where one of them has one."""
    result = Tensor(made)
    for tensor in _tensors(args):
        if tensor in _ORIGINS:
            return _ORIGINS[tensor][0].add(result, name, args)
    return result


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)


class Ledger:
    """The constants of one build: rows for those it was given, then one for each that was made."""

    def __init__(self, sources: Sequence[Tensor]) -> None:
        self.sources = sources
        self.steps: list[Step] = []
        self.observed: dict[int, str] = {}
        """Checksums of what passes saw, by row."""
        self.literals: list[Literal] = []
        """Tensors that no given constant went into; in steps they have the numbers -1, -2, ..."""
        self._literals: WeakKeyDictionary[Tensor, int] = WeakKeyDictionary()
        self.complete = True
        """False where a step could not be written down."""

    def module(self, mod: IRModule) -> IRModule:
        """The module on tracked constants; ``sources`` are all of them."""
        made: dict[int, Tensor] = {}
        for row, tensor in enumerate(self.sources):
            made[id(tensor)] = self._tracked(peek(tensor), row)
        changed: IRModule = rewrite(mod, {Constant: lambda node: replace(node, data=made[id(node.data)])})
        return changed

    def _tracked(self, array: np.ndarray, row: int) -> Tracked:
        tensor = Tracked(array)
        _ORIGINS[tensor] = self, row
        return tensor

    def add(self, made: Tensor, name: str, args: tuple[Any, ...]) -> Tensor:
        """A made tensor with its row."""
        try:
            self.steps.append((name, pack_value(args, self._row)))
        except NotPackable:
            self.complete = False
        return self._tracked(peek(made), len(self.sources) + len(self.steps) - 1)

    def _row(self, value: Any) -> int:
        """The row that stands for a tensor in a step."""
        if not isinstance(value, Tensor):
            raise NotPackable(f"a {type(value).__name__}")
        known = _ORIGINS.get(value)
        if known is not None:
            return known[1]
        if value not in self._literals:
            self.literals.append(literal(value))
            self._literals[value] = -len(self.literals)
        return self._literals[value]

    def observe(self, row: int, tensor: Tensor) -> None:
        """Somebody looks at the elements of a row."""
        if row not in self.observed:
            self.observed[row] = checksum(peek(tensor))

    def settle(self, constants: Iterable[Tensor]) -> tuple[list[int], list[Tensor]]:
        """The rows of a program's constants, and those constants without their rows: those given are the very same."""
        rows, plain = [], []
        for tensor in constants:
            try:
                row = self._row(tensor)
            except NotPackable:
                self.complete, row = False, -1
            rows.append(row)
            plain.append(self.sources[row] if 0 <= row < len(self.sources) else _plain(tensor))
        return rows, plain


def literal(tensor: Tensor) -> Literal:
    """A tensor written down. Raises NotPackable for a large one."""
    array = tensor.numpy()
    if array.nbytes > LITERAL_BYTES:
        raise NotPackable(f"{array.nbytes} bytes")
    return tensor.dtype, list(array.shape), b64encode(array.tobytes()).decode()


def read_literal(written: Literal) -> Tensor:
    """The tensor that ``literal`` wrote down, made anew."""
    dtype, shape, text = written
    return Tensor(np.frombuffer(bytearray(b64decode(text)), DataType(dtype).numpy).reshape(shape))


def checksum(array: np.ndarray) -> str:
    """Of dtype, shape and elements."""
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


def _arguments(sources: int, steps: Sequence[Step], needed: set[int]) -> dict[int, list[int]]:
    """For each row made by a step that is needed, directly or by other steps: the rows it takes."""
    found: dict[int, list[int]] = {}
    needed = set(needed)
    for row in range(sources + len(steps) - 1, sources - 1, -1):
        if row in needed:
            found[row] = []
            unpack_value(steps[row - sources][1], found[row].append)
            needed.update(found[row])
    return found


def replay(
    sources: Sequence[Tensor],
    steps: Sequence[Step],
    literals: Sequence[Literal],
    observed: dict[int, str],
    wanted: Sequence[int],
) -> list[Tensor] | None:
    """The tensors of the wanted rows of a ledger, made of other constants; None where one that was observed differs.

    Each row is made once, and goes when the last step that takes it is done.
    """
    arguments = _arguments(len(sources), steps, {*observed, *wanted})
    uses = Counter([argument for found in arguments.values() for argument in found])
    uses.update({*observed, *wanted})
    rows: dict[int, Tensor] = dict(enumerate(sources))
    rows.update({-1 - index: read_literal(found) for index, found in enumerate(literals)})
    for row in sorted({*arguments, *observed}):
        if row in arguments:
            name, data = steps[row - len(sources)]
            rows[row] = Tensor(RECIPES[name](*unpack_value(data, lambda at: peek(rows[at]))))
        if row in observed and checksum(peek(rows[row])) != observed[row]:
            return None
        for argument in arguments.get(row, ()):
            uses[argument] -= 1
            if not uses[argument] and argument in arguments:
                del rows[argument]
    return [rows[row] for row in wanted]


@dataclass(slots=True, frozen=True)
class Provenance:
    """The steps by which a build made the constants of its program (``rows``) of those of its module (``sources``)."""

    sources: Sequence[Tensor]
    steps: Sequence[Step]
    literals: Sequence[Literal]
    observed: dict[int, str]
    rows: Sequence[int]

    def constants(self, sources: Sequence[Tensor]) -> list[Tensor] | None:
        """The constants of the program, made of other sources; None where one that was observed differs."""
        return replay(sources, self.steps, self.literals, self.observed, self.rows)

    def read_sources(self, sources: int) -> set[int]:
        """Those of so many sources that a step takes or that passes looked at; others are constants as they are, or nothing."""
        taken = _arguments(sources, self.steps, {*self.observed, *self.rows}).values()
        return {row for row in {*self.observed, *[a for rows in taken for a in rows]} if 0 <= row < sources}

    def names(self, sources: Sequence[str]) -> list[str]:
        """For each constant a name that is the same for what the same steps make of sources of the same names."""
        known: dict[int, str] = dict(enumerate(sources))
        known.update({-1 - index: repr(found) for index, found in enumerate(self.literals)})
        for row, (name, data) in enumerate(self.steps, len(sources)):
            known[row] = hashlib.sha256(repr((name, unpack_value(data, known.__getitem__))).encode()).hexdigest()
        return [known[row] for row in self.rows]
