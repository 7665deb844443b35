"""Promises checked while a tensor program runs: races of parallel loops and declared regions of blocks."""

from __future__ import annotations

from typing import Any

from ....support.errors import InterpreterError, Note
from ....support.source import Span
from ...expr import Var
from ..common.layout import cell_at
from .memory import View

READ, WRITE = 0, 1


class ParallelFrame:
    """One running parallel loop: who touched which number. Memory made during an iteration is private to it."""

    __slots__ = ("env", "first_serial", "reads", "span", "var", "writes")

    def __init__(self, var: Var, span: Span | None, env: dict[Any, Any], first_serial: int) -> None:
        self.var, self.span, self.env, self.first_serial = var, span, env, first_serial
        self.reads: dict[tuple[int, int], int] = {}
        self.writes: dict[tuple[int, int], int] = {}

    @property
    def iteration(self) -> int:
        """The running iteration."""
        return self.env[self.var]  # type: ignore[no-any-return]

    def touch(self, view: View, offset: int, kind: int, span: Span | None) -> None:
        """Record an access. Raises InterpreterError E312 when another iteration touched the number and one of them writes."""
        memory = view.memory
        if memory.serial >= self.first_serial:
            return
        key = (memory.serial, view.byte(offset))
        now = self.iteration
        writer = self.writes.get(key)
        if writer is not None and writer != now:
            self._race(view, offset, writer, "write", "read" if kind == READ else "write", span)
        if kind == READ:
            self.reads.setdefault(key, now)
            return
        reader = self.reads.get(key)
        if reader is not None and reader != now:
            self._race(view, offset, reader, "read", "write", span)
        self.writes[key] = now

    def _race(self, view: View, offset: int, other: int, before: str, after: str, span: Span | None) -> None:
        name = self.var.name
        raise InterpreterError(
            "E312",
            f"race in the parallel loop over {name}: iterations {name}={other} ({before}) and {name}={self.iteration} ({after})"
            f" touch {cell_at(view.name, offset // view.lanes - view.base, view.shape, view.strides)[0]}",
            span,
            [Note(f"the parallel loop over {name}", self.span)],
        )


class RegionGuard:
    """Declared reads and writes of a block that runs now: per buffer the allowed boxes."""

    __slots__ = ("block", "reads", "writes")

    def __init__(self, block: str, reads: dict[Any, list[Any]], writes: dict[Any, list[Any]]) -> None:
        self.block = block
        self.reads = reads
        self.writes = writes

    def check(self, buffer: Any, indices: list[int], kind: int, span: Span | None) -> None:
        """Raises InterpreterError E315 for an access outside every declared region."""
        boxes = self.writes.get(buffer, [])
        if kind == READ:  # the update of a reduction reads what it writes
            boxes = boxes + self.reads.get(buffer, [])
        for box in boxes:
            for index, (low, high) in zip(indices, box):
                if not low <= index < high:
                    break
            else:
                return
        what = "reads" if kind == READ else "writes"
        access = f"{buffer.name}[{', '.join([str(i) for i in indices])}]"
        raise InterpreterError(
            "E315", f"block {self.block} {what} {access} outside its declared regions", span,
            help=f"declare it with T.{what}(...), or leave T.reads and T.writes out",
        )  # fmt: skip
