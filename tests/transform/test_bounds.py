"""Accesses outside their buffers: refused at build, checked when called, or left alone; each case with the reason."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from growth import assert_grows_at_most

import unity
from unity.arith.accesses import judge
from unity.script import parse
from unity.support.errors import VerifyError
from unity.transform.tir.check_bounds import check_bounds, text
from unity.vm.stages import as_module

HEADER = """
@T.prim_func
def main(a: T.handle, b: T.handle, k: T.int64):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, ({A},), "float32")
    B = T.match_buffer(b, ({B},), "float32")
"""


def program(shapes: str, body: str):
    """A tensor program over two buffers; ``shapes`` is "n -> m"."""
    source, target = shapes.split(" -> ")
    lines = [f"    {line}" for line in body.strip().splitlines()]
    return parse(HEADER.format(A=source, B=target) + "\n".join(lines))


REFUSED = [
    ("n -> n", "for i in range(n):\n    B[i] = A[i + 1]", {"n": 1, "i": 0}, 1),
    ("4 -> 5", "for i in range(5):\n    B[i] = A[i]", {"i": 4}, 4),
    ("n -> n", "for i in range(n):\n    B[i] = A[i - 1]", {"n": 1, "i": 0}, -1),
    ("n -> n", "for i in T.vectorized(n):\n    B[i] = A[n]", {"n": 1}, 1),
    ("n, m -> n, m", "for i, j in T.grid(n, m):\n    B[i, j] = A[i, j + 1]", {"m": 1, "j": 0}, 1),
    ("n -> n", "for i in T.parallel(n + 1):\n    B[i] = T.float32(0)", {"n": 1, "i": 1}, 1),
    ("n -> n", "for i in range(n):\n    B[i] = T.if_then_else(i > 0, A[i + n], T.float32(0))", {"n": 2, "i": 1}, 3),
    ("4 -> n", "for i in range(n):\n    for j in range(4):\n        if j < 3 and A[j * 2] > T.float32(0):\n            B[i] = T.float32(0)",
     {"j": 2}, 4),
    ("n -> n", "for i in range(n):\n    v: T.int64 = i + 1\n    B[v] = T.float32(0)", {"n": 1, "i": 0}, 1),
    ("16 -> 16", "for i in range(4):\n    B[T.Ramp(i * 4, T.int64(1), 5)] = A[T.Ramp(i * 4, T.int64(1), 5)]", {}, 16),
    ("8 -> 8", 'for i in range(4):\n    with T.block("x"):\n        v = T.axis.opaque(9, i * 3)\n        B[v] = A[v]',
     {"i": 3}, 9),
    ("8 -> 8", 'for i in range(4):\n    with T.block("x"):\n        C = T.match_buffer(A[i * 2:i * 2 + 4], (4,), offset_factor=1)\n'
     "        B[i] = C[0]", {"i": 3}, 9),
    ("8 -> 8", "for i in range(8):\n    B[i << 1] = A[i]", {"i": 7}, 14),
    ("8 -> 8", "for i in range(8):\n    B[i ^ 8] = A[i]", {"i": 7}, 15),
    ("8 -> 8", "for i in T.serial(T.int8(100)):\n    B[T.Cast('int64', i * T.int8(2))] = A[0]", {"i": 99}, -58),
    ("8 -> 8", "for i in T.serial(T.uint32(8)):\n    B[i - T.uint32(1)] = A[0]", {"i": 0}, 4294967295),
    ("8 -> 16", "V = T.decl_buffer((16,), 'float32', data=A.data)\nfor i in range(16):\n    B[i] = V[i]", {"i": 15}, 63),
    ("8 -> 8", "V = T.decl_buffer((8,), 'float32', data=A.data, elem_offset=4)\nfor i in range(8):\n    B[i] = V[i]", {"i": 7}, 47),
    ("8 -> 8", "V = T.decl_buffer((8,), 'float64', data=A.data)\nfor i in range(8):\n    B[i] = T.Cast('float32', V[i])", {"i": 7}, 63),
    ("8 -> 4", "V = T.decl_buffer((4, 4), 'float32', data=A.data, strides=[4, 1])\nfor i, j in T.grid(4, 4):\n    B[i] = V[i, j]",
     {"i": 3, "j": 3}, 63),
    ("n -> n", "V = T.decl_buffer((n * 2,), 'float32', data=A.data)\nfor i in range(n):\n    B[i] = V[i + n]", {"n": 1, "i": 0}, 7),
]  # fmt: skip

AT_ENTRY = [
    ("n -> m", "for i in range(m):\n    B[i] = A[i]", {"m <= n"}),
    ("4 -> n", "for i in range(n):\n    B[i] = A[i]", {"n <= 4"}),
    ("n -> n", "for i in range(n):\n    B[i] = A[i + k]", {"n < 1 or k >= 0 and n + k <= n"}),
    ("n -> m", "if n > 2:\n    for i in range(m):\n        B[i] = A[i]", {"not n > 2 or m <= n"}),
    (
        "n -> m",
        "V = T.decl_buffer((m,), 'float32', data=A.data)\nfor i in range(m):\n    B[i] = V[i]",
        {"m * 4 <= 4 * n"},
    ),
    ("n -> n", "for o, i in T.grid((n + 3) // 4, 4):\n    B[o * 4 + i] = A[o * 4 + i]", {"(n + 3) // 4 * 4 <= n"}),
]

INSIDE = [
    ("n -> n", "for i in range(n):\n    if i + 1 < n:\n        B[i] = A[i + 1]"),
    ("n -> n", "for i in range(n):\n    B[i] = T.if_then_else(i > 0, A[i - 1], T.float32(0))"),
    ("n -> n", "for i in range(n):\n    B[i] = T.Select(i > 0, A[i - 1], T.float32(0))"),
    ("n -> n", "for i in range(n):\n    if i > 0 and A[i - 1] > T.float32(0):\n        B[i] = A[i]"),
    ("n -> n", "for i in range(n):\n    if i == 0 or A[i - 1] > T.float32(0):\n        B[i] = A[i]"),
    ("n -> n", "for i in range(n):\n    if i == 0:\n        continue\n    B[i] = A[i - 1]"),
    ("n -> m", "assert m <= n, 'sizes'\nfor i in range(m):\n    B[i] = A[i]"),
    ("n -> m", "T.evaluate(T.assume(m <= n))\nfor i in range(m):\n    B[i] = A[i]"),
    ("n -> n", 'for o, i in T.grid((n + 15) // 16, 16):\n    with T.block("x"):\n        v = T.axis.spatial(n, o * 16 + i)\n'
     "        T.where(o * 16 + i < n)\n        B[v] = A[v]"),
    ("n * m -> n, m", "for i, j in T.grid(n, m):\n    B[i, j] = A[i * m + j]"),
    ("n -> n // 4, 4", "for i in range(n // 4):\n    for j in range(4):\n        B[i, j] = A[i * 4 + j]"),
    ("n -> n", "for i in range(n // 8):\n    B[T.Ramp(i * 8, T.int64(1), 8)] = A[T.Ramp(i * 8, T.int64(1), 8)]"),
    ("n -> n", 'for i in range(n // 4):\n    with T.block("x"):\n        v = T.axis.spatial(n // 4, i)\n'
     "        C = T.match_buffer(A[v * 4:v * 4 + 4], (4,), offset_factor=1)\n        for j in range(4):\n"
     "            B[v * 4 + j] = C[j]"),
    ("n -> n", "for i in range(n):\n    B[i * i % n] = A[i * i % n]"),
    ("8 -> 8", "V = T.decl_buffer((16,), 'float32', data=A.data)\nfor i in range(8):\n    B[i] = V[i]"),
    ("n, m -> n, m", "V = T.decl_buffer((n * m,), 'float32', data=A.data)\nfor i, j in T.grid(n, m):\n    B[i, j] = V[i * m + j]"),
    ("8 -> 8", "p: T.handle('float32') = A.data\nV = T.decl_buffer((4,), 'float64', data=p)\nfor i in range(4):\n"
     "    B[i] = T.Cast('float32', V[i])"),
    ("n -> n", 'T.evaluate(T.call_extern("int32", "f", T.address_of(A[n]), B.access_ptr("rw", offset=n)))'),
]  # fmt: skip

UNKNOWN = [
    ("8 -> 8", "for i in range(8):\n    B[i] = A[T.Cast('int64', A[i])]", "it depends on data"),
    ("8 -> 8", "for i in range(9):\n    if A[0] > T.float32(0):\n        B[i] = A[i]", "it depends on data"),
    ("n -> n", "for i in range(n):\n    B[(i * i + i) % 2 * n] = A[i]", "nothing shows"),
    ("4 -> 4", "for i in range(5):\n    if B[0] > T.float32(1):\n        break\n    B[i] = T.float32(2)", "whether it is reached"),
    ("4 -> 4", "while B[0] > T.float32(0):\n    B[0] = A[4]", "whether it is reached"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "body", "values", "index"), REFUSED)
def test_refused(shapes, body, values, index):
    with pytest.raises(VerifyError) as caught:
        unity.compile(program(shapes, body))
    assert caught.value.code == "E328" and caught.value.span is not None
    note = caught.value.notes[0].message
    assert note.endswith(f"is {index}") and [v for v in values if f"{v} = {values[v]}" not in note] == []


@pytest.mark.parametrize(("shapes", "body", "wanted"), AT_ENTRY)
def test_conditions_at_entry(shapes, body, wanted):
    verdicts, _ = judge(program(shapes, body))
    assert verdicts and all([v.condition is not None for v in verdicts])
    said = {text(v.condition) for v in verdicts if v.condition is not None}
    assert said == wanted


@pytest.mark.parametrize(("shapes", "body"), INSIDE)
def test_inside(shapes, body):
    mod = as_module(program(shapes, body))
    assert judge(mod.prim_funcs()["main"])[0] == []
    assert check_bounds(mod) is mod


@pytest.mark.parametrize(("shapes", "body", "why"), UNKNOWN)
def test_what_nobody_knows_is_compiled(shapes, body, why):
    func = program(shapes, body)
    verdicts, _ = judge(func)
    assert verdicts and all([v.why.startswith(why) for v in verdicts])
    unity.compile(func)


def test_sizes_are_checked_when_called():
    vm = unity.VirtualMachine(unity.compile(program(*AT_ENTRY[0][:2])))
    out = np.zeros(3, "float32")
    vm["main"](np.ones(4, "float32"), out, 0)
    assert out.tolist() == [1, 1, 1]
    with pytest.raises(unity.UnityError, match="outside axis 0 of A, which has n, unless m <= n") as caught:
        vm["main"](np.ones(2, "float32"), out, 0)
    assert caught.value.code == "E614"


CALLED = """
@I.ir_module
class M:
    @T.prim_func
    def copy(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (m,), "float32")
        for i in range(m):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])):
        m = T.int64()
        return R.call_dps(copy, (x,), R.Tensor((m,), "float32"))
