"""thread_sync puts barriers where they are needed, and nowhere else; the thread-level checker is the judge."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from unity.ir.expr import Call
from unity.ir.function import PrimFunc
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import PassError
from unity.target.gpu_check import check_gpu
from unity.transform.tir.threads.thread_sync import thread_sync

SYNC = 'T.tvm_storage_sync("shared")'


def kernel(body: str, threads: int = 64, extra: str = "") -> PrimFunc:
    """A kernel of one block over int32 arrays X and Y with shared memory S; ``body`` has no indentation."""
    inner = "\n".join(["        " + line for line in body.strip("\n").splitlines()])
    func = parse(f"""
@T.prim_func
def f(X: T.Buffer((256,), "int32"), Y: T.Buffer((256,), "int32"), n: T.int32):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        S = T.alloc_buffer((256,), "int32", scope="shared")
        r = T.alloc_buffer((1,), "int32", scope="local")
{extra}{inner}
""")
    assert isinstance(func, PrimFunc)
    return func


def barriers(func: PrimFunc) -> int:
    return len([c for c in collect(func.body, Call) if getattr(c.op, "name", "") == "T.tvm_storage_sync"])


def lines_of(func: PrimFunc) -> list[str]:
    return [line.strip() for line in func.script().splitlines()]


def no_race(func: PrimFunc, n: int = 3) -> None:
    report = check_gpu(func, np.arange(256, dtype="int32"), np.zeros(256, "int32"), n)
    assert report.ok, f"{func.script()}\n{report}"


def test_between_write_and_read_of_another_thread() -> None:
    func = kernel("S[tx] = X[tx]\nY[tx] = S[63 - tx]")
    assert not check_gpu(func, np.zeros(256, "int32"), np.zeros(256, "int32"), 0).ok
    made = thread_sync.on(func)
    text = lines_of(made)
    assert text.index("S[tx] = X[tx]") + 1 == text.index(SYNC) == text.index("Y[tx] = S[63 - tx]") - 1
    assert barriers(made) == 1
    no_race(made)
    assert thread_sync.on(made) is made


@pytest.mark.parametrize("body", [
    "S[tx] = X[tx]\nY[tx] = S[tx]",
    "S[tx * 4] = X[tx]\nS[tx * 4 + 1] = X[tx]\nY[tx] = S[tx * 4]",
    "for k in range(4):\n    S[tx + k * 64] = X[tx]\nfor k in range(4):\n    Y[tx] = S[tx + k * 64]",
    "for k in range(5):\n    S[tx] = k\n    Y[tx] = S[tx]",
    "for k in range(4):\n    S[(tx * 4 + k) // 4 * 4 + k] = X[tx]\nfor v in T.vectorized(4):\n    Y[tx * 4 + v] = S[tx * 4 + v]",
    "for m in range(n):\n    S[tx + m * 64] = X[tx]\n    Y[tx] = S[tx + m * 64]",
])  # fmt: skip
def test_threads_that_keep_to_their_own_cells(body: str) -> None:
    func = kernel(body)
    if "range(n)" not in body:  # in turns of a loop of unknown length a barrier stands, which is more than needed
        assert thread_sync.on(func) is func, thread_sync.on(func).script()
    no_race(thread_sync.on(func))


def test_a_loop_gets_a_barrier_for_the_turn_before() -> None:
    func = kernel("for k in range(3):\n    S[tx] = X[tx] + k\n    Y[tx] = S[63 - tx]")
    made = thread_sync.on(func)
    text = lines_of(made)
    assert barriers(made) == 2 and text[text.index("for k in range(3):") + 1] == SYNC
    no_race(made)


def test_barriers_that_are_there_are_used() -> None:
    func = kernel(f"for k in range(3):\n    S[tx] = X[tx] + k\n    {SYNC}\n    Y[tx] = S[63 - tx]")
    made = thread_sync.on(func)
    assert barriers(made) == 2
    no_race(made)
    single = kernel(f"S[tx] = X[tx]\n{SYNC}\nY[tx] = S[63 - tx]")
    assert thread_sync.on(single) is single


def test_conditions_alike_for_all_threads_may_hold_barriers() -> None:
    func = kernel("if n > 2:\n    S[tx] = X[tx]\n    Y[tx] = S[63 - tx]\nS[tx] = n\nY[tx] = S[(tx + 1) % 64]")
    made = thread_sync.on(func)
    assert barriers(made) == 3
    for n in (1, 3):
        no_race(made, n)


TURNS = "S[tx] = X[tx]\n    Y[tx] = S[63 - tx]"


@pytest.mark.parametrize(
    "body",
    [
        f"r[0] = n\nwhile r[0] > 0:\n    {TURNS}\n    r[0] = r[0] - 1",
        f"r[0] = X[n] * 2\nif r[0] > 3:\n    {TURNS}",
        f"for k in range(X[n]):\n    {TURNS}",
        f"r[0] = 1\nif n > 2:\n    r[0] = X[7]\nif X[r[0]] > 3:\n    {TURNS}",
        f"c = X[n] > 2\nif c and r[0] >= 0:\n    {TURNS}".replace("and r[0] >= 0", "or n > 7"),
    ],
)
def test_conditions_on_cells_alike_for_all_threads(body: str) -> None:
    made = thread_sync.on(kernel(body))
    assert barriers(made) >= 1
    no_race(made)


@pytest.mark.parametrize(
    "body",
    [
        f"r[0] = tx\nif r[0] > 3:\n    {TURNS}",
        f"r[0] = 0\nif tx == 3:\n    r[0] = 5\nif r[0] > 3:\n    {TURNS}",
        f"r[0] = 0\nfor k in range(X[tx]):\n    r[0] = r[0] + 1\nif r[0] > 3:\n    {TURNS}",
        f"r[0] = n\nwhile r[0] > 0:\n    {TURNS}\n    r[0] = r[0] - X[tx]",
        f"r[X[tx] % 1] = 0\nif r[0] > 3:\n    {TURNS}",
        f"c = X[tx]\nr[0] = c\nfor k in range(r[0]):\n    {TURNS}",
        f"if S[3] > 0:\n    {TURNS}",
        f"if Y[70] > 0:\n    {TURNS}",
        f"for k in range(4):\n    if k > X[tx]:\n        break\n    r[0] = k\nif r[0] > 0:\n    {TURNS}",
        f'r[0] = 0\nT.evaluate(T.call_extern("int32", "f", T.address_of(r[0])))\nif r[0] > 0:\n    {TURNS}',
    ],
)
def test_conditions_on_cells_that_may_differ(body: str) -> None:
    with pytest.raises(PassError, match="E371"):
        thread_sync.on(kernel(body))


@pytest.mark.parametrize("condition", ["{}", "{} and n > 0", "not {}"])
def test_conditions_said_to_be_alike_may_hold_barriers(condition: str) -> None:
    body = "c = Y[255] < 3\nif {}:\n    S[tx] = X[tx]\n    Y[tx] = S[63 - tx]"
    with pytest.raises(PassError, match=r"(?s)E371.*tvm_thread_invariant"):
        thread_sync.on(kernel(body.format(condition.format("c"))))
    made = thread_sync.on(kernel(body.format(condition.format("T.tvm_thread_invariant(c)"))))
    assert barriers(made) == 1
    no_race(made, 1)


def test_a_loop_that_may_not_run_orders_nothing() -> None:
    func = kernel(
        "S[tx] = X[tx]\nfor k in range(n):\n    S[(tx + k) % 64] = k\n    Y[tx] = S[63 - tx]\nY[tx] = Y[tx] + S[(tx + 7) % 64]"
    )
    for n in (0, 1, 3):
        no_race(thread_sync.on(func), n)


def test_no_barrier_under_a_divergent_condition() -> None:
    func = kernel("if tx < 32:\n    S[tx] = X[tx]\n    Y[tx] = S[31 - tx]")
    with pytest.raises(PassError, match="E371") as caught:
        thread_sync.on(func)
    assert caught.value.span is not None and len(caught.value.notes) == 2
    apart = kernel("if tx < 32:\n    S[tx] = X[tx]\nif tx < 32:\n    Y[tx] = S[31 - tx]")
    made = thread_sync.on(apart)
    assert barriers(made) == 1
    no_race(made)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("if tx == 0:\n    S[0] = n\n    S[0] = S[0] + 1", 0),
        (
            "if tx == 5 and n > 0:\n    S[2] = 1\n    S[3] = 2\n    for k in range(n):\n        S[3] = S[3 - T.min(k, 1)] + k",
            0,
        ),
        ("if tx == 0:\n    S[tx] = n\nif 0 == tx:\n    Y[tx] = S[0]", 0),
        ("if tx == 0:\n    S[0] = n\nif tx == 1:\n    Y[tx] = S[0]", 1),
        ("if tx == 0:\n    S[0] = n\n    S[1] = S[0]\nY[tx] = S[1]", 1),
        (
            "if tx == 0:\n    S[0] = n\nelse:\n    Y[tx] = tx\nif tx == 63:\n    S[0] = S[0] + 1\nif tx == 63:\n    Y[tx] = S[0]",
            1,
        ),
    ],
)
def test_what_one_thread_does_alone_needs_no_barrier(body: str, count: int) -> None:
    made = thread_sync.on(kernel(body))
    assert barriers(made) == count
    no_race(made, 2)


def test_one_of_several_axes_is_many_threads() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((8,), "int32")):
    for ty in T.thread_binding(8, thread="threadIdx.y"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "int32", scope="shared")
            if {}:
                S[ty] = X[ty]
                X[ty] = S[7 - ty]
"""
    with pytest.raises(PassError, match="E371"):
        thread_sync.on(parse(text.format("tx == 0")))
    alone = thread_sync.on(parse(text.format("tx == 0 and ty == 3")))
    assert barriers(alone) == 0


