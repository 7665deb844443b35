"""The quick way through the parser's tables reads what lark reads, and leaves to lark what is no text of the grammar."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from lark import Lark, UnexpectedInput

from unity.script.parser.layout import TextError
from unity.script.parser.read_text import grammar_parser

FORMS = [
    row["text"] + "\n" for row in json.loads(Path(__file__).with_name("syntax_forms.json").read_text(encoding="utf-8"))
]
ODD = ["x.in\n", "f(x.is, lambda a: a)\n", "x = 3 \\\n  + 4\n", "x:=3\n", "x[a:=3]\n", "x[1:]\n", "input = not_in\n", "x  \n# end\n", "\n\n",
       "x \\\n", "x = $\n", "if a:\n  b\n c\n", "(\n", "f'{x}'\n", "a //= 2 ** -3 >> 1\n", "x = '\n", "# only\n", "async def f(): pass\n"]  # fmt: skip
WORD = re.compile(r"\s+|\w+|[^\w\s]")


def damaged(text: str, rng: random.Random) -> str:
    """The text with a word left out, doubled, or replaced by another of its words."""
    words = WORD.findall(text)
    place = rng.randrange(len(words))
    words[place] = rng.choice(["", words[place] * 2, rng.choice(words)])
    return "".join(words).rstrip() + "\n"


def lark_tree(parser: Lark, text: str) -> str | None:
    """The tree of a text; None for an error."""
    try:
        return repr(parser.parse(text))
    except (TextError, UnexpectedInput):
        return None


@pytest.mark.parametrize("part", range(4))
def test_trees_are_those_of_lark(part: int) -> None:
    parser, quick, _ = grammar_parser()
    rng = random.Random(part)
    for text in [*FORMS[part::4], *ODD]:
        for given in (text, damaged(text, rng), damaged(text, rng)):
            found = quick.parse(given)
            assert found is None or repr(found) == lark_tree(parser, given), given
    assert all([quick.parse(text) for text in FORMS[part::4]])
