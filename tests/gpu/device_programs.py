"""Kernels as text: one block of a warp, or a few, around statements; every instruction in them, and inputs for them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from unity.ffi.dtype import DataType
from unity.ir import IRModule, PrimFunc
from unity.ir.intrinsic import BINARY_MATH, UNARY_MATH
from unity.script import parse
from unity.target.cuda.matrix import MMA, WMMA

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
XY = {"X": "float32", "Y": "float32"}
COUNT = 4096
"""Elements of each buffer."""


def graph_module(expression: str, **params: str) -> IRModule:
    """A graph function that computes an expression; ``params``: names of its parameters by their types."""
    made = parse(f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join([f"{name}: R.Tensor({kind})" for name, kind in params.items()])}):
        with R.dataflow():
            made = {expression}
            R.output(made)
        return made
""")
    assert isinstance(made, IRModule)
    return made


def device_function(body: str, threads: int = 32, /, **pointers: str) -> PrimFunc:
    """A kernel of one block; ``pointers``: names of buffers of 4096 elements by their types."""
    params = ", ".join([f'{name}_ptr: T.handle("{dtype}", "global")' for name, dtype in pointers.items()])
    buffers = "\n".join(
        [f'    {name} = T.decl_buffer((4096,), "{dtype}", data={name}_ptr)' for name, dtype in pointers.items()]
    )
    text = f"""
@T.prim_func(private=True)
def kernel({params}):
    T.func_attr({{"calling_conv": 2, "tir.is_global_func": True}})
{buffers}
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", {threads})
"""
    made = parse(text + "\n".join([f"    {line}" for line in body.strip("\n").split("\n")]))
    assert isinstance(made, PrimFunc)
    return made


def mma_body(shape: str, a: str, b: str, c: str, counts: tuple[int, int, int]) -> str:
    """``ptx_mma`` on registers filled from X, its sums into Y."""
    na, nb, nc = counts
    return f"""
A = T.alloc_buffer(({na},), "{a}", scope="local")
B = T.alloc_buffer(({nb},), "{b}", scope="local")
C = T.alloc_buffer(({nc},), "{c}", scope="local")
for i in T.unroll({na}):
    A[i] = T.Cast("{a}", X[tx * {na} + i])
for i in T.unroll({nb}):
    B[i] = T.Cast("{b}", X[1024 + tx * {nb} + i])
for i in T.unroll({nc}):
    C[i] = T.Cast("{c}", X[2048 + tx * {nc} + i])
T.ptx_mma("{c}", "{shape}", "row", "col", "{a}", "{b}", "{c}", A.data, 0, B.data, 0, C.data, 0, T.bool(False))
for i in T.unroll({nc}):
    Y[tx * {nc} + i] = T.Cast("float32", C[i])
"""


def wmma_body(operand: str, total: str, left: str, right: str) -> str:
    """A product of fragments from shared memory in two layouts."""
    return f"""
S = T.alloc_buffer((512,), "{operand}", scope="shared")
D = T.alloc_buffer((256,), "{total}", scope="shared")
FA = T.alloc_buffer((256,), "{operand}", scope="wmma.matrix_a")
FB = T.alloc_buffer((256,), "{operand}", scope="wmma.matrix_b")
FC = T.alloc_buffer((256,), "{total}", scope="wmma.accumulator")
for i in range(16):
    S[tx * 16 + i] = T.Cast("{operand}", X[tx * 16 + i])
T.tvm_storage_sync("shared")
T.tvm_fill_fragment(FC.data, 16, 16, 16, 0, T.{total}(1))
T.tvm_load_matrix_sync(FA.data, 16, 16, 16, 0, T.address_of(S[0]), 16, "{left}")
T.tvm_load_matrix_sync(FB.data, 16, 16, 16, 0, T.address_of(S[256]), 16, "{right}")
T.tvm_mma_sync(FC.data, 0, FA.data, 0, FB.data, 0, FC.data, 0)
T.tvm_store_matrix_sync(FC.data, 16, 16, 16, 0, T.address_of(D[0]), 16, "row_major")
T.tvm_storage_sync("shared")
for i in range(8):
    Y[tx * 8 + i] = T.Cast("float32", D[tx * 8 + i])
"""


