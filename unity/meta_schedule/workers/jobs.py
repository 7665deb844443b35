"""The work of worker processes: make the code of a candidate; run a candidate beside the default, and compare their results.

Both take and give plain data (bytes, numbers, strings), so that any executor can send them anywhere. Times are taken in turns: one
sample of the candidate, one of the default, and so on; a candidate that is clearly behind has few. With one thread it is the
thread's time on the processor, so that what else the machine does counts little. Invariant: a candidate whose results differ from
the default's has no times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...ffi.device import CPU, Device, device
from ...ffi.dtype import DataType
from ...ffi.native.compact import empty
from ...ffi.native.pool import num_threads, set_num_threads
from ...ffi.targets.target import Target
from ...ffi.tensor import Tensor
from ...ir.module import IRModule
from ...ir.pack import unpack
from ...support.errors import ScheduleError
from ...transform.default_schedule.apply import schedule_nests
from ...transform.default_schedule.packing import Packing
from ...vm.load import load
from ...vm.stages import configure, kernels, link
from ..core.tune_context import MAIN

RTOL = {8: 1e-9, 4: 1e-4, 2: 2e-2, 1: 2.5e-1}
"""Relative distance of floating-point results, by bytes of an element; what is near zero may be as far off as the largest element
times this."""
BEHIND, SURE = 1.1, 3
"""Time of a candidate by the slowest of the default's from which it gets no further turns, after so many."""
LEAST, ENOUGH = 5, 0.05
"""Turns that all others get, and the seconds from which they get no more."""
FAR_BEHIND = 4.0
"""Time by that of the default after a single call of each from which it gets no turn."""
LARGEST_INTEGER = 8
"""Integers of inputs are smaller: they may be indices."""


@dataclass(slots=True, frozen=True)
class Turns:
    """The way a candidate is timed: ``repeat`` samples, of as many calls as take ``min_repeat_ms``, at least ``number``; fewer
    samples, but one, where it has taken ``seconds``. Many short samples tell more than a few long ones: what else the machine does
    meets candidate and default alike, or leaves a sample alone."""

    number: int = 1
    repeat: int = 20
    min_repeat_ms: float = 0.5
    seconds: float = 1.0


def build_program(program: bytes, target: str) -> bytes:
    """The saved executable of a packed program. Raises UnityError."""
    func = unpack(program)
    config = configure(Target(target))
    with config.target:
        mod = schedule_nests(IRModule({MAIN: func}, {}, {}))
        executable = link(mod, kernels(mod, config), config)
    executable.own_code = None  # workers have LLVM: they make the package's own code once, not for each candidate
    with tempfile.TemporaryDirectory(prefix="unity-build-") as folder:
        path = Path(folder) / "program.unity"
        executable.save(path, source=False)
        return path.read_bytes()


Described = tuple[str, tuple[int, ...] | int]
"""An argument: element type and shape, or data type and number."""
Saved = tuple[bytes, tuple[tuple[int, Packing], ...]]
"""A saved program, and its parameters that it takes packed."""
Run = tuple[list[float], list[float] | None, str | None]
"""Seconds of the default's samples and of the candidate's, or why it has none."""


def run_program(
    default: Saved, candidate: Saved, info: tuple[Described, ...], turns: Turns, threads: int,
    other_info: tuple[Described, ...] = (), device_type: str = CPU.kind,
) -> Run:  # fmt: skip
    """The times of a candidate and of the default in turns; results are compared with arguments of ``other_info`` as well, where
    there are any; tensors lie on a device of ``device_type``. Raises ScheduleError E463 where the default fails."""
    if num_threads() != threads:
        set_num_threads(threads)
    end = time.perf_counter() + turns.seconds
    reference = _reference(default, info, turns, threads, other_info, device_type)
    tried = _Entry(reference.data, reference.other, reference.clock)
    try:
        tried.start(candidate)
    except Exception as error:  # a candidate may fail in any way
        tried.problem = f"{type(error).__name__}: {error}"
    if tried.problem:
        return [], None, tried.problem
    secs: dict[_Entry, list[float]] = {reference: [], tried: []}
    if tried.first <= FAR_BEHIND * reference.first or tried.first <= 1e-3:
        tried.count(turns)
        enough = reference.clock() + ENOUGH
        for turn in range(turns.repeat):
            if time.perf_counter() > end or (turn >= SURE and min(secs[tried]) > BEHIND * max(secs[reference])):
                break
            if turn >= LEAST and reference.clock() > enough:
                break
            for entry in (reference, tried) if turn % 2 else (tried, reference):
                secs[entry].append(entry.sample())
    return secs[reference] or [reference.first], secs[tried] or [tried.first], None


@lru_cache(maxsize=1)
def _reference(
    default: Saved,
    info: tuple[Described, ...],
    turns: Turns,
    threads: int,
    other_info: tuple[Described, ...],
    kind: str,
) -> _Entry:
    """The default build, loaded and run: a worker keeps it for the next candidate of the same task."""
    where = device(kind)
    clock = time.thread_time if threads == 1 and where is CPU else time.perf_counter
    entry = _Entry(TaskData(info, where), TaskData(other_info, where) if other_info else None, clock)
    try:
        entry.start(default)
    except Exception as error:
        raise ScheduleError("E463", f"the default build does not run: {type(error).__name__}: {error}") from error
    entry.count(turns)
    return entry


