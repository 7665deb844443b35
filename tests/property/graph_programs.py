"""Random graph functions made of what graph passes look for: repeated expressions, chains of reshapes and transpositions,
products of one operand, convolutions with batch norm, private functions with tuples, conditionals, dataflow blocks.

Every value has shape (n, 4); ``graph_program(rng)`` is the script of a module with ``main(x, y, w0, w1, k, g, flag)``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

PARAMS = (
    'x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32"), w0: R.Tensor((4, 4), "float32"), '
    'w1: R.Tensor((4, 4), "float32"), k: R.Tensor((4, 1, 2, 2), "float32"), g: R.Tensor((4,), "float32"), '
    'flag: R.Tensor((), "bool")'
)
HELPER = """
    @R.function(private=True)
    def helper{index}(p: R.Tuple(R.Tensor(("m", 4), "float32"), R.Tensor(("m", 4), "float32")), q: R.Tensor(("m", 4), "float32")):
        a = p[0]
        b = R.{first}(a)
        c = R.{second}({third})
        d = R.{first}(a)
        return ({results})
"""
UNARY = ("exp", "sin", "negative", "nn.relu")


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.sizes: list[int] = []
        """Number of results of each helper."""

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def step(self, values: list[str]) -> tuple[list[str], str]:
        """Lines that bind one more value, and its name."""
        rng, out = self.rng, self.name()
        a, b, w = rng.choice(values), rng.choice(values), rng.choice(("w0", "w1"))
        s, t, u = f"s{self.count}", f"t{self.count}", f"u{self.count}"
        match rng.randrange(10):
            case 0 | 1:
                return [f"{out} = R.{rng.choice(UNARY)}({a})"], out
            case 2:
                return [f"{out} = R.{rng.choice(('add', 'maximum'))}({a}, {b})"], out
            case 3:
                return [f"{out} = R.matmul({a}, {w})"], out
            case 4:
                return [f"{s} = R.permute_dims({w})", f"{out} = R.matmul({a}, {s})"], out
            case 5:
                return [f"{s} = R.reshape({a}, (n * 4,))", f"{out} = R.reshape({s}, (n, 4))"], out
            case 6:
                return [f"{s} = R.permute_dims({a})", f"{out} = R.permute_dims({s})"], out
            case 7:
                both = [f"{s} = R.matmul({a}, w0)", f"{t} = R.matmul({a}, w1)"]
                return [*both, f"{out} = R.add({s}, {t})"], out
            case 8 if self.sizes:
                index = rng.randrange(len(self.sizes))
                call = f"{t} = helper{index}(({a}, {b}), {rng.choice(values)})"
                return [call, f"{out} = {t}[{rng.randrange(self.sizes[index])}]"], out
        lines = [f"{s} = R.reshape({a}, (n, 1, 2, 2))", f"{u} = R.nn.conv2d({s}, k)", f"e{u} = R.exp(g)",
                 f"{t} = R.nn.batch_norm({u}, g, g, g, e{u}, axis=1)", f"f{t} = {t}[0]", f"{out} = R.reshape(f{t}, (n, 4))"]  # fmt: skip
        return lines, out

    def body(self, values: list[str], steps: int) -> list[str]:
        """Lines of a sequence; ``values`` grows by what they bind."""
        lines: list[str] = []
        while steps > 0:
            kind = self.rng.randrange(4)
            if kind == 0:
                inner, known = [], list(values)
                for _ in range(self.rng.randint(1, 4)):
                    more, name = self.step(known)
                    inner += more
                    known.append(name)
                made = known[len(values) :]
                shown = self.rng.sample(made, self.rng.randint(1, len(made)))
                lines += ["with R.dataflow():", *["    " + x for x in inner], f"    R.output({', '.join(shown)})"]
                values += shown
                steps -= len(made)
            elif kind == 1 and steps > 2:
                out = self.name()
                sides = []
                for _ in range(2):
                    known = list(values)
                    side = self.body(known, self.rng.randint(1, 2))
                    sides.append([*side, f"{out} = R.negative({known[-1]})"])
                lines += ["if flag:", *["    " + x for x in sides[0]], "else:", *["    " + x for x in sides[1]]]
                values.append(out)
                steps -= 2
            else:
                more, name = self.step(values)
                lines += more
                values.append(name)
                steps -= 1
        return lines


def graph_program(rng: random.Random) -> str:
    """Script of a random module."""
    writer = _Writer(rng)
    helpers = ""
    for index in range(rng.randint(0, 2)):
        results = rng.sample(["b", "c", "d", "a"], rng.randint(2, 3))
        writer.sizes.append(len(results))
        first, second = rng.choice(UNARY), rng.choice(("add", "multiply"))
        third = rng.choice(("b, q", "b, b", "b, a"))
        helpers += HELPER.format(index=index, first=first, second=second, third=third, results=", ".join(results))
    values = ["x", "y"]
    lines = writer.body(values, rng.randint(4, 12))
    results = rng.sample(values[2:], min(len(values) - 2, rng.randint(1, 3)))
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    text = "\n".join(["        " + x for x in ["n = T.int64()", *lines, f"return {result}"]])
    return f"@I.ir_module\nclass Module:\n    @R.function\n    def main({PARAMS}):\n{text}\n{helpers}"


def graph_inputs(rng: random.Random) -> list[Any]:
    """Arguments of ``main``; the symbolic size may be 0 or 1."""
    data = np.random.default_rng(rng.randrange(1 << 30))
    n = rng.choice((0, 1, 2, 3, 5))
    shapes = ((n, 4), (n, 4), (4, 4), (4, 4), (4, 1, 2, 2), (4,))
    return [*[(data.standard_normal(s) / 2).astype("float32") for s in shapes], np.array(rng.random() < 0.5)]
