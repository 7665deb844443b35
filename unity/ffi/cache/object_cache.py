"""A folder of byte strings under keys: results of the stages of a build, kept between processes.

An entry says what its key was made of: ``UNITY_EXPLAIN=1`` tells of every look which part differs from the nearest entry, and
``python -m unity cache`` shows them. Entries hold plain data and machine code, never a pickle.
Invariant: a read returns exactly the bytes that this user (or root) stored under the key, or nothing: entries are machine code, so
nobody else's file is believed, nor one that others may write to. Files are written to a temporary name and renamed, so any number
of processes may share a folder; a file that is damaged or was moved from another key is noticed by its checksum, removed, and
rebuilt by the caller. A folder that cannot be read or written, or a full disk, is not an error: the cache is then empty, as
where caching is off. The folder's size stays below ``UNITY_CACHE_BYTES``, and the number of its files below ``MAX_FILES`` (what
other processes add is counted at the next look): entries used longest ago go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...support.options import bool_option, int_option, str_option
from .cache_key import Key, difference, read_head

_MAGIC = b"UNITYOBJ3\n"
_DIGEST = 32
_SIZE = 4
"""Bytes of the length of a key's description, which stands between checksum and result."""
_T = TypeVar("_T")
_STALE_SECONDS = 3600.0
"""Age after which a temporary file belongs to a writer that died."""
MAX_FILES = 1 << 15
"""Files of a folder: a process that stores something looks at each of them once."""
MAX_COMPARED = 1000
"""Entries that are read to tell why a key has none: those used last."""


def cache_folder() -> Path | None:
    """Folder of the caches by ``UNITY_CACHE``, else the user's cache folder; None where caching is off."""
    text = str_option("UNITY_CACHE")
    if text in ("off", "0", "false", "no"):
        return None
    if text:
        return Path(text)
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"))
    return base / "unity" if base.is_absolute() else None  # nobody's home: no folder in the working directory


@dataclass(slots=True, frozen=True)
class Entry:
    """An entry as a list shows it: stage and parts of its key, bytes, time of the last use."""

    name: str
    stage: str
    parts: dict[str, str]
    size: int
    used: float


def differs(parts: dict[str, str], others: list[Entry]) -> str:
    """The parts of a key that the nearest of other entries of its stage has not, in words: why it is new."""
    if not others:
        return "the first of its stage"
    near = max(others, key=lambda entry: (sum([parts.get(n) == part for n, part in entry.parts.items()]), entry.used))
    return f"new {difference(parts, near.parts) or 'result'}"


