"""The kernel of fused attention for CUDA devices, as script: launch, copies, masks, online softmax, epilogue.

Not here: the products (`attention_products.py`), their sizes (`attention.py`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from textwrap import indent
from typing import Any

from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call, FloatImm, IntImm, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import Div
from ...ir.stmt import AllocBuffer, BlockRealize, Stmt, seq
from ...ir.types import Expr
from ...ir.walk import fresh_copy
from ...op.common.type_rules import is_one
from ...op.nn.attention_blocks import Attention
from ...script import parse
from ...transform.infra.backend import GpuMachine
from ...transform.tir.expressions.simplify import simplify
from .attention_products import PAD_BYTES, WARP, Products

ASYNC_CAPABILITY = 80
"""The first compute capability with asynchronous copies and with the matrix instructions used here."""
VECTOR_BYTES = 16
PIECE = 2
"""Least number of key blocks of a block of threads, if several split the keys of a row."""
MOST_PIECES = 64
BLOCKS_EACH = 4
"""Blocks of threads for each multiprocessor in that case."""


def size_of(expr: Expr) -> int | None:
    """The number that a size is, None where it is not known."""
    return expr.value if type(expr) is IntImm else None


def rounded(n: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-n // step) * step


_SIZES = ("batches", "heads", "shared", "length", "keys", "width", "mixed_width")


def _number(expr: Expr) -> float | None:
    """The value of a constant, or of the usual scale 1 / sqrt(width); None if it is not known."""
    if isinstance(expr, Div):
        one, width = _number(expr.a), _number(expr.b)
        return one / width if one is not None and width else None
    if type(expr) is Call and expr.op_name == "T.sqrt":
        width = _number(expr.args[0])
        return None if width is None else math.sqrt(width)
    return float(expr.value) if isinstance(expr, (FloatImm, IntImm)) else None


@lru_cache(maxsize=8)
def _read(text: str) -> PrimFunc:
    """The program of a text, which names the sizes: other sizes have the same."""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def _lanes(width: int, most: int) -> int:
    """The largest power of two up to ``most`` that divides a width."""
    return math.gcd(width, most)


def from_lane(value: str, distance: int) -> str:
    """A value of the lane at a distance, by xor."""
    return f"T.tvm_warp_shuffle_xor(T.uint32({(1 << WARP) - 1}), {value}, {distance}, {WARP}, {WARP})"


class Kernel:
    """The program for one attention, as script. ``batch`` and ``head`` (of the keys) are those of the block, ``start`` is its first
    row; ``r`` counts the rows of a thread, ``c`` its scores of one, ``g`` and ``x`` its results of one."""

    def __init__(self, what: Attention, products: Products, gpu: GpuMachine) -> None:
        self.what, self.by = what, products
        tensors = {"query": what.query, "key": what.key, "value": what.value, "out": what.out}
        self.orders = {name: tensor.order for name, tensor in tensors.items()}
        self.buffers = {name: tensor.buffer for name, tensor in tensors.items()}
        if what.bias is not None:
            self.buffers["bias"] = what.bias
        self.is_async = gpu.capability >= ASYNC_CAPABILITY and products.dtype == what.query.buffer.dtype.name
        self.threads = WARP * products.warps
        self.group = build.floordiv(what.query.size("H"), what.key.size("H"))
        self.one_group, self.is_causal = is_one(self.group), what.shift is not None
        self.behind = " + 1" if what.shift is not None and build.is_int(what.shift, 0) else " + shift + 1"
        """Added to the position of a row, this is the end of the keys that it sees."""
        self.width, self.mixed = size_of(what.query.size("D")) or 0, size_of(what.value.size("D")) or 0
        self.scale = _number(what.scale)
        self.folds = what.bias is None and self.scale is not None and self.scale > 0
        """Scores are scaled in the exponent; a positive scale keeps their maximum."""
        self.pieces = self.pieces_of_keys(gpu)

    def pieces_of_keys(self, gpu: GpuMachine) -> str:
        """The number of blocks that split the keys of a row, as script. More than one if there are few rows, to occupy all
        multiprocessors; "" for one."""
        heads, length, group = [size_of(e) for e in (self.what.key.size("H"), self.what.query.size("S"), self.group)]
        batches, keys = size_of(self.what.query.size("B")) or 1, size_of(self.what.key.size("S"))
        if heads is None or length is None or group is None or length * group > self.by.rows:
            return ""
        most = min(MOST_PIECES, BLOCKS_EACH * gpu.processors // max(1, batches * heads))
        least = PIECE * self.by.keys
        if most < 2 or (keys is not None and keys <= least):
            return ""
        return f"T.max(T.min((keys + {least - 1}) // {least}, {most}), 1)"

    def statement(self) -> Stmt:
        """The statements on the buffers of the program."""
        what = self.what
        scale = what.scale if self.scale is None else build.const(self.scale, what.wide)
        scalars: dict[str, Expr] = {
            "factor": build.mul(scale, build.const(math.log2(math.e), what.wide)),
            "group": self.group,
            "shift": build.const(0, "int64") if what.shift is None else what.shift,
            "empty": build.const(what.empty or 0.0, what.wide),
        }
        func = _read(self.text())
        mapping: dict[Any, Any] = {}
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                mapping[param] = scalars[param.name]
                continue
            real = self.buffers[buffer.name]
            mapping |= {buffer: real, buffer.data: real.data}
            mapping |= {own: size for own, size in zip(buffer.shape, real.shape) if isinstance(own, Var)}
        body = func.body
        if type(body) is BlockRealize:
            body = seq(*[AllocBuffer(buffer) for buffer in body.block.alloc_buffers], body.block.body)
        alone: PrimFunc = simplify.on(replace(func, body=fresh_copy(body, mapping), params=(), buffer_map={}))
        return alone.body

    # ---- text

    def text(self) -> str:
        """The program."""
        wide = self.what.wide
        lines = [
            "@T.prim_func",
            f"def attention({', '.join([f'p_{name}: T.handle' for name in self.buffers])}, factor: T.{wide}, group: T.int64, "
            f"shift: T.int64, empty: T.{wide}):",
            *[f"    {name} = T.int64()" for name in (*_SIZES, *[f"n{axis}" for axis in range(4)], *self.unused_axes())],
        ]
        for name, buffer in self.buffers.items():
            order = self.orders.get(name, "")
            shape = [self.size(name, letter) for letter in order] or [f"n{axis}" for axis in range(buffer.ndim)]
            lines.append(f"    {name} = T.match_buffer(p_{name}, ({', '.join(shape)},), {buffer.dtype.name!r})")
        return "\n".join(lines) + indent(self.launch(), "    ")

    def unused_axes(self) -> list[str]:
        """Names of the sizes of axes that are read at one index."""
        return [self.size(name, axis) for name, order in self.orders.items() for axis in order if axis.isdigit()]

    @staticmethod
    def size(name: str, letter: str) -> str:
        """The name of a size of a tensor."""
        if letter.isdigit():
            return f"{name}_{letter}"
        if letter == "D":
            return "mixed_width" if name in ("value", "out") else "width"
        other = {"H": "shared", "S": "keys"} if name in ("key", "value") else {"H": "heads", "S": "length"}
        return {"B": "batches", **other}[letter]

    def element(self, name: str, row: str, column: str) -> str:
        """An element of a tensor by row and column. In the query and the result, heads that share keys are rows."""
        at = {"B": "batch", "H": "head", "S": row, "D": column}
        if name in ("query", "out"):
            at |= {"H": self.head_of(row), "S": self.place_of(row)}
        return f"{name}[{', '.join([at.get(letter, letter) for letter in self.orders[name]])}]"

    def head_of(self, row: str) -> str:
        """The head of the query that a row belongs to."""
        return "head" if self.one_group else f"head * group + ({row}) % group"

    def place_of(self, row: str) -> str:
        """The place in the sequence of a row."""
        return row if self.one_group else f"({row}) // group"

    def launch(self) -> str:
        """The kernel, and the one that combines results if blocks split the keys."""
        by, wide = self.by, self.what.wide
        count = f"((length * group + {by.rows - 1}) // {by.rows})"
        number = f"{count} - 1 - block % {count}" if self.is_causal else f"block % {count}"  # the most keys first
        kernel = f"""
