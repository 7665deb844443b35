"""Attention on CUDA devices: a block of threads has a block of rows, keys and values pass by through shared memory.

The algorithm is that of the lowering for processors (`op/nn/attention_blocks.py`): for each row the highest score, the sum of the
weights and the mixed values are carried along. Here scores and mixed values of a block lie in registers. Copies run beside the
products where the architecture has them: values arrive while scores are computed, the next keys while values are mixed. Blocks
of keys that a causal mask hides are not read; only those at its edge, and the last one, are masked. Heads that share keys are
rows of one block, any length is guarded, nothing is padded in memory.

Not here: the products (`attention_products.py`), programs with other sizes, which stay those for processors.
"""

from __future__ import annotations

import math
from functools import partial
from textwrap import indent
from typing import Any

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call, FloatImm, IntImm, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import Div
from ...ir.stmt import BlockRealize, Stmt
from ...ir.types import Expr
from ...ir.walk import substitute
from ...op.common.type_rules import is_one
from ...op.nn.attention import lower_attention
from ...op.nn.attention_blocks import Attention
from ...script import parse
from ...transform.infra.backend import GpuMachine, machine_in_use
from ...transform.tir.expressions.simplify import simplify
from .attention_products import PAD_BYTES, WARP, Products, RegisterTiles, TensorCores

ASYNC_CAPABILITY = 80
"""The first compute capability with copies beside the threads, and with the products of 16-bit floats used here."""
WIDEST = 256
"""Width of a head up to which its rows are kept in registers."""
VECTOR_BYTES = 16


def attention(call: Call, q: te.Tensor, k: te.Tensor, v: te.Tensor, bias: te.Tensor | None = None) -> te.Tensor:
    """The lowering of ``R.nn.attention`` for CUDA devices."""
    return lower_attention(call, q, k, v, bias, partial(_program, machine_in_use().gpu))


def _program(gpu: GpuMachine, what: Attention) -> Stmt:
    products = _products(what, gpu)
    if products is None:
        return what.emit()
    return _Kernel(what, products, gpu.capability >= ASYNC_CAPABILITY).statement()


def _size(expr: Expr) -> int | None:
    return expr.value if type(expr) is IntImm else None


