"""A folder of byte strings under content keys: compiled objects, kept between processes.

Invariant: a read returns exactly the bytes that this user (or root) stored under the key, or nothing: entries are machine code, so
nobody else's file is believed, nor one that others may write to. Files are written to a temporary name and renamed, so any number
of processes may share a folder; a file that is damaged or was moved from another key is noticed by its checksum, removed, and
rebuilt by the caller. A folder that cannot be read or written, or a full disk, is no error. The folder's size
stays below ``UNITY_CACHE_BYTES``, and the number of its files below ``MOST_FILES`` (what other processes add is counted at the
next look): entries used longest ago go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..support.options import int_option, str_option

_MAGIC = b"UNITYOBJ2\n"
_DIGEST = 32
_STALE_SECONDS = 3600.0
"""Age after which a temporary file belongs to a writer that died."""
MOST_FILES = 1 << 15
"""Files of a folder: a process that stores something looks at each of them once."""


def cache_folder() -> Path | None:
    """Folder of the caches by ``UNITY_CACHE``, else the user's cache folder; None where caching is off."""
    text = str_option("UNITY_CACHE")
    if text in ("off", "0", "false", "no"):
        return None
    if text:
        return Path(text)
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"))
    return base / "unity" if base.is_absolute() else None  # nobody's home: no folder in the working directory


def content_key(*parts: str | bytes) -> str:
    """A key from texts and byte strings; each part's length counts, so parts cannot run together."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ObjectCache:
    """Objects by key in one folder. A folder that cannot be written makes a cache that never holds anything."""

    __slots__ = ("_files", "_size", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._size: int | None = None  # bytes in the folder, once this process has looked
        self._files = 0

    def path(self, key: str) -> Path:
        """File of a key."""
        return self.folder / key[:2] / f"{key[2:]}.bin"

    def load(self, key: str) -> bytes | None:
        """Bytes stored under a key, or None where there are none, or the file is damaged or somebody else's."""
        path = self.path(key)
        try:
            with open(path, "rb") as file:
                own, data = _is_own(os.fstat(file.fileno())), file.read()
        except OSError:
            return None
        body = data[len(_MAGIC) + _DIGEST :]
        if own and data.startswith(_head(key, body)):
            with contextlib.suppress(OSError):  # the time of change is the time of the last use
                os.utime(path)
            return body
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def store(self, key: str, body: bytes) -> None:
        """Keep bytes under a key, unless they alone are over the limit; a folder that cannot be written is no error."""
        limit = int_option("UNITY_CACHE_BYTES")
        data = _head(key, body) + body
        size = len(data)
        if size > limit:
            return
        try:
            self._write(self.path(key), data)
            known = self._size
            if known is None or known + size > limit or self._files >= MOST_FILES:
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
        for entry in self._entries():
            with contextlib.suppress(OSError):  # another process may remove files at the same time
                status = entry.stat()
                if entry.name.endswith(".bin"):
                    files.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.endswith(".part") and now - status.st_mtime > _STALE_SECONDS:
                    os.unlink(entry.path)
        total, count = sum([size for _, size, _ in files]), len(files)
        if total > limit or count > MOST_FILES:
            for _, size, path in sorted(files):
                if total <= limit * 3 // 4 and count <= MOST_FILES * 3 // 4:
                    break
                with contextlib.suppress(OSError):
                    Path(path).unlink(missing_ok=True)
                    total, count = total - size, count - 1
        return total, count

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """The files in the folders of the keys."""
        with os.scandir(self.folder) as folders:
            names = [folder.path for folder in folders if len(folder.name) == 2 and folder.is_dir()]
        for name in names:
            with os.scandir(name) as entries:
                yield from entries


def _head(key: str, body: bytes) -> bytes:
    """The head of an entry: its checksum counts the key."""
    return _MAGIC + hashlib.sha256(key.encode() + body).digest()


def _is_own(status: os.stat_result) -> bool:
    """Did this user or root write a file, and may nobody else?"""
    return not hasattr(os, "geteuid") or (status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022)


_CACHES: dict[Path, ObjectCache] = {}


def object_cache() -> ObjectCache | None:
    """The cache of compiled objects under the present options; None where caching is off."""
    folder = cache_folder()
    if folder is None:
        return None
    folder = folder / "objects"
    found = _CACHES.get(folder)
    if found is None:
        found = _CACHES[folder] = ObjectCache(folder)
    return found


PACKAGE = Path(__file__).parents[1]


@cache
def package_state() -> str:
    """A key of the compiler's own files: names, sizes and times of change."""
    found = []
    for folder, _, names in os.walk(PACKAGE):
        for path in [os.path.join(folder, name) for name in names if name.endswith(".py")]:
            status = os.stat(path)
            found.append(f"{os.path.relpath(path, PACKAGE)}:{status.st_size}:{status.st_mtime_ns}")
    return content_key(*sorted(found))
