"""Compiles a math function of the CPU library into a loop over arrays, for tests and benchmarks."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from unity.ffi.machine_code.engine import Engine
from unity.ffi.targets.target import runnable_processor
from unity.target.llvm.math.lanes import type_name
from unity.target.llvm.math.library import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    MATH_FUNCTIONS,
    math_function,
    scales_by_instruction,
)  # fmt: skip

SCALES = scales_by_instruction(runnable_processor().features)


def kernel_text(name: str, dtype: str, lanes: int, entry: str = "kernel", scales: bool = SCALES) -> str:
    """IR of ``void kernel(ptr out, i64 count, ptr in...)``; the count is a multiple of the lanes."""
    row = MATH_FUNCTIONS[name]
    symbol, texts = math_function(name, dtype, lanes, scales)
    kind = INTEGER_KINDS[dtype] if row.integer else FLOAT_KINDS[dtype]
    kinds = [kind] * row.arguments + ["i32"] * row.extra_integer
    pointers = ", ".join(f"ptr noalias %p{i}" for i in range(len(kinds)))
    loads, passed = [], []
    for i, element in enumerate(kinds):
        loads.append(f"  %q{i} = getelementptr {type_name(element, 1)}, ptr %p{i}, i64 %i")
        loads.append(f"  %v{i} = load {type_name(element, lanes)}, ptr %q{i}, align 4")
        passed.append(f"{type_name(element, lanes)} %v{i}")
    result, element = type_name(kind, lanes), kind
    store = f"  store {result} %r, ptr %o, align 4"
    if row.predicate:
        result, element = type_name("i1", lanes), "i8"
        store = (
            f"  %w = zext {result} %r to {type_name('i8', lanes)}\n  store {type_name('i8', lanes)} %w, ptr %o, align 1"
        )
    body = "\n".join(loads)
    return (
        "".join(texts.values())
        + f"""
define void @{entry}(ptr noalias %out, i64 %count, {pointers}) #0 {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop.end ]
{body}
  %r = call {result} @{symbol}({", ".join(passed)})
  %o = getelementptr {type_name(element, 1)}, ptr %out, i64 %i
{store}
  br label %loop.end
loop.end:
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
attributes #0 = {{ nounwind "prefer-vector-width"="512" }}
"""
    )


class MathKernel:
    """A compiled function; call it with numpy arrays of equal size."""

    def __init__(self, name: str, dtype: str, lanes: int, scales: bool = SCALES) -> None:
        self.row = MATH_FUNCTIONS[name]
        self.lanes = lanes
        self.result_type = np.dtype(bool if self.row.predicate else dtype)
        self.engine = Engine().add_ir(kernel_text(name, dtype, lanes, scales=scales), use_cache=False)
        pointer_count = self.row.arguments + self.row.extra_integer
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * pointer_count)
        self.call = signature(self.engine.address("kernel"))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """Apply element by element; arrays are padded to a multiple of the lanes with their last element."""
        count = arrays[0].size
        padded_count = -(-count // self.lanes) * self.lanes
        padded = [np.ascontiguousarray(np.pad(array, (0, padded_count - count), mode="edge")) for array in arrays]
        out = np.empty(padded_count, self.result_type)
        self.call(out.ctypes.data, padded_count, *[array.ctypes.data for array in padded])
        return out[:count]


@cache
def math_kernel(name: str, dtype: str, lanes: int = 16) -> MathKernel:
    """A compiled function, made once."""
    return MathKernel(name, dtype, lanes)
