"""Every argument of every documented name: right values are read, printed and read back; values of another kind are refused.

Base calls of graph operators are the samples of ``tests/op``, those of other names the known spellings. What kind an argument
is of is said by the operator's row, its samples, or the annotation in the stub. By default a fixed part of the cases is tried, with
``FUZZ=1000`` in the environment every one.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import TIMES

from unity.ir import IRModule, ShapeExpr, Tuple, Var, build as b, first_difference
from unity.ir.builder import BlockBuilder
from unity.ir.op import OPS, REQUIRED, Param
from unity.ir.relation import tensor_type
from unity.op import OPERATORS
from unity.script import parse, script
from unity.support.errors import UnityError

sys.path.append(str(Path(__file__).parents[1] / "op"))
from op_cases import CASES, Shape

HERE = Path(__file__).parent
COUNT = 250 * TIMES
KINDS: dict[type, str] = {
    str: "'no such thing'", int: "7", float: "2.5", bool: "True", dict: "{'zz': 1}", tuple: "(2.5, 'zz')",
}  # fmt: skip
FITS: dict[type, set[type]] = {
    bool: {bool}, int: {int, bool}, float: {float, int, bool}, str: {str}, dict: {dict}, tuple: {tuple, int, bool},
}  # fmt: skip
"""What may stand for a parameter of a kind; whether a number or a text is one of the right ones is another question."""
ODD = [
    "10**400", "-(10**400)", "0x" + "f" * 5000, "1e999", "x", "A", "T", "R.add", "T.int8", "[None]", "[]", "''", "-1", "None", "R.Tensor",
    "T.Range(0, 4)", "lambda a: a", "range(3)", "...", "(1, (2, 3))", "T.int64(3)", "T.float32(1.5)", "2**63", "T", "int(1e400)", "float(10**400)",
]  # fmt: skip
"""Values that fit in some places only."""
FORMS = json.loads((HERE / "syntax_forms.json").read_text(encoding="utf-8"))
REFUSED = {r["what"] for r in json.loads((HERE / "refusals.json").read_text(encoding="utf-8"))}
ANNOTATED = {"str": str, "int": int, "bool": bool, "float": float, "dict": dict}


@dataclass
class Case:
    """A call with one argument given or changed; ``right`` is None where nobody says whether the value is."""

    name: str
    key: str
    value: str
    right: bool | None
    text: Callable[[], str]


# ------------------------------------------------------------------------------------------------------ graph operators


def operator_text(name: str, inputs: list[Any], attrs: dict[str, Any]) -> str:
    """A graph function with the call of a sample."""
    params: list[Var] = []

    def argument(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            shape = [b.const(extent, "int64") for extent in value.shape]
            params.append(Var(f"x{len(params)}", tensor_type(shape, str(value.dtype))))
            return params[-1]
        if isinstance(value, Shape):
            return ShapeExpr(tuple([b.const(int(extent), "int64") for extent in value]))
        return Tuple(tuple([argument(item) for item in value])) if isinstance(value, tuple) else value

    call = OPERATORS[f"R.{name}"](*[argument(value) for value in inputs], **attrs)
    bb = BlockBuilder(IRModule({}, {}, {}))
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(call))
    return str(script(bb.get()["main"]))


def operator_cases() -> Iterator[Case]:
    """Every attribute of every operator: its default, the values of the samples, and others."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    base: dict[str, Any] = {}
    for sample in CASES:
        name, _, attrs = sample
        base.setdefault(name, sample)
        for key, value in attrs.items():
            if isinstance(value, (str, int, float, bool, tuple, list, type(None))):
                seen.setdefault((name, key), {})[repr(value)] = sample
    for name, sample in base.items():
        for param in OPS[f"R.{name}"].params:
            if param.kind != "attr":
                continue
            samples = seen.get((name, param.name), {})
            for shown, its in samples.items():
                yield Case(f"R.{name}", param.name, shown, True, partial(operator_text, *its))
            given = [(shown, None) for shown in ODD]
            kinds = kinds_of(param, [ast.literal_eval(shown) for shown in samples])
            given += [(shown, False) for kind, shown in KINDS.items() if kind not in kinds]
            if param.default is not REQUIRED and param.name not in sample[2]:
                given.append((repr(param.default), True))
            for shown, right in given:
                yield Case(
                    f"R.{name}", param.name, shown, right, partial(with_keyword, sample, f"R.{name}", param.name, shown)
                )


def kinds_of(param: Param, values: list[Any]) -> set[type]:
    """Kinds of values that are right for an attribute, by its default and by its samples."""
    if param.name.endswith("dtype"):
        return {str}
    known = [*values, *([] if param.default in (REQUIRED, None) else [param.default])]
    found: set[type] = {float, int, bool, tuple, str} if not known else set()
    for value in known:
        found |= FITS.get(tuple if isinstance(value, list) else type(value), set())
    return found | {float} if param.default is None and int in found else found


def with_keyword(sample: Any, name: str, key: str, value: str) -> str:
    """The text of a sample with one keyword of its call given, or given otherwise."""
    tree = ast.parse(operator_text(*sample))
    call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == name)
    call.keywords = [k for k in call.keywords if k.arg != key] + [ast.keyword(key, ast.Name("VALUE"))]
    return ast.unparse(tree).replace("VALUE", value)


