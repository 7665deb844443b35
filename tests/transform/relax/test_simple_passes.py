import numpy as np

from unity.ffi.native.compact import compact
from unity.ir import Call, SeqExpr, collect
from unity.ir.node import replace
from unity.script import parse
from unity.transform.relax.algebra.canonicalize import canonicalize
from unity.transform.relax.algebra.fold_constant import fold_constant
from unity.transform.relax.normalize.convert_to_dataflow import to_non_dataflow
from unity.transform.relax.normalize.dead_code import dead_code
from unity.transform.relax.normalize.normalize import normalize

X = np.arange(4, dtype="float32")


def module(body, params='x: R.Tensor((4,), "float32")', more=""):
    lines = "\n".join("        " + line for line in body.strip().split("\n"))
    return f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n{lines}\n{more}"


def test_canonicalize_aliases_and_tuples(check_pass):
    before = module(
        "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    b = t[0]\n    c = b\n    d = R.add(c, t[1])\n    e = d\n    R.output(e)\nreturn e"
    )
    after = module(
        "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    e = R.add(a, x)\n    R.output(e)\nreturn e"
    )
    check_pass(canonicalize, before, after, X)


def test_canonicalize_keeps_real_checks(check_pass):
    text = module('y = R.match_cast(x, R.Tensor((4,), "float32"))\nreturn y', 'x: R.Tensor(("n",), "float32")')
    check_pass(canonicalize, text, text, X)
    before = module('y = R.match_cast(x, R.Tensor((4,), "float32"))\nz = R.exp(y)\nreturn z')
    check_pass(canonicalize, before, module("z = R.exp(x)\nreturn z"), X)


def test_dead_code(check_pass):
    more = '    @R.function(private=True)\n    def unused(x: R.Tensor((4,), "float32")):\n        return x\n'
    before = module("a = R.exp(x)\nb = R.sin(a)\nc = R.cos(x)\nreturn c", more=more)
    check_pass(dead_code, before, module("c = R.cos(x)\nreturn c"), X)


def test_dead_code_keeps_effects_and_checks(check_pass):
    text = module(
        '_ = R.print(x, format="{}")\nm = R.match_cast(x, R.Tensor((4,), "float32"))\nreturn x',
        'x: R.Tensor(("n",), "float32")',
    )
    check_pass(dead_code, text, text)


def test_dead_code_in_branches(check_pass):
    def text(inner):
        return module(
            f"if c:\n    {inner}b = R.exp(x)\n    y = b\nelse:\n    y = x\nreturn y",
            'x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")',
        )

    check_pass(dead_code, text("d = R.sin(x)\n    "), text(""), X, np.array(True))


def test_fold_constant(check_pass):
    before = module('a = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))\nb = R.multiply(x, a)\nreturn b')
    mod = fold_constant(parse(before))
    assert [c.op.name for c in collect(mod["main"], Call)] == ["R.multiply"]
    same = module("b = R.multiply(x, x)\nreturn b")
    check_pass(fold_constant, same, same)


def test_fold_constant_is_bounded():
    text = module('a = R.broadcast_to(R.const(1.0, "float32"), (1000, 1000))\nreturn a')
    mod = parse(text)
    assert fold_constant(mod) is mod


def test_to_non_dataflow(check_pass):
    before = module("a = R.exp(x)\nwith R.dataflow():\n    b = R.sin(a)\n    c = R.cos(b)\n    R.output(c)\nreturn c")
    check_pass(to_non_dataflow, before, module("a = R.exp(x)\nb = R.sin(a)\nc = R.cos(b)\nreturn c"), X)


def test_normalize(check_pass):
    mod = parse(module("a = R.exp(x)\nb = R.sin(a)\nreturn b"))
    fn = mod["main"]
    first, second = fn.body.blocks[0].bindings
    nested = replace(second.value, args=(first.value,))
    for body in (nested, SeqExpr((), nested)):
        made = normalize(mod.with_functions({"main": replace(fn, body=body)}))
        calls = [b.value.op.name for b in made["main"].body.blocks[0].bindings]
        assert calls == ["R.exp", "R.sin"]
        assert normalize(made) is made
    assert normalize(mod) is mod


def test_folded_transposes_are_copied_exactly():
    rng = np.random.default_rng(0)
    for shape, order in (
        ((130, 70), (1, 0)),
        ((3, 65, 130), (2, 0, 1)),
        ((1, 90, 1, 90), (3, 2, 1, 0)),
        ((64, 64), (0, 1)),
    ):
        array = rng.standard_normal(shape).astype("float32").transpose(order)
        made = compact(array)
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, array)
