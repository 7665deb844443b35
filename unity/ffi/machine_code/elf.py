"""Reading the symbol table of an ELF object: which names it defines and which it needs. Nothing else of ELF.

The sizes in the headers are never trusted: a damaged object is a clear error here, before LLVM sees it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...support.errors import FFIError

_SYMTAB = 2
_UNDEFINED = 0


@dataclass(slots=True, frozen=True)
class Symbols:
    """Global names an object defines, and names it leaves to be resolved."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def read_symbols(data: bytes) -> Symbols:
    """Symbols of a 64-bit little-endian ELF object. Raises FFIError E709 for anything else or a damaged file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise FFIError("E709", "not a 64-bit little-endian ELF object")
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError) as error:
        raise FFIError("E709", f"the object file is damaged: {error}") from error


def _read(data: bytes) -> Symbols:
    table, entry, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    defined: list[str] = []
    undefined: list[str] = []
    for section in sections:
        _, kind, _, _, offset, size, link, _, _, width = section
        if kind != 8 and offset + size > len(data):
            raise ValueError("a section ends behind the file")
        if kind != _SYMTAB:
            continue
        names = sections[link]
        if width != 24:
            raise ValueError("symbol entries of unknown size")
        for position in range(offset + width, offset + size, width):
            name, info, _, index = struct.unpack_from("<IBBH", data, position)
            if info >> 4 == 0 or name == 0:  # local or nameless
                continue
            start = names[4] + name
            text = data[start : data.index(b"\0", start)].decode()
            (undefined if index == _UNDEFINED else defined).append(text)
    return Symbols(tuple(defined), tuple(undefined))
