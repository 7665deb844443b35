"""Programs that the schedule tests share, and how two modules are compared."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
from inputs import InputMaker

from unity.ir import IRModule
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse

MM_RELU = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 10), "float32"), D: T.Buffer((6, 10), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((6, 10), "float32")
        for i, j, k in T.grid(6, 10, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(6, 10):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))
"""

ELEMENTWISE = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((12, 10), "float32"), D: T.Buffer((12, 10), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((12, 10), "float32")
        for i, j in T.grid(12, 10):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(12, 10):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + T.float32(1)
"""

SYMBOLIC = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


@cache
def module(text: str) -> IRModule:
    """A verified module."""
    mod = parse(text)
    assert isinstance(mod, IRModule)
    verify(mod)
    return mod


def results(mod: IRModule, seed: int, like: IRModule, name: str = "main") -> list[Any]:
    """Every argument array after running a function on random arguments made for ``like``'s function."""
    args = copy.deepcopy(InputMaker(seed).arguments(like[name]))
    run(mod, name, *args)
    return [a for a in args if isinstance(a, np.ndarray)]


@cache
def wanted(mod: IRModule, seed: int, name: str) -> list[Any]:
    """The results of a module as it was given; most tests change one of a few."""
    return results(mod, seed, mod, name)


def assert_same(before: IRModule, after: IRModule, seeds: int = 2, name: str = "main") -> None:
    """The verifier holds, the text reads back, and both modules compute the same."""
    verify(after)
    parse(after.script())  # which verifies it
    for seed in range(seeds):
        for x, y in zip(wanted(before, seed, name), results(after, seed, before, name)):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
