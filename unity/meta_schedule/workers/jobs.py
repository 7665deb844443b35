"""The work of worker processes: make the code of a candidate; run candidates beside the default, and compare their results.

Both take and give plain data (bytes, numbers, texts), so that any executor can send them anywhere. Times are taken in turns: one
sample of each candidate, then the next of each; who is clearly behind is left out of the later turns. With one thread it is the
thread's time on the processor, so that what else the machine does counts little. Invariant: a candidate whose results differ from
the default's has no times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...ffi.device import CPU, Device, device
from ...ffi.dtype import DataType
from ...ffi.native.pool import num_threads, set_num_threads
from ...ffi.targets.target import Target
from ...ffi.tensor import Tensor
from ...ir.module import IRModule
from ...ir.pack import unpack
from ...support.errors import ScheduleError
from ...transform.default_schedule.packing import Packing
from ...vm.load import load
from ...vm.stages import configure, kernels, link
from ..core.tune_context import MAIN

RTOL = {8: 1e-9, 4: 1e-4, 2: 2e-2, 1: 2.5e-1}
"""Relative distance of floating-point results, by bytes of an element; what is near zero may be as far off as the largest element
times this."""
BEHIND = 1.25
"""Time by that of the fastest at which a candidate is left out of further turns, where the default's own samples do not differ."""
FAR_BEHIND = 4.0
"""The same after a single call."""
LARGEST_INTEGER = 8
"""Integers of inputs are smaller: they may be indices."""


@dataclass(slots=True, frozen=True)
class Turns:
    """The way candidates are timed: ``repeat`` samples each, of as many calls as take ``min_repeat_ms``, at least ``number``; fewer
    samples, but one, where a group has taken ``seconds``."""

    number: int = 1
    repeat: int = 5
    min_repeat_ms: float = 4.0
    seconds: float = 3.0


def build_program(program: bytes, target: str) -> bytes:
    """The saved executable of a packed program. Raises UnityError."""
    func = unpack(program)
    config = configure(Target(target))
    mod = IRModule({MAIN: func}, {}, {})
    with config.target:
        made = link(mod, kernels(mod, config), config)
    with tempfile.TemporaryDirectory(prefix="unity-build-") as folder:
        path = Path(folder) / "program.unity"
        made.save(path, source=False)
        return path.read_bytes()


Described = tuple[str, tuple[int, ...] | int]
"""An argument: element type and shape, or data type and number."""
Run = tuple[list[float] | None, str | None]
"""Seconds of the samples of a candidate, or why it has none."""


def run_programs(
    artifacts: Sequence[bytes], packed: Sequence[dict[int, Packing]], info: Sequence[Described], turns: Turns,
    threads: int, other_info: Sequence[Described] = (), device_type: str = CPU.kind,
) -> list[Run]:  # fmt: skip
    """The times of saved programs, of which the first is the default; results are compared with arguments of ``other_info``
    as well, where there are any; tensors lie on a device of ``device_type``. Raises ScheduleError E463 where the default fails."""
    if num_threads() != threads:
        set_num_threads(threads)
    end = time.perf_counter() + turns.seconds
    where = device(device_type)
    data, other = _Data(info, where), _Data(other_info, where) if other_info else None
    clock = time.thread_time if threads == 1 and where is CPU else time.perf_counter
    entries: list[_Entry] = []
    for place, (artifact, layouts) in enumerate(zip(artifacts, packed, strict=True)):
        entry = _Entry(data, layouts, clock)
        entries.append(entry)
        try:
            entry.start(artifact, other)
        except Exception as error:  # a candidate may fail in any way
            entry.problem = f"{type(error).__name__}: {error}"
        if place == 0 and entry.problem:
            raise ScheduleError("E463", f"the default build does not run: {entry.problem}")
        if entry.first > FAR_BEHIND * entries[0].first and entry.first > 1e-3:
            entry.samples = [entry.first]
            entry.out = True
    running = [entry for entry in entries if not entry.problem and not entry.out]
    for entry in running:
        entry.count(turns)
        if time.perf_counter() > end:
            break
    for turn in range(turns.repeat):
        if time.perf_counter() > end:
            break
        for entry in [e for e in running[turn % len(running) :] + running[: turn % len(running)] if not e.out]:
            entry.sample()
        if turn:
            fastest = min([min(entry.samples) for entry in running])
            noise = max(entries[0].samples) / min(entries[0].samples)
            for entry in running[1:]:
                entry.out = entry.out or min(entry.samples) > BEHIND * noise * fastest
    return [(None, entry.problem) if entry.problem else (entry.samples or [entry.first], None) for entry in entries]


