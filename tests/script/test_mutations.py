"""Damaged programs: every text is either refused with a ScriptError or read to what prints and reads back equal."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from unity.ir import first_difference
from unity.script import parse, script
from unity.support.errors import ScriptError

TEXTS = [f["text"] for f in json.loads((Path(__file__).parent / "syntax_forms.json").read_text(encoding="utf-8"))]
PIECES = ["(", ")", "[", "]", "{", "}", ":", ",", "=", "==", "+", "-", "*", "**", "/", "//", "%", "@", ".", "for", "in", "if", "else", "with", "as", "return", "T.", "R.", "I.", "x", "A", "0", "1.5", "None", "True", "not", "and", "<", "~", "cls", "M", "f", "i", "T.int64()", "T.block()", "R.Tensor", "T.reads(", "A[0]", "[1]", "{}", "R.output(", "T.match_buffer(", "T.grid(2)", "-1", "1<<4000", "T.vscale()", "...", "*x", "**x"] + ["\n", "    ", "\t", '"a"', "lambda x: x", "def f(x):", "import x", "T.axis.spatial(4, i)", "T.ramp(0, 1, 4)"]


def damaged(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    for _ in range(rng.randint(1, 3)):
        parts = re.findall(r"\w+|\s+|[^\w\s]", text)
        if not parts:
            continue
        at = rng.randrange(len(parts))
        match rng.randint(0, 4):
            case 0:
                parts[at] = rng.choice(PIECES)
            case 1:
                parts.insert(at, rng.choice(PIECES))
            case 2:
                del parts[at]
            case 3:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case _:
                parts.insert(at, "\n" + rng.choice(rng.choice(TEXTS).split("\n")) + "\n")
        text = "".join(parts)
    return text


@pytest.mark.parametrize("seed", range(8))
def test_damaged_programs(seed: int) -> None:
    rng = random.Random(seed)
    read = 0
    for _ in range(250):
        text = damaged(rng)
        try:
            node = parse(text)
        except ScriptError as error:
            assert str(error)
            continue
        read += 1
        printed = script(node)
        again = parse(printed)
        assert first_difference(node, again) is None, text
        assert script(again) == printed, text
    assert read > 20  # not all damage is an error: the check above has something to check
