"""Reading a relocatable ELF object: its sections, symbols and relocations, every number checked against the file.

Objects come from files, which may be damaged: no size, offset or index in the headers is believed before it was compared with what
there is. Not here: what a relocation means (``relocations``), where things lie in memory (``linker``).
Invariant: of an ``ElfObject``, ranges lie in their data, symbols in their sections, and relocations name symbols that exist.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from ...support.errors import FFIError

X86_64, AARCH64 = 62, 183
"""Numbers of machines."""
_RELOCATABLE = 1
_SYMTAB, _STRTAB, _RELA, _NOBITS, _REL, _INIT_ARRAY, _FINI_ARRAY = 2, 3, 4, 8, 9, 14, 15
WRITE, ALLOCATED, EXECUTABLE, _TLS = 0x1, 0x2, 0x4, 0x400
"""Flags of a section."""
UNDEFINED, ABSOLUTE, COMMON, _RESERVED = 0, 0xFFF1, 0xFFF2, 0xFF00
"""Numbers of sections that are none."""
_LOCAL, WEAK, _THREAD_LOCAL, _INDIRECT = 0, 2, 6, 10
OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"
"""A name that objects mention and no relocation that we know uses."""
_PAGE = 4096
MOST_BYTES = 1 << 30
"""Of an object in memory: everything in it is within reach of a 32-bit distance."""

RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


@dataclass(slots=True, frozen=True)
class Section:
    """A section that lies in memory. ``data`` is empty where all of its ``size`` is zeros; ``relocations``: of `RELOCATION`."""

    name: str
    flags: int
    align: int
    size: int
    data: bytes
    relocations: np.ndarray


@dataclass(slots=True, frozen=True)
class Symbol:
    """``section``: a number in ``ElfObject.sections``, `UNDEFINED`, `ABSOLUTE` or `COMMON`; of a common one, ``value`` is the
    alignment."""

    name: str
    section: int
    value: int
    size: int
    local: bool
    weak: bool


@dataclass(slots=True, frozen=True)
class ElfObject:
    """``sections`` by their numbers in the file (those that lie in memory); ``symbols`` by theirs."""

    machine: int
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]

    @property
    def defined(self) -> tuple[str, ...]:
        """Global names the object defines."""
        return tuple([s.name for s in self.symbols if not s.local and s.section != UNDEFINED])

    @property
    def undefined(self) -> tuple[str, ...]:
        """Names it leaves to be resolved."""
        return tuple(
            [s.name for s in self.symbols if not s.local and s.section == UNDEFINED and s.name != OFFSET_TABLE]
        )


def read_object(data: bytes) -> ElfObject:
    """A relocatable object. Raises FFIError E709 for anything else, for a damaged file, and for what cannot be linked here:
    thread-local variables, functions that run when code is loaded."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise FFIError("E709", "not a 64-bit little-endian ELF object")
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise FFIError("E709", f"the object file is damaged: {error}") from error


