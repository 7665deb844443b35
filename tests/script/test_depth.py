"""Depth: every recursive rule of the grammar, repeated thousands of times, is read (and reads back) or refused in words.

The chains are made from the grammar itself: a rule that leads back to itself gives the words to the left and to the right of
one link. They are read in a process of their own, in a thread with a small C stack, where recursion in C would crash.
``python tests/script/test_depth.py 1000000`` runs all of them at another length.
"""

from __future__ import annotations

import heapq
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from unity.ir import IRModule, PrimFunc, first_difference
from unity.ir.verifier.verifier import verify
from unity.script import parse, script
from unity.script.parser.read_text import grammar_parser
from unity.script.spelling.spelling import INFIX
from unity.support.errors import ScriptError
from unity.transform.tir.expressions.simplify import simplify

Symbol = tuple[bool, str]
"""Whether it is a terminal, and its name."""

LINKS = 2_500
STACK = 128 * 1024
HEADS = {
    "T": '@T.prim_func\ndef f(x: T.int32, B: T.Buffer((4,), "int32")):',
    "R": '@R.function\ndef f(x: R.Tensor((4,), "int32")):',
}
WORDS = {
    "NAME": "x", "NUMBER": "1", "STRING": "'a'", "LONG_STRING": "'''a'''", "AUG_ASSIGN": "+=", "OPERATOR": "|",
    "_NEWLINE": "\n", "_INDENT": "", "_DEDENT": "",
}  # fmt: skip
HIDDEN = ("SKIPPED", "FSTRING")
"""Terminals that are no words of a text, or nothing but a refusal."""


class Grammar:
    """Shortest words of every rule, and the links of the rules that lead back to themselves."""

    def __init__(self) -> None:
        parser = grammar_parser()[0]
        self.words = WORDS | {
            t.name: t.pattern.value for t in parser.terminals if t.pattern.type == "str" and t.name not in WORDS
        }
        self.rules: dict[str, list[list[Symbol]]] = {}
        for rule in parser.rules:
            expansion = [(symbol.is_term, _name(symbol)) for symbol in rule.expansion]
            self.rules.setdefault(_name(rule.origin), []).append(expansion)
        self.shortest: dict[str, list[str]] = {}
        changed = True
        while changed:
            changed = False
            for name, expansions in self.rules.items():
                for expansion in expansions:
                    words = self.flat(expansion)
                    known = self.shortest.get(name)
                    if words is not None and (known is None or len(words) < len(known)):
                        self.shortest[name] = words
                        changed = True

    def flat(self, symbols: list[Symbol]) -> list[str] | None:
        """The shortest terminals of a sequence, None where there are none."""
        found: list[str] = []
        for terminal, name in symbols:
            if name in HIDDEN or (not terminal and name not in self.shortest):
                return None
            found += [name] if terminal else self.shortest[name]
        return found

    def around(self, outer: str, inner: str) -> tuple[list[str], list[str]] | None:
        """The shortest terminals to the left and right of a rule inside another."""
        heap: list[tuple[int, int, str, list[str], list[str]]] = [(0, 0, outer, [], [])]
        seen: set[str] = set()
        count = 0
        while heap:
            cost, _, name, left, right = heapq.heappop(heap)
            if name == inner:
                return left, right
            if name in seen:
                continue
            seen.add(name)
            for before, middle, after in self.steps(name):
                count += 1
                heapq.heappush(heap, (cost + len(before) + len(after), count, middle, left + before, after + right))
        return None

    def steps(self, name: str) -> Iterator[tuple[list[str], str, list[str]]]:
        """The rules directly inside a rule, with what stands before and after them."""
        for expansion in self.rules[name]:
            for place, (terminal, inner) in enumerate(expansion):
                before, after = self.flat(expansion[:place]), self.flat(expansion[place + 1 :])
                if not terminal and before is not None and after is not None:
                    yield before, inner, after

    def links(self) -> dict[tuple[tuple[str, ...], tuple[str, ...]], str]:
        """Words to the left and right of one link, and its rule."""
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        for name in self.rules:
            for before, inner, after in self.steps(name):
                back = self.around(inner, name)
                if back is not None:
                    left, right = (*before, *back[0]), (*back[1], *after)
                    if left or right:
                        found.setdefault((left, right), name)
        return found

    def text(self, terminals: list[str]) -> str:
        """Words as text, indented."""
        pieces: list[str] = []
        indent, fresh = 0, False
        for terminal in terminals:
            indent += (terminal == "_INDENT") - (terminal == "_DEDENT")
            if fresh and terminal not in ("_INDENT", "_DEDENT", "_NEWLINE"):
                pieces.append(" " * indent)
            if terminal not in ("_INDENT", "_DEDENT"):
                fresh = terminal == "_NEWLINE"
            pieces.append(self.words[terminal] + ("" if fresh else " "))
        return "".join(pieces)


def _name(symbol: object) -> str:
    name = symbol.name  # type: ignore[attr-defined]
    return str(getattr(name, "value", name))


def chains(links: int) -> Iterator[tuple[str, str]]:
    """Every chain of the grammar, with what it is made of. Brackets and blocks end at their own bounds: a few are enough."""
    grammar = Grammar()
    for (left, right), name in grammar.links().items():
        around = grammar.around("suite", name)
        if around is None:
            continue
        bracketed = any([word in ("LPAR", "LSQB", "LBRACE", "_INDENT") for word in left])
        if links == LINKS and len(left) + len(right) > 5:
            continue  # the whole sweep has them
        count = min(links, 300) if bracketed else links // 10 if name.startswith("__") else links  # lists are flat
        words = [*around[0], *left * count, *grammar.shortest[name], *right * count, *around[1]]
        what = f"{name}: {grammar.text(list(left))!r} ... {grammar.text(list(right))!r}"
        for level in "TR" if name in ("test", "postfix", "__chain_plus_18") and not bracketed else "T":
            yield f"{level} {what}", HEADS[level][:-1] + grammar.text(words)


