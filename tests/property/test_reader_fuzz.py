"""Damaged texts: only UnityError leaves the reader, soon, with a short message; what is read can be printed."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import SEED, TIMES

from unity.script import parse
from unity.support.errors import UnityError

CORPUS = [row["text"] for row in json.loads((Path(__file__).parents[1] / "script" / "syntax_forms.json").read_text())]
COUNT = 150 * TIMES
TOKEN = re.compile(r"\s+|\w+|\"[^\"\n]*\"|'[^'\n]*'|[^\w\s]")
WORD = re.compile(r"\w|['\"]")
EXPRESSIONS = [
    "0", "-1", "3", "1.5", "-0.0", "True", "None", "...", "10**400", "1e999", "2**63", "'float32'", "'n'", "'global'", "''", "()", "[]", "{}", "(1,)",
    "(n,)", "[1, [2]]", "{'a': 1}", "x", "n", "x + 1", "-x", "not x", "x < y", "x[0]", "x[0, 0]", "x[0:4]", "x[::2]", "x[...]", "x.shape", "x.data",
    "x.dtype", "x.a", "x()", "T", "R", "I", "T.int64()", "T.int64(3)", "T.float32(1.5)", "T.bool(True)", "T.int8", "T.handle()", "T.axis.spatial(4, 0)",
    "T.Buffer((4,), 'float32')", "T.alloc_buffer((4,))", "T.match_buffer(x, (4,))", "T.Broadcast(1, 4)", "T.Ramp(0, 1, 4)", "T.exp(x)", "T.min(1, 2)",
    "T.grid(2, 2)", "T.block('a')", "T.reads(x)", "T.if_then_else(x, 1, 2)", "T.call_extern('int32', 'f', x)", "T.reinterpret('int32', 1.0)",
    "R.Tensor((2,), 'float32')", "R.Tensor", "R.Object", "R.Tuple(R.Object)", "R.Shape([2])", "R.shape([2, 3])", "R.const(1, 'int8')", "R.prim_value(3)",
    "R.str('a')", "R.add(x, x)", "R.tuple(x, x)", "R.call_packed('f', x)", "R.exp", "R.dtype('int8')", "R.ExternFunc('f')", "range(3)", "len(x)",
    "[i for i in range(3)]", "(lambda a: a)(1)", "x if x else x",
]  # fmt: skip
LIMIT_SECONDS = 20  # of the processor: a hang, on any machine
LONGEST_MESSAGE = 20_000
PIECES = [
    "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "==", "->", "@", "*", "**", "//", "%", "<<", "-", "~", "|", ";", "\\",
    "\n", "\n    ", "\n        ", "\t", "\r", "\f", "\0", "\x01", "\u00a0", "\u2028", "“", "名前", "ß", "\ud800", "'", '"', '"""', "#", "$",
    "?", "!", "0", "1", "-1", "10**400", "1e999", "1.5", "0x", "1_0", "1j", "00", "99999999999999999999", "None", "True", "...",
    "not ", "and ", "or ", "if ", "else ", "for i in x", "lambda x: x", "in ", "is ", "def ", "class ", "return ", "with ",
    "T", "R", "I", "T.grid(4, 4)", "T.int64()", "T.int64", "T.handle", "T.Buffer", "R.Tensor", "R.add", "R.Tuple", "R.Shape", "x", "n",
    "'float32'", "'float99'", "'n'", "'n +'", "'nan'", "()", "[]", "{}", "(1,)", "[None]", "{1: 2}", "{'a': []}", "1:2", "::-1", "*x", "**x",
    "R.call_packed(func=x, args=x)", "A.access_ptr({})",
    "T.axis.remap('SSR', [i, j, k])", "T.serial(0, -1)", "T.float8_e4m3fn(1)", "T.bool", "R.const([1, [2]], 'int8')", "R.prim_value('a')",
]  # fmt: skip


def damaged(rng: random.Random) -> str:
    """A program of the corpus with some damage."""
    text = rng.choice(CORPUS)
    if rng.random() < 0.1:
        return text[: rng.randrange(len(text) + 1)]
    if rng.random() < 0.1:
        at = rng.randrange(len(text) + 1)
        return text[:at] + "".join([chr(rng.randrange(1, 0x250)) for _ in range(rng.randint(1, 8))]) + text[at:]
    tokens = TOKEN.findall(text)
    other = TOKEN.findall(rng.choice(CORPUS))
    if rng.random() < 0.6:
        return exchanged(rng, tokens, other)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(6):
            case 0:
                del tokens[at : at + rng.randint(1, 3)]
            case 1:
                tokens.insert(at, rng.choice(PIECES))
            case 2:
                tokens[at : at + 1] = [rng.choice(PIECES)]
            case 3 if at + 1 < len(tokens):
                tokens[at], tokens[at + 1] = tokens[at + 1], tokens[at]
            case 4:
                begin = rng.randrange(len(other) + 1)
                tokens[at:at] = other[begin : begin + rng.randint(1, 12)]
            case _:
                words = [k for k, token in enumerate(tokens) if token.strip() and token[0] not in "()[]{},:"]
                if words:
                    tokens[rng.choice(words)] = rng.choice([token for token in other if token.strip()] or ["x"])
    return "".join(tokens)


