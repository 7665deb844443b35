"""lower_cross_thread_reduction: blocks that reduce over threads, wherever they stand in the loops, against numpy; the rest is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unity.script import parse
from unity.support.errors import PassError
from unity.target import GPU_PIPELINE, check_gpu

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((3, 4, 96), "float32"), B: T.Buffer((3, 4), "float32")):
"""
BLOCK = """
with T.block("B"):
    vi, vj = T.axis.remap("SS", [i, j])
    vk = T.axis.reduce(96, {step})
    with T.init():
        B[vi, vj] = {initial}
    B[vi, vj] = {join}
"""
NESTS = {
    "steps beside other statements": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for j in range(4):
        for k0 in range(3):
            S = T.alloc_buffer((32,), "float32", scope="shared")
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("S"):
                    v = T.axis.spatial(32, tx)
                    S[v] = A[i, j, k0 * 32 + 31 - v]
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                {block}
""",
    "threads around other statements": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S = T.alloc_buffer((1,), "float32", scope="local")
        for j in range(4):
            S[0] = T.float32(0)
            for k0 in range(3):
                {block}
""",
    "cells inside of steps": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for k0, j in T.grid(3, 4):
            {block}
""",
    "steps of virtual threads": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for k0 in T.thread_binding(3, thread="vthread"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for j in range(4):
                {block}
""",
    "steps of a block around": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for j, k0o in T.grid(4, 3):
        with T.block("around"):
            k0 = T.axis.reduce(3, k0o)
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                {block}
""",
}
REFUSED = {
    "does not number the threads of one block": """
for i, j in T.grid(3, 4):
    for k0 in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            {block}
""",
    "not all threads of the block reach it": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for j, k0 in T.grid(4, 3):
            if tx < 20:
                {block}
""",
    "it stands in the vectorized loop over j": """
for i in T.thread_binding(3, thread="blockIdx.x"):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for j in T.vectorized(4):
            for k0 in range(3):
                {block}
""",
}
SUM = {"initial": "T.float32(1)", "join": "B[vi, vj] + A[vi, vj, vk]"}
NO_JOIN = {"initial": "T.float32(0)", "join": "A[vi, vj, vk] - B[vi, vj]"}


def program(nest: str, initial: str, join: str, step: str = "k0 * 32 + tx") -> str:
    """A nest around the block; its lines are indented as where they stand."""
    lines = []
    block = BLOCK.format(step=step, initial=initial, join=join).strip().split("\n")
    for line in nest.strip().split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        lines += [margin + part for part in block] if line.strip() == "{block}" else [line]
    return HEAD + "\n".join(["        " + line for line in lines])


def reduced(text: str, expected: Callable[[np.ndarray], np.ndarray], before: float = 0) -> None:
    """The lowered program gives what is expected, and no thread is in another's way."""
    a = np.random.default_rng(0).standard_normal((3, 4, 96)).astype("float32")
    b = np.full((3, 4), before, "float32")
    check_gpu(parse(text), a, b, pipeline=GPU_PIPELINE).raise_if_failed()
    np.testing.assert_allclose(b, expected(a), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("nest", NESTS)
def test_sums_in_any_nest(nest: str) -> None:
    reduced(program(NESTS[nest], **SUM), lambda a: a.sum(2) + 1)


def test_a_largest_value_that_begins_with_another_one_for_each_cell() -> None:
    text = program(NESTS["cells inside of steps"], "A[vi, vj, 5] + T.float32(1)", "T.max(B[vi, vj], A[vi, vj, vk])")
    reduced(text, lambda a: np.maximum(a.max(2), a[:, :, 5] + 1))


@pytest.mark.parametrize("join,expected", [
    ("B[vi, vj] + A[vi, vj, vk]", lambda a: a.sum(2) - 7), ("T.min(B[vi, vj], A[vi, vj, vk])", lambda a: np.full((3, 4), -7)),
])  # fmt: skip
def test_what_a_cell_holds_already_takes_part(join: str, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    text = program(NESTS["threads around other statements"], "T.float32(0)", join)
    without = "\n".join([line for line in text.split("\n") if "init()" not in line and "B[vi, vj] = T.f" not in line])
    assert len(without) < len(text)
    reduced(without, expected, -7)


@pytest.mark.parametrize("why", REFUSED)
def test_reductions_that_are_refused(why: str) -> None:
    with pytest.raises(PassError, match=f"E374.*block B reduces over .*{why}"):
        GPU_PIPELINE(parse(program(REFUSED[why], **SUM)))


def test_operations_that_cannot_be_combined_are_refused() -> None:
    with pytest.raises(PassError, match=r"E374.*its body is not one store"):
        GPU_PIPELINE(parse(program(NESTS["threads around other statements"], **NO_JOIN)))
