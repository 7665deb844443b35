"""Damaged programs: every text is either refused with a ScriptError or read to what prints and reads back equal."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz import TIMES

from unity.ir import first_difference
from unity.script import parse, script
from unity.support.errors import ScriptError

TEXTS = [f["text"] for f in json.loads((Path(__file__).parent / "syntax_forms.json").read_text(encoding="utf-8"))]
PIECES = [
    "(", ")", "[", "]", "{", "}", ":", ",", "=", "==", "+", "-", "*", "**", "/", "//", "%", "@", ".", "for", "in",
    "if", "else", "with", "as", "return", "T.", "R.", "I.", "x", "A", "0", "1.5", "None", "True", "not", "and",
    "<", "~", "cls", "M", "f", "i", "T.int64()", "T.block()", "R.Tensor", "T.reads(", "A[0]", "[1]", "{}",
    "R.output(", "T.match_buffer(", "T.grid(2)", "-1", "1<<4000", "T.vscale()", "...", "*x", "**x",
]  # fmt: skip
PIECES += ["\n", "    ", "\t", '"a"', "lambda x: x", "def f(x):", "import x", "T.ramp(0, 1, 4)"]


def damaged(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    for _ in range(rng.randint(1, 2)):
        parts = re.findall(r"\w+|\s+|[^\w\s]", text)
        if not parts:
            continue
        at = rng.randrange(len(parts))
        match rng.randint(0, 9):
            case 0:
                parts[at] = rng.choice(PIECES)
            case 1:
                parts.insert(at, rng.choice(PIECES))
            case 2:
                del parts[at]
            case 3:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 4:
                parts.insert(at, "\n" + rng.choice(rng.choice(TEXTS).split("\n")) + "\n")
            case 5 | 6:  # one number for another
                _exchange(rng, parts, str.isdigit, ["0", "1", "2", "7", "16", "T.int64(3)", "T.int32(2)", "n", "-1"])
            case 7 | 8:  # one name for another of the same text
                _exchange(rng, parts, str.isidentifier, [part for part in parts if part.isidentifier()])
            case _:  # one line twice
                lines = text.split("\n")
                line = rng.randrange(len(lines))
                lines.insert(line, lines[line])
                parts = ["\n".join(lines)]
        text = "".join(parts)
    return text


def _exchange(rng: random.Random, parts: list[str], fits: Callable[[str], bool], others: list[str]) -> None:
    places = [place for place, part in enumerate(parts) if fits(part)]
    if places and others:
        parts[rng.choice(places)] = rng.choice(others)


@pytest.mark.parametrize("seed", range(3 * TIMES))
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