def operator_chains() -> Iterator[tuple[str, str]]:
    """Chains of every operator with every prefix, and of what follows a value: longer than what may be nested."""
    links = [f" {op} {prefix}x" for op in [*INFIX, "in", "is"] for prefix in ("", "-", "~", "not ")]
    links += ['.astype("int64").astype("int32")', ".a", "()", "[0]", " if x else x", ".astype('bool')"]
    for place, link in enumerate(links):
        dtype = ("int32", "float32", "bool")[place % 3]
        yield f"T {dtype} {link}", HEADS["T"].replace("int32", dtype) + f"\n    B[0] = x{link * 250}\n"
        if place % 4 == 0:
            yield f"R {link}", HEADS["R"] + f"\n    y = x{link * 250}\n    return y\n"
    for line in ['T.attr(0, "pragma", 1)', "T.attr({'a': 1})", 'T.launch_thread("threadIdx.x", 4)']:
        yield line, f"{HEADS['T']}\n" + f"    {line}\n" * 300 + "    B[0] = x\n"
    many = ", ".join(["T.attr(0, 'a', 1)"] * 300)
    yield "with", f"{HEADS['T']}\n    with {many}:\n        B[0] = x\n"
    yield from branches(300).items()
    many = ", ".join(["(1, 4)"] * 300)
    yield "grid", f"{HEADS['T']}\n    for i in T.grid({many}):\n        B[0] = x\n"


def branches(links: int) -> dict[str, str]:
    """Conditionals of so many branches, in both levels."""
    scalar = "".join([f"    elif x == {k}:\n        B[0] = {k}\n" for k in range(links)])
    graph = "    elif c:\n        y = R.add(x, x)\n" * links
    return {
        "T elif": f"{HEADS['T']}\n    if x < 0:\n        B[0] = x\n{scalar}    else:\n        B[1] = x\n",
        "R elif": f'{HEADS["R"][:-2]}, c: R.Tensor((), "bool")):\n    if c:\n        y = x\n{graph}    else:\n        y = x\n    return y\n',
    }


NESTS = {
    "T for": "for i{k} in range(2):", "T if": "if x == {k}:", "T while": "while x < {k}:", "T with": 'with T.block("b{k}"):',
    "T else": "if x == {k}:\n{i} B[0] = x\n{i}else:", "R if": "if c:", "R with": "with R.dataflow():",
}  # fmt: skip
"""Statements that hold others; ``k`` counts them, ``i`` is the indentation."""


def nest(kind: str, links: int) -> str:
    """Statements of a kind inside each other."""
    lines = [" " * (k + 1) + NESTS[kind].format(k=k, i=" " * (k + 1)) for k in range(links)]
    return "\n".join([HEADS[kind[0]], *lines, " " * (links + 1) + ("B[0] = x" if kind[0] == "T" else "y = x"), ""])


def check(text: str) -> str:
    """Read a text and what it prints: what became of it."""
    try:
        node = parse(text)
    except ScriptError as error:
        assert str(error)
        return error.code
    printed = script(node)
    again = parse(printed)
    difference = first_difference(node, again)
    assert difference is None, difference
    return "equal"


def main(cases: Iterator[tuple[str, str]]) -> None:
    """Check texts one after the other; the name of each is printed before it."""

    def run() -> None:
        for what, text in cases:
            print(what, end=" => ", flush=True)
            print(check(text), flush=True)
        print("done", flush=True)

    threading.stack_size(STACK)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def outcomes(argument: str) -> list[str]:
    """What a process of its own says about each text."""
    done = subprocess.run([sys.executable, str(Path(__file__)), argument], capture_output=True, text=True, timeout=1500)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "done", f"{lines[-1:]} {done.stderr[-2000:]}"
    return [line.rpartition(" => ")[2] for line in lines[:-1]]


@pytest.mark.parametrize("argument", [str(LINKS), "operators"])
def test_chains(argument: str) -> None:
    found = outcomes(argument)
    assert len(found) > 100
    assert {"equal", "E105"} <= set(found)


@pytest.mark.parametrize("link", ["**-x", ".a"])
def test_a_hundred_thousand_links(link: str) -> None:
    text = f"{HEADS['T']}\n    B[0] = x{link * 100_000}\n"
    with pytest.raises(ScriptError, match="E105"):
        parse(text)


@pytest.mark.parametrize("kind", ["T elif", "R elif", *NESTS])
def test_many_statements_inside_each_other(kind: str) -> None:
    texts = (
        [branches(count)[kind] for count in (10_000, 100_000)]
        if "elif" in kind
        else [nest(kind, n) for n in (101, 2_000)]
    )
    for text in texts:
        with pytest.raises(ScriptError, match="E105"):
            parse(text)


def test_branches_pass_every_walk() -> None:
    for text in branches(1_000).values():
        node = parse(text)
        assert check(text) == "equal"
        verify(node)
        if isinstance(node, PrimFunc):
            verify(simplify(IRModule.from_expr(node)))


if __name__ == "__main__":
    main(operator_chains() if sys.argv[1] == "operators" else chains(int(sys.argv[1])))
