"""The emulated device against the device, instruction by instruction: the same kernels with the same inputs on both.

The kernels are those of ``tests/gpu/device_programs.py``. Where they differ, either the emulated device is wrong or the instruction
is an approximation whose last bits the manual leaves open; both are listed with inputs and results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import unity
from unity.ffi.cuda.context import context
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
    text = ptx_of(written.device.text, written.arch)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in kernel.results}
    with device():
        arrays = Arrays()
        sources = [(arrays.put(array), array.itemsize) for array in kernel.inputs]
        for chunk in range(kernel.chunks):
            outs = [np.zeros(4096, DataType(kind).numpy) for kind in kernel.results]
            places = [arrays.put(out) for out in outs]
            ins = [address + chunk * LANES * size for address, size in sources]
            arrays.run(text, "unity_kernel", (1,), (LANES,), *ins, *places)
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


def compare(device: Device, quick: bool, tiny: bool) -> dict[str, Any]:
    """Both devices over all kernels: how many there were, and the differences."""
    with device():
        arch = context(0).arch
    arch = "sm_90a" if arch == "sm_90" else arch if arch in ("sm_75", "sm_80", "sm_86", "sm_89") else "sm_80"
    types = ("int32",) if tiny else ("float32", "float16", "int32") if quick else FLOATS + INTEGERS
    kernels = [
        *scalar_kernels(types, 2 if tiny else 16 if quick else 128),
        *matrix_kernels(arch, 40 if tiny else 5 if quick else 1),
    ]
    lines, count, failed = [], 0, []
    for kernel in kernels:
        try:
            mine = results_of(kernel, lambda: emulated_gpu(arch, races=False, traffic=False), arch)
            other = results_of(kernel, device, arch)
        except UnityError as error:
            failed.append(f"{kernel.name}: {error}")
            continue
        count += sum([len(labels) for labels in kernel.results.values()])
        lines += differences(kernel, mine, other)
    return {"arch": arch, "instructions": count, "differences": lines, "failed": failed}