def test_warp_memory() -> None:
    body = "W[tx] = X[tx]\nY[tx] = W[T.bitwise_xor(tx, 1)]"
    func = kernel(body, 32, '        W = T.alloc_buffer((32,), "int32", scope="warp")\n')
    assert thread_sync.on(func) is func
    made = thread_sync.with_options(storage_scope="warp").on(func)
    assert 'T.tvm_storage_sync("warp")' in lines_of(made)
    no_race(made)


def test_one_thread_needs_no_barrier_and_an_unknown_scope_is_refused() -> None:
    func = kernel("for k in range(8):\n    S[k] = X[k]\nfor k in range(8):\n    Y[k] = S[7 - k]", 1)
    assert thread_sync.on(func) is func
    with pytest.raises(PassError, match="E371"):
        thread_sync.with_options(storage_scope="local").on(func)


def test_two_loops_over_one_axis() -> None:
    func = parse("""
@T.prim_func
def f(X: T.Buffer((4, 32), "int32"), Y: T.Buffer((4, 32), "int32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        S = T.alloc_buffer((32,), "int32", scope="shared")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            S[tx] = X[bx, tx]
        for ty in T.thread_binding(32, thread="threadIdx.x"):
            Y[bx, ty] = S[ty]
        for tz in T.thread_binding(32, thread="threadIdx.x"):
            Y[bx, tz] = Y[bx, tz] + S[31 - tz]
""")
    made = thread_sync.on(func)
    assert barriers(made) == 1
    x, y = np.arange(128, dtype="int32").reshape(4, 32), np.zeros((4, 32), "int32")
    assert check_gpu(made, x, y).ok
    np.testing.assert_array_equal(y, x + x[:, ::-1])


