"""Random tensor programs whose accesses are inside, outside, or outside for some sizes only.

``random_program(seed)`` gives script over two sizes ``n`` and ``m``, ``arguments(func, n, m, seed)`` what to call it with. Loops
(with starts, steps, triangles), blocks with predicates, guards as statements, as lazy values and before ``continue``, bound
indices, shifted and masked ones, those of types that wrap, vectors, indices read from data, and views of another size, offset or
element type all occur.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from unity.arith.evaluate import evaluate
from unity.ir.function import PrimFunc

SIZES = ((0, 0), (1, 1), (1, 3), (2, 2), (3, 2), (5, 4), (4, 7), (8, 3), (16, 16))
DIMS = ("n", "n", "m", "n + 1", "m + 2", "n * 2", "n * m", "(n + 3) // 4 * 4", "n // 2", "4", "5", "1")
HEADER = """
@T.prim_func
def main(s: T.handle, a: T.handle, b: T.handle, d: T.handle):
    n, m = T.int64(), T.int64()
    S = T.match_buffer(s, (n, m), "int8")
    D = T.match_buffer(d, (n + m + 1,), "int64")
"""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.names = 0
        self.wanted: list[str] = []
        """Extents of the buffers."""

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def shape(self) -> tuple[str, ...]:
        return tuple([self.rng.choice(DIMS) for _ in range(self.rng.choice((1, 1, 2)))])

    # ---- expressions

    def atom(self) -> str:
        return self.rng.choice([v for v, _ in self.loops]) if self.loops and self.rng.random() < 0.9 else self.number()

    def number(self) -> str:
        return f"T.int64({self.rng.choice((0, 1, 2, 3, 4))})"

    def index(self, extent: str) -> str:
        """Mostly an index that could be meant for an axis."""
        fitting = [v for v, e in self.loops if e == extent]
        base = self.rng.choice(fitting) if fitting and self.rng.random() < 0.8 else self.atom()
        roll = self.rng.random()
        if roll < 0.6:
            return base
        if roll < 0.7:
            return f"{base} {self.rng.choice('+-')} {self.rng.choice((1, 1, 2))}"
        if roll < 0.76:
            return f"{extent} - 1 - {base}"
        if roll < 0.82:
            return f"{base} * {self.rng.choice((2, 4))} + {self.atom()}"
        if roll < 0.86:
            return f"{base} {self.rng.choice(('//', '%'))} {self.rng.choice((2, 3, 4))}"
        if roll < 0.92:
            return f"T.min({base} + {self.rng.choice((0, 1))}, {extent} - {self.rng.choice((0, 1))})"
        if roll < 0.93:
            return f"T.max({base} - 1, 0)"
        if roll < 0.95:
            return f"({base} {self.rng.choice(('<<', '>>', '&', '^'))} {self.number()})"
        if roll < 0.97:
            narrow = self.rng.choice(("int8", "uint8"))
            return f"T.Cast('int64', T.Cast('{narrow}', {base}) {self.rng.choice('-+*')} T.{narrow}({self.rng.choice((1, 100))}))"
        return f"{base} * m + {self.atom()}"

    def condition(self, extent: str) -> str:
        base = self.atom()
        simple = self.rng.choice(
            (f"{base} < {extent}", f"{base} + 1 < {extent}", f"{base} <= {extent}", f"{base} > 0", f"{base} >= 1",
             f"{base} < {self.number()}", "n > 0", "m <= n")
        )  # fmt: skip
        roll = self.rng.random()
        if roll < 0.2:
            return f"({simple}) {self.rng.choice(('and', 'or'))} ({self.condition(extent)})"
        return f"not ({simple})" if roll < 0.25 else simple

    def access(self, buffer: str, shape: tuple[str, ...]) -> str:
        return f"{buffer}[{', '.join([self.index(e) for e in shape])}]"

    def viewed(self, depth: int, source: tuple[str, ...]) -> str:
        """A read of the first buffer through a view, which may be larger or begin later."""
        name, extent = self.name("V"), " * ".join([f"({e})" for e in source])
        dtype, size = self.rng.choice(
            (("float32", extent), ("float32", f"{extent} + 1"), ("uint8", f"{extent} * 4"), ("float64", extent))
        )
        offset = self.rng.choice(("", "", ", elem_offset=1", ", elem_offset=n"))
        self.line(depth, f'{name} = T.decl_buffer(({size},), "{dtype}", data=A.data{offset})')
        return f'T.Cast("float32", {name}[{self.index(source[-1])}])'

    # ---- statements

    def loop(self, depth: int) -> int:
        var = self.name("i")
        extent = self.rng.choice((*self.wanted * 6, *DIMS, *[v for v, _ in self.loops][:1]))
        roll = self.rng.random()
        head = f"range({extent})"
        if roll < 0.1:
            head = f"T.serial(1, {extent} + 1)"
        elif roll < 0.15:
            head = f"T.serial(0, {extent}, step=2)"
        elif roll < 0.2:
            head = f"T.unroll({extent})"
        self.line(depth, f"for {var} in {head}:")
        self.loops.append((var, extent))
        return depth + 1

    def split(self, depth: int) -> int:
        """A loop in two, with or without the guard that a rounded-up one needs."""
        outer, inner, joined = self.name("o"), self.name("t"), self.name("j")
        extent, factor = self.rng.choice((*self.wanted * 6, *DIMS)), self.rng.choice((2, 4))
        self.line(depth, f"for {outer}, {inner} in T.grid(({extent} + {factor - 1}) // {factor}, {factor}):")
        if self.rng.random() < 0.5:
            self.line(depth + 1, f'with T.block("{self.name("block")}"):')
            self.line(depth + 2, f"{joined} = T.axis.opaque(({extent} + 3) // 4 * 4, {outer} * {factor} + {inner})")
            if self.rng.random() < 0.7:
                self.line(depth + 2, f"T.where({outer} * {factor} + {inner} < {extent})")
            depth += 1
        else:
            self.line(depth + 1, f"{joined}: T.int64 = {outer} * {factor} + {inner}")
            if self.rng.random() < 0.7:
                self.line(depth + 1, f"if {joined} < {extent}:")
                depth += 1
                self.line(depth + 1, "T.evaluate(0)")
        self.loops.append((joined, extent))
        return depth + 1

    def body(self, depth: int, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        roll = self.rng.random()
        read, write = self.access("A", source), self.access("B", target)
        if self.rng.random() < 0.15:
            read = self.viewed(depth, source)
        if roll < 0.35:
            self.line(depth, f"{write} = {read}")
        elif roll < 0.5:
            self.line(depth, f"{write} = T.if_then_else({self.condition(source[0])}, {read}, T.float32(0))")
        elif roll < 0.65:
            self.line(depth, f"if {self.condition(source[0])}:")
            self.line(depth + 1, f"{write} = {read}")
            if self.rng.random() < 0.3:
                self.line(depth, "else:")
                self.line(depth + 1, f"{self.access('B', target)} = T.float32(1)")
        elif roll < 0.72:
            self.line(depth, f"if ({self.condition(source[0])}) and {read} > T.float32(0):")
            self.line(depth + 1, f"{write} = T.float32(2)")
        elif roll < 0.79 and depth > 1 and "for" in self.lines[-1]:
            self.line(depth, f"if {self.condition(source[0])}:")
            self.line(depth + 1, "continue")
            self.line(depth, f"{write} = {read}")
        elif roll < 0.86:
            var = self.name("p")
            self.line(depth, f"{var}: T.int64 = {self.index(source[-1])}")
            self.line(depth, f"{write} = A[{', '.join([*[self.index(e) for e in source[:-1]], var])}]")
        elif roll < 0.93:
            lanes = self.rng.choice((2, 4))
            at = [self.index(e) for e in source[:-1]], [self.index(e) for e in target[:-1]]
            base = f"T.Ramp({self.atom()} * {self.rng.choice((1, lanes))}, T.int64(1), {lanes})"
            self.line(depth, f"B[{', '.join([*at[1], base])}] = A[{', '.join([*at[0], base])}]")
        else:
            self.line(depth, f"{write} = A[{', '.join(['D[0]'] * len(source))}]")

    def program(self) -> str:
        source = self.shape()
        target = source if self.rng.random() < 0.6 else self.shape()
        self.wanted = [*source, *target]
        for buffer, param, shape in (("A", "a", source), ("B", "b", target)):
            self.line(1, f'{buffer} = T.match_buffer({param}, ({", ".join(shape)},), "float32")')
        for _ in range(self.rng.choice((1, 1, 2))):
            self.loops = []
            depth = 1
            for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3))):
                depth = self.split(depth) if self.rng.random() < 0.2 else self.loop(depth)
            self.body(depth, source, target)
        return HEADER + "\n".join(self.lines) + "\n"


def random_program(seed: int) -> str:
    """The script of a program."""
    return _Writer(seed).program()


def arguments(func: PrimFunc, n: int, m: int, seed: int = 0) -> list[Any]:
    """Arguments of a program for two sizes; the data that serves as an index is inside for some seeds only."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    first = next(iter(func.buffer_map.values()))
    symbols = dict(zip(first.shape, (n, m)))
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [evaluate(e, symbols) for e in buffer.shape]  # type: ignore[arg-type]
        dtype = buffer.dtype.name
        made.append(rng.integers(-1, 4, shape).astype(dtype) if dtype == "int64" else np.ones(shape, dtype))
    return made
