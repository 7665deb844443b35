"""What is wrong in a text is said with code, place and help; several errors at once; no text crashes or hangs the reader."""

from __future__ import annotations

import time

import pytest

from unity.script import parse
from unity.script.parser import layout
from unity.support.errors import ScriptError, UnityError

PRIM = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16, 16), "int32"), n: T.int64):\n'
GRAPH = '@R.function\ndef f(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):\n'


def errors_of(text: str) -> list[ScriptError]:
    with pytest.raises(ScriptError) as caught:
        parse(text)
    return caught.value.errors


def indented(lines: str) -> str:
    return "".join(["    " + line + "\n" for line in lines.split("\n")])


PRIM_CASES = [
    ("A[0] = x", "E110", "unknown name 'x'", 3, 12),
    ("A[0] = T.expp(A[0])", "E111", "unknown function T.expp", 3, 12),
    ("A[0] = T.max(A[0])", "E112", "T.max needs the argument 'b'", 3, 12),
    ("A[0] = B[0]", "E112", "B has 2 axes, got 1", 3, 12),
    ("A[0, 1] = T.float32(1)", "E112", "A has 1 axes, got 2", 3, 5),
    ("A.sise = 3", "E113", "", 3, 5),
    ("T.evaluate(A.sise)", "E111", "no attribute 'sise'", 3, 16),
    ("with T.block('b'):\n    vi = T.axis.remap('S', [n])", "E113", "loop variables", 4, 14),
    ("vi = T.axis.spatial(16, n)", "E116", "only inside", 3, 10),
    ("for i in A:\n    pass", "E113", "a loop runs over", 3, 14),
    ("for i in range(0, 16, 0):\n    pass", "E113", "step must be positive", 3, 14),
    ("for i in T.thread_binding(4):\n    pass", "E112", "thread=", 3, 14),
    ("A[0] = n / n", "E202", "ambiguous", 3, 12),
    ("A[0] = B[0, 0] @ B[0, 0]", "E107", "no meaning for scalars", 3, 12),
    ("A[0] = 1 if A else 2", "E113", "is a buffer", 3, None),
    ("A[0] = 7 ** 100000", "E106", "too large", 3, 12),
    ("A[0] = 1 // 0", "E113", "division by zero", 3, 12),
    ("A[0] = T.float32('x')", "E106", "T.float32 of the string", 3, 12),
    ("A[0:n] = T.float32(1)", "E113", "constant length", 3, 7),
    ("T.floot32(1)", "E111", "did you mean", 3, 5),
    ("x: T.float33 = A[0]", "E111", "unknown name T.float33", 3, 8),
    ("A[0]", "E113", "no effect", 3, 5),
    ("import numpy", "E107", "import", 3, 5),
    ("return f'{1}'", "E107", "f-string", 3, 12),
    ("C = T.decl_buffer((4,), 'float32', data=3)", "E113", "data=", 3, 9),
    ("C = T.match_buffer(A, (4,))", "E116", "only inside", 3, 9),
    ("T.func_attr(3)", "E113", "takes a dict", 3, 5),
    ("T.call_extern('int32', 3)", "E113", "as text", 3, 5),
    ("T.reads(A[0])", "E116", "only inside", 3, 5),
    ("for i, j in T.grid(2, 3, 4):\n    pass", "E113", "2 names for 3", 3, 9),
    ("A[0] = A[0] in A", "E107", "operator `in`", 3, 12),
    ("A[0] = T.Ramp(0, 1, n)", "E113", "lanes", 3, 12),
    ("if n > 0:\n    x = A[0]\nA[1] = x", "E110", "declare it before the block", 5, 12),
    ("def g(x):\n    pass", "E107", "a function inside", 3, 5),
]


@pytest.mark.parametrize("line,code,message,row,column", PRIM_CASES, ids=[c[0].split("\n")[-1] for c in PRIM_CASES])
def test_tensor_programs(line: str, code: str, message: str, row: int, column: int | None) -> None:
    found = errors_of(PRIM + indented(line))
    assert [e.code for e in found] == [code], str(found[0])
    rendered = f"{found[0].message} {found[0].help}"
    assert message in rendered
    assert found[0].span is not None
    assert found[0].span.line == row
    if column is not None:
        assert found[0].span.column == column
    assert "^" in found[0].render()


