"""A comment at every line of a text is kept by the option that keeps comments, once and in order."""

from __future__ import annotations

import re

import pytest

from unity.script import parse

TEXT = """\
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    I.module_attrs({"a": 1})
    @T.prim_func
    def k(
        A: T.Buffer((4,), "float32"),
        n: T.int32,
        B: T.Buffer((4,), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        C = T.alloc_buffer((4,))
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                T.reads(A[v])
                T.writes(C[v])
                C[v] = A[v]
        for i in range(4):
            for j in range(2):
                if i < n:
                    B[i] = C[i]
                elif j < 1:
                    B[i] = 1.0
                else:
                    B[i] = 2.0

    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        R.func_attr({"b": 1})
        cls = M
        with R.dataflow():
            y = R.add(x, x)
            z = R.call_tir(cls.k, (y, 3), R.Tensor((4,), "float32"))
            R.output(z)
        if c:
            w = R.add(z, z)
        else:
            w = R.multiply(z, z)
        return w
"""
LINES = TEXT.splitlines()
ENDS = ("C[v] = A[v]", "B[i] = C[i]", "B[i] = 2.0", "R.output(z)", "w = R.multiply(z, z)", "return w")
"""Lines that end a block."""


def commented(how: str) -> str:
    """The text with numbered comments: on lines of their own, behind each line, or below the ends of blocks."""
    made = []
    for number, line in enumerate(LINES):
        column = " " * (len(line) - len(line.lstrip()))
        if how == "own":
            made.append(f"{column}# c{number}.")
        made.append(f"{line}  # c{number}." if how == "behind" and line else line)
        if how == "below" and line.strip() in ENDS:
            made.append(f"{column}# c{number}.")
    return "\n".join([*made, f"# c{len(LINES)}.", ""])


def numbers(text: str) -> list[str]:
    return re.findall(r"# (c\d+)\.", text)


@pytest.mark.parametrize("how", ["own", "behind", "below"])
def test_a_comment_at_every_line(how: str) -> None:
    text = commented(how)
    kept = parse(text).script(comments=True)
    assert numbers(kept) == numbers(text)
    assert parse(kept).script(comments=True) == kept
    assert "\n".join([line for line in kept.splitlines() if "# c" not in line]) == parse(TEXT).script()


@pytest.mark.parametrize("place", range(len(LINES) + 1))
def test_one_comment(place: int) -> None:
    """Also between empty lines and with a text in it."""
    column = " " * (len(LINES[place]) - len(LINES[place].lstrip())) if place < len(LINES) else ""
    text = "\n".join([*LINES[:place], "", f'{column}# one "#" here', "", *LINES[place:], ""])
    assert (
        parse(text).script(comments=True).count('# one "#" here\n') + parse(text).script(comments=True).endswith("here")
        == 1
    )


def test_a_function_alone_has_its_own_comments() -> None:
    mod = parse(commented("own"))
    first, second = [numbers(mod[name].script(comments=True)) for name in ("k", "main")]
    assert (
        first == [f"c{n}" for n in range(4, 26)]
        and second[:3] == ["c26", "c27", "c28"]
        and len(set(second)) == len(second)
    )