for block in T.thread_binding(batches * shared * {self.pieces or count}, thread="blockIdx.x"):
    for ty in T.thread_binding({by.warps}, thread="threadIdx.y"):
        for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
            start: T.int64 = {f"({number}) * {by.rows}" if not self.pieces else "0"}
            batch: T.int64 = block // {self.pieces or count} // shared
            head: T.int64 = block // {self.pieces or count} % shared
            rows: T.int64 = length * group
            scale: T.{wide} = factor
{indent(self.body(), " " * 12)}
"""
        if not self.pieces:
            return kernel
        shape = f"batches * shared * {self.pieces}, length * group"
        return f"""
parts = T.alloc_buffer(({shape}, {self.mixed}), "{wide}")
states = T.alloc_buffer(({shape}, 2), "{wide}")
{kernel}
{self.join()}
"""

    def join(self) -> str:
        """The kernel that combines the pieces of a row, one block for each row."""
        wide, threads = self.what.wide, min(256, rounded(self.mixed, WARP))
        own = -(-self.mixed // threads)
        row = f"block // (length * group) * {self.pieces} + s, block % (length * group)"
        column = f"e * {threads} + tx"
        inside = f"{column} < {self.mixed}"
        exponent = "exp2" if wide == "float64" else "ptx_ex2"
        weight = f"T.{exponent}(states[{row}, 0] - base)"
        return f"""
