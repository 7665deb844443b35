"""What is read reads back from its print; what would be lost in print is refused; what a damaged line costs is told once."""

from __future__ import annotations

import itertools

import pytest

import unity
from unity.ir import IRModule, first_difference
from unity.s_tir import Schedule
from unity.script import parse, script
from unity.script.tirx import prim_func
from unity.support.errors import ScriptError, UnityError
from unity.tirx import PrimFunc

HEAD = '@T.prim_func\ndef f(A: T.Buffer((128,), "float32"), n: T.int32):\n'
GRAPH = '@R.function\ndef f(x: R.Tensor((4,), "float32")):\n'
VECTOR = "A[T.ramp(0, 1, 4 * T.vscale())]"
LAUNCH = '    tx = T.env_thread("threadIdx.x")\n'
MODULE = """@I.ir_module
class M:
    @T.prim_func
    def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i]
    @R.function
    def main(x: R.Tensor(({given},), "float32")):
        y = R.call_tir(cls.add, (x,), out_ty=R.Tensor(({result},), "float32"))
        return y
"""

SAME = {
    "an axis launched twice": LAUNCH + "    with T.launch_thread(tx, 128):\n        A[tx] = 0.0\n"
    "    with T.launch_thread(tx, 64):\n        A[tx] = 1.0\n",
    "an axis with an attribute": LAUNCH + '    T.attr(tx, "pragma", 1)\n    T.launch_thread(tx, 8)\n    A[tx] = 0.0\n',
    "an extent as attribute": LAUNCH + '    with T.attr(tx, "thread_extent", 128):\n        A[tx] = 0.0\n',
    "an extent of another type": LAUNCH + '    with T.attr(tx, "thread_extent", n * 2):\n        A[tx] = 0.0\n',
    "a virtual thread": '    v = T.env_thread("vthread.x", "int32")\n    with T.attr(v, "virtual_thread", 8):\n        A[v] = 0.0\n',
    "an axis in the predicate": '    for i in range(128):\n        with T.block("b"):\n'
    "            v = T.axis.spatial(128, i)\n            T.where(v < 5)\n            A[v] = 0.0\n",
    "a scalable vector": f"    x: T.let = {VECTOR}\n    {VECTOR} = x\n",
    "a scalable vector as type": f"    x: T.float32xvscalex4 = {VECTOR}\n    {VECTOR} = x\n",
    "powers": "    A[0] = A[1]" + " ** A[2]" * 170 + "\n",
    "shifts": "    T.evaluate(n" + " << n" * 170 + ")\n",
    "a loose iterator": '    t = T.int32()\n    with T.attr(T.iter_var(t, T.Range(0, 8), "DataPar", ""), "a", 1):\n        A[0] = 0.0\n',
    "a loose iterator of a pair": '    with T.attr(T.iter_var(t, (2, 8), "DataPar", ""), "a", 1):\n        A[0] = 0.0\n',
    "the least number": "    for i in range(-9223372036854775808, 5):\n        A[i] = 0.0\n",
}  # fmt: skip


@pytest.mark.parametrize("body", SAME.values(), ids=SAME.keys())
def test_reads_back(body: str) -> None:
    node = parse(HEAD + body)
    printed = script(node)
    again = parse(printed)
    assert first_difference(node, again) is None, printed
    assert script(again) == printed


def test_the_predicate_takes_what_the_axis_is_bound_to() -> None:
    by_axis = parse(HEAD + SAME["an axis in the predicate"])
    by_loop = parse(HEAD + SAME["an axis in the predicate"].replace("v < 5", "i < 5"))
    assert first_difference(by_axis, by_loop) is None


BUFFER_OPTIONS = [
    'scope="local"', "align=128", "offset_factor=4", "strides=(n,)", "elem_offset=n", 'dtype="int8"', 'dtype="void"',
    'dtype="bfloat16"', 'dtype="float32xvscalex4"', "axis_separators=[0]",
]  # fmt: skip
LOOP_OPTIONS = ['annotations={"a": 1}', "step=2", 'annotations={"b": [T.int64(1), "x", None]}']
PLACES = {
    "    B = T.alloc_buffer((4,), {})\n    T.evaluate(B.data)\n": BUFFER_OPTIONS,
    "    B = T.decl_buffer((4,), {}, data=A.data)\n    T.evaluate(B.data)\n": BUFFER_OPTIONS,
    "    with T.block():\n        B = T.alloc_buffer((4,), {})\n        T.evaluate(B.data)\n": BUFFER_OPTIONS,
    "    for i in T.serial(1, n, {}):\n        A[i] = 0.0\n": LOOP_OPTIONS,
    "    for i in T.unroll(n, {}):\n        A[i] = 0.0\n": LOOP_OPTIONS,
    '    for i in T.thread_binding(n, "threadIdx.x", {}):\n        A[i] = 0.0\n': LOOP_OPTIONS,
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.split("(")[0].strip() + place[-20:-1])
def test_optional_keywords_read_back(place: str) -> None:
    options, read = PLACES[place], 0
    for chosen in [(one,) for one in options] + list(itertools.combinations(options, 2)):
        text = HEAD + place.replace("{}", ", ".join(chosen)).replace(", ,", ",")
        try:
            node = parse(text)
        except ScriptError:
            continue
        read += 1
        printed = script(node)
        assert first_difference(node, parse(printed)) is None, f"{text}\n{printed}"
    assert read >= len(options) // 2


