"""Cost of calls between Python and machine code: ``python benchmarks/bench_calls.py``. Nanoseconds, best of many."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np

from unity.ffi import Tensor
from unity.ffi.calls.entry_spec import EntrySpec, ShapeArg, TensorArg
from unity.ffi.calls.fastcall import driver_function, kernel_function
from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.native_helpers import HELPER_DECLARATIONS, dtype_index, helper_symbols

IR = (
    HELPER_DECLARATIONS
    + f"""
define i32 @empty(ptr %a, ptr %b, ptr %c, ptr %d, i64 %n, i64 %m) {{
  ret i32 0
}}
define ptr @nothing(ptr %env, ptr %leaves, ptr %symbols) {{
  %r = call ptr @unity_none()
  ret ptr %r
}}
define ptr @fresh(ptr %env, ptr %leaves, ptr %symbols) {{
  %out = alloca ptr
  %r = call ptr @unity_new_tensor(i64 {dtype_index("float32")}, i64 2, ptr %symbols, ptr %out)
  ret ptr %r
}}
define ptr @back(ptr %env, ptr %leaves, ptr %symbols) {{
  %r = call ptr @unity_call(ptr %env, ptr null, i64 0)
  ret ptr %r
}}
"""
)
N, M = ("sym", 0), ("sym", 1)


def cost(call: Callable[[], object]) -> float:
    """Nanoseconds per call; the smallest of ten rounds."""
    rounds, number = 10, 50_000
    return min(timeit.repeat(call, number=number, repeat=rounds)) / number * 1e9


def main() -> None:
    """Print one line per kind of call."""
    engine = Engine(helper_symbols()).add_ir(IR)
    tensors = EntrySpec("f", tuple([TensorArg(name, "float32", (N, M)) for name in "abcd"]), ("n", "m"))
    kernel = kernel_function(tensors, engine.address("empty"), keep=[engine])
    arrays = [np.ones((4, 5), np.float32) for _ in range(4)]
    a, b, c, d = arrays
    base = cost(lambda: None)
    python = lambda w, x, y, z: None  # noqa: E731
    print(f"empty Python function, 4 arguments      {cost(lambda: python(a, b, c, d)) - base:7.0f} ns")
    print(f"4 numpy arrays, checked                 {cost(lambda: kernel(a, b, c, d)) - base:7.0f} ns")
    p, q, r, s = [Tensor(array) for array in arrays]
    print(f"4 unity tensors, checked                {cost(lambda: kernel(p, q, r, s)) - base:7.0f} ns")
    shapes = EntrySpec("f", (ShapeArg("s", (N, M)),), ("n", "m"))
    nothing = driver_function(shapes, engine.address("nothing"), keep=[engine])
    fresh = driver_function(shapes, engine.address("fresh"), keep=[engine])
    shape = (4, 5)
    plain = cost(lambda: nothing(shape)) - base
    print(f"driver, no result                       {plain:7.0f} ns")
    print(f"driver, a fresh Tensor: more            {cost(lambda: fresh(shape)) - base - plain:7.0f} ns")
    callback = lambda: None  # noqa: E731
    nullary = EntrySpec("f", ())
    back = driver_function(nullary, engine.address("back"), env=id(callback), keep=[engine, callback])
    empty = driver_function(nullary, engine.address("nothing"), keep=[engine])
    print(f"native code calls Python: more          {cost(lambda: back()) - cost(lambda: empty()):7.0f} ns")
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return
    t, u, v, w = [torch.ones(4, 5) for _ in range(4)]
    kernel(t, u, v, w)
    print(f"4 torch tensors, checked                {cost(lambda: kernel(t, u, v, w)) - base:7.0f} ns")


if __name__ == "__main__":
    main()
