"""State of one interpretation: the module, running parallel loops, block guards, compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.errors import InterpreterError
from ...module import IRModule
from .checks import READ, ParallelFrame
from .memory import Memory, View


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