def exchanged(rng: random.Random, tokens: list[str], other: list[str]) -> str:
    """The program with names, numbers and strings replaced by other expressions: most still have the form of a program."""
    keywords = ("def", "class", "for", "in", "with", "if", "else", "return", "as", "while", "and", "or", "not", "elif")
    words = [k for k, token in enumerate(tokens) if WORD.match(token) and token not in keywords]
    known = [token for token in other if WORD.match(token) and token not in keywords]
    for at in rng.sample(words, min(len(words), rng.choice((1, 1, 2, 3)))):
        after_dot = at > 0 and tokens[at - 1] == "."
        tokens[at] = rng.choice(known if known and (after_dot or rng.random() < 0.5) else EXPRESSIONS)
    return "".join(tokens)


def too_slow(*_: object) -> None:
    raise TimeoutError


@pytest.fixture(autouse=True)
def hangs_end() -> Iterator[None]:
    """A text that takes too long ends in TimeoutError."""
    before = signal.signal(signal.SIGVTALRM, too_slow)
    yield
    signal.signal(signal.SIGVTALRM, before)


def try_text(text: str) -> str:
    """``read`` or the code of the error."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        made = parse(text)
        outcome = "read"
        made.script()
    except UnityError as problem:
        outcome = problem.code
        assert len(str(problem)) < LONGEST_MESSAGE, str(problem)[:2000]
        assert not problem.code.startswith("E9"), text
    except Exception as problem:
        raise AssertionError(f"{type(problem).__name__} left the reader for\n{text!r}") from problem
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return outcome


@pytest.mark.parametrize("part", range(4))
def test_damaged_programs(part: int) -> None:
    outcomes = [try_text(damaged(random.Random(f"{SEED}.{part}.{case}"))) for case in range(COUNT)]
    assert len(set(outcomes)) > 5
    assert outcomes.count("read") < COUNT


def tensor(expression: str) -> str:
    return (
        f'@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), n: T.int64):\n    A[0] = T.cast({expression}, "float32")\n'
    )


def graph(expression: str) -> str:
    return f'@R.function\ndef f(x: R.Tensor((16,), "float32")):\n    y = {expression}\n    return y\n'


def nested(count: int) -> dict[str, str]:
    """Texts whose size and depth grow with ``count``."""
    made = {}
    for level, wrap, leaf in (("T", tensor, "n"), ("R", graph, "x")):
        made |= {
            f"{level} {name}": wrap(text)
            for name, text in {
                "brackets": "(" * count + leaf + ")" * count,
                "open": "[{(" * count,
                "minus": "-" * count + leaf,
                "not": "not " * count + leaf,
                "attributes": leaf + ".a" * count,
                "calls": leaf + "()" * count,
                "indices": leaf + "[0]" * count,
                "sum": " + ".join([leaf] * count),
                "powers": "**".join(["2"] * count),
                "comparison": " < ".join([leaf] * count),
                "and": " and ".join([leaf] * count),
                "conditions": " if n else ".join([leaf] * count),
                "lambdas": "lambda: " * count + leaf,
                "loops": f"[{leaf} " + "for i in n " * count + "]",
                "digits": "1" * count * 10,
                "text": "'" + "a" * count * 10 + "'",
                "texts": "'a' " * count,
                "name": "a" * count * 10,
                "tuples": "(1, " * count + ")" * count,
            }.items()
        }
    deep = "".join([" " * (k + 4) + f"for i{k} in range(2):\n" for k in range(count // 10)])
    made["blocks"] = tensor("1") + deep
    made["else if"] = (
        tensor("1")
        + "    if n > 0:\n        pass\n"
        + "".join([f"    elif n > {k}:\n        A[0] = 1.0\n" for k in range(count // 5)])
    )
    made["decorators"] = "@T.prim_func\n" * count + "def f():\n    pass\n"
    made["parameters"] = "@T.prim_func\ndef f(" + ", ".join([f"a{k}: T.int64" for k in range(count)]) + "):\n    pass\n"
    made["errors"] = tensor("1") + "    A[0] = = 1\n" * count
    made["unknown names"] = tensor("1") + "    A[0] = zzz\n" * count
    made["one line"] = tensor("1") + "    A[0] = 1.0;" * count + "\n"
    made["empty lines"] = tensor("1") + "\n" * count * 20
    made["spaces"] = tensor("1") + " " * count * 20 + "A[0] = 1\n"
    for name, blank in (
        ("spaces", " "),
        ("tabs", " \t"),
        ("joined lines", " \\\n"),
        ("returns", "\r"),
        ("mixed", "\f\\\r\n "),
    ):
        made[f"{name} before a wrong word"] = tensor("1") + "    A[0] = 1" + blank * count + "?\n"
    for name, line in (
        ("comments", "# a\r\n"),
        ("comments in a row", " # # a\r\n"),
        ("blank lines", " \t\r\n"),
        ("returns in comments", "#\r"),
    ):
        made[f"{name} without a body"] = "@T.prim_func\ndef f():\n" + line * count
        made[f"{name} before a wrong word"] = "@T.prim_func\ndef f():\n" + line * count + "    ?\n"
    return made


@pytest.mark.parametrize("name", nested(1))
def test_size_and_depth(name: str) -> None:
    try_text(
        nested(
            4_000
            if name not in ("parameters", "unknown names", "one line", "R sum", "R comparison", "T and", "T comparison")
            else 1_000
        )[name]
    )