class ObjectCache:
    """Results by key in one folder; without a folder a cache that never holds anything."""

    __slots__ = ("_files", "_size", "folder")

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._size: int | None = None  # bytes in the folder, once this process has looked
        self._files = 0

    def path(self, key: str) -> Path:
        """File of a key."""
        assert self.folder is not None, "caching is off"
        return self.folder / key[:2] / f"{key[2:]}.bin"

    def load(self, key: str) -> bytes | None:
        """Bytes stored under a key or its name, or None where there are none, or the file is damaged or somebody else's."""
        found = None if self.folder is None else self._read(self.path(key), key)
        if isinstance(key, Key) and bool_option("UNITY_EXPLAIN"):
            print(f"cache: {key.stage}: {'found' if found is not None else self.explain_miss(key)}", file=sys.stderr)
        return None if found is None else found[1]

    def _read(self, path: Path, key: str) -> tuple[bytes, bytes] | None:
        """The description of a key, and the bytes stored under it."""
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                own, data = _is_own(os.fstat(file.fileno())), file.read()
        except OSError:
            return None
        body = data[len(_MAGIC) + _DIGEST :]
        if own and data.startswith(_head(key, body)):
            with contextlib.suppress(OSError):  # the time of change is the time of the last use
                os.utime(path)
            end = _SIZE + int.from_bytes(body[:_SIZE], "little")
            return body[_SIZE:end], body[end:]
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def explain_miss(self, key: Key) -> str:
        """The reason why there is no entry for a key: what differs from that of its stage which has most parts in common with
        it, of the entries used last."""
        return "caching is off" if self.folder is None else differs(key.parts, self.entries(key.stage, MAX_COMPARED))

    def entries(self, stage: str | None = None, most: int | None = None) -> list[Entry]:
        """All entries (of a stage), the last used first; ``most``: of so many that were used last."""
        files = []
        for file in self._files_in():
            with contextlib.suppress(OSError):
                status = file.stat()
                if file.name.endswith(".bin") and _is_own(status):
                    files.append((status.st_mtime, status.st_size, file.path))
        found = []
        for used, size, path in sorted(files, reverse=True)[:most]:
            with contextlib.suppress(OSError, ValueError):
                with open(path, "rb", opener=_without_waiting) as opened:
                    data = opened.read(len(_MAGIC) + _DIGEST + _SIZE)
                    kind, parts = read_head(opened.read(int.from_bytes(data[-_SIZE:], "little")))
                if data.startswith(_MAGIC) and stage in (None, kind):
                    name = os.path.basename(os.path.dirname(path)) + os.path.basename(path).removesuffix(".bin")
                    found.append(Entry(name, kind, parts, size, used))
        return found

    def store(self, key: Key, body: bytes) -> None:
        """Keep bytes under a key, unless they alone are over the limit; a folder that cannot be written is not an error."""
        if self.folder is None:
            return
        head = key.head()
        body = len(head).to_bytes(_SIZE, "little") + head + body
        limit = int_option("UNITY_CACHE_BYTES")
        data = _head(key, body) + body
        size = len(data)
        if size > limit:
            return
        try:
            self._write(self.path(key), data)
            known = self._size
            if known is None or known + size > limit or self._files >= MAX_FILES:
                self._size, self._files = self._trim(limit)
            else:
                self._size, self._files = known + size, self._files + 1
        except OSError:
            return

    def _write(self, path: Path, data: bytes) -> None:
        """A file that appears complete or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        finally:  # gone after a replacement; left by an error or an interrupt
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _trim(self, limit: int) -> tuple[int, int]:
        """Remove what dead writers left and, above a limit, the entries used longest ago, down to three quarters of it.

        Returns the bytes and the files that stay.
        """
        files = []
        now = time.time()
        for entry in self._files_in():
            with contextlib.suppress(OSError):  # another process may remove files at the same time
                status = entry.stat()
                if entry.name.endswith(".bin"):
                    files.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.endswith(".part") and now - status.st_mtime > _STALE_SECONDS:
                    os.unlink(entry.path)
        total, count = sum([size for _, size, _ in files]), len(files)
        if total > limit or count > MAX_FILES:
            for _, size, path in sorted(files):
                if total <= limit * 3 // 4 and count <= MAX_FILES * 3 // 4:
                    break
                with contextlib.suppress(OSError):
                    Path(path).unlink(missing_ok=True)
                    total, count = total - size, count - 1
        return total, count

    def _files_in(self) -> Iterator[os.DirEntry[str]]:
        """The files in the folders of the keys."""
        if self.folder is None or not self.folder.is_dir():
            return
        with os.scandir(self.folder) as folders:
            names = [folder.path for folder in folders if len(folder.name) == 2 and folder.is_dir()]
        for name in names:
            with os.scandir(name) as entries:
                yield from entries


def _head(key: str, body: bytes) -> bytes:
    """The head of an entry: its checksum counts the key."""
    return _MAGIC + hashlib.sha256(key.encode() + body).digest()


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe in its place is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_own(status: os.stat_result) -> bool:
    """True if this user or root wrote a file and nobody else may."""
    return not hasattr(os, "geteuid") or (status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022)


_CACHES: dict[Path | None, ObjectCache] = {}


def object_cache() -> ObjectCache:
    """The cache under the present options; one that never holds anything where caching is off."""
    base = cache_folder()
    folder = None if base is None else base / "objects"
    found = _CACHES.get(folder)
    if found is None:
        found = _CACHES[folder] = ObjectCache(folder)
    return found


def cached(key: Key, make: Callable[[], _T], write: Callable[[_T], bytes | None], read: Callable[[bytes], _T]) -> _T:
    """The result of ``make``, made now or read from what ``write`` gave of it before; None from ``write``: it is not kept."""
    store = object_cache()
    data = store.load(key)
    if data is not None:
        return read(data)
    made = make()
    written = write(made)
    if written is not None:
        store.store(key, written)
    return made
