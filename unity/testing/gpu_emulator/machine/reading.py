"""One instruction on its way to a closure: words of the opcode that are not yet understood, operands as functions of the lanes.

Each builder in `../instructions` takes the words that it models; what is left over refuses the instruction by its text.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....support.errors import InterpreterError
from ..ptx.program import Instruction, Memory, Number, Operand, Register, Sink, Special, Symbol, Vector
from ..ptx.types import SIGNED, TYPES, UNSIGNED, Type
from .batch import Batch, Index
from .findings import Fault, finding
from .link import LinkedFunction, Program, unmodelled

Get = Callable[[Batch, Index], np.ndarray]
"""Values of an operand: one row, or one for each lane of the index."""
Put = Callable[[Batch, Index, np.ndarray], None]
Run = Callable[[Batch, Index], None]
S32, S64, U32 = TYPES["s32"], TYPES["s64"], TYPES["u32"]


class Reading:
    """An instruction of a program while it is compiled."""

    def __init__(self, program: Program, linked: LinkedFunction, instruction: Instruction, pc: int = -1) -> None:
        self.program, self.linked, self.instruction, self.pc = program, linked, instruction, pc
        self.opcode, self.operands = instruction.opcode, instruction.operands
        self.words = list(instruction.modifiers)

    def refuse(self, what: str = "") -> InterpreterError:
        """The error of an instruction that is not modelled."""
        return unmodelled(self.instruction, what)

    def fault(self, batch: Batch, code: int, kind: str, text: str) -> Fault:
        """The fault of a launch that the instruction ends."""
        return Fault(code, finding(batch, kind, text, self.instruction.span))

    # ---- words

    def flag(self, *names: str) -> bool:
        """True if one of the words is there. It is understood."""
        for name in names:
            if name in self.words:
                self.words.remove(name)
                return True
        return False

    def one(self, *names: str, default: str = "") -> str:
        """The word that is there of several. Refuses where none is and there is no default."""
        for word in self.words:
            if word in names:
                self.words.remove(word)
                return word
        if not default:
            raise self.refuse()
        return default

    def drop(self, *names: str) -> None:
        """Pass words that change nothing here."""
        self.words = [word for word in self.words if word not in names]

    def type(self, last: bool = False) -> Type:
        """The first (or last) type among the words."""
        for word in reversed(self.words) if last else self.words:
            if word in TYPES:
                index = len(self.words) - 1 - self.words[::-1].index(word) if last else self.words.index(word)
                del self.words[index]
                return TYPES[word]
        raise self.refuse("it names no type")

    def count(self, *numbers: int) -> None:
        """Refuse where there are other numbers of operands."""
        if len(self.operands) not in numbers:
            raise self.refuse("an unexpected number of operands")

    # ---- operands

    def value(self, index: int | Operand, type_: Type) -> Get:
        """An operand as values of a type."""
        operand = self.operands[index] if isinstance(index, int) else index
        if isinstance(operand, Register):
            return self._register(operand, type_)
        if isinstance(operand, Special):
            return self._special(operand, type_)
        if isinstance(operand, Number):
            return constant(number(operand, type_))
        if isinstance(operand, Symbol):
            if operand.name == "WARP_SZ":
                return constant(number(Number(32), type_))
            return constant(number(Number(self.address_of(operand)[1]), type_))
        raise self.refuse("an operand that is not a value")

    def _register(self, operand: Register, type_: Type) -> Get:
        slot, kind = self.linked.slots + operand.slot, type_.numpy
        if operand.type.kind == "p":
            if type_.kind != "p":
                raise self.refuse("a predicate where a number is wanted")
            negated = operand.negated

            def predicate(batch: Batch, ix: Index) -> np.ndarray:
                found = batch.r[slot]
                if ix is not None and len(found) != 1:
                    found = found[ix]
                return ~found if negated else found

            return predicate
        if type_.kind == "p" or operand.type.bytes < type_.bytes:
            raise self.refuse(f"{operand.name} is not of type {type_.name}")
        if operand.type.bytes == type_.bytes:

            def whole(batch: Batch, ix: Index) -> np.ndarray:
                found = batch.r[slot]
                return (found if ix is None or len(found) == 1 else found[ix]).view(kind)

            return whole
        narrow = UNSIGNED[type_.bytes]

        def low(batch: Batch, ix: Index) -> np.ndarray:
            found = batch.r[slot]
            return (found if ix is None or len(found) == 1 else found[ix]).astype(narrow).view(kind)

        return low

    def _special(self, operand: Special, type_: Type) -> Get:
        name, kind = operand.name, type_.numpy
        if name in ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"):
            return lambda batch, ix: np.array([batch.steps]).astype(kind)
        if name[:1] != "%" or name.startswith(("%envreg", "%pm")):
            raise self.refuse(f"{name} is not modelled")

        def special(batch: Batch, ix: Index) -> np.ndarray:
            found = batch.special[name]
            return (found if ix is None or len(found) == 1 else found[ix]).astype(kind)

        if name not in SPECIALS and name.rpartition(".")[0] not in SPECIALS:
            raise self.refuse(f"{name} is not modelled")
        return special

    def predicate(self, index: int | Operand) -> Get:
        """A predicate operand."""
        return self.value(index, TYPES["pred"])

    def into(self, index: int | Operand, type_: Type) -> Put:
        """The function that stores values of a type in a destination; a wider register gets them extended."""
        operand = self.operands[index] if isinstance(index, int) else index
        if isinstance(operand, Sink):
            return lambda batch, ix, values: None
        if not isinstance(operand, Register):
            raise self.refuse("a destination that is not a register")
        slot = self.linked.slots + operand.slot
        if (operand.type.kind == "p") != (type_.kind == "p") or operand.type.bytes < type_.bytes:
            raise self.refuse(f"{operand.name} takes no {type_.name}")
        if type_.kind == "p":
            return lambda batch, ix, values: _store(batch, slot, ix, values)
        bits = UNSIGNED[type_.bytes]
        if operand.type.bytes == type_.bytes:
            return lambda batch, ix, values: _store(batch, slot, ix, values.view(bits))
        sign = SIGNED[type_.bytes] if type_.kind == "s" else bits
        wide = (SIGNED if type_.kind == "s" else UNSIGNED)[operand.type.bytes]
        kept = UNSIGNED[operand.type.bytes]
        return lambda batch, ix, values: _store(batch, slot, ix, values.view(sign).astype(wide).view(kept))

    def items(self, index: int | Operand) -> tuple[Operand, ...]:
        """The items of a vector, or the operand alone."""
        operand = self.operands[index] if isinstance(index, int) else index
        return operand.items if isinstance(operand, Vector) else (operand,)

    def integer(self, index: int | Operand) -> int:
        """A constant integer operand."""
        operand = self.operands[index] if isinstance(index, int) else index
        if not isinstance(operand, Number) or operand.float_bits:
            raise self.refuse("an operand that must be a constant")
        return operand.value

    # ---- addresses

    def address_of(self, symbol: Symbol) -> tuple[str, int]:
        """Space and address of a variable."""
        if symbol.name not in self.linked.variables:
            raise self.refuse(f"{symbol.name} is not declared")
        space, address = self.linked.variables[symbol.name]
        return space, address + symbol.offset

    def memory(self, index: int | Operand) -> Memory:
        """An address operand."""
        operand = self.operands[index] if isinstance(index, int) else index
        if not isinstance(operand, Memory):
            raise self.refuse("an operand that is not an address")
        return operand

    def address(self, index: int | Operand) -> Get:
        """The bytes' numbers that an address operand names, as int64."""
        operand = self.memory(index)
        offset = np.int64(operand.offset)
        if isinstance(operand.base, Register) and operand.base.type.bytes == 4:
            short = self.value(operand.base, U32)
            return lambda batch, ix: short(batch, ix).astype(np.int64) + offset
        base = self.value(operand.base, S64)
        if not operand.offset:
            return base
        return lambda batch, ix: base(batch, ix) + offset

    def constant_address(self, index: int | Operand) -> tuple[str, int] | None:
        """Space and address where an address operand is a variable of the function itself."""
        operand = self.memory(index)
        if isinstance(operand.base, Symbol):
            space, address = self.address_of(operand.base)
            return space, address + operand.offset
        return None


