"""Upgrade of old spellings: each rewrite, what stays, and that the meaning stays."""

import json
import re
from pathlib import Path

import pytest
from fuzz import TIMES
from random_modules import random_module

from unity.cli.main import main
from unity.ir import structural_equal
from unity.script import parse
from unity.script.upgrade import upgrade
from unity.support.errors import ScriptError

PRIM = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):\n    '
GRAPH = '@R.function\ndef f(x: R.Tensor((2, 3), "float16"), s: R.Shape(ndim=2)):\n    '

LINES = [
    (PRIM, 'with T.sblock("b"):\n        B[0] = A[0]', 'with T.block("b"):\n        B[0] = A[0]'),
    (PRIM, 'with T.sblock("b"):\n        C = T.alloc_buffer((4,))\n        D = T.sblock_alloc_buffer((4,))\n        B[0] = A[0]',
     'with T.block("b"):\n        C = T.allocate_buffer((4,))\n        D = T.alloc_buffer((4,))\n        B[0] = A[0]'),
    (PRIM, 'with T.block("b"):\n        C = T.alloc_buffer((4,))\n        B[0] = T.fabs(A[0])',
     'with T.block("b"):\n        C = T.alloc_buffer((4,))\n        B[0] = T.abs(A[0])'),
    (PRIM, "A[0] = T.Cast('float32', T.boolean(True))", "A[0] = T.Cast('float32', T.bool(True))"),
    (PRIM, 'C = T.buffer_decl((16,), "float32", data=A.data)', 'C = T.decl_buffer((16,), "float32", data=A.data)'),
    (PRIM, "A[T.ramp(0, 1, 4)] = T.broadcast(T.float32(0), 4)", "A[T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(0), 4)"),
    (PRIM, "x: T.let[T.float32] = A[0]\n    B[0] = x", "x: T.float32 = A[0]\n    B[0] = x"),
    (PRIM, "with T.let(T.float32(), A[0]) as x:\n        B[0] = x", "with T.Let(T.float32(), A[0]) as x:\n        B[0] = x"),
    (PRIM, 'p = T.allocate([16], "int8", "global")', 'p = T.allocate_buffer([16], "int8", "global")'),
    (PRIM, 'c = T.allocate_const([1, 2], "int32", [2])', 'c = T.alloc_const([1, 2], "int32", [2])'),
    (PRIM, 'A[0] = T.tvm_call_packed("my.f", A[0])', 'A[0] = T.call_packed("my.f", A[0])'),
    (GRAPH, 'y = R.call_tir("f", (x,), (1, 128), dtype="int8")\n    return y',
     'y = R.call_dps("f", (x,), R.Tensor((1, 128), "int8"))\n    return y'),
    (GRAPH, 'y = R.call_dps((1, 128), "f", [x])\n    return y',
     'y = R.call_dps("f", (x,), R.Tensor((1, 128), "float16"))\n    return y'),
    (GRAPH, 'y = R.call_dps((1,),  # shape\n        "f", [x, x])\n    return y',
     'y = R.call_dps("f",  # shape\n        (x, x), R.Tensor((1,), "float16"))\n    return y'),
    (GRAPH, 'y = R.call_tir("f", [x], [(1,), (2, 3)], dtype=["int8", "int32"])\n    return y',
     'y = R.call_dps("f", (x,), [R.Tensor((1,), "int8"), R.Tensor((2, 3), "int32")])\n    return y'),
    (GRAPH, 'y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((1,), "int8"))\n    return y',
     'y = R.call_dps("f", (x,), R.Tensor((1,), "int8"))\n    return y'),
    (GRAPH, 'y = R.call_dps_packed("f", (x,), out_ty=[R.Tensor((1,), "int8")])\n    return y',
     'y = R.call_dps("f", (x,), [R.Tensor((1,), "int8")])\n    return y'),
    (GRAPH, 'y = R.call_tir("f", [x], ty_args=[R.Tensor((1,), "int8")])\n    return y',
     'y = R.call_dps("f", (x,), [R.Tensor((1,), "int8")])\n    return y'),
    (GRAPH, 'y = R.call_pure_packed("f", x, sinfo_args=(R.Any,))\n    return y',
     'y = R.call_pure_packed("f", x, ty_args=(R.Object,))\n    return y'),
    (GRAPH, "y = R.match_shape(x, (n, m))\n    return y", 'y = R.match_cast(x, R.Tensor((n, m), "float16"))\n    return y'),
    (GRAPH, "y = R.match_shape(s, (n, m))\n    return y", "y = R.match_cast(s, R.Shape((n, m)))\n    return y"),
    ("", '@T.prim_func\ndef f(x: T.int32):\n    T.ret(x + 1)', '@T.prim_func\ndef f(x: T.int32):\n    return x + 1'),
    ("", '@T.prim_func\ndef f(p: T.Ptr(T.int8)):\n    pass', '@T.prim_func\ndef f(p: T.handle("int8")):\n    pass'),
    ("", '@T.prim_func\ndef f(A: T.Buffer[(4, 4), "int8"]):\n    pass',
     '@T.prim_func\ndef f(A: T.Buffer((4, 4), "int8")):\n    pass'),
    ("", '@T.prim_func\ndef f(a: T.handle):\n    n = T.var("int64")\n    A = T.match_buffer(a, (n,), "int8")',
     '@T.prim_func\ndef f(a: T.handle):\n    n = T.int64()\n    A = T.match_buffer(a, (n,), "int8")'),
    ("", '@Ts.function\ndef f(A: T.Tensor((4,), "int8")):\n    with Ts.sblock("b"):\n        A[0] = 1',
     '@Ts.prim_func\ndef f(A: T.Buffer((4,), "int8")):\n    with Ts.block("b"):\n        A[0] = 1'),
    ("", '@R.function\ndef f(x: R.Tensor((n, n * 2), "int8")):\n    return x',
     '@R.function\ndef f(x: R.Tensor(("n", "n * 2"), "int8")):\n    return x'),
    ("", '@R.function\ndef f(x: Tensor[(4,), "int8"]):\n    return x',
     '@R.function\ndef f(x: Tensor((4,), "int8")):\n    return x'),
]  # fmt: skip


