"""Running a function for a check: what comes out of the reference interpreter, and how two outcomes differ.

Results of tensor programs are cached by program and argument data, so that a module that changed in one place runs again
in that place alone. Invariant: arguments are copied, nothing a caller holds is changed.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor
from ...ir.build import int_value
from ...ir.expr import Call, GlobalVar
from ...ir.function import PrimFunc
from ...ir.interpret import Interpreter
from ...ir.interpret.scalar.memory import View
from ...ir.module import IRModule
from ...ir.stmt import Block, For, Stmt
from ...ir.walk import children, collect
from ...support.errors import InterpreterError, UnityError

TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 5e-2, "bfloat16": 1e-1}
"""Largest error, relative to the largest magnitude in a tensor, that passes as rounding; other dtypes are exact."""
_NOT_JUDGED = {
    "E317": "a match_cast refuses these sizes",
    "E318": "it needs something the interpreter does not have",
    "E320": "it takes more steps than allowed",
}
"""Errors that say nothing about a pass: a pass may add the checks of sizes that operators imply."""
_FOREIGN_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, AttributeError, OSError)


@dataclass(slots=True)
class Outcome:
    """The outcome of a run: ``kind`` is "value", "error" (``text`` says which), or "skip" (``text`` says why)."""

    kind: str
    value: Any = None
    text: str = ""


class Memo:
    """Results of tensor programs by program and data, up to ``limit`` bytes."""

    def __init__(self, limit: int = 1 << 28) -> None:
        self.limit = limit
        self.size = 0
        self.results: dict[Any, list[np.ndarray]] = {}
        self.kept: list[PrimFunc] = []
        """Programs whose parts' identity is part of a key."""

    def key(self, fn: PrimFunc, args: list[Any]) -> Any:
        """Key of a call, None for arguments of which the memory says too little."""
        parts: list[Any] = [id(fn.body), id(fn.buffer_map), fn.params]
        memories: set[int] = set()
        for arg in args:
            if isinstance(arg, (bool, int, float)):
                parts.append((type(arg), arg))
                continue
            if not isinstance(arg, View) or arg.memory.serial in memories:
                return None
            memories.add(arg.memory.serial)
            written = arg.memory.written
            if written is not None and any(written):
                if not all(written):
                    return None
                written = None
            array = arg.array()
            digest = hashlib.blake2b(array.tobytes(), digest_size=16).digest() if written is None else b""
            parts.append((arg.dtype.name, arg.shape, digest))
        return tuple(parts)

    def recall(self, key: Any, args: list[Any]) -> bool:
        """Write the cached results into the arguments."""
        found = self.results.get(key)
        if found is None:
            return False
        for arg, array in zip([a for a in args if isinstance(a, View)], found):
            target = arg.array()
            if target.flags.writeable:
                target[...] = array
            mark_written(arg)
        return True

    def keep(self, key: Any, fn: PrimFunc, args: list[Any]) -> None:
        """Remember the contents of the arguments after a call that wrote all of them."""
        arrays = []
        for arg in args:
            if isinstance(arg, View):
                if arg.memory.written is not None and not all(arg.memory.written):
                    return
                arrays.append(arg.array().copy())
        size = sum([a.nbytes for a in arrays])
        if self.size + size <= self.limit:
            self.size += size
            self.results[key] = arrays
            self.kept.append(fn)


def mark_written(view: View) -> None:
    """Count all memory of a view as written."""
    if view.memory.written is not None:
        view.memory.written[:] = b"\x01" * len(view.memory.written)


class _Interpreter(Interpreter):
    """An interpreter that asks the memo before it runs a tensor program."""

    def __init__(self, mod: IRModule, max_steps: int, memo: Memo) -> None:
        super().__init__(mod, max_steps)
        self.memo = memo

    def _call(self, name: str, args: list[Any], span: Any) -> Any:
        fn = self.mod[name]
        if not isinstance(fn, PrimFunc) or self.machine.frames:
            return super()._call(name, args, span)
        key = self.memo.key(fn, args)
        if key is not None and self.memo.recall(key, args):
            return None
        result = super()._call(name, args, span)
        if key is not None and result is None:
            self.memo.keep(key, fn, args)
        return result


