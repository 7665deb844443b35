"""Every known spelling of script, 2021 to 2026: read, printed, read back equal and printed the same; or refused with a reason."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from unity.ir import first_difference
from unity.script import parse, script
from unity.support.errors import ScriptError

HERE = Path(__file__).parent
FORMS = [f for f in json.loads((HERE / "syntax_forms.json").read_text(encoding="utf-8")) if not f["needs_python"]]
REFUSALS = {r["what"]: r for r in json.loads((HERE / "refusals.json").read_text(encoding="utf-8"))}
READ = [f for f in FORMS if f["what"] not in REFUSALS]


def test_the_lists_are_complete() -> None:
    assert len(FORMS) == 340
    assert set(REFUSALS) <= {f["what"] for f in FORMS}
    assert len(READ) >= 300


@pytest.mark.parametrize("form", READ, ids=[f"{f['kind']}-{f['what']}" for f in READ])
def test_reads_prints_and_reads_back(form: dict[str, str]) -> None:
    first = parse(form["text"])
    text = script(first)
    second = parse(text)
    assert first_difference(first, second) is None
    assert script(second) == text
    ast.parse(text)  # a foreign judge: what we print is Python


@pytest.mark.parametrize("what", REFUSALS)
def test_is_refused_with_its_code(what: str) -> None:
    form = next(f for f in FORMS if f["what"] == what)
    with pytest.raises(ScriptError) as caught:
        parse(form["text"])
    assert REFUSALS[what]["code"] in [e.code for e in caught.value.errors]
    assert all([e.span is not None for e in caught.value.errors])


def test_the_refusals_are_documented() -> None:
    page = (HERE.parent.parent / "docs" / "script_refusals.md").read_text(encoding="utf-8")
    for what, row in REFUSALS.items():
        assert f"| {what} | {row['code']} | {row['reason']} |" in page


def _code(text: str) -> list[str]:
    try:
        parse(text)
    except ScriptError as error:
        return [e.code for e in error.errors]
    return []


@pytest.mark.parametrize("what", [
    "T.macro hygienic", "non-hygienic macro", "T.inline (0.27)", "closure capture of Python constants",
    "list comprehension + builtin at parse time", "T.meta_var", "I.meta_var (0.27)", "tuple index",
    "starred call arguments; A.shape", "one target for many loops (tuple index)", "starred loop target", "R.macro",
])  # fmt: skip
def test_meta_programming_that_is_data(what: str) -> None:
    forms = json.loads((HERE / "syntax_forms.json").read_text(encoding="utf-8"))
    form = next(f for f in forms if f["what"] == what)
    first = parse(form["text"])
    text = script(first)
    assert first_difference(first, parse(text)) is None
