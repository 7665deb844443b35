"""Random loops of every kind whose iterations may depend on each other: what the verifier refuses does depend, and what it accepts
gives compiled what the loop in order gives."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity.ir import IRModule
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError

FUNCTION = """
    @T.prim_func
    def f{number}(A: T.Buffer((160,), "float32"), B: T.Buffer((160,), "float32"), C: T.Buffer((40, 8), "float32"), P: T.Buffer((160,), "int32")):
        for i in {loop}:
{body}
"""
COUNTS = (1, 7, 16, 37, 70)


def index(rng: random.Random, inner: bool) -> str:
    forms = [
        "i",
        "i",
        "i",
        f"i + {rng.choice((1, 2, 64))}",
        "2 * i",
        "70 - i",
        "i // 2",
        "i % 4",
        "P[i]",
        str(rng.randrange(3)),
    ]
    return rng.choice(forms + (["j", "i + j", "i * 2 + j", "j * 70 + i"] if inner else []))


def cell(rng: random.Random, inner: bool) -> str:
    name = rng.choice("AABBC")
    if name == "C":
        return f"C[{rng.choice(('i // 2', 'i // 8', 'i % 5', '3'))}, {rng.choice(('i % 8', 'i % 2', '1'))}]"
    return f"{name}[{index(rng, inner)}]"


def statements(rng: random.Random) -> list[str]:
    lines = []
    if rng.random() < 0.3:  # a distance
        lines.append(f"A[i + {rng.choice((0, 1, 2, 64))}] = A[i + {rng.choice((0, 0, 1))}] * T.float32(0.5) + B[i]")
    for _ in range(rng.randint(0 if lines else 1, 2)):
        inner, to = rng.random() < 0.25, ""
        to = cell(rng, inner)
        value = f"{cell(rng, inner)} * T.float32(0.5) + {rng.choice((to, cell(rng, inner), 'T.float32(1)'))}"
        line = f"{to} = {value}"
        if rng.random() < 0.2:
            lines += [
                f"if {cell(rng, False)} > T.float32(0.25):",
                f"    {line}" if not inner else f"    {to.replace('j', '1')} = T.float32(2)",
            ]
        elif inner:
            lines += ["for j in range(2):", f"    {line}"]
        else:
            lines.append(line)
    return lines


def function(number: int, lines: list[str], loop: str, mark: str = "") -> str:
    deeper = "    " if mark else ""
    body = "\n".join([f"            {deeper}{line}" for line in lines])
    text = FUNCTION.format(number=number, loop=loop, body=body)
    return text.replace("        for i in", f"        {mark}\n            for i in") if mark else text


def module(functions: list[str]) -> IRModule:
    return parse("@I.ir_module\nclass Module:" + "".join(functions))  # type: ignore[no-any-return]


def arguments(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 70, 160).astype("int32")
    return [rng.random(160, "float32"), rng.random(160, "float32"), rng.random((40, 8), "float32"), places]


def ran(mod: IRModule, name: str, seed: int) -> list[np.ndarray]:
    given = arguments(seed)
    run(mod, name, *given)
    return given


def programs(seed: int) -> tuple[int, list[str], str]:
    rng = random.Random(f"loops {seed}")
    count = rng.choice(COUNTS)
    return (
        count,
        statements(rng),
        rng.choice(("T.vectorized({})", "T.vectorized({})", 'T.serial({}, annotations={{"vectorize": 1}})')),
    )


@pytest.mark.parametrize("block", range(TIMES))
def test_vectors_give_what_the_order_gives(block: int) -> None:
    accepted: list[tuple[int, str]] = []
    refused = 0
    for seed in range(block * 60, block * 60 + 60):
        count, lines, loop = programs(seed)
        text = function(seed, lines, loop.format(count))
        try:
            module([text])
            accepted.append((seed, text))
        except UnityError as error:
            assert error.code == "E351", text
            refused += 1
            turned = [re.sub(r"\bi\b", f"({count - 1} - i)", line) for line in lines]
            order, back = [module([function(0, x, f"range({count})")]) for x in (lines, turned)]
            same = [np.array_equal(x, y) for x, y in zip(ran(order, "f0", seed), ran(back, "f0", seed))]
            assert not all(same), f"refused, and the order does not matter\n{text}"
    mod = module([text for _, text in accepted])
    machine = unity.VirtualMachine(unity.compile(mod))
    for seed, text in accepted:
        given = arguments(seed)
        machine[f"f{seed}"](*given)
        for found, wanted in zip(given, ran(mod, f"f{seed}", seed)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=text)
    assert refused and len(accepted) > 30


@pytest.mark.parametrize(("body", "found"), [
    ("A[i + 1] = A[i]", True), ("A[i] = A[i + 1]", False), ("A[0] = A[0] + B[i]", False), ("B[i] = A[0]\n            A[0] = B[i]", True),
    ("C[i // 8, i % 8] = C[i // 8, i % 8] + A[i]", False), ("A[i] = A[i + 64]", False), ("A[2 * i + 2] = A[2 * i]", True),
    ("A[2 * i] = A[2 * i + 1]", False),
])  # fmt: skip
def test_what_the_verifier_says(body: str, found: bool) -> None:
    lines = [line.strip() for line in body.split("\n")]
    if found:
        with pytest.raises(UnityError) as error:
            module([function(0, lines, "T.vectorized(64)")])
        assert error.value.code == "E351" and "make the loop serial" in str(error.value)
    else:
        module([function(0, lines, "T.vectorized(64)")])


TURNED = 'with T.attr(0, "backwards", T.bool(True)):'


def test_loops_that_run_backwards_promise_what_parallel_ones_do() -> None:
    """What the verifier and the interpreter let through gives what the loop in order gives."""
    accepted: list[tuple[int, str, list[np.ndarray]]] = []
    refused = raced = 0
    for seed in range(80 * TIMES):
        rng = random.Random(f"turned {seed}")
        count, lines = rng.choice(COUNTS), statements(rng)
        text = function(seed, lines, f"range({count})", TURNED)
        wanted = ran(module([function(0, lines, f"range({count})")]), "f0", seed)
        try:
            found = ran(module([text]), f"f{seed}", seed)
        except UnityError as error:
            refused, raced = refused + (error.code == "E351"), raced + (error.code == "E312")
            assert error.code in ("E351", "E312"), text
            continue
        accepted.append((seed, text, wanted))
        assert all([np.array_equal(x, y) for x, y in zip(found, wanted)])
    machine = unity.VirtualMachine(unity.compile(module([text for _, text, _ in accepted])))
    for seed, text, wanted in accepted:
        given = arguments(seed)
        machine[f"f{seed}"](*given)
        for x, y in zip(given, wanted):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=text)
    assert refused and raced and len(accepted) > 20


def test_a_loop_that_runs_backwards_is_not_left_early() -> None:
    with pytest.raises(UnityError, match="E345"):
        module([function(0, ["if A[i] > T.float32(0.5):", "    break"], "range(8)", TURNED)])
