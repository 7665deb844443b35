"""The report of a long build while it runs: a bar on a terminal, after two seconds. ``UNITY_PROGRESS`` turns it on or off.

With `rich` a bar, without it one line. Here: showing. Not here: what the steps are (``vm/build.py``). Invariant: nothing is
written where standard error is not a terminal, unless the option asks for it, and what was written is wiped at the end.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from types import TracebackType
from typing import Any, TextIO

from .context_stack import ContextStack
from .errors import OptionError
from .optional import require
from .options import str_option

DELAY = 2.0
"""Seconds before anything is shown."""
INTERVAL = 0.2
"""Seconds between two looks at where the build is."""
WIPE = "\r\x1b[K"


def wanted(stream: TextIO) -> bool:
    """True if progress is to be shown on a stream. Raises OptionError E001 for another value than auto, on, off."""
    text = str_option("UNITY_PROGRESS").lower()
    if text in ("on", "1", "true", "yes"):
        return True
    if text in ("off", "0", "false", "no"):
        return False
    if text != "auto":
        raise OptionError("E001", f"UNITY_PROGRESS must be auto, on or off, got {text!r}")
    return stream.isatty()


class Progress:
    """A context around a build: ``at`` says where it is; a thread of its own shows that when it takes long."""

    def __init__(self, title: str, stream: TextIO | None = None, delay: float = DELAY) -> None:
        self.title = title
        self.stream = stream or sys.stderr
        self.delay = delay
        self.place: tuple[str, int, int] = ("starting", 0, 1)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def at(self, what: str, done: int, total: int) -> None:
        """The build does ``what`` now, step ``done`` (from 0) of ``total`` of its phase."""
        self.place = (what, done, total)

    def __enter__(self) -> Progress:
        _BUILDS.push(self)
        if wanted(self.stream):
            self._thread = threading.Thread(target=self._show, name="unity-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _BUILDS.pop()
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._done.wait(self.delay):
            return
        if importlib.util.find_spec("rich") is not None:
            self._bar()
        else:
            self._line()

    def _line(self) -> None:
        start = time.monotonic() - self.delay
        while True:
            what, done, total = self.place
            seconds = time.monotonic() - start
            self.stream.write(f"{WIPE}{self.title}: {what} ({done + 1} of {total}), {seconds:.0f} s")
            self.stream.flush()
            if self._done.wait(INTERVAL):
                break
        self.stream.write(WIPE)
        self.stream.flush()

    def _bar(self) -> None:
        console = require("rich.console").Console(file=self.stream, force_terminal=True)
        bar: Any = require("rich.progress").Progress(console=console, transient=True)
        with bar:
            task = bar.add_task(self.title)
            while True:
                what, done, total = self.place
                bar.update(task, description=f"{self.title}: {what}", completed=done, total=max(1, total))
                if self._done.wait(INTERVAL):
                    return


_BUILDS: ContextStack[Progress] = ContextStack("progress")


def report_progress(what: str, done: int, total: int) -> None:
    """Tell the build around, if any: it does ``what`` now, step ``done`` (from 0) of ``total`` of its phase."""
    build = _BUILDS.top
    if build is not None:
        build.at(what, done, total)