class _Data:
    """The arguments of a task: the same for all candidates, and what the default makes of those that it writes."""

    def __init__(self, info: Sequence[Described], place: Device = CPU) -> None:
        self.place = place
        rng = np.random.default_rng(0)
        shapes = {place: shape for place, (_, shape) in enumerate(info) if isinstance(shape, tuple)}
        limit = max(1, min([LARGEST_INTEGER, *[extent for shape in shapes.values() for extent in shape]]))
        self.arrays = {place: _array(rng, DataType(info[place][0]), shape, limit) for place, shape in shapes.items()}
        self.numbers = {place: number for place, (_, number) in enumerate(info) if isinstance(number, int)}
        self.results: dict[int, np.ndarray] | None = None
        """Arguments that the default writes, as it leaves them; None until it ran."""
        self._packed: dict[tuple[int, Packing], Tensor] = {}
        self._shared: dict[int, Tensor] = {}

    def arguments(self, packed: dict[int, Packing], to_judge: bool = True) -> list[Tensor | int]:
        """Arguments of one candidate: what is written is its own as long as it is judged. Times are taken in the same memory for
        all, as it matters where arrays lie."""
        found: list[Tensor | int] = []
        for place in range(len(self.arrays) + len(self.numbers)):
            if place in self.numbers:
                found.append(self.numbers[place])
                continue
            array, layout = self.arrays[place], packed.get(place)
            if layout is not None:
                key = place, layout
                if key not in self._packed:
                    self._packed[key] = Tensor(layout.pack(array), self.place)
                found.append(self._packed[key])
            elif to_judge and (self.results is None or place in self.results):
                found.append(Tensor(array.copy(), self.place))
            else:
                if place not in self._shared:
                    self._shared[place] = Tensor(array.copy(), self.place)
                found.append(self._shared[place])
        return found

    def judge(self, arguments: Sequence[Tensor | int], packed: dict[int, Packing]) -> str:
        """Compare what a candidate left in its arguments with what the default did: "" where they agree."""
        if self.results is None:
            tensors = {place: value for place, value in enumerate(arguments) if isinstance(value, Tensor)}
            left = {place: tensor.numpy() for place, tensor in tensors.items() if place not in packed}
            self.results = {p: a.copy() for p, a in left.items() if a.tobytes() != self.arrays[p].tobytes()}
            return ""
        for place, expected in self.results.items():
            found = arguments[place]
            if place in packed or not (isinstance(found, Tensor) and _agree(expected, found.numpy())):
                return f"its result in parameter {place} differs from the default's"
        return ""


class _Entry:
    """A candidate in a worker."""

    def __init__(self, data: _Data, packed: dict[int, Packing], clock: Callable[[], float]) -> None:
        self.data, self.packed, self.clock = data, packed, clock
        self.problem: str | None = None
        self.samples: list[float] = []
        self.first = 0.0
        self.calls = 1
        self.out = False
        self.call: Callable[[], object] = int

    def start(self, artifact: bytes, other: _Data | None) -> None:
        """Load it and run it once, and once with other data."""
        handle, path = tempfile.mkstemp(suffix=".unity")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(artifact)
            function = load(path)[MAIN]
        finally:
            os.unlink(path)
        arguments = self.data.arguments(self.packed)
        start = self.clock()
        function(*arguments)
        self.data.place.sync()
        self.first = self.clock() - start
        self.problem = self.data.judge(arguments, self.packed) or None
        if other is not None and not self.problem:
            arguments = other.arguments(self.packed)
            function(*arguments)
            problem = other.judge(arguments, self.packed)
            self.problem = f"at other sizes {problem}" if problem else None
        timed = self.data.arguments(self.packed, False)
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

    def sample(self) -> None:
        """Time one turn."""
        start = self.clock()
        for _ in range(self.calls):
            self.call()
        self.data.place.sync()
        self.samples.append((self.clock() - start) / self.calls)


def _array(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...], limit: int) -> np.ndarray:
    """Data of an element type: floats are small multiples of 1/4, so that short sums are exact."""
    if dtype.is_float:
        return (rng.integers(-8, 9, shape, dtype="int8") * np.float32(0.25)).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.is_bool else limit, shape, dtype="int64").astype(dtype.numpy)


def _agree(expected: np.ndarray, found: np.ndarray) -> bool:
    if expected.dtype.kind in "iub":
        return bool((expected == found).all())
    a, b = [_wide(array) for array in (expected, found)]
    rtol = RTOL[min(expected.dtype.itemsize, 8)]
    finite = np.abs(a[np.isfinite(a)])
    return bool(np.allclose(b, a, rtol=rtol, atol=rtol * float(finite.max(initial=0.0)), equal_nan=True))


def _wide(array: np.ndarray) -> Any:
    return array if array.dtype.kind in "fc" and array.dtype.itemsize >= 4 else array.astype("float32")


__all__ = ["Run", "Turns", "build_program", "run_programs"]
