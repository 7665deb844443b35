"""Arithmetic on sizes and integers of graphs: the exact number, or an error that names the numbers; the same in both machines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from fuzz import SEED, TIMES

import unity
from unity.script import parse
from unity.support.errors import UnityError

EDGES = (0, 1, -1, 2, 3, 7, -5, 100, 255, 2**31 - 1, 2**31, 2**32, 2**62, -(2**62), 2**63 - 1, -(2**63))
LIMITS = {"int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "uint8": (0, 255), "uint64": (0, 2**63 - 1)}
LEAVES = {"int64": ("n", "m"), "int32": ("j",), "uint8": ("b",), "uint64": ("u",)}
FUNCTION = """
@R.function
def f{}(n: R.Prim("int64"), m: R.Prim("int64"), j: R.Prim("int32"), b: R.Prim("uint8"), u: R.Prim("uint64")):
    return {}
"""
SHAPE = FUNCTION.replace("return {}", "return R.shape([{}])")
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y,
    "%": lambda x, y: x % y, "T.min": min, "T.max": max,
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "==": lambda x, y: x == y,
}
Meaning = Callable[[dict[str, int]], int]


class Outside(Exception):
    """A number that its type does not hold, or a division by zero."""


def wrapped(value: int, dtype: str) -> int:
    """A number cast to a type."""
    return int(np.array(value % 2**64, "uint64").astype(dtype))


def fits(value: int, dtype: str) -> bool:
    low, high = LIMITS[dtype]
    return low <= value <= high


def leaf(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    name = rng.choice(LEAVES[dtype])
    return name, lambda env: env[name]


def constant(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    value = rng.choice(
        [e for e in EDGES if fits(e, dtype) and abs(e) > 1 and e not in LIMITS[dtype]]
    )  # no operand that folds away
    return f"T.{dtype}({value})", lambda env: value


def arithmetic(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    (a, left), (b, right) = number(rng, dtype, depth - 1), rng.choice((number, constant))(rng, dtype, depth - 1)
    kind = rng.choice(list(ARITHMETIC))

    def meaning(env: dict[str, int]) -> int:
        x, y = left(env), right(env)
        if kind in ("//", "%") and y == 0:
            raise Outside
        value = ARITHMETIC[kind](x, y)
        if not env["unbounded"] and not all([fits(v, dtype) for v in (x, y, value)]):
            raise Outside
        return value

    return (f"{kind}({a}, {b})" if kind.startswith("T") else f"({a} {kind} {b})"), meaning


def truth(rng: random.Random, depth: int) -> tuple[str, Callable[[dict[str, int]], bool]]:
    if rng.random() < 0.3 and depth > 1:
        (p, first), (q, second) = truth(rng, depth - 1), truth(rng, depth - 1)
        if rng.random() < 0.5:
            return f"T.And({p}, {q})", lambda env: first(env) and second(env)
        return f"T.Or({p}, {q})", lambda env: first(env) or second(env)
    dtype = rng.choice(("int64", "int32", "uint8"))
    (a, left), (b, right) = number(rng, dtype, depth - 1), number(rng, dtype, depth - 1)
    kind = rng.choice(list(COMPARE))
    return f"({a} {kind} {b})", lambda env: COMPARE[kind](left(env), right(env))


def choice(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    (p, cond), (a, yes), (b, no) = truth(rng, depth - 1), number(rng, dtype, depth - 1), number(rng, dtype, depth - 1)
    return f"T.if_then_else({p}, {a}, {b})", lambda env: yes(env) if cond(env) else no(env)


def cast(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    text, value = number(rng, rng.choice(list(LIMITS)), depth - 1)
    return f"T.cast({text}, {dtype!r})", lambda env: wrapped(value(env), dtype)


def number(rng: random.Random, dtype: str, depth: int) -> tuple[str, Meaning]:
    """An expression of a type as text and what it means: arithmetic is exact, casts wrap around."""
    return (rng.choice((leaf, arithmetic, arithmetic, arithmetic, choice, cast)) if depth > 0 else leaf)(
        rng, dtype, depth
    )


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Outside:
        return "no number"
    except UnityError as error:
        assert error.code in ("E601", "E615"), error
        return "no number"


def test_random_arithmetic_is_exact_or_refused():
    rng = random.Random(SEED)
    made = [number(rng, "int64" if k % 2 else rng.choice(list(LIMITS)), 4) for k in range(40 * TIMES)]
    text = "@I.ir_module\nclass M:\n" + "".join(
        [(SHAPE if k % 2 else FUNCTION).format(k, text).replace("\n", "\n    ") for k, (text, _) in enumerate(made)]
    )
    built = unity.compile(parse(text))
    machines = [unity.VirtualMachine(built, exec_mode=mode) for mode in ("native", "bytecode")]
    refused = 0
    for _ in range(15):
        env = {
            name: rng.choice([e for e in EDGES if fits(e, dtype)])
            for dtype, names in LEAVES.items() for name in names
        }  # fmt: skip
        for k, (text, meaning) in enumerate(made):
            expected = outcome(lambda: meaning({**env, "unbounded": 0}))
            simplified = outcome(lambda: meaning({**env, "unbounded": 1}))  # (a - b) + b may have become a
            refused += expected == "no number"
            for machine in machines:
                found = outcome(lambda: machine[f"f{k}"](*[env[p] for p in "nmjbu"]))
                if isinstance(found, tuple):
                    (found,) = found
                assert found == expected or (expected == "no number" and found == simplified), (
                    text,
                    env,
                    machine.exec_mode,
                )
    assert 0.1 < refused / (15 * len(made)) < 0.9


SIZES = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["k"])):
    n, m, k = T.int64(), T.int64(), T.int64()
    y = R.zeros(R.shape([{}]), "float32")
    return y
"""


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_sizes_of_tensors_do_not_wrap(mode):
    cases = {
        "n * 4611686018427387904": "4 * 4611686018427387904 is beyond int64",
        "n * 4611686018427387904 * m": "4 * 4611686018427387904 is beyond int64",
        "n + 9223372036854775807": "4 + 9223372036854775807 is beyond int64",
        "k * k": "4294967296 * 4294967296 is beyond int64",
        "n // (k - 4294967296)": "division by zero",
    }
    for dim, message in cases.items():
        machine = unity.VirtualMachine(unity.compile(parse(SIZES.format(dim))), exec_mode=mode)
        with pytest.raises(UnityError, match=re.escape(message)):
            machine["main"](np.ones((4, 2), "float32"), (2**32,))
