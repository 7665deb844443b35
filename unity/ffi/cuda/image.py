"""Code of CUDA programs in a saved program: kernels for some architectures, and the host code that launches them.

    0  8  magic "UNITYGPU", then: bytes of the header (u64, little-endian), header (JSON), images, host object

The header names the kernels and the messages of their checks, and gives each image's kind, architecture and size. Invariant:
``CudaCode.unpack(code.pack()) == code``; sizes and types are checked before they are used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...support.errors import FFIError

_MAGIC = b"UNITYGPU"
_SIZE = 8


@dataclass(slots=True, frozen=True)
class Image:
    """Kernels for an architecture: ``kind`` "ptx", which later architectures run too, or "cubin", machine code."""

    kind: str
    arch: str
    data: bytes


@dataclass(slots=True, frozen=True)
class CudaCode:
    """``kernels``: symbols of the kernels. ``messages``: of their checks, numbered from 1. ``host``: an object file."""

    kernels: tuple[str, ...]
    messages: tuple[str, ...]
    images: tuple[Image, ...]
    host: bytes

    def pack(self) -> bytes:
        """One byte string."""
        rows = [[image.kind, image.arch, len(image.data)] for image in self.images]
        header = json.dumps({"kernels": self.kernels, "messages": self.messages, "images": rows}).encode()
        parts = [
            _MAGIC,
            len(header).to_bytes(_SIZE, "little"),
            header,
            *[image.data for image in self.images],
            self.host,
        ]
        return b"".join(parts)

    @staticmethod
    def unpack(data: bytes) -> CudaCode:
        """The code in a byte string. Raises FFIError E709 for a damaged one."""
        start = len(_MAGIC) + _SIZE
        place = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        if not data.startswith(_MAGIC) or place > len(data):
            raise _damaged("its header is cut off")
        try:
            header = json.loads(data[start:place])
            kernels, messages = [_texts(header[name]) for name in ("kernels", "messages")]
            rows = [(*_texts([kind, arch]), size) for kind, arch, size in header["images"]]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _damaged("its header says nothing") from error
        images = []
        for kind, arch, size in rows:
            if type(size) is not int or not 0 <= size <= len(data) - place:
                raise _damaged("an image is cut off")
            images.append(Image(kind, arch, data[place : place + size]))
            place += size
        return CudaCode(kernels, messages, tuple(images), data[place:])


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all([type(value) is str for value in values]):
        raise TypeError("not texts")
    return tuple(values)


def _damaged(reason: str) -> FFIError:
    return FFIError("E709", f"the code of a CUDA program is damaged: {reason}")