for block in T.thread_binding(batches * shared * (length * group), thread="blockIdx.x"):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        batch: T.int64 = block // (length * group) // shared
        head: T.int64 = block // (length * group) % shared
        joined = T.alloc_buffer(({own},), "{wide}", scope="local")
        high = T.alloc_buffer((1,), "{wide}", scope="local")
        total = T.alloc_buffer((1,), "{wide}", scope="local")
        high[0] = T.{wide}("-inf")
        total[0] = T.{wide}(0)
        for e in T.unroll({own}):
            joined[e] = T.{wide}(0)
        for s in range({self.pieces}):
            high[0] = T.max(high[0], states[{row}, 0])
        base: T.{wide} = T.Select(high[0] == T.{wide}("-inf"), T.{wide}(0), high[0])
        for s in range({self.pieces}):
            total[0] = total[0] + states[{row}, 1] * {weight}
            for e in T.unroll({own}):
                if {inside}:
                    joined[e] = joined[e] + parts[{row}, {column}] * {weight}
        for e in T.unroll({own}):
            if {inside}:
                {self.element("out", "block % (length * group)", column)} = {self.divided("joined[e]", "total[0]")}
"""

    def divided(self, value: str, total: str) -> str:
        """A result divided by its sum of weights, in the type of the output."""
        wide, out = self.what.wide, self.buffers["out"].dtype.name
        value = f"{value} * (T.{wide}(1) / {total})"
        if self.what.empty is not None:
            value = f"T.Select({total} == T.{wide}(0), empty, {value})"
        return value if out == wide else f'T.Cast("{out}", {value})'

    def body(self) -> str:
        """The work of a thread."""
        by = self.by
        seen, whole = "keys", "keys"
        if self.is_causal:
            seen = f"T.max(T.min(keys, {self.place_of(f'T.min(start + {by.rows}, rows) - 1')}{self.behind}), 0)"
            whole = f"T.max(T.min(keys, {self.place_of('start')}{self.behind}), 0)"
        return f"""
{by.tile("Q", by.rows, by.width)}
{by.tile("K", by.keys, by.width)}
{by.tile("V", by.keys, by.mixed)}
{self.held("high", "top", "base", "away", "total")}
{by.buffers()}
seen: T.int64 = {seen}
whole: T.int64 = {whole} // {by.keys}
{self.fill("Q", "query", "start", "rows")}
{self.keys_of_block()}
{self.fill("K", "key", f"begin * {by.keys}" if self.pieces else "0", "seen")}
{self.begun_rows("whole")}
for i in range(turns):
    j: T.int64 = {"begin + i" if self.pieces else "i"}
{indent(self.turn(), "    ")}
{self.wait()}
{self.finish()}
"""

    def held(self, *states: str) -> str:
        """The registers of a thread: scores, results, and states of each row."""
        by, wide = self.by, self.what.wide
        arrays = {"scores": by.own_rows * by.own_keys, "mixed": by.own_rows * by.own_columns}
        arrays |= dict.fromkeys(states, by.own_rows)
        held = [f'{name} = T.alloc_buffer(({n},), "{wide}", scope="local")' for name, n in arrays.items()]
        return "\n".join([*held, f'edge = T.alloc_buffer(({by.own_rows},), "int32", scope="local")'])

    def begun_rows(self, whole: str) -> str:
        """The beginning of rows; ``edge``: the end of the keys of each, behind the ``whole`` blocks that all rows see."""
        by, wide = self.by, self.what.wide
        return f"""
for r in T.unroll({by.own_rows}):
    high[r] = T.{wide}("-inf")
    total[r] = T.{wide}(0)
    edge[r] = T.Cast("int32", T.max({self.limit()} - {whole} * {by.keys}, 0) - {by.first_key})
for i in T.unroll({by.own_rows * by.own_columns}):
    mixed[i] = T.{wide}(0)
"""

    def keys_of_block(self) -> str:
        """The number of key blocks of a block of threads, and the first of them."""
        turns = f"(seen + {self.by.keys - 1}) // {self.by.keys}"
        if not self.pieces:
            return f"turns: T.int64 = {turns}"
        return f"""
