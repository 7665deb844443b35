"""Linking relocatable objects into this process: sections laid out in one piece of memory, symbols resolved, relocations applied.

    code, stubs | constants, table of addresses | variables, zeros

each part on pages of its own. What objects call may lie anywhere in the process: calls out of reach go through stubs.
Not here: reading objects (``elf``), what relocations mean (``relocations``), who has which name (``engine``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...support.errors import FFIError
from .elf import (
    AARCH64,
    ABSOLUTE,
    COMMON,
    EXECUTABLE,
    OFFSET_TABLE,
    UNDEFINED,
    WRITE as WRITTEN,
    X86_64,
    ElfObject,
    Section,
)
from .memory import EXECUTE, PAGE, READ, WRITE, CodeMemory
from .relocations import RELOCATIONS, STUBS, WORD, Array, Relocation, distance, misfits, patch

MACHINES = {"x86_64": X86_64, "AMD64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}
"""Numbers of machines by the system's names of them."""
_NOWHERE = -1
"""The value of a symbol in a section that does not lie in memory."""
Resolve = Callable[[str], int]
"""The address of a name, 0 where nobody has it."""


class Image:
    """Linked code: ``addresses`` of the global names that the objects define, in ``memory``."""

    def __init__(self, objects: Sequence[ElfObject], resolve: Resolve) -> None:
        """Raises FFIError E709 for what cannot be linked, E710 for names that nobody has."""
        self.machine = objects[0].machine
        if any([part.machine != self.machine for part in objects]):
            raise FFIError("E709", "objects for different machines")
        self.addresses: dict[str, int] = {}
        self._offsets: dict[tuple[int, int], int] = {}  # of sections, and of common symbols, by object and number
        kinds = RELOCATIONS[self.machine]
        uses = [
            set(zip(section.relocations["kind"].tolist(), section.relocations["symbol"].tolist()))
            for part in objects
            for section in part.sections.values()
        ]
        unknown = {number for used in uses for number, _ in used if number not in kinds}
        if unknown:
            raise FFIError(
                "E709", f"the object has relocations of the unknown kinds {', '.join(map(str, sorted(unknown)))}"
            )
        words = sum([kinds[number].call or kinds[number].table for used in uses for number, _ in used])
        self._lay_out(objects, words)
        self.memory = CodeMemory(self._end)
        values = self._resolved(objects, resolve)
        image = np.zeros(self._filled, np.uint8)
        for number, part in enumerate(objects):
            for index, section in part.sections.items():
                start = self._offsets[number, index]
                image[start : start + len(section.data)] = np.frombuffer(section.data, np.uint8)
        self._words: dict[int, int] = {}
        for number, part in enumerate(objects):
            for index, section in part.sections.items():
                self._relocate(section, self._offsets[number, index], image, values[number])
        self._fill_table(image)
        self.memory.write(image)
        code, constants = self._parts
        self.memory.protect(0, code, READ | EXECUTE)
        self.memory.protect(code, constants, READ)
        self.memory.protect(constants, self.memory.size, READ | WRITE)

    def _lay_out(self, objects: Sequence[ElfObject], words: int) -> None:
        """Places of sections, of ``words`` stubs and words of the table, and the ends of the parts."""
        place, ends = 0, []
        for wanted in (EXECUTABLE, 0, WRITTEN):
            place = _aligned(place, PAGE)
            parts = [
                (bool(not section.data), number, index, section)
                for number, part in enumerate(objects)
                for index, section in part.sections.items()
                if section.flags & (EXECUTABLE | WRITTEN) == wanted
            ]
            for _, number, index, section in sorted(parts, key=lambda row: row[:3]):  # zeros come last
                place = _aligned(place, section.align)
                self._offsets[number, index] = place
                place += section.size
                if section.data:
                    self._filled = place
            if wanted == EXECUTABLE:
                self._stubs = place = _aligned(place, 16)
                place += words * STUBS[self.machine][0]
            elif not wanted:
                self._table = place = _aligned(place, WORD)
                self._filled = place = place + words * WORD
            ends.append(place)
        for number, part in enumerate(objects):
            for index, symbol in enumerate(part.symbols):
                if symbol.section == COMMON:
                    place = _aligned(place, symbol.value)
                    self._offsets[number, -1 - index] = place
                    place += symbol.size
        self._end, self._parts = place, (_aligned(ends[0], PAGE), _aligned(ends[1], PAGE))

    def _resolved(self, objects: Sequence[ElfObject], resolve: Resolve) -> list[Array]:
        """The addresses of the symbols of each object. Raises FFIError E709, E710."""
        base, weak, missing = self.memory.address, set[str](), list[str]()
        values = [np.zeros(len(part.symbols), np.int64) for part in objects]
        for number, part in enumerate(objects):
            for index, symbol in enumerate(part.symbols):
                if symbol.section == UNDEFINED:
                    continue
                inside = self._offsets.get((number, -1 - index if symbol.section == COMMON else symbol.section))
                value = symbol.value & (1 << 63) - 1 if symbol.section == ABSOLUTE else _NOWHERE
                if inside is not None:
                    value = base + inside + (0 if symbol.section == COMMON else symbol.value)
                values[number][index] = value
                if symbol.local:
                    continue
                soft = symbol.weak or symbol.section == COMMON
                if symbol.name in self.addresses and not soft and symbol.name not in weak:
                    raise FFIError("E709", f"symbols defined twice: {symbol.name}")
                if symbol.name not in self.addresses or not soft:
                    self.addresses[symbol.name] = value
                    (weak.add if soft else weak.discard)(symbol.name)
        for number, part in enumerate(objects):
            for index, symbol in enumerate(part.symbols):
                if symbol.local:
                    continue
                found = self.addresses.get(symbol.name)
                if found is None and symbol.name != OFFSET_TABLE:
                    found = resolve(symbol.name)
                    if not found and not symbol.weak:
                        missing.append(symbol.name)
                values[number][index] = found or 0
        if missing:
            raise FFIError("E710", f"nobody defines the symbols {', '.join(sorted(set(missing)))}")
        return values

    def _relocate(self, section: Section, start: int, image: Array, symbols: Array) -> None:
        """Apply the relocations of a section that lies at ``start``."""
        for number in sorted(set(section.relocations["kind"].tolist())):
            kind = RELOCATIONS[self.machine][number]
            rows = section.relocations[section.relocations["kind"] == number]
            offsets = rows["offset"].astype(np.int64)
            if int(offsets.max()) + kind.width > section.size:
                raise FFIError("E709", f"{kind.name} outside of its section {section.name}")
            targets = symbols[rows["symbol"]]
            if (targets == _NOWHERE).any():
                raise FFIError("E709", f"{kind.name} by a symbol of a section that is not loaded")
            places = self.memory.address + start + offsets
            if kind.table:
                targets = self._by_word(targets, self._table, WORD)
            value = distance(kind, targets + rows["addend"], places)
            wrong = misfits(kind, value)
            if kind.call and wrong.any():
                targets[wrong] = self._by_word(targets[wrong], self._stubs, STUBS[self.machine][0])
                value = distance(kind, targets + rows["addend"], places)
                wrong = misfits(kind, value)
            if wrong.any():
                raise _unreachable(kind, section, int(offsets[wrong][0]), int(value[wrong][0]))
            patch(kind, image, start + offsets, value)

    def _by_word(self, targets: Array, first: int, size: int) -> Array:
        """The addresses, after ``first``, of what there is of ``size`` bytes for each word of the table, by the words' values."""
        numbers = [self._words.setdefault(target, len(self._words)) for target in targets.tolist()]
        return self.memory.address + first + size * np.array(numbers, np.int64)

    def _fill_table(self, image: Array) -> None:
        """Write the table, and the stubs that jump by it."""
        size, stub = STUBS[self.machine]
        for target, number in self._words.items():
            word, place = self._table + number * WORD, self._stubs + number * size
            image[word : word + WORD] = np.frombuffer(target.to_bytes(WORD, "little", signed=True), np.uint8)
            image[place : place + size] = np.frombuffer(
                stub(self.memory.address + word, self.memory.address + place), np.uint8
            )


def _aligned(place: int, align: int) -> int:
    return (place + align - 1) & -align


def _unreachable(kind: Relocation, section: Section, offset: int, value: int) -> FFIError:
    return FFIError("E709", f"{kind.name} in {section.name} at {offset:#x}: {value:#x} does not fit into {kind.bits} bits",
                    help="generate code with the relocation model pic and the code model small")  # fmt: skip