class TaskData:
    """The arguments of a task: the same for all candidates, and what the default makes of those that it writes."""

    def __init__(self, info: Sequence[Described], device: Device = CPU) -> None:
        self.place = device
        rng = np.random.default_rng(0)
        shapes = {index: shape for index, (_, shape) in enumerate(info) if isinstance(shape, tuple)}
        limit = max(1, min([LARGEST_INTEGER, *[extent for shape in shapes.values() for extent in shape]]))
        self.arrays = {index: _array(rng, DataType(info[index][0]), shape, limit) for index, shape in shapes.items()}
        self.numbers = {index: number for index, (_, number) in enumerate(info) if isinstance(number, int)}
        self.results: dict[int, np.ndarray] | None = None
        """Arguments that the default writes, as it leaves them; None until it ran."""
        self._shared: dict[int, Tensor] = {}

    def packed(self, layouts: Sequence[tuple[int, Packing]]) -> dict[int, Tensor]:
        """The arguments that a program takes packed."""
        return {index: Tensor(layout.pack(self.arrays[index]), self.place) for index, layout in layouts}

    def arguments(self, packed: Mapping[int, Tensor], to_judge: bool = True) -> list[Tensor | int]:
        """Arguments of one candidate: what is written is its own as long as it is judged. Times are taken in the same memory for
        all, as it matters where arrays lie."""
        found: list[Tensor | int] = []
        for index in range(len(self.arrays) + len(self.numbers)):
            if index in self.numbers:
                found.append(self.numbers[index])
            elif index in packed:
                found.append(packed[index])
            elif to_judge and (self.results is None or index in self.results):
                found.append(Tensor(_aligned(self.arrays[index]), self.place))
            else:
                if index not in self._shared:
                    self._shared[index] = Tensor(_aligned(self.arrays[index]), self.place)
                found.append(self._shared[index])
        return found

    def judge(self, arguments: Sequence[Tensor | int], packed: Collection[int]) -> str:
        """Compare what a candidate left in its arguments with what the default did: "" where they agree."""
        if self.results is None:
            tensors = {index: value for index, value in enumerate(arguments) if isinstance(value, Tensor)}
            left = {index: tensor.numpy() for index, tensor in tensors.items() if index not in packed}
            self.results = {p: a.copy() for p, a in left.items() if a.tobytes() != self.arrays[p].tobytes()}
            return ""
        for index, expected in self.results.items():
            found = arguments[index]
            if index in packed or not (isinstance(found, Tensor) and _agree(expected, found.numpy())):
                return f"its result in parameter {index} differs from the default's"
        return ""


class _Entry:
    """A program in a worker."""

    def __init__(self, data: TaskData, other: TaskData | None, clock: Callable[[], float]) -> None:
        self.data, self.other, self.clock = data, other, clock
        self.problem: str | None = None
        self.first = 0.0
        self.calls = 1
        self.call: Callable[[], object] = int

    def start(self, program: Saved) -> None:
        """Load it and run it once, and once with other data."""
        artifact, layouts = program
        handle, path = tempfile.mkstemp(suffix=".unity")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(artifact)
            function = load(path)[MAIN]
        finally:
            os.unlink(path)
        packed = self.data.packed(layouts)
        arguments = self.data.arguments(packed)
        start = self.clock()
        function(*arguments)
        self.data.place.sync()
        self.first = self.clock() - start
        self.problem = self.data.judge(arguments, packed) or None
        if self.other is not None and not self.problem:
            others = self.other.packed(layouts)
            arguments = self.other.arguments(others)
            function(*arguments)
            problem = self.other.judge(arguments, others)
            self.problem = f"at other sizes {problem}" if problem else None
        timed = self.data.arguments(packed, False)
        self.call = lambda: function(*timed)

    def count(self, turns: Turns) -> None:
        """Find how many calls a sample takes."""
        self.calls = turns.number
        while True:
            start = self.clock()
            for _ in range(self.calls):
                self.call()
            self.data.place.sync()
            took = (self.clock() - start) * 1e3
            if took >= turns.min_repeat_ms / 2:
                break
            self.calls *= 4 if took * 8 < turns.min_repeat_ms else 2
        self.calls = max(turns.number, round(self.calls * turns.min_repeat_ms / max(took, 1e-6)))

    def sample(self) -> float:
        """Seconds of a call, in one turn; what it reads is in the caches as if it had run before."""
        self.call()
        start = self.clock()
        for _ in range(self.calls):
            self.call()
        self.data.place.sync()
        return (self.clock() - start) / self.calls


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a line of the cache, as what a model computes does: where it lay by chance would decide otherwise."""
    made = empty(array.shape, array.dtype)
    made[...] = array
    return made


def _array(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...], limit: int) -> np.ndarray:
    """Data of an element type: floats are small multiples of 1/4, so that short sums are exact."""
    if dtype.is_float:
        return (rng.integers(-8, 9, shape, dtype="int8") * np.float32(0.25)).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.is_bool else limit, shape, dtype="int64").astype(dtype.numpy)


def _agree(expected: np.ndarray, found: np.ndarray) -> bool:
    if expected.dtype.kind in "iub":
        return bool((expected == found).all())
    a, b = [_to_float64(array) for array in (expected, found)]
    rtol = RTOL[min(expected.dtype.itemsize, 8)]
    finite = np.abs(a[np.isfinite(a)])
    return bool(np.allclose(b, a, rtol=rtol, atol=rtol * float(finite.max(initial=0.0)), equal_nan=True))


def _to_float64(array: np.ndarray) -> Any:
    return array if array.dtype.kind in "fc" and array.dtype.itemsize >= 4 else array.astype("float32")


__all__ = ["Run", "Saved", "Turns", "build_program", "run_program"]
