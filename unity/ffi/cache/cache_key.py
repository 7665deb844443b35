"""Keys of cached results: a record of named parts, which can be printed and compared.

A key names an entry of the object cache. It is made of the stage that gives the result ("kernel") and of everything that decides
it, part by part: the program, the target, the passes, the tools. Invariant: keys are equal exactly where all parts are.
Not here: the folder (`object_cache.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SHOWN = 1000
"""Parts up to this many characters stand in an entry as they are; of longer ones a checksum does."""


def content_key(*parts: str | bytes) -> str:
    """A checksum of texts and byte strings; each part's length counts, so parts cannot run together."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Key(str):
    """The name of an entry: ``Key("kernel", program=text, target="llvm")``. ``parts`` tells what decides it."""

    __slots__ = ("parts", "stage")
    stage: str
    parts: dict[str, str]

    def __new__(cls, stage: str, **parts: str | bytes) -> Key:
        digests = {name: content_key(part) for name, part in parts.items()}
        made = super().__new__(cls, content_key(stage, *digests, *digests.values()))
        made.stage = stage
        made.parts = {name: _shown(part, digests[name]) for name, part in parts.items()}
        return made

    def head(self) -> bytes:
        """The description that an entry begins with; ``read_head`` reads it."""
        return json.dumps([self.stage, self.parts], separators=(",", ":")).encode()


def _shown(part: str | bytes, digest: str) -> str:
    return part if isinstance(part, str) and len(part) <= SHOWN else f"{len(part)} bytes, {digest[:16]}"


def read_head(head: bytes) -> tuple[str, dict[str, str]]:
    """Stage and parts of the key of an entry."""
    stage, parts = json.loads(head)
    return stage, parts


def difference(parts: Mapping[str, str], before: Mapping[str, str]) -> str:
    """The parts of a key that are others than those of an earlier one, in words; "" where none is."""
    names = [name for name in {**parts, **before} if parts.get(name) != before.get(name)]
    return ", ".join([f"{name} ({_changed(parts.get(name, ''), before.get(name, ''))})" for name in names])


def _changed(now: str, was: str) -> str:
    """Two texts without what they begin and end with in common, where they are long."""
    if max(len(now), len(was)) > 60:
        start = _common_prefix(now, was)
        end = _common_prefix(now[:start:-1], was[:start:-1])
        now, was = now[start : len(now) - end], was[start : len(was) - end]
    return f"{now or 'nothing'}; was {was or 'nothing'}"


def _common_prefix(one: str, other: str) -> int:
    """The number of characters that two texts begin with in common."""
    return next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


PACKAGE = Path(__file__).parents[2]


@cache
def package_state() -> str:
    """A checksum of the compiler's own files: names, sizes and times of change."""
    found = []
    for folder, _, names in os.walk(PACKAGE):
        for path in [os.path.join(folder, name) for name in names if name.endswith(".py")]:
            status = os.stat(path)
            found.append(f"{os.path.relpath(path, PACKAGE)}:{status.st_size}:{status.st_mtime_ns}")
    return content_key(*sorted(found))
