"""A PTX module as objects: variables, functions, instructions, operands."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....support.source import Source, Span
from .types import Type


@dataclass(slots=True, frozen=True)
class Register:
    """A virtual register; ``slot`` is its index among those of its function."""

    name: str
    type: Type
    slot: int
    negated: bool = False
    """Read as its complement (``!%p1``)."""


@dataclass(slots=True, frozen=True)
class Special:
    """A register that the machine fills: ``%tid.x``."""

    name: str


@dataclass(slots=True, frozen=True)
class Number:
    """A constant: an integer, or the bits of a float of ``float_bits`` bits."""

    value: int
    float_bits: int = 0


@dataclass(slots=True, frozen=True)
class Symbol:
    """The name of a variable, function or label."""

    name: str
    offset: int = 0


@dataclass(slots=True, frozen=True)
class Vector:
    """``{a, b}``."""

    items: tuple[Operand, ...]


@dataclass(slots=True, frozen=True)
class Memory:
    """``[base+offset]``, with coordinates ``[base, {x, y}]`` where tensors are addressed."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(slots=True, frozen=True)
class Pair:
    """Two destinations, ``%p1|%p2``."""

    first: Operand
    second: Operand


@dataclass(slots=True, frozen=True)
class Sink:
    """``_``: a result nobody wants."""


Operand = Register | Special | Number | Symbol | Vector | Memory | Pair | Sink


@dataclass(slots=True, eq=False)
class Variable:
    """Named memory: ``space`` is global, const, shared, local or param; ``size`` 0 with ``dynamic`` is sized by the launch."""

    name: str
    space: str
    type: Type
    size: int
    align: int
    values: tuple[Operand, ...] = ()
    dynamic: bool = False
    external: bool = False


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction: ``modifiers`` are the words of the opcode after the first."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    span: Span

    @property
    def text(self) -> str:
        """As it stands in the module."""
        found = self.span.source.text[self.span.start : self.span.end]
        return " ".join(found.split())


@dataclass(slots=True, eq=False)
class Function:
    """A kernel (``entry``) or a device function."""

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    registers: list[Register] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of ``.branchtargets``, by the name of the list."""
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Performance directives: ``maxntid``, ``reqntid``, ``minnctapersm``, ..."""
    defined: bool = True


@dataclass(slots=True, eq=False)
class Module:
    """A module: what its text declares."""

    source: Source
    version: tuple[int, int]
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
