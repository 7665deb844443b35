"""Gaps of an import, and the ways it says so: the report, the warning and the internal signal ``Gap``."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....ffi.tensor import Tensor
from ....support.optional import require
from ....support.source import Source, Span
from ..runtime.operators import RUNS


class Gap(Exception):
    """A translation that cannot be made; the text says why. Becomes a call back into torch, or an error with ``strict``."""


class MemoryGap(Gap):
    """A translation that cannot be made where a call back into torch would be wrong: it is about memory our tensors do not have."""


class FallbackWarning(UserWarning):
    """Some operators of a model run in torch because no graph operator expresses them."""


@dataclass(slots=True)
class Fallback:
    """One torch operator that is called back: how often, where in the model, why, and what a call costs.

    ``bytes`` is what one call reads and writes (symbolic sizes as in the example); ``seconds`` the measured mean of all calls of
    the operator so far, None before the first.
    """

    operator: str
    reason: str
    places: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.places)

    @property
    def seconds(self) -> float | None:
        """Mean time of a call."""
        runs = RUNS.get(self.operator)
        return runs.seconds / runs.count if runs is not None and runs.count else None

    def __str__(self) -> str:
        cost = f"{_amount(self.bytes)} per call"
        seconds = self.seconds
        if seconds is not None:
            cost += f", {seconds * 1e3:.3g} ms measured"
        return f"{self.operator} x{self.count}: {self.reason}; {cost}; first at {self.places[0]}"


def _amount(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


@dataclass(slots=True)
class ImportReport:
    """All fallbacks of one import, in order of first use, the number of operators imported, and the weights by name."""

    fallbacks: list[Fallback] = field(default_factory=list)
    imported: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, operator: str, reason: str, place: str, bytes: int = 0) -> None:
        """Count a call of an operator that stays in torch, with its ``reason``, its ``place`` in the model, and the ``bytes`` it
        reads and writes.
        """
        for entry in self.fallbacks:
            if entry.operator == operator and entry.reason == reason:
                entry.places.append(place)
                return
        self.fallbacks.append(Fallback(operator, reason, [place], bytes))

    def __str__(self) -> str:
        if not self.fallbacks:
            return f"{self.imported} operators imported, none runs in torch"
        lines = [f"{self.imported} operators imported, {sum([f.count for f in self.fallbacks])} calls run in torch:"]
        lines += [f"  {entry}" for entry in self.fallbacks]
        return "\n".join(lines)


# ---- where a node comes from

_STACK_LINE = re.compile(r'File "([^"]+)", line (\d+), in \S+')


def traced_line(trace: str, owner: str) -> Span | None:
    """The innermost line of a stack that is not torch's own, owned by a module; None where torch kept none."""
    folder = str(Path(str(require("torch").__file__)).parent)
    every = [(f, int(n)) for f, n in _STACK_LINE.findall(trace)]
    lines = [(f, n) for f, n in every if not f.startswith((folder, "torch/"))]
    if not lines and owner != "the model":
        lines = every  # a traced graph calls torch's modules without lines of its own
    if not lines:
        return None
    name, number = lines[-1]
    text = linecache.getline(name, number).rstrip("\n")
    return Span(Source(name, text, number, owner=owner), len(text) - len(text.lstrip()), len(text))


def module_path(node: Any) -> str:
    """Path of the innermost torch module a node belongs to; ``the model`` for the outermost."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = re.sub(r"^L\['self'\]\.?", "", path)
    return path or "the model"