SPECIALS = frozenset({
    "%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%lanemask_eq",
    "%lanemask_lt", "%lanemask_le",
    "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size", "%total_smem_size",
})  # fmt: skip


def _store(batch: Batch, slot: int, ix: Index, values: np.ndarray) -> None:
    if ix is None:
        batch.r[slot] = values
        return
    old = batch.r[slot]
    made = old.copy() if len(old) == batch.n else np.full(batch.n, old[0])
    made[ix] = values
    batch.r[slot] = made


def number(operand: Number, type_: Type) -> np.ndarray:
    """A constant as one row of a type."""
    if type_.kind == "p":
        return np.array([operand.value != 0])
    if operand.float_bits and type_.kind in "fb":
        kind = np.dtype("f4") if operand.float_bits == 32 else np.dtype("f8")
        found = np.array([operand.value], f"u{operand.float_bits // 8}").view(kind)
        if type_.bits == operand.float_bits:
            return found.view(type_.numpy)
        return found.astype(type_.numpy)
    mask = (1 << 8 * type_.bytes) - 1
    return np.array([operand.value & mask], UNSIGNED[type_.bytes]).view(type_.numpy)


def each(get: Get, batch: Batch, lanes: np.ndarray) -> np.ndarray:
    """The values of an operand, a row for each of some lanes."""
    return np.broadcast_to(get(batch, lanes), len(lanes))


def constant(values: np.ndarray) -> Get:
    """A function of the lanes that is the same for all."""
    return lambda batch, ix: values