# ---------------------------------------------------------------------------------------------------------- other names


def signatures() -> dict[str, ast.arguments]:
    """The parameters of every function of the stubs; of several forms, the last."""
    found: dict[str, ast.arguments] = {}
    for letter, name in (("T", "tir"), ("R", "relax"), ("I", "ir")):
        tree = ast.parse((HERE.parent.parent / "unity" / "script" / f"{name}.pyi").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found[f"{letter}.{node.name}"] = node.args
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                for target in node.targets:
                    if f"{letter}.{node.value.id}" in found:
                        found[f"{letter}.{ast.unparse(target)}"] = found[f"{letter}.{node.value.id}"]
    return found


def form_cases() -> Iterator[Case]:
    """Every argument of the first calls of every name in the known spellings: its default, and other values."""
    known = signatures()
    done: set[tuple[str, int | str]] = set()
    for form in FORMS:
        if form["what"] in REFUSED or form["needs_python"]:
            continue
        try:
            tree = ast.parse(form["text"])
        except SyntaxError:  # `def f[n: T.int64]()`, before Python 3.12
            continue
        for place, call in enumerate([n for n in ast.walk(tree) if isinstance(n, ast.Call)]):
            name = ast.unparse(call.func)
            if name not in known:
                continue
            for slot, argument, values in slots(known[name], call):
                if (name, slot) in done:
                    continue
                done.add((name, slot))
                kind = annotated(argument)
                values += [
                    (shown, False if kind and other not in FITS[kind] else None) for other, shown in KINDS.items()
                ]
                for shown, right in values + [(shown, None) for shown in ODD]:
                    yield Case(name, str(slot), shown, right, partial(changed, form["text"], place, slot, shown))


def slots(
    form: ast.arguments, call: ast.Call
) -> Iterator[tuple[int | str, ast.arg | None, list[tuple[str, bool | None]]]]:
    """Arguments of a call: a place or a keyword, what the stub says, the default of one that is left out."""
    by_place, by_name = [*form.posonlyargs, *form.args], [*form.args, *form.kwonlyargs]
    for place, value in enumerate(call.args):
        if not isinstance(value, ast.Starred):
            yield place, by_place[place] if place < len(by_place) else None, []
    defaults = dict(zip([a.arg for a in form.args][len(form.args) - len(form.defaults) :], form.defaults))
    defaults |= {a.arg: d for a, d in zip(form.kwonlyargs, form.kw_defaults) if d is not None}
    for argument in by_name:
        if argument.arg in [a.arg for a in by_place[: len(call.args)]]:
            continue
        default = defaults.get(argument.arg)
        usual = isinstance(default, ast.Constant) and default.value is not ...
        left_out = argument.arg not in [k.arg for k in call.keywords]
        yield argument.arg, argument, [(ast.unparse(default), True)] if default and usual and left_out else []


def annotated(argument: ast.arg | None) -> type | None:
    """The kind an annotation names, None for ``Any``."""
    if argument is None or argument.annotation is None:
        return None
    return ANNOTATED.get(ast.unparse(argument.annotation).removeprefix("builtins.").partition("[")[0])


def changed(text: str, place: int, slot: int | str, value: str) -> str:
    """The text with one argument of one of its calls given otherwise."""
    tree = ast.parse(text)
    call = [n for n in ast.walk(tree) if isinstance(n, ast.Call)][place]
    if isinstance(slot, int):
        call.args[slot] = ast.Name("VALUE")
    else:
        call.keywords = [k for k in call.keywords if k.arg != slot] + [ast.keyword(slot, ast.Name("VALUE"))]
    return ast.unparse(tree).replace("VALUE", f"({value})" if value.startswith("lambda") else value)


# -------------------------------------------------------------------------------------------------------------- checks


def outcome(text: str) -> str:
    """``read``, or the code of the error. Raises AssertionError where the text does not read back."""
    try:
        node = parse(text)
    except UnityError as problem:
        assert str(problem) and not problem.code.startswith("E9")
        return problem.code
    printed = script(node)
    again = parse(printed)
    difference = first_difference(node, again)
    assert difference is None, difference
    assert script(again) == printed
    return "read"


def check(cases: list[Case]) -> list[str]:
    """What is wrong with each case."""
    wrong = []
    for case in cases:
        what = f"{case.name}({case.key}={case.value[:60]})"
        try:
            found = outcome(case.text())
        except Exception as problem:
            wrong.append(f"{what}: {type(problem).__name__}: {str(problem)[:200]}")
            continue
        if case.right is not None and case.right != (found == "read"):
            wrong.append(f"{what}: {found}")
    return wrong


@pytest.mark.parametrize("cases", [operator_cases, form_cases])
def test_arguments(cases: Callable[[], Iterator[Case]]) -> None:
    every = list(cases())
    some = every if len(every) <= COUNT else random.Random(0).sample(every, COUNT)
    assert {True, False, None} <= {case.right for case in some}
    assert check(some) == []
