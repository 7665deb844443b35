"""Object files that travel: several in one byte string, and those that a saved program brings along.

    0  8  magic "UNITYAR\\0", then per object: size (u64, little-endian), bytes

A single object stands for itself. What a saved program brings for others is the package's own code, named by its text; kernels and
drivers stay its own. Invariant: ``split_objects(join_objects(objects)) == objects``; sizes are checked before they are believed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from ...support.errors import FFIError
from ..cache.cache_key import content_key
from .llvm import CompileOptions, compile_ir

_MAGIC = b"UNITYAR\0"
_SIZE = 8


def join_objects(objects: Sequence[bytes]) -> bytes:
    """One byte string of object files: the file itself where there is one."""
    if len(objects) == 1:
        return objects[0]
    return _MAGIC + b"".join([len(data).to_bytes(_SIZE, "little") + data for data in objects])


def split_objects(data: bytes) -> list[bytes]:
    """The object files in a byte string. Raises FFIError E709 for a damaged one."""
    if not data.startswith(_MAGIC):
        return [data]
    found, place = [], len(_MAGIC)
    while place < len(data):
        start = place + _SIZE
        place = start + int.from_bytes(data[place:start], "little")
        if start > len(data) or place > len(data):
            raise FFIError("E709", "the archive of object files is truncated")
        found.append(data[start:place])
    return found


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Brought:
    """An object that saved programs brought along."""

    data: bytes


_BROUGHT: WeakValueDictionary[str, _Brought] = WeakValueDictionary()
"""Objects by `code_name`, as long as one of the programs lives that brought them."""
_MOST_BYTES = 1 << 26
"""Of what a program brings along."""


def code_name(text: str, options: CompileOptions) -> str:
    """A name of a text under options, the same for every processor and version of LLVM."""
    return content_key(text, repr(replace(options, cpu="", features="", triple="")))


def own_object(text: str, options: CompileOptions) -> bytes:
    """Object bytes of a text of the package, to run here: what a saved program brought along, else as of ``compile_ir``."""
    found = _BROUGHT.get(code_name(text, options)) if _BROUGHT else None
    return compile_ir(text, options) if found is None else found.data


def pack_objects(objects: Mapping[str, bytes]) -> bytes:
    """Objects by their `code_name`, for a file."""
    return zlib.compress(join_objects([json.dumps(list(objects)).encode(), *objects.values()]))


def bring_objects(data: bytes) -> list[_Brought]:
    """Take what a program brought along, which is for a processor with no more features than this one, for as long as the program
    keeps what is returned; what is known stays. Raises FFIError E709 for damage."""
    try:
        reader = zlib.decompressobj()
        names, *objects = split_objects(reader.decompress(data, _MOST_BYTES))
        found = dict(zip(json.loads(names), objects, strict=True))
        if not reader.eof or not all([isinstance(name, str) for name in found]):
            raise ValueError("it does not end, or has no names")
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise FFIError("E709", f"the machine code that a program brought along is damaged: {error}") from error
    return [_BROUGHT.setdefault(name, _Brought(made)) for name, made in found.items()]
