"""The emulated device against the device, instruction by instruction: the same kernels with the same inputs on both.

The kernels are those of ``tests/gpu/device_programs.py``. Where they differ, either the emulated device is wrong or the instruction
is an approximation whose last bits the manual leaves open; both are listed with inputs and results.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import unity
from unity.ffi.cuda.context import context
from unity.ffi.cuda.module import Module
from unity.ffi.dtype import DataType
from unity.ir import PrimFunc
from unity.support.errors import UnityError
from unity.target.cuda.codegen import ptx_of, write_programs
from unity.testing import emulated_gpu

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests" / "gpu"))
from device_programs import FLOATS, INTEGERS, device_function, matrix_programs, scalar_expressions, values
from emulated import Arrays

LANES = 32
Device = Callable[[], AbstractContextManager[Any]]


class Kernel(NamedTuple):
    """``labels`` of a result: one for each 32 elements, or one for all."""

    name: str
    func: PrimFunc
    inputs: list[np.ndarray]
    results: dict[str, list[str]]
    chunks: int


def scalar_kernels(types: Sequence[str], chunks: int) -> Iterator[Kernel]:
    """All expressions of one type in a kernel, which runs with several pieces of the inputs."""
    for dtype in types:
        results = scalar_expressions(dtype)
        lines = [
            f"Z_{kind}[{LANES * place} + tx] = {text}"
            for kind, texts in results.items()
            for place, text in enumerate(texts)
        ]
        func = device_function("\n".join(lines), X=dtype, Y=dtype, **{f"Z_{kind}": kind for kind in results})
        yield Kernel(dtype, func, [values(dtype, 1), values(dtype, 2)], results, chunks)


def matrix_kernels(arch: str, step: int) -> Iterator[Kernel]:
    """Every ``step``-th kernel of a matrix instruction that the architecture has."""
    whole = np.random.default_rng(0).integers(-8, 8, 4096).astype("float32")
    known = [row for row in matrix_programs() if int(row[2][3:5]) <= int("".join(c for c in arch if c.isdigit()))]
    for instruction, func, _ in known[::step]:
        text = func.script()
        signed = [np.abs(whole)] if "u8" in text or "uint8" in text else [whole]
        # values that are no small integers show how a product is rounded
        for name, x in [(instruction, signed[0]), *([] if "int" in text else [(f"{instruction}, rounded", whole / 7)])]:
            yield Kernel(name, func, [x], {"float32": [name]}, 1)


def results_of(kernel: Kernel, device: Device, arch: str) -> dict[str, list[np.ndarray]]:
    """The results of each chunk on a device, as bytes are."""
    written = write_programs({"kernel": kernel.func}, unity.Target(f"cuda -arch={arch}"))
    text = ptx_of(written.device, written.arch)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in kernel.results}
    with device():
        arrays = Arrays()
        module = Module(arrays.context, text.encode())
        sources = [(arrays.put(array), array.itemsize) for array in kernel.inputs]
        for chunk in range(kernel.chunks):
            outs = [np.zeros(4096, DataType(kind).numpy) for kind in kernel.results]
            places = [arrays.put(out) for out in outs]
            ins = [address + chunk * LANES * size for address, size in sources]
            arrays.launch(module, "unity_kernel", (1,), (LANES,), *ins, *places)
            for kind, place, out in zip(kernel.results, places, outs):
                found[kind].append(arrays.get(place, out.shape, out.dtype))
        del arrays.blocks[:]
    return found


def differences(kernel: Kernel, mine: dict[str, list[np.ndarray]], other: dict[str, list[np.ndarray]]) -> list[str]:
    """A line for each instruction whose results differ: how many, and the first of them."""
    found = []
    for kind, labels in kernel.results.items():
        first, second = [np.stack(side[kind]) for side in (mine, other)]
        unlike = _bits(first, kind) != _bits(second, kind)
        for place, label in enumerate(labels):
            part = (
                slice(LANES * place, LANES * place + LANES) if len(labels) > 1 or kernel.name in DTYPES else slice(None)
            )
            where = np.argwhere(unlike[:, part])
            if not len(where):
                continue
            chunk, lane = where[0]
            pair = [side[chunk, part][lane] for side in (first, second)]
            given = ""
            if kernel.name in DTYPES:
                given = " of " + ", ".join([str(array[chunk * LANES + lane]) for array in kernel.inputs])
            found.append(
                f"{kernel.name}: {label}: {len(where)} of {unlike[:, part].size}; emulated {pair[0]}, device {pair[1]}{given}"
            )
    return found


DTYPES = frozenset(FLOATS + INTEGERS)


def _bits(array: np.ndarray, kind: str) -> np.ndarray:
    """The bits of numbers, one pattern for NaN."""
    if kind in FLOATS:
        array = np.where(np.isnan(array.astype("float64")), array.dtype.type(1), array)
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


class Task(NamedTuple):
    """Kernels that one process compares: those of a data type, or of a family of matrix instructions."""

    name: str
    arch: str
    emulated: bool
    chunks: int
    step: int

    def kernels(self) -> list[Kernel]:
        if self.name in DTYPES:
            return list(scalar_kernels((self.name,), self.chunks))
        return [one for one in matrix_kernels(self.arch, self.step) if _family(one) == self.name]

    def other(self) -> AbstractContextManager[Any]:
        """The device, or a second emulated one, whose warps run in another order."""
        return emulated_gpu(self.arch, seed=1, races=False, traffic=False) if self.emulated else nullcontext()


def _family(kernel: Kernel) -> str:
    return kernel.name.partition(".")[0]


def run_task(task: Task) -> tuple[int, list[str], list[str]]:
    """How many instructions were compared, lines about those that differ, and about kernels that failed."""
    count, lines, failed = 0, [], []
    for kernel in task.kernels():
        try:
            mine = results_of(kernel, lambda: emulated_gpu(task.arch, races=False, traffic=False), task.arch)
            other = results_of(kernel, task.other, task.arch)
        except UnityError as error:
            failed.append(f"{kernel.name}: {error}")
            continue
        count += sum([len(labels) for labels in kernel.results.values()])
        lines += differences(kernel, mine, other)
    return count, lines, failed


def tasks(arch: str, quick: bool, emulated: bool) -> list[Task]:
    """All that is compared; what takes longest comes first."""
    types = ("int32",) if emulated else ("float32", "float16", "int32") if quick else FLOATS + INTEGERS
    chunks, step = (2, 40) if emulated else (16, 5) if quick else (128, 1)
    families = dict.fromkeys([_family(kernel) for kernel in matrix_kernels(arch, step)])
    return [Task(name, arch, emulated, chunks, step) for name in (*types, *families)]


def compare(emulated: bool, quick: bool, jobs: int) -> dict[str, Any]:
    """The emulated device and the one in force over all kernels, in as many processes: how many instructions there were, and the
    differences. Each task is told of when it is done, and has a process of its own: a fault on the device costs it alone."""
    arch = context(0).arch
    arch = "sm_90a" if arch == "sm_90" else arch if arch in ("sm_75", "sm_80", "sm_86", "sm_89") else "sm_80"
    lines, count, failed = [], 0, []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(run_task, task): task.name for task in tasks(arch, quick, emulated)}
        for done in as_completed(waiting):
            name = waiting[done]
            try:
                compared, unlike, wrong = done.result()
            except Exception as error:  # a process that ended
                compared, unlike, wrong = 0, [], [f"{name}: {error!r}"]
            print(f"{name}: {compared} instructions compared", *unlike, *wrong, sep="\n    ", flush=True)
            count, lines, failed = count + compared, lines + unlike, failed + wrong
    return {"arch": arch, "instructions": count, "differences": sorted(lines), "failed": failed}
