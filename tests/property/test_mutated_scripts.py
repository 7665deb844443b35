"""Programs with one to three changes that keep the form of a program (another number, type, name, operator or line): refused in
words, or built, with what the reference interpreter says as its result. Beside ``test_reader_fuzz.py``, which breaks the form."""

from __future__ import annotations

import copy
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # this file is a program as well
from child import apart
from fuzz import TIMES

import unity
from unity.ir.function import Function, PrimFunc
from unity.ir.structural import structural_equal
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.infra.inputs import NoInput, make_inputs
from unity.transform.validation.outcomes import difference, flat, outcome
from unity.vm.stages import as_module

HERE = Path(__file__).parent
FORMS = json.loads((HERE.parent / "script" / "syntax_forms.json").read_text(encoding="utf-8"))
PASSES = re.split(r"^#### .*$", (HERE / "pass_programs.txt").read_text(encoding="utf-8"), flags=re.M)[1:]
TEXTS = [row["text"] for row in FORMS if not row["needs_python"]] + [text.strip("\n") for text in PASSES]
COUNT = 40 * TIMES
TOKEN = re.compile(r"\s+|\d+\.\d+|\w+|\"[^\"\n]*\"|'[^'\n]*'|//|<<|>>|<=|>=|==|!=|[^\w\s]")
DTYPES = [
    "int8",
    "int64",
    "uint16",
    "uint64",
    "float16",
    "bfloat16",
    "float64",
    "bool",
    "float8_e4m3fn",
    "int4",
    "uint1",
    "float32x4",
]
NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "64",
    "1000",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
]
OPERATORS = ["+", "-", "*", "//", "%", "<", "<=", ">", "==", "!=", "and", "or", "<<", "&", "|"]
KEYWORDS = {
    "def",
    "class",
    "for",
    "in",
    "with",
    "if",
    "else",
    "return",
    "as",
    "while",
    "and",
    "or",
    "not",
    "True",
    "False",
    "T",
    "R",
    "I",
}
UNDEFINED = ("E311", "E312", "E313", "E315", "E319", "E320", "E323", "E324", "E310", "E328")
"""What the interpreter finds and compiled code does not look for."""


def change(rng: random.Random, text: str) -> str:
    """One change."""
    if rng.random() < 0.3:
        lines = text.split("\n")
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[at : at + 1] = rng.choice(([], [lines[at]] * 2, [lines[other]], [lines[other], lines[at]]))
        return "\n".join(lines)
    tokens = TOKEN.findall(text)
    names = sorted({t for t in tokens if re.fullmatch(r"[A-Za-z_]\w*", t)} - KEYWORDS - set(DTYPES))
    kinds = [(lambda t: t.isdigit(), NUMBERS), (lambda t: t in names, names), (lambda t: t in OPERATORS, OPERATORS),
             (lambda t: t.strip("\"'") in (*DTYPES, "float32", "int32"), DTYPES)]  # fmt: skip
    fits, others = rng.choice(kinds)
    places = [k for k, token in enumerate(tokens) if fits(token) and tokens[k - 1] != "."]
    if places:
        at = rng.choice(places)
        quote = tokens[at][0] if tokens[at][0] in "\"'" else ""
        tokens[at] = quote + rng.choice(others) + quote
    return "".join(tokens)


def outcome_of(rng: random.Random) -> str:
    """What becomes of a changed program. Raises AssertionError where it is not what should be."""
    text = rng.choice(TEXTS)
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = change(rng, text)
    print(text, file=sys.stderr)
    try:
        made = parse(text)
        assert structural_equal(made, parse(made.script()))
        mod = as_module(made)
        runs = [(name, *_expected(mod, name, kind)) for name in list(mod.functions)[:3] for kind in ("plain", "edge")]
        executable = unity.compile(mod, exec_mode=rng.choice(("native", "bytecode")))
    except UnityError as problem:
        assert problem.code[:2] != "E9" and problem.code != "E717", problem
        return problem.code
    for name, given, expected in runs:
        if expected is not None and "global_symbol" in mod[name].attrs:
            _compare(mod[name], executable[name], given, expected)
    return "built"


def _expected(mod: Any, name: str, kind: str) -> tuple[list[Any], Any]:
    """Arguments, and the interpreter's result; None where it has none that compiled code must have too."""
    try:
        assert isinstance(mod[name], (Function, PrimFunc))
        given = make_inputs(mod[name], 0, kind, limit=4).arguments
    except (NoInput, AssertionError):
        return [], None
    found = outcome(mod, name, given, 50_000)
    return given, None if found.kind == "skip" or found.text[:4] in UNDEFINED else found


def _compare(fn: Any, compiled: Any, given: list[Any], expected: Any) -> None:
    given = copy.deepcopy(given)
    try:
        value = compiled(*given)
    except UnityError as problem:
        assert expected.kind == "error" and problem.code[:2] != "E9", problem
        return
    if expected.kind == "value":
        value = [v.numpy() if isinstance(v, unity.Tensor) else v for v in flat(value)]
        if any([callable(v) for v in value]):  # closures: two classes of them
            return
        given = [a for a in given if isinstance(a, np.ndarray)] if isinstance(fn, PrimFunc) else []
        assert difference(expected.value, [*value, *given]) is None, difference(expected.value, [*value, *given])


def main() -> None:
    """Try all cases."""
    unity.compile(parse(TEXTS[0]))  # loads what every process needs
    found = [apart(outcome_of, case, 120, 8 << 30) for case in range(COUNT)]
    print(Counter([said for said in found if "\n" not in said]).most_common())
    wrong = [said for said in found if "\n" in said]
    assert "built" in found and len(set(found)) > 4 and not wrong, f"{len(wrong)} of {COUNT}:\n" + "\n".join(wrong[:5])


def test_mutated_scripts() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600 * TIMES)
    assert done.returncode == 0, done.stderr[-3000:]


if __name__ == "__main__":
    main()
