"""Compile one tensor program and time it against another function in one run."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unity.ffi.machine_code.engine import Engine
from unity.ffi.machine_code.llvm import compile_ir
from unity.ffi.native.pool import pool_symbols, set_num_threads
from unity.ffi.targets.target import Target
from unity.ir.function import PrimFunc
from unity.ir.module import IRModule
from unity.script import parse
from unity.target.cpu.codegen import compile_options, write_module
from unity.transform.default_schedule.apply import schedule_nests
from unity.transform.tir.pipeline import lower_prim_funcs

HEADER = "from unity.script import ir as I, tir as T\n"


@dataclass
class Compiled:
    """A kernel to call with arrays, and what building it cost."""

    call: Callable[..., None]
    lower_ms: float
    write_ms: float
    llvm_ms: float
    engine: Engine


def build(program: str | PrimFunc) -> Compiled:
    """Compile a program or its script, without the object cache."""
    func = program if isinstance(program, PrimFunc) else read(program)
    start = time.process_time()
    lowered = lower_prim_funcs(schedule_nests(IRModule({"main": func})).prim_funcs())
    lowered_at = time.process_time()
    ir_text, _, symbols, _ = write_module(lowered, Target("llvm"))
    written_at = time.process_time()
    data = compile_ir(ir_text, compile_options(Target("llvm")), use_cache=False)
    done = time.process_time()
    engine = Engine(pool_symbols())
    engine.add_object(data)
    count = len(func.params)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(engine.address(symbols["main"]))

    def call(*arrays: np.ndarray) -> None:
        status = kernel(*[array.ctypes.data for array in arrays])
        assert status == 0, status

    ms = [(b - a) * 1e3 for a, b in ((start, lowered_at), (lowered_at, written_at), (written_at, done))]
    return Compiled(call, *ms, engine)


def read(text: str) -> PrimFunc:
    """The program of a script."""
    found = parse(HEADER + text)
    func = found if isinstance(found, PrimFunc) else found["main"]
    assert isinstance(func, PrimFunc)
    return func


def prepared(kernel: Compiled, arrays: Sequence[np.ndarray]) -> Callable[[], None]:
    """The kernel with its arrays, as a function without arguments."""
    return lambda: kernel.call(*arrays)


def interleaved(functions: Sequence[Callable[[], object]], seconds: float = 1.0) -> list[float]:
    """Median seconds of each function, called in turns."""
    for function in functions:
        function()
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, taken in zip(functions, times):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


__all__ = ["Compiled", "build", "interleaved", "prepared", "set_num_threads"]
