"""The relocations of x86-64 and AArch64, applied to whole sections at once.

S is the address of the symbol, A the addend, P the place that is changed, G the word of the table that holds S. A call that does
not reach S goes to a stub, which jumps by that word. Names and numbers are those of the two processor supplements of ELF.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .elf import AARCH64, X86_64

Array = np.ndarray[Any, Any]
WORD = 8
"""Bytes of a word of the table."""


@dataclass(slots=True, frozen=True)
class Relocation:
    """``bits``: of the value that must fit (0: any), with a sign where ``signed``; ``width`` bytes are changed. ``base``: the value
    is S + A, relative to P ("place"), its page relative to P's ("page"), its place in its page ("low"), or as it is ("none").
    ``table``: G takes the place of S. ``call``: a stub may. An instruction gets the value without its lowest ``shift`` bits at
    ``field``: pairs of a first bit and a number of bits, those of the value from the lowest on."""

    name: str
    width: int
    bits: int
    base: str = "place"
    signed: bool = True
    table: bool = False
    call: bool = False
    shift: int = 0
    field: tuple[tuple[int, int], ...] = ()


_PAGE_FIELD, _LOW_FIELD = ((29, 2), (5, 19)), ((10, 12),)


def _low(name: str, shift: int, table: bool = False) -> Relocation:
    """The place in its page, of an instruction that adds it or loads ``1 << shift`` bytes there."""
    return Relocation(name, 4, 0, "low", table=table, shift=shift, field=_LOW_FIELD)


RELOCATIONS: dict[int, dict[int, Relocation]] = {
    X86_64: {
        1: Relocation("R_X86_64_64", 8, 0, "none"),
        2: Relocation("R_X86_64_PC32", 4, 32),
        4: Relocation("R_X86_64_PLT32", 4, 32, call=True),
        9: Relocation("R_X86_64_GOTPCREL", 4, 32, table=True),
        10: Relocation("R_X86_64_32", 4, 32, "none", signed=False),
        11: Relocation("R_X86_64_32S", 4, 32, "none"),
        24: Relocation("R_X86_64_PC64", 8, 0),
        41: Relocation("R_X86_64_GOTPCRELX", 4, 32, table=True),
        42: Relocation("R_X86_64_REX_GOTPCRELX", 4, 32, table=True),
    },
    AARCH64: {
        257: Relocation("R_AARCH64_ABS64", 8, 0, "none"),
        258: Relocation("R_AARCH64_ABS32", 4, 32, "none", signed=False),
        260: Relocation("R_AARCH64_PREL64", 8, 0),
        261: Relocation("R_AARCH64_PREL32", 4, 32),
        275: Relocation("R_AARCH64_ADR_PREL_PG_HI21", 4, 33, "page", shift=12, field=_PAGE_FIELD),
        277: _low("R_AARCH64_ADD_ABS_LO12_NC", 0),
        278: _low("R_AARCH64_LDST8_ABS_LO12_NC", 0),
        282: Relocation("R_AARCH64_JUMP26", 4, 28, call=True, shift=2, field=((0, 26),)),
        283: Relocation("R_AARCH64_CALL26", 4, 28, call=True, shift=2, field=((0, 26),)),
        284: _low("R_AARCH64_LDST16_ABS_LO12_NC", 1),
        285: _low("R_AARCH64_LDST32_ABS_LO12_NC", 2),
        286: _low("R_AARCH64_LDST64_ABS_LO12_NC", 3),
        299: _low("R_AARCH64_LDST128_ABS_LO12_NC", 4),
        311: Relocation("R_AARCH64_ADR_GOT_PAGE", 4, 33, "page", table=True, shift=12, field=_PAGE_FIELD),
        312: _low("R_AARCH64_LD64_GOT_LO12_NC", 3, table=True),
    },
}
"""By machine and number."""


def distance(relocation: Relocation, target: Array, place: Array) -> Array:
    """The value that is written, of S + A and P."""
    if relocation.base == "place":
        return target - place
    if relocation.base == "page":
        return (target & ~0xFFF) - (place & ~0xFFF)
    return target & 0xFFF if relocation.base == "low" else target


def misfits(relocation: Relocation, value: Array) -> Array:
    """The values that do not fit: out of reach, or at an address that the instruction cannot name."""
    wrong: Array = value & ((1 << relocation.shift) - 1) != 0
    if relocation.bits:
        least = -(1 << (relocation.bits - 1)) if relocation.signed else 0
        wrong |= (value < least) | (value >= least + (1 << relocation.bits))
    return wrong


def patch(relocation: Relocation, image: Array, offsets: Array, value: Array) -> None:
    """Write values into bytes at offsets."""
    places = offsets[:, None] + np.arange(relocation.width)
    if relocation.field:
        word = np.ascontiguousarray(image[places]).view("<u4").reshape(-1).astype(np.int64)
        value >>= relocation.shift
        for first, bits in relocation.field:
            mask = (1 << bits) - 1
            word = word & ~(mask << first) | (value & mask) << first
            value >>= bits
        value = word
    image[places] = value.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : relocation.width]


def _x86_stub(word: int, place: int) -> bytes:
    return b"\xff\x25" + (word - place - 6).to_bytes(4, "little", signed=True) + b"\xcc\xcc"  # jmp *word(%rip)


def _aarch64_stub(word: int, place: int) -> bytes:
    pages = (word >> 12) - (place >> 12)
    code = (
        0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5,  # adrp x16, word
        0xF9400210 | (word & 0xFFF) >> 3 << 10,  # ldr x16, [x16, word]
        0xD61F0200,  # br x16
        0xD4200000,  # brk 0
    )
    return b"".join([instruction.to_bytes(4, "little") for instruction in code])


STUBS: dict[int, tuple[int, Callable[[int, int], bytes]]] = {X86_64: (8, _x86_stub), AARCH64: (16, _aarch64_stub)}
"""By machine: bytes of a stub, and its code, of the address of its word and its own."""
