"""The file format of executables: magic, version, a table of sections with sizes and checksums, then the sections.

    0   8  magic "UNITYVM\\0"
    8   4  format version (little-endian)
    12  4  number of sections
    16  32 sha256 of the section table
    48     the table: per section name (16 bytes, zero padded), offset, size (u64 each), sha256 (32)
    then the sections, each at a multiple of 64 bytes; the file ends with the last one.

Data only: nothing here interprets a section. Invariant: every byte of the file is covered by a checksum or must be zero,
so a truncated or changed file is an ArtifactError, and no size is believed before it is compared with the file's.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..support.errors import ArtifactError

MAGIC = b"UNITYVM\0"
VERSION = 1
_HEAD = struct.Struct("<8sII32s")
_ROW = struct.Struct("<16sQQ32s")
_MAX_SECTIONS = 64
_ALIGN = 64


def write_sections(path: str | Path, sections: Mapping[str, Any]) -> None:
    """Write a file; it appears complete or not at all."""
    rows = []
    offset = _aligned(_HEAD.size + _ROW.size * len(sections))
    for name, data in sections.items():
        size = memoryview(data).nbytes
        rows.append(_ROW.pack(name.encode(), offset, size, hashlib.sha256(data).digest()))
        offset = _aligned(offset + size)
    table = b"".join(rows)
    target = Path(path)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(_HEAD.pack(MAGIC, VERSION, len(rows), hashlib.sha256(table).digest()) + table)
            for data in sections.values():
                file.write(b"\0" * (-file.tell() % _ALIGN))
                file.write(data)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ArtifactError("E801", f"cannot write {target}: {error.strerror}") from error


def _aligned(offset: int) -> int:
    return (offset + _ALIGN - 1) // _ALIGN * _ALIGN


def read_sections(path: str | Path) -> dict[str, memoryview]:
    """Sections of a file, mapped into memory without copying. Raises ArtifactError E801 to E804."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size < _HEAD.size:
                raise ArtifactError("E802", f"{path} is no saved program: it has only {size} bytes")
            memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise ArtifactError("E801", f"cannot read {path}: {error.strerror}") from error
    return split_sections(memory, str(path))


def split_sections(memory: memoryview, name: str) -> dict[str, memoryview]:
    """Sections of a file's content. Raises ArtifactError E802 (not ours, damaged), E803 (newer)."""
    if memory.nbytes < _HEAD.size:
        raise ArtifactError("E802", f"{name} is no saved program: it is too short")
    magic, version, count, digest = _HEAD.unpack_from(memory)
    if magic != MAGIC:
        raise ArtifactError("E802", f"{name} is no saved program: wrong magic number")
    if version != VERSION:
        raise ArtifactError("E803", f"{name} has format version {version}, this package reads version {VERSION}",
                            help="load it with the version of the package that wrote it, or compile again")  # fmt: skip
    end = _HEAD.size + _ROW.size * count
    if not 0 < count <= _MAX_SECTIONS or end > memory.nbytes:
        raise ArtifactError("E802", f"{name} is damaged: impossible number of sections {count}")
    table = memory[_HEAD.size : end]
    if hashlib.sha256(table).digest() != digest:
        raise ArtifactError("E802", f"{name} is damaged: the section table does not match its checksum")
    sections: dict[str, memoryview] = {}
    place = end
    for index in range(count):
        raw, offset, size, expected = _ROW.unpack_from(table, index * _ROW.size)
        if offset != _aligned(place) or offset + size > memory.nbytes:
            raise ArtifactError("E802", f"{name} is damaged: it is truncated")
        data = memory[offset : offset + size]
        if any(memory[place:offset]) or hashlib.sha256(data).digest() != expected:
            raise ArtifactError(
                "E802",
                f"{name} is damaged: section {raw.rstrip(bytes(1)).decode(errors='replace')} does not match its checksum",
            )
        sections[raw.rstrip(b"\0").decode(errors="replace")] = data
        place = offset + size
    if place != memory.nbytes:
        raise ArtifactError("E802", f"{name} is damaged: bytes after the last section")
    return sections
