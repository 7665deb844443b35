"""merge_shared_memory_allocations: one buffer of dynamic shared memory, places used again, barriers between their users."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import numpy as np
import pytest
from stages import through

from unity.ir.module import IRModule
from unity.ir.stmt import AllocBuffer
from unity.ir.walk import collect
from unity.script import parse
from unity.target import GPU_PIPELINE

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for bx in T.thread_binding((n + 63) // 64, thread="blockIdx.x"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
"""
THREE = (
    HEAD
    + """
                A = T.alloc_buffer((64,), "float32", scope="shared.dyn")
                B = T.alloc_buffer((64,), "float16", scope="shared.dyn")
                C = T.alloc_buffer((64,), "float32", scope="shared.dyn")
                S = T.alloc_buffer((64,), "float32", scope="shared")
                A[tx] = T.if_then_else(bx * 64 + tx < n, X[bx * 64 + tx], T.float32(0))
                B[tx] = T.Cast("float16", A[63 - tx])
                C[tx] = T.Cast("float32", B[tx // 2 * 2])
                S[tx] = C[63 - tx]
                if bx * 64 + tx < n:
                    Y[bx * 64 + tx] = S[tx]
"""
)
LOOP = (
    HEAD
    + """
                acc = T.alloc_buffer((1,), "float32", scope="local")
                acc[0] = T.float32(0)
                for k in range(5):
                    A = T.alloc_buffer((64,), "float32", scope="shared.dyn")
                    B = T.alloc_buffer((32,), "float64", scope="shared.dyn")
                    A[tx] = T.if_then_else(bx * 64 + tx < n, X[bx * 64 + tx] * T.Cast("float32", k), T.float32(0))
                    acc[0] = acc[0] + A[tx // 2 * 2]
                    if tx < 32:
                        B[tx] = T.Cast("float64", acc[0])
                    acc[0] = acc[0] + T.Cast("float32", B[tx // 2])
                if bx * 64 + tx < n:
                    Y[bx * 64 + tx] = acc[0]
"""
)
SYMBOLIC = (
    HEAD
    + """
                A = T.alloc_buffer((n,), "float32", scope="shared.dyn")
                B = T.alloc_buffer((64,), "float32", scope="shared.dyn")
                C = T.alloc_buffer((n, 2), "float16", scope="shared.dyn")
                for k in range((n + 63) // 64):
                    if k * 64 + tx < n:
                        A[k * 64 + tx] = X[k * 64 + tx]
                        C[k * 64 + tx, 1] = T.float16(2)
                B[tx] = A[n - 1]
                if bx * 64 + tx < n:
                    Y[bx * 64 + tx] = A[n - 1 - bx * 64 - tx] * B[63 - tx] * T.Cast("float32", C[bx * 64 + tx, 1])
"""
)


def dynamic(mod: IRModule) -> list[AllocBuffer]:
    return [alloc for alloc in collect(mod, AllocBuffer) if alloc.buffer.scope == "shared.dyn"]


def padded(x: np.ndarray) -> np.ndarray:
    return np.pad(x, (0, -len(x) % 64)).reshape(-1, 64)


@pytest.mark.parametrize("n", [1, 64, 100])
def test_places_are_used_again(n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, n).astype("float32")
    turned = padded(x)[:, ::-1]
    expected = np.repeat(turned[:, ::2], 2, axis=1)[:, ::-1].ravel()[:n]
    mod = through(parse(THREE), [x], np.zeros_like(x), expected)
    (alloc,) = dynamic(mod)
    assert alloc.buffer.shape[0].value == 384, "A and C have one place, B stands behind it"  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", [64, 70])
def test_places_in_a_loop(n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, n).astype("float32")
    acc = np.zeros_like(padded(x))
    for k in range(5):
        acc = acc + np.repeat(padded(x)[:, ::2] * k, 2, axis=1)
        acc = acc + np.repeat(acc[:, :32], 2, axis=1)
    mod = through(parse(LOOP), [x], np.zeros_like(x), acc.ravel()[:n], 1e-4)
    (alloc,) = dynamic(mod)
    assert alloc.buffer.shape[0].value == 256  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", [1, 100])
def test_symbolic_sizes_have_places_of_their_own(n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, n).astype("float32")
    mod = through(parse(SYMBOLIC), [x], np.zeros_like(x), x[::-1] * x[-1] * 2)
    assert len(dynamic(mod)) == 1