each: T.int64 = ({turns} + {self.pieces} - 1) // {self.pieces}
begin: T.int64 = block % {self.pieces} * each
turns: T.int64 = T.max(T.min(each, {turns} - begin), 0)
"""

    def turn(self) -> str:
        """One iteration: a block of keys."""
        by, wide = self.by, self.what.wide
        return f"""
{self.wait()}
T.tvm_storage_sync("shared")
{self.fill("V", "value", f"j * {by.keys}", "seen")}
for i in T.unroll({by.own_rows * by.own_keys}):
    scores[i] = T.{wide}(0)
{by.scores()}
{self.wait()}
T.tvm_storage_sync("shared")
{self.fill("K", "key", f"j * {by.keys} + {by.keys}", "seen")}
{self.biased()}
if j >= whole:
{indent(self.masked(f'T.Cast("int32", (j - whole) * {by.keys})'), "    ")}
{self.weights()}
{self.rescaled()}
{by.values()}
"""

    def masked(self, before: str) -> str:
        """Hide the scores of keys that a row does not see; ``before``: the keys between the edge's place and this block."""
        by = self.by
        return f"""
for r in T.unroll({by.own_rows}):
    for c in T.unroll({by.own_keys}):
        if T.Cast("int32", {by.next_key("c")}) >= edge[r] - {before}:
            scores[{by.score("r", "c")}] = T.{self.what.wide}("-inf")
"""

    def limit(self) -> str:
        """The end of the keys that a thread's row ``r`` sees."""
        if not self.is_causal:
            return "keys"
        return f"T.min(keys, {self.place_of('start + ' + self.by.row('r'))}{self.behind})"

    def fill(self, to: str, name: str, first: str, limit: str) -> str:
        """Copy a block of rows to shared memory, with zeros past the last row and past the width of a row."""
        by, source = self.by, self.buffers[name].dtype
        width, padded = (self.mixed, by.mixed) if to == "V" else (self.width, by.width)
        lanes = _lanes(width, VECTOR_BYTES // max(source.itemsize, DataType(by.dtype).itemsize))
        each = padded // lanes
        height = by.rows if to == "Q" else by.keys
        count = height * each
        chunk = f"(s * {self.threads} + ty * {WARP} + tx)"
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes}"
        inside = f'T.Cast("int32", {row}) < there'
        if padded != width:
            inside = f"{inside} and {column} < {width}"
        value = self.element(name, f"{first} + {row}", f"{column} + x")
        if source.name != by.dtype:
            value = f'T.Cast("{by.dtype}", {value})'
        copy = f"""
for x in T.vectorized({lanes}):
    {by.place(to, height, row, column, "x")} = T.if_then_else({inside}, {value}, T.{by.dtype}(0))
"""
        if count % self.threads:
            copy = f"if {chunk} < {count}:{indent(copy, '    ')}"
        copies = f"for s in T.unroll({-(-count // self.threads)}):\n{indent(copy, '    ')}"
        if self.is_async:
            copies = f'with T.attr(0, "async_scope", 1):\n{indent(copies, "    ")}\nT.ptx_commit_group()'
        return f'there: T.int32 = T.Cast("int32", T.min({limit} - ({first}), {height}))\n{copies}'

    def wait(self) -> str:
        """Wait for all copies."""
        return "T.ptx_wait_group(0)" if self.is_async else ""

    def biased(self) -> str:
        """Scale the scores and add the bias, unless the exponent scales them."""
        if self.folds:
            return ""
        what, by = self.what, self.by
        score = f"scores[{by.score('r', 'c')}]"
        value = f"{score} * scale"
        if what.bias is not None:
            row, key = (
                f"T.min(start + {by.row('r')}, rows - 1)",
                f"T.min(j * {by.keys} + {by.first_key} + {by.next_key('c')}, keys - 1)",
            )
            places = ("batch", self.head_of(row), self.place_of(row), key)[4 - what.bias.ndim :]
            indices = [
                "0" if is_one(dim) else place if type(dim) is IntImm else f"T.Select(n{axis} == 1, T.int64(0), {place})"
                for axis, (dim, place) in enumerate(zip(what.bias.shape, places))
            ]
            given = f"bias[{', '.join(indices)}]" if indices else "bias[()]"
            if what.bias.dtype.is_bool:
                value = f'T.Select({given}, {value}, T.{what.wide}("-inf"))'
            else:
                value = f'{value} + T.Cast("{what.wide}", {given}) * T.{what.wide}({math.log2(math.e)!r})'
        return f"""
for r in T.unroll({by.own_rows}):
    for c in T.unroll({by.own_keys}):
        {score} = {value}
"""

    def exponent(self, value: str) -> str:
        """2 to the power of a score less the base of its row."""
        less = f"T.fma({value}, scale, T.{self.what.wide}(0) - base[r])" if self.folds else f"{value} - base[r]"
        return f"T.{'exp2' if self.what.wide == 'float64' else 'ptx_ex2'}({less})"

    def weights(self) -> str:
        """Replace scores by weights, and say how the sums that the row carries are rescaled."""
        by, wide = self.by, self.what.wide
        score = f"scores[{by.score('r', 'c')}]"
        return f"""
{self.highest()}
    base[r] = T.Select(top[r] == T.{wide}("-inf"), T.{wide}(0), top[r]{" * scale" * self.folds})
    away[r] = {self.exponent("high[r]")}
    high[r] = top[r]
    total[r] = total[r] * away[r]
    for c in T.unroll({by.own_keys}):
        {score} = {self.exponent(score)}
        total[r] = total[r] + {score}
"""

    def highest(self) -> str:
        """For each row, the highest of its scores and of what it carries: a loop that more may be put into."""
        by = self.by
        joined = "\n    ".join([f"top[r] = T.max(top[r], {from_lane('top[r]', d)})" for d in by.lanes])
        return f"""for r in T.unroll({by.own_rows}):
    top[r] = high[r]
    for c in T.unroll({by.own_keys}):
        top[r] = T.max(top[r], scores[{by.score("r", "c")}])
    {joined}"""

    def rescaled(self) -> str:
        """Rescale the results that the row carries."""
        by = self.by
        return f"""
for r in T.unroll({by.own_rows}):
    for g in T.unroll({by.own_columns // by.together}):
        for x in T.unroll({by.together}):
            mixed[{by.result("r", "g", "x")}] = mixed[{by.result("r", "g", "x")}] * away[r]
"""

    def finish(self) -> str:
        """Store the results of a thread: for the kernel that combines the pieces, or divided by the sums of weights."""
        sums = "\n    ".join([f"total[r] = total[r] + {from_lane('total[r]', d)}" for d in self.by.lanes])
        summed = f"for r in T.unroll({self.by.own_rows}):\n    {sums}\n"
        return summed + (self.store_parts() if self.pieces else self.store_rows())

    def store_parts(self) -> str:
        """Store the undivided results of a piece of the keys, and the maximum score and the sum of weights of each row."""
        by = self.by
        place, column = f"block, start + {by.row('r')}", by.column("g", "x")
        loop, inside = f"for x in T.unroll({by.together}):", f"if {column} < {self.mixed}:"
        if self.mixed % by.together == 0:
            loop, inside = f"if {by.column('g', '0')} < {self.mixed}:", f"for x in T.vectorized({by.together}):"
        return f"""
for r in T.unroll({by.own_rows}):
    if {by.row("r")} < rows:
        for g in T.unroll({by.own_columns // by.together}):
            {loop}
                {inside}
                    parts[{place}, {column}] = mixed[{by.result("r", "g", "x")}]
if {by.first_key} == 0:
    for r in T.unroll({by.own_rows}):
        if {by.row("r")} < rows:
            states[{place}, 0] = high[r]{" * scale" * self.folds}
            states[{place}, 1] = total[r]
"""

    def store_rows(self) -> str:
        """Store the rows through shared memory, so that accesses are contiguous."""
        by, out = self.by, self.buffers["out"].dtype
        lanes = _lanes(self.mixed, VECTOR_BYTES // out.itemsize)
        width = by.mixed + PAD_BYTES // out.itemsize
        chunk, each = f"(s * {self.threads} + ty * {WARP} + tx)", self.mixed // lanes
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes} + x"
        result = self.divided(f"mixed[{by.result('r', 'g', 'x')}]", "total[r]")
        turns = -(
            -by.rows * each // self.threads
        )  # unrolled, a quotient for each row would be kept since the query was copied
        loop = f"T.unroll({turns})" if size_of(self.group) else f'T.serial({turns}, annotations={{"unroll": 1}})'
        return f"""
lines = T.alloc_buffer(({by.rows}, {width}), "{out.name}", scope="shared.dyn")
for r in T.unroll({by.own_rows}):
    for g in T.unroll({by.own_columns // by.together}):
        for x in T.vectorized({by.together}):
            lines[{by.row("r")}, {by.column("g", "x")}] = {result}
T.tvm_storage_sync("shared")
for s in {loop}:
    if {row} < T.min({by.rows}, rows - start):
        for x in T.vectorized({lanes}):
            {self.element("out", f"start + {row}", column)} = lines[{row}, {column}]
"""
