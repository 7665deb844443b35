"""Loops that the reference interpreter runs side by side: the same bits, errors and steps as in order, which judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unity.ir import IRModule
from unity.ir.interpret import Interpreter
from unity.ir.interpret.scalar import nests
from unity.script import parse
from unity.support.errors import UnityError

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(7, 9)).astype(np.float32)
ROWS[0, :4] = [np.nan, np.inf, -0.0, 1e-42]
WHOLE = RNG.integers(-(2**31), 2**31, (7, 9)).astype(np.int32)
INDEX = RNG.permutation(64).astype(np.int32)
KINDS: dict[str, np.ndarray] = {
    "float32": ROWS,
    "float16": ROWS.astype(np.float16),
    "int32": WHOLE,
    "int8": WHOLE.astype(np.int8),
}


def program(body: str, *params: str) -> str:
    head = ", ".join([f"{name}: T.Buffer({shape})" for name, shape in [p.split("=") for p in params]])
    lines = "\n".join([f"    {line}" for line in body.strip("\n").splitlines()])
    return f"@T.prim_func\ndef main({head}):\n{lines}\n"


def outcome(text: str, arrays: list[np.ndarray], fewest: int, patch: pytest.MonkeyPatch, steps: int | None) -> Any:
    """What a program leaves in its arrays or its error, its steps, and how many nests ran side by side."""
    done: list[bool] = []
    run = nests.Nest.run

    def watched(*args: Any) -> bool:
        done.append(run(*args))
        return done[-1]

    patch.setattr(nests, "FEWEST", fewest)
    patch.setattr(nests.Nest, "run", watched)
    made, given = Interpreter(IRModule({"main": parse(text)}), steps), [a.copy() for a in arrays]
    try:
        made.run("main", *given)
        error = None
    except UnityError as problem:
        error = (problem.code, problem.message, str(problem.span))
    patch.undo()
    return [a.tobytes() for a in given], error, made.machine.steps_left, sum(done)


def check(text: str, arrays: list[np.ndarray], patch: pytest.MonkeyPatch, steps: int | None = 10**6) -> tuple[Any, int]:
    """The error of a program and the number of nests that ran side by side; everything else is as in order."""
    *judged, none = outcome(text, arrays, 1 << 60, patch, steps)
    *found, beside = outcome(text, arrays, 2, patch, steps)
    assert found == judged and none == 0
    return found[1], beside


PRODUCT = """
for i, j, k in T.grid(7, 7, 9):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.{dtype}(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]
"""
TILED = """
for ko in range(3):
    for i in T.parallel(7):
        for j in T.vectorized(7):
            for ki in range(3):
                C[i, j] = T.if_then_else(ko + ki == 0, T.{dtype}(0), C[i, j]) + A[i, ko * 3 + ki] * A[j, ko * 3 + ki]
"""
LOCAL = """
for i in range(7):
    sums = T.alloc_buffer((2,), "{dtype}")
    sums[0] = A[i, 0]
    n = T.alloc_buffer((1,), "int32")
    n[0] = 0
    while n[0] < i:
        n[0] = n[0] + 1
        if n[0] % 3 == 2:
            sums[0] = T.max(sums[0], A[i, n[0]])
    for k in range(i, 8):
        if A[i, k] == sums[0]:
            break
        sums[0] = sums[0] + A[i, k]
    for j in range(7):
        C[i, j] = sums[0] + A[j, i]
"""


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("body", [PRODUCT, TILED, LOCAL], ids=["product", "tiled", "local"])
def test_nests_run_side_by_side(body: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(body.format(dtype=dtype), f"A=(7, 9), '{dtype}'", f"C=(7, 7), '{dtype}'")
    arrays = [KINDS[dtype], np.zeros((7, 7), dtype)]
    error, beside = check(text, arrays, monkeypatch)
    assert error is None and beside >= 1
    error, _ = check(text, arrays, monkeypatch, steps=50)
    assert error is not None and error[0] == "E320"


BESIDE = {
    "permuted": "for i in range(64):\n    B[X[i]] = i",
    "updated": "for i in range(64):\n    B[X[i]] = B[X[i]] * 3 + X[(i + 1) % 64]",
    "one row of a scan": "for i in range(8):\n    for k in range(7):\n        B[i * 8 + k] = X[i * 8 + k] - 1",
}
"""Iterations that have their own numbers."""
IN_ORDER = {
    "scan": "for i in range(63):\n    B[i + 1] = B[i] + X[i]",
    "scan backwards": "for i in range(63):\n    B[i] = B[i + 1] + X[i]",
    "counted": "for i in range(64):\n    B[X[i] % 8] = B[X[i] % 8] + 1",
    "last one": "for i in range(64):\n    B[X[i] % 8] = i",
    "read by all": "for i in range(64):\n    B[i] = X[i] + B[63]",
}
"""Iterations that touch each other's numbers."""


@pytest.mark.parametrize("name", [*BESIDE, *IN_ORDER])
def test_own_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = program({**BESIDE, **IN_ORDER}[name], "X=(64,), 'int32'", "B=(64,), 'int32'")
    error, beside = check(text, [INDEX, np.arange(64, dtype=np.int32)], monkeypatch)
    assert error is None and (beside > 0) == (name in BESIDE)


FAULTS = {
    "E310": "for i in range(64):\n    B[i] = X[i + i // 60]",
    "E311": "T.alloc\nfor i in range(63):\n    t[i] = 1\nfor i in range(64):\n    B[i] = t[i]",
    "E312": "for i in T.parallel(64):\n    B[X[i] % 32] = i",
    "E313": "for i in range(64):\n    B[i] = 7 // (X[i] - 40)",
    "E314": "for i in range(64):\n    assert X[i] < 63, 'large'\n    B[i] = X[i]",
    "E315": 'for i in range(64):\n    with T.block("b"):\n        v = T.axis.spatial(63, i)\n        B[v] = X[v]',
}


@pytest.mark.parametrize("code", FAULTS)
def test_faults_in_one_iteration(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error names the iteration that comes first, and what came before it has been stored."""
    body = FAULTS[code].replace("T.alloc\n", "t = T.alloc_buffer((64,), 'int32')\n")
    text = program(body, "X=(64,), 'int32'", "B=(64,), 'int32'")
    error, _ = check(text, [INDEX, np.arange(64, dtype=np.int32)], monkeypatch)
    assert error is not None and error[0] == code


def test_races_around_a_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parallel loop around a nest is told what its iterations touch."""
    body = "for i in T.parallel(2):\n    for j in range(32):\n        B[{0}] = X[j]\n    for j in range(32):\n        B[j] = 1"
    arrays = [INDEX, np.zeros(64, np.int32)]
    text = program(body.format("32 * i + j"), "X=(64,), 'int32'", "B=(64,), 'int32'")
    error, beside = check(text, arrays, monkeypatch)
    assert error is not None and error[0] == "E312" and beside > 0


@pytest.mark.parametrize("size", [0, 1, 3, 40])
def test_symbolic_sizes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, n), "float32")
    B = T.match_buffer(b, (n, n), "float32")
    for i in range(n):
        for j in range(n):
            B[i, j] = A[j, i] * T.float32(2) + T.Cast("float32", i - j)
"""
    square = RNG.normal(size=(size, size)).astype(np.float32)
    error, beside = check(text, [square, np.zeros_like(square)], monkeypatch)
    assert error is None and (beside == 1) == (size * size > 1)
