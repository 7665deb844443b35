"""State of one interpretation: the module, compiled functions, and the promises checked while it runs: races of parallel loops and
declared regions of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.errors import InterpreterError, Note
from ....support.source import Span
from ...expr import Var
from ...module import IRModule
from .memory import Memory, View, cell_at

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


class Machine:
    """The state that closures share. ``call`` runs a function of the module: ``call(name, args, span)``; ``frames`` are the running
    parallel loops, innermost last."""

    def __init__(self, mod: IRModule, call: Callable[..., Any], max_steps: int | None = None) -> None:
        self.mod, self.call = mod, call
        self.frames: list[ParallelFrame] = []
        self.compiled: dict[Any, Any] = {}
        self.steps_left = max_steps

    def touch(self, view: View, offset: int, kind: int, span: Any) -> None:
        """Tell the running parallel loops about an access."""
        for frame in self.frames:
            frame.touch(view, offset, kind, span)

    def read(self, view: View, offset: int, span: Any) -> Any:
        """Checked read of the number at ``offset`` (in numbers from the view's pointer)."""
        if not 0 <= offset < view.count:
            raise outside_memory(view, offset, span)
        written = view.memory.written
        if written is not None and not written[view.start + offset * view.size]:
            raise InterpreterError(
                "E311", f"{view.name} is read before anything was written there: element {offset}", span
            )
        if self.frames:
            self.touch(view, offset, READ, span)
        return view.cells[offset] if view.plain else view.get(offset)

    def row(self, view: View, offsets: range, kind: int) -> memoryview | None:
        """The cells at offsets side by side, where no check of a single access would refuse one of them, or record it."""
        if offsets.step != 1 or not view.plain or self.frames or offsets.start < 0 or offsets.stop > view.count:
            return None
        cells: memoryview = view.cells[offsets.start : offsets.stop]
        if kind == WRITE:
            return None if cells.readonly else cells
        written = view.memory.written
        is_known = written is None or written.find(0, view.byte(offsets.start), view.byte(offsets.stop)) < 0
        return cells if is_known else None

    def step(self, span: Any) -> None:
        """Count an iteration against ``max_steps``. Raises InterpreterError E320."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise InterpreterError(
                    "E320", "the program ran longer than the allowed number of loop iterations", span
                )


def outside_memory(view: View, offset: int, span: Any) -> InterpreterError:
    """The error for a view that reaches out of its memory."""
    return InterpreterError(
        "E310",
        f"buffer {view.name} reaches outside the memory of {view.memory.name}: element {offset} of {view.count}",
        span,
    )


def allocate(size_in_bytes: int, name: str) -> Memory:
    """Fresh memory. Raises InterpreterError E319 for a negative or absurd size."""
    if not 0 <= size_in_bytes <= 1 << 34:
        raise InterpreterError("E319", f"{name} would need {size_in_bytes} bytes")
    return Memory.fresh(size_in_bytes, name)