def _rounded(n: int, step: int) -> int:
    return -(-n // step) * step


_CORE_TILES = {
    64: ((2, 64, 4), (1, 64, 4), (1, 64, 2), (1, 64, 1)),
    128: ((1, 64, 4), (1, 64, 2), (1, 64, 1)),
    256: ((1, 32, 4), (1, 32, 2), (1, 32, 1)),
}
"""By the width of a head at most: tiles of a warp, keys, and warps of a block."""
_REGISTER_TILES = ((4, 32, 8), (2, 32, 8), (1, 32, 8), (1, 16, 4))
"""Rows of a thread, keys and warps of a block."""


def _products(what: Attention, gpu: GpuMachine) -> Products | None:
    """The way products are computed: the largest tiles that the block has room for and rows fill. None where rows are too wide,
    or of a width that is not known."""
    width, mixed = _size(what.query.size("D")), _size(what.value.size("D"))
    if width is None or mixed is None or max(width, mixed) > WIDEST or min(width, mixed) == 0:
        return None
    heads, shared, length = [_size(e) for e in (what.query.size("H"), what.key.size("H"), what.query.size("S"))]
    rows = length * (heads // shared) if length is not None and heads and shared else 1 << 20
    dtype = what.query.buffer.dtype
    found: list[Products]
    if dtype.name in ("float16", "bfloat16") and gpu.capability >= ASYNC_CAPABILITY:
        wide = (_rounded(width, 16), _rounded(mixed, 16))
        sizes = next(sizes for limit, sizes in _CORE_TILES.items() if max(wide) <= limit)
        found = [TensorCores(*size, dtype.name, *wide) for size in sizes]
    else:
        vector = VECTOR_BYTES // (8 if what.wide == "float64" else 4)
        together = next(n for n in (4, 2, 1) if n <= vector and (n == 1 or mixed > 16 * (n // 2)))
        wide = (_rounded(width, vector), _rounded(mixed, 16 * together))
        found = [RegisterTiles(*size, what.wide, *wide, vector) for size in _REGISTER_TILES]
    fits = [p for p in found if p.shared_bytes <= gpu.shared_bytes]
    filled = [p for p in fits if p.rows < 2 * rows]
    return next(iter(filled or fits[-1:]), None)


_SIZES = ("batches", "heads", "shared", "length", "keys", "width", "mixed_width")


def _number(expr: Expr) -> float | None:
    """The value of a constant, or of the usual factor, 1 / sqrt(width)."""
    if isinstance(expr, Div):
        one, width = _number(expr.a), _number(expr.b)
        return one / width if one is not None and width else None
    if type(expr) is Call and expr.op_name == "T.sqrt":
        width = _number(expr.args[0])
        return None if width is None else math.sqrt(width)
    return float(expr.value) if isinstance(expr, (FloatImm, IntImm)) else None


def _lanes(width: int, most: int) -> int:
    """The largest power of two up to ``most`` that divides a width."""
    return math.gcd(width, most)


def _from_lane(value: str, distance: int) -> str:
    return f"T.tvm_warp_shuffle_xor(T.uint32({(1 << WARP) - 1}), {value}, {distance}, {WARP}, {WARP})"


class _Kernel:
    """The program for one attention, as script. ``batch`` and ``head`` (of the keys) are those of the block, ``start`` is its first
    row; ``r`` counts the rows of a thread, ``c`` its scores of one, ``g`` and ``x`` its results of one."""

    def __init__(self, what: Attention, products: Products, is_async: bool) -> None:
        self.what, self.by = what, products
        tensors = {"query": what.query, "key": what.key, "value": what.value, "out": what.out}
        self.orders = {name: tensor.order for name, tensor in tensors.items()}
        self.buffers = {name: tensor.buffer for name, tensor in tensors.items()}
        if what.bias is not None:
            self.buffers["bias"] = what.bias
        self.is_async = is_async and products.dtype == what.query.buffer.dtype.name
        self.threads = WARP * products.warps
        self.group = build.floordiv(what.query.size("H"), what.key.size("H"))
        self.one_group, self.is_causal = is_one(self.group), what.shift is not None
        self.behind = " + 1" if what.shift is not None and build.is_int(what.shift, 0) else " + shift + 1"
        """From the place of a row to behind the last key that it sees."""
        self.width, self.mixed = _size(what.query.size("D")) or 0, _size(what.value.size("D")) or 0
        self.scale = _number(what.scale)
        self.folds = what.bias is None and self.scale is not None and self.scale > 0
        """Scores are scaled inside of the exponent: their order is that of the scaled ones."""

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
        func = parse(self.text())
        assert isinstance(func, PrimFunc)
        mapping: dict[Any, Any] = {}
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                mapping[param] = scalars[param.name]
                continue
            real = self.buffers[buffer.name]
            mapping |= {buffer: real, buffer.data: real.data}
            mapping |= {own: size for own, size in zip(buffer.shape, real.shape) if isinstance(own, Var)}
        body = func.body.block.body if type(func.body) is BlockRealize else func.body
        alone: PrimFunc = simplify.on(replace(func, body=substitute(body, mapping), params=(), buffer_map={}))
        return alone.body

    # ---- text

    def text(self) -> str:
        """The program."""
        wide = self.what.wide
        lines = [
            "@T.prim_func",
            f"def attention({', '.join([f'p_{name}: T.handle' for name in self.buffers])}, factor: T.{wide}, group: T.int64, "
            f"shift: T.int64, empty: T.{wide}):",
            *[f"    {name} = T.int64()" for name in (*_SIZES, *[f"n{axis}" for axis in range(4)])],
        ]
        for name, buffer in self.buffers.items():
            order = self.orders.get(name, "")
            shape = [self.size(name, letter) for letter in order] or [f"n{axis}" for axis in range(buffer.ndim)]
            lines.append(f"    {name} = T.match_buffer(p_{name}, ({', '.join(shape)},), {buffer.dtype.name!r})")
        return "\n".join(lines) + indent(self.launch(), "    ")

    @staticmethod
    def size(name: str, letter: str) -> str:
        """The name of a size of a tensor."""
        if letter == "D":
            return "mixed_width" if name in ("value", "out") else "width"
        other = {"H": "shared", "S": "keys"} if name in ("key", "value") else {"H": "heads", "S": "length"}
        return {"B": "batches", **other}[letter]

    def element(self, name: str, row: str, column: str) -> str:
        """An element of a tensor by its row in the sequence: of the query and the result, heads that share keys are rows."""
        at = {"B": "batch", "H": "head", "S": row, "D": column}
        if name in ("query", "out"):
            at |= {"H": self.head_of(row), "S": self.place_of(row)}
        return f"{name}[{', '.join([at[letter] for letter in self.orders[name]])}]"

    def head_of(self, row: str) -> str:
        """The head of the query that a row belongs to."""
        return "head" if self.one_group else f"head * group + ({row}) % group"

    def place_of(self, row: str) -> str:
        """The place in the sequence of a row."""
        return row if self.one_group else f"({row}) // group"

    def launch(self) -> str:
        """Threads, and where the block is."""
        by = self.by
        count = f"((length * group + {by.rows - 1}) // {by.rows})"
        number = f"{count} - 1 - block % {count}" if self.is_causal else f"block % {count}"  # the most keys first
        return f"""
for block in T.thread_binding(batches * shared * {count}, thread="blockIdx.x"):
    for ty in T.thread_binding({by.warps}, thread="threadIdx.y"):
        for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
            start: T.int64 = ({number}) * {by.rows}
            batch: T.int64 = block // {count} // shared
            head: T.int64 = block // {count} % shared
            rows: T.int64 = length * group
            scale: T.{self.what.wide} = factor
{indent(self.body(), " " * 12)}
"""

    def body(self) -> str:
        """The work of a thread."""
        by, wide = self.by, self.what.wide
        pad = PAD_BYTES // DataType(by.dtype).itemsize
        seen, whole = "keys", "keys"
        if self.is_causal:
            seen = f"T.max(T.min(keys, {self.place_of(f'T.min(start + {by.rows}, rows) - 1')}{self.behind}), 0)"
            whole = f"T.max(T.min(keys, {self.place_of('start')}{self.behind}), 0)"
        arrays = {"scores": by.own_rows * by.own_keys, "mixed": by.own_rows * by.own_columns}
        arrays |= dict.fromkeys(("high", "top", "base", "away", "total"), by.own_rows)
        held = "\n".join([f'{name} = T.alloc_buffer(({n},), "{wide}", scope="local")' for name, n in arrays.items()])
        return f"""
Q = T.alloc_buffer(({by.rows}, {by.width + pad}), "{by.dtype}", scope="shared.dyn")
K = T.alloc_buffer(({by.keys}, {by.width + pad}), "{by.dtype}", scope="shared.dyn")
V = T.alloc_buffer(({by.keys}, {by.mixed + pad}), "{by.dtype}", scope="shared.dyn")
{held}
edge = T.alloc_buffer(({by.own_rows},), "int32", scope="local")
{by.buffers()}
seen: T.int64 = {seen}
whole: T.int64 = {whole} // {by.keys}
{self.fill("Q", "query", "start", "rows")}
{self.fill("K", "key", "0", "seen")}
for r in T.unroll({by.own_rows}):
    high[r] = T.{wide}("-inf")
    total[r] = T.{wide}(0)
for i in T.unroll({by.own_rows * by.own_columns}):
    mixed[i] = T.{wide}(0)
for j in range((seen + {by.keys - 1}) // {by.keys}):
{indent(self.turn(), "    ")}
{self.wait()}
{self.finish()}
"""

    def turn(self) -> str:
        """A block of keys."""
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
    for r in T.unroll({by.own_rows}):
        edge[r] = T.Cast("int32", T.min({self.limit()} - j * {by.keys} - {by.first_key}, {by.keys}))
        for c in T.unroll({by.own_keys}):
            if T.Cast("int32", {by.next_key("c")}) >= edge[r]:
                scores[{by.score("r", "c")}] = T.{wide}("-inf")
{self.softmax()}
{by.values()}
"""

    def limit(self) -> str:
        """The first key that a thread's row ``r`` does not see."""
        if not self.is_causal:
            return "keys"
        return f"T.min(keys, {self.place_of('start + ' + self.by.row('r'))}{self.behind})"

    def fill(self, to: str, name: str, first: str, limit: str) -> str:
        """Copy a block of rows to shared memory, zeros behind its end and behind a row's."""
        by, source = self.by, self.buffers[name].dtype
        width, padded = (self.mixed, by.mixed) if to == "V" else (self.width, by.width)
        lanes = _lanes(width, VECTOR_BYTES // max(source.itemsize, DataType(by.dtype).itemsize))
        each = padded // lanes
        count = (by.rows if to == "Q" else by.keys) * each
        chunk = f"(s * {self.threads} + ty * {WARP} + tx)"
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes}"
        inside = f"{first} + {row} < {limit}"
        if padded != width:
            inside = f"{inside} and {column} < {width}"
        value = self.element(name, f"{first} + {row}", f"{column} + x")
        if source.name != by.dtype:
            value = f'T.Cast("{by.dtype}", {value})'
        copy = f"""
for x in T.vectorized({lanes}):
    {to}[{row}, {column} + x] = T.if_then_else({inside}, {value}, T.{by.dtype}(0))
"""
        if count % self.threads:
            copy = f"if {chunk} < {count}:{indent(copy, '    ')}"
        copies = f"for s in T.unroll({-(-count // self.threads)}):\n{indent(copy, '    ')}"
        if not self.is_async:
            return copies
        return f'with T.attr(0, "async_scope", 1):\n{indent(copies, "    ")}\nT.ptx_commit_group()'

    def wait(self) -> str:
        """Wait for all copies."""
        return "T.ptx_wait_group(0)" if self.is_async else ""

    def biased(self) -> str:
        """Scale the scores and add the bias, where that is not left to the exponent."""
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
        """2 to the power of a score, less what its row begins at."""
        less = f"T.fma({value}, scale, T.{self.what.wide}(0) - base[r])" if self.folds else f"{value} - base[r]"
        return f"T.{'exp2' if self.what.wide == 'float64' else 'ptx_ex2'}({less})"

    def softmax(self) -> str:
        """Scores to weights, with what is carried along."""
        by, wide = self.by, self.what.wide
        score = f"scores[{by.score('r', 'c')}]"
        joined = "\n    ".join([f"top[r] = T.max(top[r], {_from_lane('top[r]', d)})" for d in by.lanes])
        return f"""
for r in T.unroll({by.own_rows}):
    top[r] = high[r]
    for c in T.unroll({by.own_keys}):
        top[r] = T.max(top[r], {score})
    {joined}
    base[r] = T.Select(top[r] == T.{wide}("-inf"), T.{wide}(0), top[r]{" * scale" * self.folds})
    away[r] = {self.exponent("high[r]")}
    high[r] = top[r]
    total[r] = total[r] * away[r]
    for c in T.unroll({by.own_keys}):
        {score} = {self.exponent(score)}
        total[r] = total[r] + {score}
    for g in T.unroll({by.own_columns // by.together}):
        for x in T.unroll({by.together}):
            mixed[{by.result("r", "g", "x")}] = mixed[{by.result("r", "g", "x")}] * away[r]
"""

    def finish(self) -> str:
        """Divide by the sums of weights and store the rows that there are: where a thread has few neighbours of a row, through
        shared memory."""
        what, by, out = self.what, self.by, self.buffers["out"].dtype
        joined = "\n    ".join([f"total[r] = total[r] + {_from_lane('total[r]', d)}" for d in by.lanes])
        value = f"mixed[{by.result('r', 'g', 'x')}] * top[r]"
        if what.empty is not None:
            value = f"T.Select(total[r] == T.{what.wide}(0), empty, {value})"
        if out.name != what.wide:
            value = f'T.Cast("{out.name}", {value})'
        lanes = _lanes(self.mixed, VECTOR_BYTES // out.itemsize)
        width = by.mixed + PAD_BYTES // out.itemsize
        chunk, each = f"(s * {self.threads} + ty * {WARP} + tx)", self.mixed // lanes
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes} + x"
        return f"""
lines = T.alloc_buffer(({by.rows}, {width}), "{out.name}", scope="shared.dyn")
for r in T.unroll({by.own_rows}):
    {joined}
    top[r] = T.{what.wide}(1) / total[r]
    for g in T.unroll({by.own_columns // by.together}):
        for x in T.vectorized({by.together}):
            lines[{by.row("r")}, {by.column("g", "x")}] = {value}
for s in T.unroll({-(-by.rows * each // self.threads)}):
    if {row} < T.min({by.rows}, rows - start):
        for x in T.vectorized({lanes}):
            {self.element("out", f"start + {row}", column)} = lines[{row}, {column}]
"""
