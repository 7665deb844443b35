"""``SQLiteFile``: a file that many processes write at once, through a connection for each thread.

Each statement is a transaction of a write-ahead log: a process that is killed loses at most what it was writing.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ...support.arguments import checked_class
from ...support.errors import ScheduleError
from ...support.options import made_folder

WAIT_SECONDS = 60.0
"""Time that a writer waits for others."""
MOST_BYTES = 64 << 20
"""Largest text of one row."""


@checked_class
class SQLiteFile:
    """A file with tables of a version. Raises ScheduleError E461 for a file that is another one."""

    version = 1
    tables = ""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.name
        made_folder(self.path.parent)
        self._local = threading.local()
        with self._connection() as connection:
            (version,) = connection.execute("pragma user_version").fetchone()
            if version not in (0, self.version):
                raise ScheduleError("E461", f"{self.path} has version {version}, this one reads {self.version}")
            if version == 0:
                connection.execute("begin immediate")
                for statement in self.tables.split(";"):
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {self.version}")
                connection.execute("commit")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection; what SQLite refuses is a ScheduleError E461."""
        try:
            found = getattr(self._local, "connection", None)
            if found is None:
                found = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
                _write_ahead(found)
                found.execute("pragma synchronous = normal")
                found.execute("pragma trusted_schema = off")
                self._local.connection = found
            yield found
        except sqlite3.Error as error:
            raise ScheduleError("E461", f"{self.path}: {error}", help="give another file") from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same file, with connections of its own."""
        return type(self)(self.path)

    def close(self) -> None:
        """Close this thread's connection; the next question opens it again."""
        found = self._local.__dict__.pop("connection", None)
        if found is not None:
            found.close()


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Give a file its write-ahead log. SQLite does not wait for others who use the file here, so this does."""
    until = time.monotonic() + WAIT_SECONDS
    while connection.execute("pragma journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)


def packed(text: str) -> bytes:
    """A text as it lies in a row."""
    return zlib.compress(text.encode(), 6)


def as_json(data: object) -> Any:
    """The data of a row. Raises ScheduleError E461 for a row that holds none."""
    try:
        if not isinstance(data, bytes):
            raise ValueError("it is not text")
        reader = zlib.decompressobj()
        text = reader.decompress(data, MOST_BYTES)
        if reader.unconsumed_tail:
            raise ValueError("it is too long")
        return json.loads(text.decode())
    except (ValueError, RecursionError, zlib.error) as error:
        raise ScheduleError("E461", f"a row of the database cannot be read: {error}") from error


__all__ = ["SQLiteFile", "as_json", "packed"]