@dataclass(slots=True, frozen=True)
class _Header:
    """A section's header, in the order of the file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    width: int


def _read(data: bytes) -> ElfObject:
    form, machine = struct.unpack_from("<HH", data, 0x10)
    table, (width, count, names) = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<HHH", data, 0x3A)
    if form != _RELOCATABLE or machine not in (X86_64, AARCH64):
        raise FFIError(
            "E709", f"an ELF file of type {form} for machine {machine}, not a relocatable object for x86-64 or AArch64"
        )
    if width != 64:
        raise ValueError("section headers of unknown size")
    headers = [_Header(*struct.unpack_from("<IIQQQQIIQQ", data, table + i * width)) for i in range(count)]
    for header in headers:
        if header.kind != _NOBITS and header.offset + header.size > len(data):
            raise ValueError("a section ends after the file")
    texts = _strings(data, headers, names)
    tables = [index for index, header in enumerate(headers) if header.kind == _SYMTAB]
    if len(tables) > 1:
        raise ValueError("two symbol tables")
    relocations = _relocations(data, headers, tables)
    sections: dict[int, Section] = {}
    for index, header in enumerate(headers):
        found = _section(data, header, _text(texts, header.name), relocations.get(index, np.empty(0, RELOCATION)))
        if found is not None:
            sections[index] = found
    if sum([section.size + section.align for section in sections.values()]) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    return ElfObject(machine, sections, _symbols(data, headers, tables, sections))


def _strings(data: bytes, headers: list[_Header], index: int) -> bytes:
    """The strings of a table of names."""
    header = headers[index]
    if header.kind != _STRTAB:
        raise ValueError("names that are in no string table")
    return data[header.offset : header.offset + header.size]


def _text(strings: bytes, place: int) -> str:
    if place >= len(strings):
        raise ValueError("a name outside of its table")
    return strings[place : strings.index(b"\0", place)].decode()


def _section(data: bytes, header: _Header, name: str, relocations: np.ndarray) -> Section | None:
    """A section that lies in memory, but for tables of unwinding: no exception passes through this code."""
    if not header.flags & ALLOCATED or name == ".eh_frame":
        return None
    if header.size and (
        header.kind in (_INIT_ARRAY, _FINI_ARRAY) or name.startswith((".ctors", ".dtors", ".init", ".fini"))
    ):
        raise FFIError("E709", f"the object has functions that run when it is loaded ({name}), which is not supported")
    if header.flags & _TLS:
        raise FFIError("E709", f"the object has variables of its own for each thread ({name}), which is not supported")
    if header.flags & WRITE and header.flags & EXECUTABLE:
        raise FFIError("E709", f"the section {name} is code that can be written to")
    align, full = max(1, header.align), header.kind != _NOBITS
    if align & (align - 1) or align > _PAGE:
        raise ValueError(f"the alignment {align} of a section")
    if header.size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    if len(relocations) and (not full or int(relocations["offset"].max()) >= header.size):
        raise ValueError("a relocation outside of its section")
    content = data[header.offset : header.offset + header.size] if full else b""
    return Section(name, header.flags, align, header.size, content, relocations)


def _relocations(data: bytes, headers: list[_Header], tables: list[int]) -> dict[int, np.ndarray]:
    """Relocations by the number of the section that they change."""
    found: dict[int, np.ndarray] = {}
    for header in headers:
        if header.kind not in (_RELA, _REL):
            continue
        if header.info >= len(headers):
            raise ValueError("relocations of a section that is not there")
        if not headers[header.info].flags & ALLOCATED:
            continue
        if header.kind == _REL or header.width != RELOCATION.itemsize or header.size % header.width:
            raise ValueError("relocations of unknown form")
        if [header.link] != tables or header.info in found:
            raise ValueError("relocations without a symbol table, or two of one section")
        rows = np.frombuffer(data, RELOCATION, header.size // header.width, header.offset)
        if len(rows) and int(rows["symbol"].max()) >= headers[header.link].size // 24:
            raise ValueError("a relocation by a symbol that is not there")
        found[header.info] = rows
    return found


def _symbols(
    data: bytes, headers: list[_Header], tables: list[int], sections: dict[int, Section]
) -> tuple[Symbol, ...]:
    if not tables:
        return ()
    header = headers[tables[0]]
    if header.width != 24 or header.size % 24:
        raise ValueError("symbol entries of unknown size")
    strings = _strings(data, headers, header.link)
    found: list[Symbol] = []
    count = len(headers)
    for name, info, _, index, value, size in struct.iter_unpack(
        "<IBBHQQ", data[header.offset : header.offset + header.size]
    ):
        if info & 15 in (_THREAD_LOCAL, _INDIRECT):
            raise FFIError(
                "E709", "the object has a thread-local variable or an indirect function, which is not supported"
            )
        if index >= _RESERVED:
            if index not in (ABSOLUTE, COMMON):
                raise ValueError("a symbol in a section that is not there")
            if index == COMMON and (not value or value & (value - 1) or value > _PAGE or size > MOST_BYTES):
                raise ValueError("a common symbol of impossible size")
        elif index:
            if index >= count:
                raise ValueError("a symbol in a section that is not there")
            section = sections.get(index)
            if section is not None and value + size > section.size:
                raise ValueError("a symbol outside of its section")
        binding = info >> 4
        found.append(
            Symbol(_text(strings, name) if name else "", index, value, size, binding == _LOCAL, binding == WEAK)
        )
    if any([not symbol.local and not symbol.name for symbol in found]):
        raise ValueError("a global symbol without a name")
    return tuple(found)
