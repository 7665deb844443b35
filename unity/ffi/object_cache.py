"""A folder of byte strings under content keys: compiled objects, kept between processes.

Invariant: a read returns exactly the bytes that were stored under the key, or nothing. Files are written to a
temporary name and renamed; a damaged file is noticed by its checksum, removed, and rebuilt by the caller.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from ..support.options import str_option

_MAGIC = b"UNITYOBJ1\n"
_DIGEST = 32
LIMIT_BYTES = 1 << 30
"""Size above which the oldest entries are removed (checked once per process, at the first store)."""


def cache_folder() -> Path | None:
    """Folder of the caches by ``UNITY_CACHE``, else the user's cache folder; None where caching is off."""
    text = str_option("UNITY_CACHE")
    if text == "off":
        return None
    if text:
        return Path(text)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "unity"


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

    __slots__ = ("_checked", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._checked = False

    def path(self, key: str) -> Path:
        """File of a key."""
        return self.folder / key[:2] / f"{key[2:]}.bin"

    def load(self, key: str) -> bytes | None:
        """Bytes stored under a key, or None where there are none or the file is damaged."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if data.startswith(_MAGIC) and hashlib.sha256(body).digest() == data[len(_MAGIC) : start]:
            return body
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def store(self, key: str, body: bytes) -> None:
        """Keep bytes under a key; a folder that cannot be written is no error, the cache is an aid only."""
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(body).digest() + body)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise
            if not self._checked:
                self._checked = True
                self._trim()
        except OSError:
            return

    def _trim(self) -> None:
        files = []
        for path in self.folder.glob("??/*.bin"):
            with contextlib.suppress(OSError):  # another process may remove files at the same time
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum([size for _, size, _ in files])
        for _, size, path in sorted(files):
            if total <= LIMIT_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= size


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
