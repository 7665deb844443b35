"""The PTX in an image that a module is loaded from: text, or a fat binary. Machine code is refused.

An image comes as an address without a size: each form says how long it is, and text ends with a zero byte.
"""

from __future__ import annotations

import ctypes

NO_BINARY, INVALID_IMAGE = 209, 200
_FAT, _FAT_WRAPPER, _ELF = b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46", b"\x7fELF"
_PTX_ENTRY = 1


class ImageError(Exception):
    """An image that cannot be loaded: the status, and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def ptx_of(address: int) -> str:
    """The PTX at an address. Raises ImageError."""
    start = ctypes.string_at(address, 4)
    if start == _FAT_WRAPPER:
        return ptx_of(int.from_bytes(ctypes.string_at(address + 8, 8), "little"))
    if start == _FAT:
        return _of_fat_binary(address)
    if start == _ELF:
        raise ImageError(NO_BINARY, "machine code for a real device: the emulated one runs PTX")
    try:
        return ctypes.string_at(address).decode()
    except UnicodeDecodeError as error:
        raise ImageError(INVALID_IMAGE, "neither PTX nor a fat binary") from error


def _of_fat_binary(address: int) -> str:
    """The first PTX among the entries. Source: fatbinary_section.h and the entries that nvcc writes."""
    header = ctypes.string_at(address, 16)
    at = address + int.from_bytes(header[6:8], "little")
    end = at + int.from_bytes(header[8:16], "little")
    while at < end:
        entry = ctypes.string_at(at, 64)
        kind, size = int.from_bytes(entry[:2], "little"), int.from_bytes(entry[8:16], "little")
        body = at + int.from_bytes(entry[4:8], "little")
        if kind == _PTX_ENTRY:
            raw = ctypes.string_at(body, size)
            if b".version" not in raw:
                raise ImageError(NO_BINARY, "a fat binary whose PTX is compressed")
            return raw[raw.index(b".version") :].split(b"\0")[0].decode()
        at = body + size
    raise ImageError(NO_BINARY, "a fat binary without PTX: the emulated device runs no machine code")
