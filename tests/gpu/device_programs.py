"""Kernels as text: one block of a warp, or a few, around statements."""

from __future__ import annotations

from unity.ir import PrimFunc
from unity.script import parse

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def device_function(body: str, **pointers: str) -> PrimFunc:
    """A kernel of one warp; ``pointers``: names of buffers of 4096 elements by their types."""
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
    tx = T.launch_thread("threadIdx.x", 32)
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
