"""The file format of executables: magic, version, a table of sections with sizes and checksums, then the sections.

    0   8  magic "UNITYVM\\0"
    8   4  format version (little-endian)
    12  4  number of sections
    16  32 sha256 of the section table
    48     the table: per section name (16 bytes, zero padded), offset, size (u64 each), checksum (32; `ffi/native/checksum.py`)
    then the sections, each at a multiple of 64 bytes; the file ends with the last one.

Data only: nothing here interprets a section. Invariant: every byte of the file is covered by a checksum or must be zero,
so a truncated file is an ArtifactError, a changed section one when it is read, and no size is believed before it is compared with
the file's.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...ffi.native.checksum import checksum
from ...support.errors import ArtifactError

MAGIC = b"UNITYVM\0"
VERSION = 3
HEAD = struct.Struct("<8sII32s")
"""MAGIC, VERSION, number of sections, checksum of the rows."""
ROW = struct.Struct("<16sQQ32s")
"""Of a section: name, begin, size, checksum."""
_MAX_SECTIONS = 64
ALIGN = 64


def file_path(path: object) -> Path:
    """The name of a file as a path. Raises ArtifactError E801 for what names none: the number of an open file, bytes, None."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text or not Path(text).name:
        shown = repr(text) if isinstance(text, str) else f"the type {type(path).__name__}"
        raise ArtifactError("E801", f"a file is named by a string or a path, got {shown}")
    return Path(text)


def write_sections(path: str | Path, sections: Mapping[str, Any]) -> None:
    """Write a file; it appears complete or not at all. A section is bytes, or a list of buffers: each begins at a multiple of 64.

    Raises ArtifactError E801.
    """
    target = file_path(path)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    first = _aligned(HEAD.size + ROW.size * len(sections))
    try:
        if target.exists() and not target.is_file():
            raise ArtifactError("E801", f"cannot write {target}: it is not a regular file, and would be replaced")
        with open(temporary, "w+b") as file:
            file.write(bytes(first))
            entries = [(name, *_write(file, data)) for name, data in sections.items()]
            file.flush()
            written = memoryview(
                mmap.mmap(file.fileno(), 0)
            )  # not closed here: a profiler may hold on to the frames that see it
            rows = [
                ROW.pack(name.encode(), begin, end - begin, checksum(written[begin:end]))
                for name, begin, end in entries
            ]
            table = b"".join(rows)
            head = HEAD.pack(MAGIC, VERSION, len(rows), hashlib.sha256(table).digest()) + table
            written[: len(head)] = head
        temporary.replace(target)
    except OSError as error:
        raise ArtifactError("E801", f"cannot write {target}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write(file: BinaryIO, data: Any) -> tuple[int, int]:
    """Begin and end of a section."""
    begin = _align(file)
    parts: Sequence[Any] = data if isinstance(data, list) else [data]
    for part in parts:
        _align(file)
        file.write(part)
    return begin, file.tell()


def _align(file: BinaryIO) -> int:
    file.write(bytes(-file.tell() % ALIGN))
    return file.tell()


def _aligned(offset: int) -> int:
    return (offset + ALIGN - 1) // ALIGN * ALIGN


@dataclass(slots=True, frozen=True)
class Section:
    """A part of a file that was not looked at yet."""

    name: str
    memory: memoryview
    expected: bytes
    file: str

    def read(self) -> memoryview:
        """The content. Raises ArtifactError E802 where it is damaged."""
        if checksum(self.memory) != self.expected:
            raise ArtifactError("E802", f"{self.file} is damaged: section {self.name} does not match its checksum")
        return self.memory


def open_sections(path: str | Path) -> dict[str, Section]:
    """Sections of a file, mapped into memory without copying. Raises ArtifactError E801 to E803."""
    target = file_path(path)
    try:
        with open(target, "rb") as file:
            size = file.seek(0, 2)
            if size < HEAD.size:
                raise ArtifactError("E802", f"{path} is not a saved program: it has only {size} bytes")
            memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise ArtifactError("E801", f"cannot read {path}: {error.strerror}") from error
    return split_sections(memory, str(path))


def read_sections(path: str | Path) -> dict[str, memoryview]:
    """The content of all sections of a file. Raises ArtifactError E801 to E803."""
    return {name: section.read() for name, section in open_sections(path).items()}


def split_sections(memory: memoryview, name: str) -> dict[str, Section]:
    """Sections of a file's content. Raises ArtifactError E802 (not ours, damaged), E803 (another version)."""
    if memory.nbytes < HEAD.size:
        raise ArtifactError("E802", f"{name} is not a saved program: it is too short")
    magic, version, count, digest = HEAD.unpack_from(memory)
    if magic != MAGIC:
        raise ArtifactError("E802", f"{name} is not a saved program: wrong magic number")
    if version != VERSION:
        raise ArtifactError("E803", f"{name} has format version {version}, this package reads version {VERSION}",
                            help="load it with the version of the package that wrote it, or compile again")  # fmt: skip
    end = HEAD.size + ROW.size * count
    if not 0 < count <= _MAX_SECTIONS or end > memory.nbytes:
        raise ArtifactError("E802", f"{name} is damaged: impossible number of sections {count}")
    table = memory[HEAD.size : end]
    if hashlib.sha256(table).digest() != digest:
        raise ArtifactError("E802", f"{name} is damaged: the section table does not match its checksum")
    sections: dict[str, Section] = {}
    previous = end
    for index in range(count):
        raw, offset, size, expected = ROW.unpack_from(table, index * ROW.size)
        if offset != _aligned(offset) or offset + size > memory.nbytes:
            raise ArtifactError("E802", f"{name} is damaged: it is truncated")
        if any(memory[previous:offset]):
            raise ArtifactError("E802", f"{name} is damaged: bytes between sections")
        key = raw.rstrip(b"\0").decode(errors="replace")
        sections[key] = Section(key, memory[offset : offset + size], expected, name)
        previous = offset + size
    if previous != memory.nbytes:
        raise ArtifactError("E802", f"{name} is damaged: bytes after the last section")
    return sections