"""


@pytest.mark.parametrize("mode", ["bytecode", "native", "kernel"])
def test_a_failed_condition_says_what_it_was_called_with(mode):
    mod, x = parse(CALLED), np.ones(2, "float32")
    if mode == "kernel":
        call, args = unity.build(mod)["copy"], (x, np.zeros(3, "float32"))
    else:
        call = unity.VirtualMachine(unity.compile(mod, exec_mode=mode), exec_mode=mode)["main"]
        args = (x, (3,))
    with pytest.raises(unity.UnityError, match=r"unless m <= n \(called with (n = 2, m = 3|m = 3, n = 2)\)") as caught:
        call(*args)
    assert caught.value.code == "E614"


@pytest.mark.parametrize(("case", "sizes", "buffer"), [(REFUSED[0], (2, 2), "A"), *[(c, (8, 8), "V") for c in REFUSED if "elem_offset=" in c[1]],
                                                       (REFUSED[-1], (3, 3), "V")])  # fmt: skip
def test_checks_at_run_time_by_an_option(case, sizes, buffer, monkeypatch):
    monkeypatch.setenv("UNITY_BOUNDS", "1")
    vm = unity.VirtualMachine(unity.compile(program(*case[:2])))
    with pytest.raises(unity.UnityError, match=f"index of {buffer} is out of bounds") as caught:
        vm["main"](np.ones(sizes[0], "float32"), np.ones(sizes[1], "float32"), 0)
    assert caught.value.code == "E614"


def test_what_is_found_is_explained(monkeypatch, capsys):
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    unity.compile(program(*AT_ENTRY[0][:2]))
    assert "main: 1 of 2 accesses are inside their buffers; checked when called: m <= n" in capsys.readouterr().err
    unity.compile(program(*UNKNOWN[0][:2]))
    assert 'not known: A[T.Cast("int64", A[i])] (it depends on data)' in capsys.readouterr().err


def test_time_is_linear_in_the_length():
    def steps(count):
        body = "".join(
            [f"v{i}: T.int64 = {f'v{i - 1}' if i else 'k'} // {i + 2}\nB[0] = A[v{i}]\n" for i in range(count)]
        )
        func = program("n -> n", "for i in range(n):\n" + "".join([f"    {x}\n" for x in body.splitlines()]))
        calls = 0

        def count_calls(frame, event, arg):
            nonlocal calls
            calls += 1

        before = sys.getprofile()
        sys.setprofile(count_calls)
        try:
            judge(func)
        finally:
            sys.setprofile(before)
        return calls

    assert steps(160) < 6 * steps(40)


@pytest.mark.parametrize("part", ["A[{k} % n] > {k}.0", "A[0] > {k}.0"])
@pytest.mark.parametrize("word", ["and", "or"])
def test_long_conditions_are_judged_in_time_of_their_length(part, word):
    def made(count):
        return program(
            "n -> n",
            f"for i in range(n):\n    B[i] = T.Select({f' {word} '.join([part.format(k=k) for k in range(count)])}, A[i], 0.0)",
        )

    short, long = made(150), made(600)
    assert_grows_at_most(8, lambda: judge(short), lambda: judge(long))