CARRIED = """
acc[0] = T.float32(0)
for k in range(5):
    B[tx] = X[bx * 64 + tx] * T.Cast("float32", k)
    acc[0] = acc[0] + B[63 - tx]
    if k > 0:
        acc[0] = acc[0] + A[63 - tx]
    A[tx] = acc[0]
"""
ARRIVES_LATER = """
acc[0] = T.float32(0)
for k in range(5):
    B[tx] = X[bx * 64 + tx] * T.Cast("float32", k)
    acc[0] = acc[0] + B[63 - tx]
    T.ptx_wait_group(0)
    if k > 0:
        acc[0] = acc[0] + A[tx]
    with T.attr(0, "async_scope", 1):
        A[tx] = X[bx * 64 + tx]
    T.ptx_commit_group()
T.ptx_wait_group(0)
"""
NEVER_READ = """
with T.attr(0, "async_scope", 1):
    A[tx] = X[bx * 64 + tx]
T.ptx_commit_group()
{before}
B[tx] = X[bx * 64 + tx]
acc[0] = B[63 - tx]
{after}
"""
ALIAS = """
p: T.handle("float32", "shared.dyn") = T.handle_add_byte_offset(A.data, 0)
V = T.decl_buffer((64,), "float32", data=p, scope="shared.dyn")
A[tx] = X[bx * 64 + tx]
B[tx] = X[bx * 64 + tx] + T.float32(1)
acc[0] = B[63 - tx] + V[63 - tx]
"""
WAIT = "T.ptx_wait_group(0)"


def over_loop(x: np.ndarray) -> np.ndarray:
    acc, left = np.zeros_like(x), np.zeros_like(x)
    for k in range(5):
        acc = left = acc + (x * k)[::-1] + left[::-1]
    return acc


@pytest.mark.parametrize(
    "body, expected, size",
    [
        (CARRIED, over_loop, 512),
        (ARRIVES_LATER, lambda x: 10 * x[::-1] + 4 * x, 512),
        (NEVER_READ.format(before=WAIT, after=""), lambda x: x[::-1], 256),
        (NEVER_READ.format(before="", after=WAIT), lambda x: x[::-1], 512),
        (NEVER_READ.format(before=f"if bx > 0:\n    {WAIT}", after=WAIT), lambda x: x[::-1], 512),
        (NEVER_READ.format(before="T.ptx_wait_group(1)", after=WAIT), lambda x: x[::-1], 512),
        (NEVER_READ.replace("T.ptx_commit_group()", "").format(before=WAIT, after=""), lambda x: x[::-1], 512),
        (ALIAS, lambda x: 2 * x[::-1] + 1, 512),
    ],
    ids=["carried", "arrives later", "waited for", "waited for late", "perhaps waited for", "not the last group", "no group", "alias"],
)  # fmt: skip
def test_lives_end_with_the_last_use(body: str, expected: Callable[[np.ndarray], np.ndarray], size: int) -> None:
    """What one iteration leaves to the next, and what copies may still write to, keeps its place."""
    memory = "".join([f'{name} = T.alloc_buffer((64,), "float32", scope="shared.dyn")\n' for name in "AB"])
    text = f'{memory}acc = T.alloc_buffer((1,), "float32", scope="local")\n{body}Y[bx * 64 + tx] = acc[0]\n'
    x = np.random.default_rng(0).integers(-9, 9, 64).astype("float32")
    mod = through(parse(HEAD + indent(text, " " * 16)), [x], np.zeros_like(x), expected(x))
    (alloc,) = dynamic(mod)
    assert alloc.buffer.shape[0].value == size  # type: ignore[attr-defined]


PRODUCT_AFTER = """
T.ptx_wgmma("float32", "m64n8k16", "row", "col", "float16", "float16", "float32", A.data, 0, B.data, 0, D.data, 0, 32, False)
T.ptx_wgmma_commit_group()
{before}
C[tx] = X[tx]
Y[tx] = C[127 - tx]
{after}
"""


@pytest.mark.parametrize("early", [True, False])
def test_what_instructions_read_beside_the_threads(early: bool) -> None:
    """Factors in shared memory live until their products are waited for."""
    wait = "T.ptx_wgmma_wait_group(0)"
    body = PRODUCT_AFTER.format(before=wait if early else "", after="" if early else wait)
    memory = [("A", 1024, "float16"), ("B", 128, "float16"), ("C", 128, "float32")]
    allocs = [f'{name} = T.alloc_buffer(({n},), "{dtype}", scope="shared.dyn", align=256)' for name, n, dtype in memory]
    head = HEAD.replace("64, thread", "128, thread").replace("63) // 64", "127) // 128")
    text = "\n".join([*allocs, 'D = T.alloc_buffer((4,), "float32", scope="local")', body])
    (alloc,) = dynamic(GPU_PIPELINE(parse(head + indent(text, " " * 16))))
    assert alloc.buffer.shape[0].value == (2304 if early else 2816)  # type: ignore[attr-defined]
