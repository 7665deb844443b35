"""Several Python threads: parallel loops with failing iterations, compiling side by side, current targets and contexts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from kernels import KernelError, Loaded, buffer, load, loop, prim_func, run, store, var

from unity.ffi.targets.target import Target
from unity.ir import build as b
from unity.ir.scalar import NE, Add, Cast, FloorDiv, Sub
from unity.ir.stmt import AllocBuffer, AssertStmt, seq
from unity.ir.types import prim_type
from unity.transform.infra.passes import PassContext

I32 = prim_type("int32")


def in_threads(work: Callable[[int], None], count: int = 5) -> None:
    """Run work(0), work(1), ... at once; the first error is raised here."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_parallel_loops_with_failing_iterations() -> None:
    a, c, bad, i = buffer("A", (4096,), "int32"), buffer("C", (4096,), "int32"), var("bad", "int32"), var("i")
    check = AssertStmt(NE(load(a, i), bad, prim_type("bool")), "bad value")
    divisor = Sub(load(a, i), b.const(5000, "int32"), I32)
    func = prim_func(
        [a, c, bad], loop(i, 4096, seq(check, store(c, FloorDiv(load(a, i), divisor, I32), i)), "parallel")
    )
    n, j = var("n"), var("j")
    local = buffer("local", (n,), "float64")
    body = seq(
        AllocBuffer(local), store(local, b.const(1.0, "float64"), 0),
        AssertStmt(NE(load(a, j), bad, prim_type("bool")), "bad value"),
        store(c, Cast(load(local, 0), I32), j),
    )  # fmt: skip
    loaded = Loaded({"divide": func, "heap": prim_func([a, c, bad, n], loop(j, 64, body, "parallel"))})
    x = np.arange(4096, dtype="int32")

    def work(number: int) -> None:
        y = np.zeros(4096, "int32")
        for turn in range(100):
            loaded("divide", x, y, -1)
            np.testing.assert_array_equal(y, x // (x - 5000))
            with pytest.raises(KernelError, match="bad value"):
                loaded("divide", x, y, (number * 131 + turn * 7) % 4096)
            with pytest.raises(KernelError, match="bad value"):
                loaded("heap", x, y, turn % 64, 5000)
            with pytest.raises(KernelError, match="negative or huge"):
                loaded("heap", x, y, -1, -5)

    in_threads(work)


def test_compiling_side_by_side() -> None:
    def work(number: int) -> None:
        for turn in range(3):
            a, i = buffer("A", (50 + number,)), var("i")
            total = load(a, i)
            for _ in range(400 + turn):
                total = Add(total, load(a, i), prim_type("float32"))
            x = np.ones(50 + number, "float32")
            run(prim_func([a], loop(i, 50 + number, store(a, total, i), "vectorized" if turn % 2 else "serial")), x)
            assert (x == 401 + turn).all()

    in_threads(work)


def test_current_target_and_context_belong_to_a_thread() -> None:
    with Target("llvm"), PassContext() as context:

        def work(number: int) -> None:
            assert Target.current() is None and PassContext.current() is not context
            mine = Target(f"llvm -num-cores={number + 1}")
            with mine:
                assert Target.current() is mine

        in_threads(work)
        assert Target.current() == Target("llvm") and PassContext.current() is context