GRAPH_CASES = [
    ("y = R.ad(x, x)\nreturn y", "E111", "did you mean R.add"),
    ("y = R.add(x, z)\nreturn y", "E110", "unknown name 'z'"),
    ("y = R.add(x)\nreturn y", "E215", "missing"),
    ("y = R.add(x, c)\nreturn y", "E211", "data types"),
    ("for i in range(2):\n    y = x\nreturn x", "E107", "`for`"),
    ("return x\ny = x", "E116", "after return"),
    ("if c:\n    return x\nelse:\n    y = x\nreturn x", "E116", "return stands only"),
    ("if c:\n    y = x\nelse:\n    z = x\nreturn x", "E116", "different names"),
    ("if c:\n    y = x\nreturn x", "E116", "needs `else`"),
    ("if x:\n    y = x\nelse:\n    y = x\nreturn y", "E118", "bool scalar"),
    ('y: R.Tensor((5, 3), "float32") = x\nreturn y', "E118", "never has type"),
    ("with R.dataflow():\n    y = R.add(x, x)\nreturn y", "E120", "visible only inside"),
    ("with R.dataflow():\n    y = R.add(x, x)\n    R.output(z)\nreturn y", "E120", "output 'z' is not bound"),
    ("with R.dataflow():\n    R.output(y)\n    y = R.add(x, x)\nreturn y", "E120", "last line"),
    ("y = x[0]\nreturn y", "E113", "takes no index"),
    ("y = R.call_dps('f', (x,))\nreturn y", "E112", "type of its result"),
    ("y = (x, x)[5]\nreturn y", "E113", "index 5 of 2"),
    ("t = (x, x)\ny = t[5]\nreturn y", "E113", "field 5"),
    ("n = T.int64()\ny = R.reshape(x, (m, n))\nreturn y", "E110", "unknown name 'm'"),
    ("y = lambda a: a\nreturn x", "E107", "lambda"),
    ("y = 'text'\nreturn x", "E113", "R.str"),
    ("y = R.emit_te(f, x)\nreturn x", "E117", "calls a Python function"),
    ("R.output(x)\nreturn x", "E120", "end of"),
    ("a, b = x\nreturn x", "E113", "no parts"),
    ('y = R.const("a", "float32")\nreturn x', "E113", "made of numbers"),
    ('y = R.const_bytes("AAAA", (7,), "float32")\nreturn x', "E113", "do not fill"),
    ('y = R.const_bytes("?", (7,), "float32")\nreturn x', "E106", "base64"),
]


@pytest.mark.parametrize("lines,code,message", GRAPH_CASES, ids=[c[0].split("\n")[0] for c in GRAPH_CASES])
def test_graph_functions(lines: str, code: str, message: str) -> None:
    found = errors_of(GRAPH + indented(lines))
    assert code in [e.code for e in found], str(found[0])
    error = next(e for e in found if e.code == code)
    assert message in f"{error.message} {error.help}"
    assert error.span is not None


TOP_CASES = [
    ("x = = 3\n", "E101", "expected an expression"),
    ("", "E121", "no module and no function"),
    ("class M:\n    pass\n", "E121", "no decorator"),
    ("@I.ir_module\nclass M:\n    def f(x):\n        return x\n", "E121", "no decorator"),
    ("@I.ir_module\nclass M:\n    for i in range(2):\n        pass\n", "E121", "a module holds"),
    ("import numpy as np\n@R.function\ndef f(x: R.Object):\n    return np.ones(3)\n", "E110", "unknown name 'np'"),
    ("@T.jit\ndef f():\n    pass\n", "E117", "T.jit"),
    ("@R.function(pur=True)\ndef f(x: R.Object):\n    return x\n", "E112", "no argument 'pur'"),
    ("@R.function\ndef f(x: R.Object, x: R.Object):\n    return x\n", "E115", "called 'x'"),
    ("@R.function(pure=True)\ndef f(x: R.Object):\n    R.call_packed('g', x)\n    return x\n", "E119", "has an effect"),
    ('@R.function\ndef f(x: R.Tensor((2,), "float32")) -> R.Tensor((3,), "float32"):\n    return x\n', "E118", "returns"),
    ("@T.prim_func\ndef f(A: R.Tensor((2,))):\n    pass\n", "E114", "buffers"),
    ("@R.function\ndef f(x: R.Tensr((2,))):\n    return x\n", "E111", "R.Tensr"),
]  # fmt: skip


@pytest.mark.parametrize("text,code,message", TOP_CASES, ids=[c[0][:40] for c in TOP_CASES])
def test_tops(text: str, code: str, message: str) -> None:
    found = errors_of(text)
    assert code in [e.code for e in found], str(found[0])
    error = next(e for e in found if e.code == code)
    assert message in f"{error.message} {error.help}"


