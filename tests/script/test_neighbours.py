"""A name with a letter missing is refused, and the help says the name that was meant: for every name of the tables."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from unity.ir import OPS
from unity.ir.intrinsic import INTRINSICS
from unity.script import parse
from unity.script.reader.common.signature import OPTIONS
from unity.script.reader.relax.function import GRAPH_FORMS
from unity.script.reader.tir.frames import FRAMES
from unity.script.reader.tir.statement_forms import PROGRAM_FORMS
from unity.script.spelling.spelling import DTYPES, LOOPS
from unity.support.errors import ScriptError

PROGRAM = "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    "
GRAPH = "@R.function\ndef f(x: R.Tensor((4,), 'float32')):\n    "
PLACES: dict[str, tuple[str, Iterable[str]]] = {
    "in tensor programs": (PROGRAM + "A[0] = {}(A[0])\n", [*INTRINSICS, *PROGRAM_FORMS]),
    "in graph functions": (GRAPH + "return {}(x)\n", [*OPS, *GRAPH_FORMS]),
    "loops": (PROGRAM + "for i in {}(4):\n        A[i] = 1.0\n", ["T.grid", *LOOPS]),
    "data types": (PROGRAM + "A[0] = {}(1)\n", [f"T.{name}" for name in DTYPES]),
    "frames": (PROGRAM + "with {}():\n        A[0] = 1.0\n", FRAMES),
    "decorators": ("@{}\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = 1.0\n", OPTIONS),
}
"""Texts with a place for a name, and the names that may stand there."""


@pytest.mark.parametrize("place", PLACES)
def test_a_letter_missing(place: str) -> None:
    text, names = PLACES[place]
    known = {name for _, there in PLACES.values() for name in there}
    tried, found = 0, 0
    for name in sorted(set(names)):
        first = name.partition(".")[0]
        wrong = name[: len(name) // 2] + name[len(name) // 2 + 1 :]
        if first not in "TR" or len(name) < 7 or wrong in known or name.count(".") > 1:
            continue
        with pytest.raises(ScriptError) as caught:
            parse(text.format(wrong))
        tried += 1
        found += name in str(caught.value)
    assert tried and found >= 0.97 * tried, f"{found} of {tried}"