def random_body(rng: random.Random, depth: int = 0) -> list[str]:
    places = ["tx", "(tx + 1) % 64", "63 - tx", "tx * 2", "(tx + 32) % 64 + 64", "tx // 2 * 2 + 1 - tx % 2"]
    lines: list[str] = []
    for _ in range(rng.randint(1, 4)):
        choice = rng.random()
        if choice < 0.35:
            lines.append(f"S[{rng.choice(places)}] = X[tx] + r[0]")
        elif choice < 0.7:
            lines.append(f"r[0] = r[0] + S[{rng.choice(places)}]")
        elif choice < 0.78:
            lines.append(SYNC)
        elif depth < 2:
            head = rng.choice(["for k in range(2):", "for k in range(n):", "if n > 1:", "for k in range(1):"])
            name = f"k{depth}"
            lines += [head.replace("k in", f"{name} in"), *["    " + x for x in random_body(rng, depth + 1)]]
    return lines or ["r[0] = 1"]


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed: int) -> None:
    rng = random.Random(seed)
    body = [
        "for k in range(4):",
        "    S[tx + k * 64] = X[tx]",
        SYNC,
        "r[0] = X[tx]",
        *random_body(rng),
        *random_body(rng),
    ]
    func = kernel("\n".join([*body, "Y[tx] = r[0]"]))
    made = thread_sync.on(func)
    for n in (0, 2):
        results: list[Any] = []
        for program in (func, made):
            y = np.zeros(256, "int32")
            report = check_gpu(program, np.arange(256, dtype="int32"), y, n)
            results.append(y)
        assert report.ok, f"{made.script()}\n{report}"
        np.testing.assert_array_equal(*results)