def test_several_errors_in_one_go() -> None:
    text = PRIM + indented("A[0] = x\nA[1] = = 3\nA[2] = T.expp(A[0])\ny = nope(1)\nA[3] = y\nB[0] = 1")
    found = errors_of(text)
    assert [(e.code, e.span.line if e.span else 0) for e in found] == [
        ("E110", 3), ("E101", 4), ("E111", 5), ("E110", 6), ("E112", 8),
    ]  # fmt: skip
    with pytest.raises(ScriptError) as caught:
        parse(text)
    assert str(caught.value).endswith("5 errors")


def test_errors_in_several_functions() -> None:
    inside = PRIM + "    A[0] = x\n" + GRAPH.replace("f(", "g(") + "    y = z\n    return y"
    text = "@I.ir_module\nclass M:\n" + indented(inside)
    assert [(e.code, e.span.line if e.span else 0) for e in errors_of(text)] == [("E110", 5), ("E110", 8)]


def test_expected_lists_are_words() -> None:
    (error,) = errors_of("for i range(3):\n    pass\n")
    assert error.message == "unexpected 'range', expected 'in' or '(' or ',' or '.' or '['" or "'in'" in error.message
    (error,) = errors_of("f(a b)\n")
    assert "'b'" in error.message and "')'" in error.message


@pytest.mark.parametrize("text,code", [
    ("(" * 10_000 + "\n", "E105"),
    ("x = " + "[" * 300 + "]" * 300, "E105"),
    ("".join([" " * i + "if x:\n" for i in range(300)]), "E105"),
    ("a = " + "-" * 1000 + "1", "E105"),
    ("x " * 500_000, "E101"),
    ("a = " + "a+" * 20_000 + "a", "E105"),
    ('"' + "a" * 1_000_000, "E106"),
    ("x = " + "1" * 100_000, "E106"),
    ("x" * 1_000_000, "E121"),
    ("x = f(" * 190 + "1", "E102"),
    ("\tx = 1\n", "E10"),
    ("@R.function\ndef f():\n\treturn 1\n\tx = 2\n", "E104"),
    ("x = 1\x00\n", "E101"),
    ("@T.prim_func\ndef f(x: T.int32) -> T.int32:\n    return x" + ".a" * 5_000 + "\n", "E1"),
    ("@T.prim_func\ndef f(x: T.int32) -> T.int32:\n    return x" + " if x else x" * 6_000 + "\n", "E105"),
    ("@T.prim_func\ndef f(A: T.Buffer((2 ** 100000,))):\n    pass\n", "E106"),
    ("@T.macro\ndef m(x):\n    m(x)\n@T.prim_func\ndef f(x: T.int32):\n    m(x)\n", "E105"),
], ids=lambda v: v[:20] if isinstance(v, str) else None)  # fmt: skip
def test_hostile_texts(text: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MAX_STATEMENT_TOKENS", 20_000)
    start = time.process_time()
    found = errors_of(text)
    assert found[0].code.startswith(code), str(found[0])[:300]
    assert time.process_time() - start < 10


def test_a_long_chain_is_read() -> None:
    fn = parse("@T.prim_func\ndef f(x: T.int32) -> T.int32:\n    return " + "x + " * 10_000 + "x\n", check=False)
    node, depth = fn.body.value, 0
    while hasattr(node, "a"):
        node, depth = node.a, depth + 1
    assert depth == 10_000


def test_nothing_is_executed() -> None:
    touched: list[str] = []

    class Trap:
        def __getattr__(self, name: str) -> object:
            touched.append(name)
            return self

        def __call__(self, *args: object) -> object:
            touched.append("call")
            return self

        def __getitem__(self, item: object) -> object:
            touched.append("item")
            return self

    for line in ("A[0] = trap(1)", "A[0] = trap.x", "A[0] = trap[0]", "A[0] = trap + 1", "trap()", "with trap: pass"):
        with pytest.raises(UnityError):
            parse(PRIM + indented(line), scope={"trap": Trap()})
    assert not touched


def test_an_indented_text_keeps_its_columns() -> None:
    text = "    @T.prim_func\n    def f(x: T.int32):\n        T.evaluate(y)\n"
    (error,) = errors_of(text)
    assert error.span is not None
    assert (error.span.line, error.span.column) == (3, 20)