@pytest.mark.parametrize("text", [
    "@I.ir_module(check_well_formed=False)\nclass M:\n    @T.prim_func\n    def f(x: T.int32):\n        T.evaluate(x)\n",
    "@T.prim_func(check_well_formed=False)\ndef f(x: T.int32):\n    T.evaluate(x)\n",
    GRAPH.replace("function", "function(check_well_formed=False)") + "    return x\n",
])  # fmt: skip
def test_what_is_not_checked_is_not_checked_again(text: str) -> None:
    node = parse(text)
    assert "check_well_formed=False" in script(node)
    assert script(parse(script(node))) == script(node)


@pytest.mark.parametrize("text,code", [
    ("@foo\n" + HEAD + "    pass\n", "E117"),
    ("@foo.bar(1)\n" + GRAPH + "    return x\n", "E117"),
    ("@T.prim_func\n" + HEAD + "    pass\n", "E117"),
    ("@foo\n@I.ir_module\nclass M:\n    pass\n", "E117"),
    ("@I.ir_module\nclass M(Base):\n    pass\n", "E117"),
    ("@I.ir_module\nclass M(BasePyModule, metaclass=Foo):\n    pass\n", "E117"),
    ("@T.macro(foo=1)\ndef m():\n    pass\n" + HEAD + "    m()\n", "E112"),
    (HEAD + "    x = T.__class__\n", "E111"),
    (HEAD + "    x = T.exp.real\n", "E111"),
    (GRAPH + "    y = R.foo\n    return x\n", "E111"),
    (HEAD + "    A[0] = T.lookup_param(~'w', dtype='handle')\n", "E113"),
    ("x = I.__dict__\n" + HEAD + "    pass\n", "E111"),
])  # fmt: skip
def test_what_would_be_lost_is_refused(text: str, code: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(text)
    assert [error.code for error in caught.value.errors] == [code]


@pytest.mark.parametrize("text", [
    HEAD.replace("T.prim_func", "T.prim_func(private=True") + "    pass\n",
    HEAD + "    x = T.max(n, 2\n    A[0] = T.Cast('float32', x)\n",
    HEAD + "    x = [1, 2\n    A[x[0]] = 0.0\n",
    "@I.ir_module(\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        pass\n",
    MODULE.format(given=4, result=4).replace('B: T.Buffer((4,), "float32")):', 'B: T.Buffer((4,), "float32"):'),
])  # fmt: skip
def test_an_open_bracket_is_one_error(text: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(text)
    assert len(caught.value.errors) == 1


def test_an_option_named_on_a_damaged_line_ends_in_words() -> None:
    text = "@I.ir_module(s_tir=main)\nclass M:\n    @R.function\n    Tensor main(x: R.Tensor((4,), 'int8')):\n        return x\n"
    with pytest.raises(ScriptError, match="E101"):
        parse(text)


@pytest.mark.parametrize("given,result,words", [
    (8, 4, "add: parameter A (argument x) has 4 elements along axis 0, got 8"),
    (4, 8, "add: parameter B has 4 elements along axis 0, got 8"),
])  # fmt: skip
def test_a_wrong_shape_is_told_in_the_words_of_the_text(given: int, result: int, words: str) -> None:
    with pytest.raises(ScriptError, match="E346") as caught:
        parse(MODULE.format(given=given, result=result))
    assert caught.value.message == words


def test_a_symbol_stands_for_one_size() -> None:
    program = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (4, n), "float32")
    B[0, 0] = A[0, 0]

@R.function
def main(x: R.Tensor((3, 4), "float32")):
    return R.call_tir(f, (x,), R.Tensor((4, {size}), "float32"))
"""
    parse(program.format(size=3))
    with pytest.raises(ScriptError, match="B has n elements along axis 1, which is 3 of an argument before it, got 7"):
        parse(program.format(size=7))


@pytest.mark.parametrize("act,near", [
    (lambda: parse(GRAPH + "    y = R.nn.conv1d(x, x, stride=2)\n    return y\n"), "strides"),
    (lambda: parse(HEAD.replace("float32", "float23") + "    pass\n"), "float32"),
    (lambda: parse(HEAD + "    for i in T.serial(4, annotation={}):\n        pass\n"), "annotations"),
    (lambda: parse(HEAD + "    A[0] = T.exp(A[1], dtyp='float32')\n"), "dtype"),
    (lambda: unity.Target("lvm"), "llvm"),
    (lambda: unity.Target("LLVM"), "llvm"),
    (lambda: unity.Target("llvm -mcp=x"), "mcpu"),
])  # fmt: skip
def test_misspelled_names_have_neighbours(act, near: str) -> None:
    with pytest.raises(UnityError) as caught:
        act()
    assert f"did you mean {near}" in (caught.value.help or "")


def test_numbers_that_no_float_holds() -> None:
    for act in (
        lambda: unity.relax.const(10**400, "float32"),
        lambda: unity.tir.FloatImm("float32", 10**400),
        lambda: unity.relax.const(10**400, "int32"),
    ):
        with pytest.raises(UnityError, match="E201"):
            act()
    run = unity.build(parse('@R.function\ndef f(x: R.Prim("float32")):\n    return x\n'))
    with pytest.raises(UnityError, match="E613"):
        run["f"](10**400)


def test_a_module_says_how_to_run_it() -> None:
    with pytest.raises(UnityError, match="E305"):
        IRModule()(1)
    for function in (
        "@R.function\ndef f(x: R.Tensor):\n    return x",
        "@T.prim_func\ndef f(x: T.int32):\n    T.evaluate(x)",
    ):
        with pytest.raises(UnityError, match="E305"):
            parse(function)(1)


def test_later_names_of_tir_are_modules() -> None:
    assert (Schedule, PrimFunc, prim_func) == (unity.tir.Schedule, unity.tir.PrimFunc, unity.script.tir.prim_func)
