"""Arguments by name: what the stubs say of a form, its reader takes. Calls are those of the known spellings.

Every positional argument that has a name is given by it, and every optional one that is left out is given at its default.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from unity.ir import first_difference
from unity.script import parse

HERE = Path(__file__).parent
REFUSED = {r["what"] for r in json.loads((HERE / "refusals.json").read_text(encoding="utf-8"))}
FORMS = json.loads((HERE / "syntax_forms.json").read_text(encoding="utf-8"))
OTHER_ORDER = {"call_dps(shape, f, args) (seeds, 2021 design)"}
"""Spellings whose positional arguments stand in an order of their own."""


def signatures():
    """The parameters of every function of the stubs that has one form and no ``*args``: positional ones, defaults by name."""
    found = {}
    for letter, name in (("T", "tir"), ("R", "relax"), ("I", "ir")):
        tree = ast.parse((HERE.parent.parent / "unity" / "script" / f"{name}.pyi").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                args = node.args
                named = [a.arg for a in args.args]
                defaults = dict(zip(named[len(named) - len(args.defaults) :], args.defaults))
                defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None}
                plain = not args.vararg and not args.posonlyargs and f"{letter}.{node.name}" not in found
                found[f"{letter}.{node.name}"] = (named, defaults) if plain else None
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                for target in node.targets:
                    found[f"{letter}.{ast.unparse(target)}"] = found.get(f"{letter}.{node.value.id}")
    return {name: form for name, form in found.items() if form}


def variants():
    """(form, what is done, the known text, the text with the call in another form), each kind of variant of a form once."""
    forms, seen = signatures(), set()
    for form in FORMS:
        if form["what"] in REFUSED or form["needs_python"] or form["what"] in OTHER_ORDER:
            continue
        try:
            tree = ast.parse(form["text"])
        except SyntaxError:  # `def f[n: T.int64]()`, before Python 3.12
            continue
        for call in [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) in forms]:
            name, args, keywords = ast.unparse(call.func), call.args, call.keywords
            if any([isinstance(a, ast.Starred) for a in args]) or len(args) > len(forms[name][0]):
                continue
            for what, new in rewritten(*forms[name], args, keywords):
                if (name, what, len(args)) in seen:
                    continue
                seen.add((name, what, len(args)))
                call.args, call.keywords = new
                yield name, what, form["text"], ast.unparse(tree)
                call.args, call.keywords = args, keywords


def rewritten(named, defaults, args, keywords):
    for cut in range(1, len(args)):
        yield f"{cut} by place", (args[:cut], [ast.keyword(p, a) for p, a in zip(named[cut:], args[cut:])] + keywords)
    given = {*named[: len(args)], *[k.arg for k in keywords]}
    for name, value in defaults.items():
        if name not in given and isinstance(value, ast.Constant) and value.value not in (None, ...):
            yield f"with {name}", (args, [*keywords, ast.keyword(name, value)])


CASES = list(variants())


def test_there_are_many():
    assert len(CASES) > 80 and {"T.match_buffer", "T.alloc_buffer", "R.call_tir"} <= {name for name, _, _, _ in CASES}


@pytest.mark.parametrize(
    ("name", "what", "old", "new"), CASES, ids=[f"{n}-{w}-{k}" for k, (n, w, _, _) in enumerate(CASES)]
)
def test_is_read(name, what, old, new):
    made = parse(new)
    if "by place" in what:
        assert first_difference(parse(old), made) is None


REGION = """
@T.prim_func
def f(A: T.Buffer((4, 2), "int8"), C: T.Buffer((4, 2), "int8")):
    with T.block("b"):
        T.reads(A[0:4, 0:2])
        T.writes(C[0:4, 0:2])
        B = T.match_buffer(A[0:4, 0:2]{})
        for i, j in T.grid(4, 2):
            C[i, j] = B[i, j]
"""


@pytest.mark.parametrize("rest", [
    ', dtype="int8"', ', scope="global"', ", (4, 2)", ", shape=(4, 2)", ', (4, 2), dtype="int8"', ', dtype="int8", align=64',
])  # fmt: skip
def test_what_a_region_says_is_not_said_twice(rest):
    assert first_difference(parse(REGION.format("")), parse(REGION.format(rest))) is None


@pytest.mark.parametrize(("name", "scope"), [("alloc_local", "local"), ("alloc_shared", "shared")])
def test_the_scope_of_an_allocation_by_place(name, scope):
    text = '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    B = T.{}((4,), "float32"{})\n    A[0] = B[0]\n'
    assert first_difference(parse(text.format(name, "")), parse(text.format(name, f', "{scope}"'))) is None
