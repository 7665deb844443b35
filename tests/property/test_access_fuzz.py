"""Verdicts about accesses against the reference interpreter, which finds every access outside a buffer (E310).

By hand, longer: ``python tests/property/test_access_fuzz.py 0 1000``.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
from access_fuzz import SIZES, arguments, random_program
from fuzz import TIMES
from lowering import CHECKED_LOOPS

import unity
from unity.arith.accesses import judge
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import InterpreterError, UnityError
from unity.transform.tir.check_bounds import check_bounds
from unity.transform.tir.pipeline import CHECKED_CPU_PIPELINE, lower_prim_func
from unity.vm.stages import as_module


def fails(func: PrimFunc, n: int, m: int, code: str) -> bool:
    """Does the interpreter stop at an access (or a check) for these sizes?"""
    try:
        run(func, None, *arguments(func, n, m, n + m))
    except InterpreterError as error:
        assert error.code == code, error
        return True
    return False


def outcome(seed: int) -> str:
    """What is said about a program, after the interpreter agreed with it."""
    func = parse(random_program(seed))
    assert isinstance(func, PrimFunc)
    verdicts, _ = judge(func)
    outside = {sizes: fails(func, *sizes, "E310") for sizes in SIZES}
    refused = [v.example for v in verdicts if v.example is not None]
    if refused:
        values = {var.name: value for var, value in refused[0][0].items()}
        assert fails(func, values.get("n", 16), values.get("m", 16), "E310")
        return "refused"
    if not verdicts:
        assert not any(outside.values())
        return "inside"
    guarded = check_bounds(as_module(func)).prim_funcs()["main"]
    for sizes, found in outside.items():
        stopped = False
        try:
            run(guarded, None, *arguments(guarded, *sizes, sum(sizes)))
        except InterpreterError as error:
            stopped = error.code == "E314"
            assert found or not stopped, f"stopped for {sizes} without need: {error}"
        if all([v.condition is not None for v in verdicts]):
            assert stopped == found, sizes
    return "condition" if all([v.condition is not None for v in verdicts]) else "unknown"


def checked(seed: int) -> None:
    """With checks at run time every access outside is an error, and nothing else is."""
    func = parse(random_program(seed))
    lowered = lower_prim_func(func, CHECKED_LOOPS)
    for sizes in SIZES[:6]:
        assert fails(lowered, *sizes, "E314") == fails(func, *sizes, "E310"), sizes


def compiled(seed: int) -> None:
    """The same of machine code: E614 from the conditions or the checks, results of the interpreter where there is none."""
    func = parse(random_program(seed))
    vm = unity.VirtualMachine(unity.compile(func, tir_pipeline=CHECKED_CPU_PIPELINE))
    for sizes in SIZES[1:6]:
        expected, actual = arguments(func, *sizes, sum(sizes)), arguments(func, *sizes, sum(sizes))
        code = ""
        try:
            vm["main"](*actual)
        except UnityError as error:
            code = error.code
        assert code == ("E614" if fails(func, *sizes, "E310") else "")
        if not code:
            run(func, None, *expected)
            np.testing.assert_array_equal(actual[2], expected[2])


def test_verdicts_hold() -> None:
    found = Counter([outcome(seed) for seed in range(30 * TIMES)])
    assert min([found[kind] for kind in ("inside", "refused", "condition", "unknown")]) >= 1, found


def test_checks_at_run_time_hold() -> None:
    for seed in range(10 * TIMES):
        checked(seed)


def test_compiled_checks_hold() -> None:
    for seed in range(100, 103):
        compiled(seed)


if __name__ == "__main__":
    first, last = [int(a) for a in sys.argv[1:]]
    counts: Counter[str] = Counter()
    for number in range(first, last):
        try:
            counts[outcome(number)] += 1
            if number % 5 == 0:
                checked(number)
            if number % 50 == 0:
                compiled(number)
        except Exception as error:
            counts["FAILED"] += 1
            print(number, type(error).__name__, error)
    print(dict(counts))
