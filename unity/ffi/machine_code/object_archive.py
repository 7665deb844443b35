"""Several object files in one byte string, for the sections of a saved program.

    0  8  magic "UNITYAR\\0", then per object: size (u64, little-endian), bytes

A single object stands for itself. Invariant: ``split_objects(join_objects(objects)) == objects``; sizes are checked before they are
believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import FFIError

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