def ldmatrix_body(trans: bool, number: int) -> str:
    """8x8 matrices from shared memory into registers."""
    return f"""
S = T.alloc_buffer((256,), "float16", scope="shared")
R = T.alloc_buffer((8,), "float16", scope="local")
for i in range(8):
    S[tx * 8 + i] = T.Cast("float16", X[tx * 8 + i])
T.tvm_storage_sync("shared")
T.ptx_ldmatrix("float16", T.bool({trans}), {number}, ".b16", R.data, 0, S.data, tx * 8)
for i in T.unroll({2 * number}):
    Y[tx * {2 * number} + i] = T.Cast("float32", R[i])
"""


def copy_body(size: int, condition: str = "") -> str:
    """An asynchronous copy into shared memory, and the elements of the neighbour."""
    per = size // 4
    return f"""
S = T.alloc_buffer(({32 * per},), "float32", scope="shared")
T.ptx_cp_async("float32", S.data, tx * {per}, X_ptr, tx * {per}, {size}{condition})
T.ptx_commit_group()
T.ptx_wait_group(0)
T.tvm_storage_sync("shared")
for i in range({per}):
    Y[tx * {per} + i] = S[(tx * {per} + i + {per}) % {32 * per}]
"""


def matrix_programs() -> list[tuple[str, PrimFunc, str]]:
    """(instruction, kernel, first architecture that has it)."""
    found = []
    for (shape, a, b, c), form in MMA.items():
        counts = tuple([4 * n // DataType(t).itemsize for n, t in ((form.a, a), (form.b, b), (form.c, c))])
        found.append((f"mma.sync.aligned.{shape}", device_function(mma_body(shape, a, b, c, counts), **XY), form.arch))
    for (operand, total), (form, _, _) in WMMA.items():
        for left, right in itertools.product(("row_major", "col_major"), repeat=2):
            found.append(("wmma.mma.sync", device_function(wmma_body(operand, total, left, right), **XY), form.arch))
    for trans, number in itertools.product((False, True), (1, 2, 4)):
        found.append((f"m8n8.x{number}", device_function(ldmatrix_body(trans, number), **XY), "sm_75"))
    for size, condition in itertools.product((4, 8, 16), ("", ", tx < 7")):
        found.append(("cp.async.c", device_function(copy_body(size, condition), **XY), "sm_80"))
    return found


def scalar_expressions(dtype: str) -> dict[str, list[str]]:
    """Expressions of X[tx] and Y[tx] by the type of their results."""
    found: dict[str, list[str]] = {dtype: ["T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), X[tx], 1, 32, 32)"]}
    same = found[dtype]
    same += [f"X[tx] {op} Y[tx]" for op in ("+", "-", "*")]
    same += [f"T.{name}(X[tx], Y[tx])" for name in ("min", "max", "floordiv", "floormod", "truncdiv", "truncmod")]
    same.append("T.if_then_else(X[tx] < Y[tx], X[tx], Y[tx])")
    tests = [f"X[tx] {op} Y[tx]" for op in ("<", "==", ">=")]
    if dtype in FLOATS:
        same += ["X[tx] / Y[tx]", "T.fma(X[tx], Y[tx], X[tx])", "T.ldexp(X[tx], tx)"]
        same += [f"T.{name}(X[tx])" for name in UNARY_MATH]
        same += [f"T.{name}(X[tx], Y[tx])" for name in BINARY_MATH if name != "ldexp"]
        tests += [f"T.{name}(X[tx])" for name in ("isnan", "isinf", "isfinite")]
    elif dtype != "bool":
        same += [f"T.{name}(X[tx])" for name in ("popcount", "clz", "bitwise_not", "abs")]
        names = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        same += [f"T.{name}(X[tx], Y[tx])" for name in names]
    for other in FLOATS + INTEGERS:
        found.setdefault(other, []).append(f'T.Cast("{other}", X[tx])')
    found.setdefault("bool", []).extend(tests)
    return found


def values(dtype: str, seed: int) -> np.ndarray:
    """Numbers of every size, the special ones first."""
    draw, item = np.random.default_rng(seed), DataType(dtype).numpy
    if dtype == "bool":
        return draw.integers(0, 2, COUNT).astype(bool) | (seed == 2)
    if dtype in INTEGERS:
        info: Any = np.iinfo(item)
        found = draw.integers(info.min, info.max, COUNT, dtype=item, endpoint=True)
        found[:8] = [0, 1, 2, info.max, info.min, info.max - 1, 3, 5]
        return np.where(found == 0, 1, found).astype(item) if seed == 2 else found
    found = (draw.standard_normal(COUNT) * np.exp(draw.standard_normal(COUNT) * 3)).astype("float32")
    found[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40]
    with np.errstate(over="ignore"):
        return found.astype(item)