@pytest.mark.parametrize("head, old, new", LINES, ids=[old.replace("\n", " ")[:60] for _, old, _ in LINES])
def test_line(head, old, new):
    before, after = head + old, head + new
    assert upgrade(before) == after
    assert upgrade(after) == after
    assert structural_equal(parse(before), parse(after))


def test_tvm_text_of_random_modules_keeps_its_meaning():
    for seed in range(20 * TIMES):
        text = random_module(seed).script(dialect="tvm")
        after = upgrade(text)
        assert structural_equal(parse(text, check=False), parse(after, check=False)), seed
        assert not re.search(r"T\.sblock\b|R\.call_tir|R\.call_dps_packed|R\.Any|out_ty=", after)
        assert upgrade(after) == after


FILE = '''"""Not script: @T.prim_func with T.sblock."""
import tvm
from tvm.script import tir as TT, relax as rx
from typing import Tuple
from elsewhere import tir as T
table = {"T.sblock": T.boolean}
K = 4

@T.prim_func
def other(): T.sblock(f"{K!r}")

def factory(dtype):
    @TT.prim_func
    def inner(A: TT.Buffer[(K, 16), dtype],   # T.sblock stays in comments
              B: TT.Buffer[(16,), "float32"]) -> None:
        for i in TT.serial(16):
            with TT.sblock("T.sblock"):
                vi = TT.axis.S(16, i)
                B[vi] = TT.boolean(True)
    return inner

@tvm.script.ir_module
class Mod:
    @rx.function
    def main(x: rx.Tensor((K, m), "float32"), y: Tuple[int]):
        y = rx.call_tir("f", (x,), out_sinfo=rx.Tensor((4,), "int8"),
                        tir_vars=rx.shape([K]))
        return y

    @I.pyfunc
    def plain(x):
        return tvm.tir.sblock(x)

match K:
    case 4: T.sblock()
'''


def test_only_script_is_touched():
    after = upgrade(FILE)
    changed = [(old, new) for old, new in zip(FILE.split("\n"), after.split("\n")) if old != new]
    assert [new.strip() for _, new in changed] == [
        "def inner(A: TT.Buffer((K, 16), dtype),   # T.sblock stays in comments",
        'B: TT.Buffer((16,), "float32")) -> None:',
        'with TT.block("T.sblock"):',
        "B[vi] = TT.bool(True)",
        'def main(x: rx.Tensor((K, "m"), "float32"), y: Tuple[int]):',
        'y = rx.call_dps("f", (x,), rx.Tensor((4,), "int8"),',
    ]
    assert len(FILE.split("\n")) == len(after.split("\n"))
    assert upgrade(after) == after


def test_nothing_to_do_is_the_same_text():
    for text in ("", "x = 1", "def f(:\n", "'''open", "@T.prim_func", "a = [\n1,\n"):
        assert upgrade(text) == text


def test_unreadable_script_is_an_error_with_its_place():
    with pytest.raises(ScriptError) as caught:
        upgrade("x = 1\ndef g():\n    @T.prim_func\n    def f():\n        a = = 1\n", name="model.py")
    assert caught.value.span is not None
    assert str(caught.value.span) == "model.py:5:13"


def test_types_are_needed_only_where_they_are_missing():
    """Without a known data type the shape stays, which is read like before."""
    text = GRAPH + 'y = R.call_tir("f", (weights,), (1, 128))\n    return y'
    assert upgrade(text).endswith('y = R.call_dps("f", (weights,), (1, 128))\n    return y')


def test_command(tmp_path, capsys):
    file = tmp_path / "old.py"
    file.write_bytes(FILE.replace("\n", "\r\n").encode())
    assert main(["upgrade", "--check", str(file)]) == 1
    assert main(["upgrade", "--in-place", str(file)]) == 0
    assert file.read_bytes().decode() == upgrade(FILE).replace("\n", "\r\n"), "line ends stay"
    assert main(["upgrade", "--check", str(file)]) == 0
    capsys.readouterr()


FORMS = Path(__file__).parent / "syntax_forms.json"


def test_every_collected_form_keeps_its_meaning():
    compared = 0
    for form in json.loads(FORMS.read_text()):
        try:
            before = parse(form["text"])
        except ScriptError:
            continue
        after = upgrade(form["text"])
        assert structural_equal(before, parse(after)), form["what"]
        assert upgrade(after) == after, form["what"]
        compared += 1
    assert compared > 250