def estimated_steps(mod: IRModule, name: str) -> int:
    """About how many loop iterations a run takes; an extent that is not a number counts 4, each function call once."""
    counts: dict[str, int] = {}

    def loops(stmt: Any) -> int:
        if isinstance(stmt, For):
            extent = int_value(stmt.extent, 4)
            return max(int(extent), 1) * max(loops(stmt.body), 1)
        return sum([loops(c) for c in children(stmt) if isinstance(c, (Stmt, Block))])

    def function(member: str, open_names: frozenset[str]) -> int:
        if member in open_names or member not in mod:
            return 0
        if member not in counts:
            fn = mod[member]
            if isinstance(fn, PrimFunc):
                counts[member] = loops(fn.body)
            else:
                inner = [
                    g.name for call in collect(fn, Call) for g in (call.op, *call.args[:1]) if type(g) is GlobalVar
                ]
                counts[member] = sum([function(n, open_names | {member}) for n in inner])
        return counts[member]

    return function(name, frozenset())


def outcome(mod: IRModule, name: str, arguments: list[Any], steps: int, memo: Memo | None = None) -> Outcome:
    """Run a function on copies of the arguments; for a tensor program its array arguments afterwards are the value."""
    given = copy.deepcopy(arguments)
    try:
        value = _Interpreter(mod, steps, memo or Memo(0)).run(name, *given)
    except InterpreterError as error:
        reason = _NOT_JUDGED.get(error.code)
        return Outcome("skip", None, reason) if reason else Outcome("error", None, f"{error.code}: {error.message}")
    except UnityError as error:
        return Outcome("error", None, f"{error.code}: {error.message}")
    except _FOREIGN_ERRORS as error:  # from a registered function
        return Outcome("error", None, f"{type(error).__name__}: {error}")
    if isinstance(mod[name], PrimFunc):
        value = (*flat(value), *[a for a in given if isinstance(a, np.ndarray)])
    return Outcome("value", value)


def flat(value: Any) -> list[Any]:
    """Leaves of nested tuples."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [] if value is None else [value]


def difference(before: Any, after: Any) -> str | None:
    """The place and kind of the difference of two results; None if they agree within rounding."""
    left, right = flat(before), flat(after)
    if len(left) != len(right):
        return f"{len(left)} results became {len(right)}"
    for index, (x, y) in enumerate(zip(left, right)):
        found = _leaf_difference(x, y)
        if found is not None:
            return f"result {index}: {found}" if len(left) > 1 else found
    return None


def outcomes_differ(before: Outcome, after: Outcome) -> str | None:
    """The difference of two runs; None if they agree or one of them cannot be judged."""
    if before.kind != "value" or after.kind == "skip":
        return None
    if after.kind == "error":
        return f"the program fails: {after.text}"
    return difference(before.value, after.value)


def _leaf_difference(x: Any, y: Any) -> str | None:
    x, y = [v.numpy() if isinstance(v, Tensor) else v for v in (x, y)]
    if not isinstance(x, (np.ndarray, np.generic, bool, int, float)) or not isinstance(
        y, (np.ndarray, np.generic, bool, int, float)
    ):
        return None if type(x) is type(y) else f"a {type(x).__name__} became a {type(y).__name__}"
    a, b = np.asarray(x), np.asarray(y)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype} {a.shape} became {b.dtype} {b.shape}"
    share = TOLERANCE.get(str(a.dtype))
    if share is None:
        wrong = np.asarray(a != b)
    else:
        wide, other = a.astype("float64"), b.astype("float64")
        finite = wide[np.isfinite(wide)]
        allowed = share * max(float(np.max(np.abs(finite), initial=0.0)), 1e-6)
        with np.errstate(invalid="ignore"):
            near = np.abs(wide - other) <= allowed
        wrong = ~(near | (wide == other) | (np.isnan(wide) & np.isnan(other)))
    if not wrong.any():
        return None
    where = tuple([int(i) for i in np.argwhere(wrong)[0]])
    count = int(np.count_nonzero(wrong))
    at = f"element {list(where)} of shape {a.shape}" if where else "the value"
    return f"{count} of {a.size} elements differ, the first is {at}: {a[where]} became {b[where]}"
