"""Error codes and their pages: every code used has a page, every page is used, the collected document is current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from unity.support.errors import ScriptError, UnityError, advice

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("make_error_docs", ROOT / "tools" / "make_error_docs.py")
assert _spec is not None and _spec.loader is not None
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)

SHAPE = re.compile(
    r"# (E\d{3}): [^\n]+\n\n\*\*Cause\.\*\* .+?\n\n(?:\*\*Example\.\*\* .+?\n\n)?\*\*Fix\.\*\* .+\n\Z", re.S
)


def test_every_code_used_has_a_page() -> None:
    missing = {code: file for code, file in docs.used_codes().items() if code not in docs.pages()}
    assert not missing


def test_every_page_is_used() -> None:
    assert docs.pages() - set(docs.used_codes()) == set()


@pytest.mark.parametrize("code", sorted(docs.pages()))
def test_page_shape(code: str) -> None:
    text = (docs.PAGES / f"{code}.md").read_text(encoding="utf-8")
    match = SHAPE.match(text)
    assert match is not None and match.group(1) == code


def test_collected_document_is_current() -> None:
    assert docs.TARGET.read_text(encoding="utf-8") == docs.build()


@pytest.mark.parametrize("code", sorted(docs.pages()))
def test_an_error_without_help_shows_the_advice_of_its_page(code: str) -> None:
    advised = advice(code)
    assert len(advised) > 8 and not advised.endswith((":", ".")) and advised.count("(") == advised.count(")")
    assert UnityError(code, "wrong").render().endswith(f"\nhelp: {advised}")
    assert UnityError(code, "wrong", help="do this").render().endswith("\nhelp: do this")


def test_advice_is_given_once_for_several_errors() -> None:
    errors = [ScriptError("E101", f"wrong {n}") for n in range(3)]
    text = str(ScriptError("E101", "wrong", errors=[*errors, ScriptError("E106", "other", help="correct it")]))
    assert text.count(advice("E101")) == 1 and text.count("help: ") == 2
    assert "help" not in UnityError("E000", "a code without a page").render()
