"""Random kernels as users write them in script: thread axes, shared memory, barriers, shuffles, reductions over threads, atomics,
vectors, virtual threads, software pipelines; some of them wrong.

``random_kernel(rng)`` gives a module's text with the arguments of ``main``: X, which it reads, Y, a cell for each thread, and Z, where
threads add up. A barrier may be missing, or stand where threads diverge, an index may be too large, a lane may not take part.
"""

from __future__ import annotations

import random

import numpy as np
from fuzz_values import random_array

DTYPES = ("float32", "float32", "int32", "float16", "int8", "uint8", "int64", "float64", "bfloat16", "uint32", "int16")
THREADS = (1, 8, 32, 33, 64, 96)
LOCALS = 3


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self.threads, self.blocks = rng.choice(THREADS), rng.choice((1, 2, 3))
        self.careful = rng.random() < 0.6
        """Barriers stand where they must."""
        self.several = 2 if self.threads % 2 == 0 and rng.random() < 0.3 else 0
        self.axis = rng.choice(("threadIdx.y", "threadIdx.z", "vthread.x"))
        self.loops: list[str] = []
        self.names = 0
        self.symbolic = rng.random() < 0.3
        """The size is a symbol, and the last block has threads without a cell."""
        self.piped = False
        self.scope = rng.choice(("shared", "shared", "shared.dyn"))

    def place(self) -> str:
        """An index of a cell for the thread, that no other thread has."""
        k = self.rng.randrange(1, 8)
        found = ["t", "t", f"{self.threads - 1} - t", f"(t + {k}) % {self.threads}"]
        if self.threads % 2 == 0:
            found.append("T.bitwise_xor(t, 1)")
        if self.loops:
            found.append(f"(t + {self.loops[-1]}) % {self.threads}")
        if not self.careful and self.rng.random() < 0.1:
            found = [f"t + {k}", "t // 2"]
        return self.rng.choice(found)

    def given(self, place: str) -> str:
        """A cell of X for a place in the block."""
        at = f"b * {self.threads} + {place}"
        return f"X[T.min({at}, n - 1)]" if self.symbolic else f"X[{at}]"

    def local(self) -> str:
        return f"L[{self.rng.randrange(LOCALS)}]"

    def condition(self) -> str:
        """A condition, the same for all threads or not."""
        found = ["b == 0", "t < 5", "t % 2 == 0", f"{self.given('t')} > T.Cast('{self.dtype}', 1)"]
        return self.rng.choice(found[:1] * 3 + found + [f"{v} < 1" for v in self.loops])

    def axes(self) -> list[str]:
        """The loops over the threads of all blocks, and the number of a thread in its block."""
        blocks = f"(n + {self.threads - 1}) // {self.threads}" if self.symbolic else self.blocks
        lines = [f'for b in T.thread_binding({blocks}, "blockIdx.x"):']
        if not self.several:
            return [*lines, f'    for t in T.thread_binding({self.threads}, "threadIdx.x"):']
        outer, inner = (self.several, self.threads // self.several)
        return [
            *lines, f'    for ty in T.thread_binding({outer}, "{self.axis}"):', f'        for tx in T.thread_binding({inner}, "threadIdx.x"):',
            f"            t: T.int64 = ty * {inner} + tx",
        ]  # fmt: skip

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def barrier(self) -> list[str]:
        return ['T.tvm_storage_sync("shared")']

    def join(self) -> str:
        a, b = self.local(), self.local()
        if self.dtype.startswith(("float", "bfloat")):
            return self.rng.choice((f"{a} + {b}", f"{a} * {b}", f"T.max({a}, {b})", f"T.Select({a} < {b}, {b}, {a})"))
        return self.rng.choice(
            (f"T.max({a}, {b})", f"T.bitwise_and({a}, {b})", f"T.bitwise_xor({a}, {b})", f"T.min({a}, {b})")
        )

    def step(self, depth: int, uniform: bool) -> list[str]:
        """Lines of one step; ``uniform``: all threads of a block do it."""
        rng, n = self.rng, self.threads
        cast = f'T.Cast("{self.dtype}", '
        match rng.randrange(18):
            case 0 | 1:
                return [f"{self.local()} = {self.join()}"]
            case 2:
                return [f"{self.local()} = {self.given(self.place())}"]
            case 3 | 4 | 5 if uniform or not self.careful:
                before = self.barrier() if self.careful or rng.random() < 0.5 else []
                between = self.barrier() if self.careful or rng.random() < 0.7 else []
                return [*before, f"S[{self.place()}] = {self.local()}", *between, f"{self.local()} = S[{self.place()}]"]
            case 6 if (uniform and n % 32 == 0) or not self.careful:
                kind, by = rng.choice(("", "_up", "_down", "_xor")), rng.choice((0, 1, 3, 16))
                width = rng.choice((32, 32, 16, 8))
                return [
                    f"{self.local()} = T.tvm_warp_shuffle{kind}(T.uint32(0xFFFFFFFF), {self.local()}, {by}, {width}, 32)"
                ]
            case 7 if (
                not self.several
                and (uniform or not self.careful)
                and self.dtype in ("float32", "int32", "float64", "int64")
            ):
                return [
                    f"with T.attr(T.comm_reducer(lambda p, q: T.max(p, q), [T.min_value('{self.dtype}')]), 'reduce_scope', 0):",
                    f"    T.tvm_thread_allreduce(T.uint32(1), {self.local()}, T.bool(True), R[0], t, dtype='handle')",
                    f"{self.local()} = R[0]",
                ]
            case 8:
                return [f"T.atomic_add(T.address_of(Z[t % 3]), {rng.randrange(1, 3)})"]
            case 9 if depth < 2:
                self.loops.append(f"k{depth}")
                inner = [x for _ in range(rng.randint(1, 2)) for x in self.step(depth + 1, uniform)]
                self.loops.pop()
                return [f"for k{depth} in range({rng.choice((0, 1, 3))}):", *["    " + x for x in inner]]
            case 10 | 11 if depth < 2:
                condition = self.condition()
                same = uniform and condition.startswith(("b", "k"))
                lines = [f"if {condition}:", *["    " + x for x in self.step(depth + 1, same)]]
                return (
                    [*lines, "else:", *["    " + x for x in self.step(depth + 1, same)]]
                    if rng.random() < 0.3
                    else lines
                )
            case 12:
                return ["for v in T.vectorized(2):", f"    V[v] = {self.local()} + {cast}v)", f"{self.local()} = V[1]"]
            case 13 if uniform and depth == 0 and self.axis != "vthread.x" and not self.piped:
                stages = rng.choice(("[0, 1]", "[0, 2]"))
                note = f'"software_pipeline_stage": {stages}, "software_pipeline_order": [0, 1]'
                if rng.random() < 0.5:
                    note += ', "software_pipeline_async_stages": [0]'
                self.piped = True
                return [
                    *self.barrier(), f"for q in T.serial(4, annotations={{{note}}}):", '    with T.block("copy"):',
                    f"        P[t] = {self.given(f'(t + q) % {n}')}", '    with T.block("use"):',
                    f"        L[0] = T.max(L[0], P[{n - 1} - t])",
                ]  # fmt: skip
            case 14:
                wide = rng.choice((2, 4))
                if n % wide == 0 and not self.symbolic:
                    to, at = f"b * {n} + t // {wide} * {wide}", f"b * {n} + {n - wide} - t // {wide} * {wide}"
                    return [
                        f"for v in T.vectorized({wide}):",
                        f"    W[v] = X[{rng.choice((to, at))} + v]",
                        f"{self.local()} = W[t % {wide}]",
                    ]
            case 15:
                return [
                    "C[0] = t % 3", "while C[0] < 4:", "    C[0] = C[0] + 1", f"    {self.local()} = {self.join()}",
                    *(["    if C[0] == 2:", f"        {rng.choice(('break', 'continue'))}"] if rng.random() < 0.5 else []),
                ]  # fmt: skip
            case 16:
                value = self.name("s")
                return [
                    f"{value}: T.{self.dtype} = {self.join()}",
                    f"{self.local()} = {value} + {self.local()}"
                    if "float" in self.dtype
                    else f"{self.local()} = T.max({value}, {self.local()})",
                ]
            case 17:
                kept = f"T.if_then_else({self.condition()}, {self.local()}, {self.given(self.place())})"
                return [f"{self.local()} = {kept}"]
        return [f"{self.local()} = {self.local()}"]


def random_kernel(rng: random.Random) -> tuple[str, list[np.ndarray]]:
    """The text of a module, and arguments."""
    w = _Writer(rng)
    n, dtype = w.threads, w.dtype
    total = rng.choice((0, 1, n - 1, n, n + 1, 2 * n + 5)) if w.symbolic else n * w.blocks
    size = "n" if w.symbolic else total
    last = [f"Y[b * {n} + t] = L[0]", f"Y[{size} + b * {n} + t] = L[1]"]
    axes = w.axes()
    steps = [line for _ in range(rng.randint(2, 7)) for line in w.step(0, True)]
    body = [
        f'S = T.alloc_buffer(({n},), "{dtype}", scope="{w.scope}")', f'P = T.alloc_buffer(({n},), "{dtype}", scope="shared")',
        f'L = T.alloc_buffer(({LOCALS},), "{dtype}", scope="local")', f'V = T.alloc_buffer((2,), "{dtype}", scope="local")',
        f'R = T.alloc_buffer((1,), "{dtype}", scope="local")', f'W = T.alloc_buffer((4,), "{dtype}", scope="local")',
        'C = T.alloc_buffer((1,), "int32", scope="local")',
        f"L[0] = {w.given('t')}", f'L[1] = T.Cast("{dtype}", t % 7)', f'L[2] = T.Cast("{dtype}", b)',
        *steps, *([f"if b * {n} + t < n:", *["    " + line for line in last]] if w.symbolic else last),
    ]  # fmt: skip
    text = "\n".join(["        " + x for x in [*axes, *[" " * (12 if w.several else 8) + x for x in body]]])
    head = f'X: T.Buffer(({total},), "{dtype}"), Y: T.Buffer(({2 * total},), "{dtype}"), Z: T.Buffer((3,), "int32")'
    if w.symbolic:
        head = 'x: T.handle, y: T.handle, Z: T.Buffer((3,), "int32")'
        sizes = [
            "n = T.int64()",
            f'X = T.match_buffer(x, (n,), "{dtype}")',
            f'Y = T.match_buffer(y, (2 * n,), "{dtype}")',
        ]
        text = "\n".join(["        " + line for line in sizes] + [text])
    data = np.random.default_rng(rng.randrange(1 << 30))
    x = random_array(data, (total,), dtype)
    return (
        f"@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({head}):\n{text}\n",
        [x, np.zeros(2 * total, x.dtype), np.zeros(3, np.int32)],
    )
