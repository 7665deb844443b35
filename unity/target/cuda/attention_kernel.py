"""The kernel of fused attention for CUDA devices, as script: launch, copies, masks, online softmax, epilogue.

Not here: the products (`attention_products.py`), their sizes (`attention.py`).
"""

from __future__ import annotations

import math
from textwrap import indent

from ...ffi.dtype import DataType
from ...ir import build
from ...ir.build import int_value
from ...ir.expr import Call, FloatImm, IntImm
from ...ir.scalar import Div
from ...ir.stmt import Stmt
from ...ir.types import Expr
from ...op.common.type_rules import is_one
from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine
from .attention_products import PAD_BYTES, WARP, Products
from .program_text import statements

ASYNC_CAPABILITY = 80
"""The first compute capability with asynchronous copies and with the matrix instructions used here."""
VECTOR_BYTES = 16
PIECE = 2
"""Least number of key blocks of a block of threads, if several split the keys of a row."""
MAX_SPLITS = 64
BLOCKS_EACH = 4
"""Blocks of threads for each multiprocessor in that case."""


def rounded(n: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-n // step) * step


_SIZES = ("batches", "heads", "shared", "length", "keys", "width", "v_width")


def _number(expr: Expr) -> float | None:
    """The value of a constant, or of the usual scale 1 / sqrt(width); None if it is not known."""
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


def from_lane(value: str, distance: int) -> str:
    """A value of the lane at a distance, by xor."""
    return f"T.tvm_warp_shuffle_xor(T.uint32({(1 << WARP) - 1}), {value}, {distance}, {WARP}, {WARP})"


class Kernel:
    """The program for one attention, as script. ``batch`` and ``head`` (of the keys) are those of the block, ``start`` is its first
    row; ``r`` counts the rows of a thread, ``c`` its scores of one, ``g`` and ``x`` its results of one."""

    def __init__(self, spec: Attention, products: Products, gpu: GpuMachine) -> None:
        self.spec, self.mm = spec, products
        tensors = {"query": spec.query, "key": spec.key, "value": spec.value, "out": spec.out}
        self.orders = {name: tensor.order for name, tensor in tensors.items()}
        self.buffers = {name: tensor.buffer for name, tensor in tensors.items()}
        if spec.bias is not None:
            self.buffers["bias"] = spec.bias
        self.is_async = gpu.capability >= ASYNC_CAPABILITY and products.dtype == spec.query.buffer.dtype.name
        self.threads = WARP * products.warps
        self.group = build.floordiv(spec.query.size("H"), spec.key.size("H"))
        self.one_group, self.is_causal = is_one(self.group), spec.shift is not None
        self.causal_end = " + 1" if spec.shift is not None and build.is_int(spec.shift, 0) else " + shift + 1"
        """Added to the position of a row, this is the end of the keys that it sees."""
        self.width, self.v_width = int_value(spec.query.size("D")) or 0, int_value(spec.value.size("D")) or 0
        self.scale = _number(spec.scale)
        self.folds_scale = spec.bias is None and self.scale is not None and self.scale > 0
        """Scores are scaled in the exponent; a positive scale keeps their maximum."""
        self.splits, self.slices = self.kv_splits(gpu), ""
        """Numbers of blocks that share the work of a tile of rows, as script: of its keys, and of the columns of its results."""

    def kv_splits(self, gpu: GpuMachine) -> str:
        """The number of blocks that split the keys of a row, as script. More than one if there are few rows, to occupy all
        multiprocessors; "" for one."""
        heads, length, group = [int_value(e) for e in (self.spec.key.size("H"), self.spec.query.size("S"), self.group)]
        batches, keys = int_value(self.spec.query.size("B")) or 1, int_value(self.spec.key.size("S"))
        if heads is None or length is None or group is None or length * group > self.mm.rows:
            return ""
        most = min(MAX_SPLITS, BLOCKS_EACH * gpu.processors // max(1, batches * heads))
        least = PIECE * self.mm.keys
        if most < 2 or (keys is not None and keys <= least):
            return ""
        return f"T.max(T.min((keys + {least - 1}) // {least}, {most}), 1)"

    def statement(self) -> Stmt:
        """The statements on the buffers of the program."""
        spec = self.spec
        scale = spec.scale if self.scale is None else build.const(self.scale, spec.wide)
        scalars: dict[str, Expr] = {
            "factor": build.mul(scale, build.const(math.log2(math.e), spec.wide)),
            "group": self.group,
            "shift": build.const(0, "int64") if spec.shift is None else spec.shift,
            "empty": build.const(spec.empty or 0.0, spec.wide),
        }
        return statements(self.text(), self.buffers, scalars)

    # ---- text

    def text(self) -> str:
        """The program."""
        wide = self.spec.wide
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
            return "v_width" if name in ("value", "out") else "width"
        other = {"H": "shared", "S": "keys"} if name in ("key", "value") else {"H": "heads", "S": "length"}
        return {"B": "batches", **other}[letter]

    def element(self, name: str, row: str, column: str) -> str:
        """An element of a tensor by row and column. In the query and the result, heads that share keys are rows."""
        at = {"B": "batch", "H": "head", "S": row, "D": column}
        if name in ("query", "out"):
            at |= {"H": self.head_of(row), "S": self.position_of(row)}
        return f"{name}[{', '.join([at.get(letter, letter) for letter in self.orders[name]])}]"

    def head_of(self, row: str) -> str:
        """The head of the query that a row belongs to."""
        return "head" if self.one_group else f"head * group + ({row}) % group"

    def position_of(self, row: str) -> str:
        """The position in the sequence of a row."""
        return row if self.one_group else f"({row}) // group"

    def launch(self) -> str:
        """The kernel, and the one that combines results if blocks split the keys."""
        mm, wide = self.mm, self.spec.wide
        count = f"((length * group + {mm.rows - 1}) // {mm.rows})"
        tile = f"(block // {self.slices})" if self.slices else "block"
        number = f"{count} - 1 - {tile} % {count}" if self.is_causal else f"{tile} % {count}"  # the most keys first
        kernel = f"""
for block in T.thread_binding(batches * shared * {self.splits or count} * {self.slices or 1}, thread="blockIdx.x"):
    for ty in T.thread_binding({mm.warps}, thread="threadIdx.y"):
        for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
            start: T.int64 = {f"({number}) * {mm.rows}" if not self.splits else "0"}
            batch: T.int64 = {tile} // {self.splits or count} // shared
            head: T.int64 = {tile} // {self.splits or count} % shared
            rows: T.int64 = length * group
            scale: T.{wide} = factor
{indent(self.body(), " " * 12)}
"""
        if not self.splits:
            return kernel
        shape = f"batches * shared * {self.splits}, length * group"
        return f"""
parts = T.alloc_buffer(({shape}, {self.v_width}), "{wide}")
states = T.alloc_buffer(({shape}, 2), "{wide}")
{kernel}
{self.combine()}
"""

    def combine(self) -> str:
        """The kernel that combines the splits of a row, one block for each row."""
        wide, threads = self.spec.wide, min(256, rounded(self.v_width, WARP))
        own = -(-self.v_width // threads)
        row = f"block // (length * group) * {self.splits} + s, block % (length * group)"
        column = f"e * {threads} + tx"
        inside = f"{column} < {self.v_width}"
        exponent = "exp2" if wide == "float64" else "ptx_ex2"
        weight = f"T.{exponent}(states[{row}, 0] - base)"
        return f"""
for block in T.thread_binding(batches * shared * (length * group), thread="blockIdx.x"):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        batch: T.int64 = block // (length * group) // shared
        head: T.int64 = block // (length * group) % shared
        acc = T.alloc_buffer(({own},), "{wide}", scope="local")
        high = T.alloc_buffer((1,), "{wide}", scope="local")
        total = T.alloc_buffer((1,), "{wide}", scope="local")
        high[0] = T.{wide}("-inf")
        total[0] = T.{wide}(0)
        for e in T.unroll({own}):
            acc[e] = T.{wide}(0)
        for s in range({self.splits}):
            high[0] = T.max(high[0], states[{row}, 0])
        base: T.{wide} = T.Select(high[0] == T.{wide}("-inf"), T.{wide}(0), high[0])
        for s in range({self.splits}):
            total[0] = total[0] + states[{row}, 1] * {weight}
            for e in T.unroll({own}):
                if {inside}:
                    acc[e] = acc[e] + parts[{row}, {column}] * {weight}
        for e in T.unroll({own}):
            if {inside}:
                {self.element("out", "block % (length * group)", column)} = {self.normalized("acc[e]", "total[0]")}
"""

    def normalized(self, value: str, total: str) -> str:
        """A result divided by its sum of weights, in the type of the output."""
        wide, out = self.spec.wide, self.buffers["out"].dtype.name
        value = f"{value} * (T.{wide}(1) / {total})"
        if self.spec.empty is not None:
            value = f"T.Select({total} == T.{wide}(0), empty, {value})"
        return value if out == wide else f'T.Cast("{out}", {value})'

    def begin(self) -> str:
        """Memory of a thread and its block, and the keys that the block sees: all its rows see the first ``unmasked`` blocks."""
        mm = self.mm
        seen, unmasked = "keys", "keys"
        if self.is_causal:
            seen = f"T.max(T.min(keys, {self.position_of(f'T.min(start + {mm.rows}, rows) - 1')}{self.causal_end}), 0)"
            unmasked = f"T.max(T.min(keys, {self.position_of('start')}{self.causal_end}), 0)"
        return f"""
{mm.tile("Q", mm.rows, mm.width)}
{mm.tile("K", mm.keys, mm.width)}
{mm.tile("V", mm.keys, mm.v_width)}
{self.state_registers("high", "top", "base", "correction", "total")}
{mm.buffers()}
seen: T.int64 = {seen}
unmasked: T.int64 = {unmasked} // {mm.keys}
"""

    def body(self) -> str:
        """The work of a thread."""
        mm = self.mm
        return f"""
{self.begin()}
{self.fill("Q", "query", "start", "rows")}
{self.kv_range()}
{self.fill("K", "key", f"begin * {mm.keys}" if self.splits else "0", "seen")}
{self.init_rows("unmasked")}
for i in range(kv_steps):
    j: T.int64 = {"begin + i" if self.splits else "i"}
{indent(self.kv_step(), "    ")}
{self.wait()}
{self.finish()}
"""

    def state_registers(self, *states: str) -> str:
        """The registers of a thread: scores, results, and states of each row."""
        mm, wide = self.mm, self.spec.wide
        arrays = {"scores": mm.thread_rows * mm.thread_keys, "acc": mm.thread_rows * mm.thread_columns}
        arrays |= dict.fromkeys(states, mm.thread_rows)
        buffers = [f'{name} = T.alloc_buffer(({n},), "{wide}", scope="local")' for name, n in arrays.items()]
        return "\n".join([*buffers, f'edge = T.alloc_buffer(({mm.thread_rows},), "int32", scope="local")'])

    def init_rows(self, unmasked: str) -> str:
        """The beginning of rows; ``edge``: the end of the keys of each, behind the ``unmasked`` blocks that all rows see."""
        mm, wide = self.mm, self.spec.wide
        return f"""
for r in T.unroll({mm.thread_rows}):
    high[r] = T.{wide}("-inf")
    total[r] = T.{wide}(0)
    edge[r] = T.Cast("int32", T.max({self.limit()} - {unmasked} * {mm.keys}, 0) - {mm.first_key})
for i in T.unroll({mm.thread_rows * mm.thread_columns}):
    acc[i] = T.{wide}(0)
"""

    def kv_range(self) -> str:
        """The number of key blocks of a block of threads, and the first of them."""
        kv_steps = f"(seen + {self.mm.keys - 1}) // {self.mm.keys}"
        if not self.splits:
            return f"kv_steps: T.int64 = {kv_steps}"
        return f"""
each: T.int64 = ({kv_steps} + {self.splits} - 1) // {self.splits}
begin: T.int64 = block % {self.splits} * each
kv_steps: T.int64 = T.max(T.min(each, {kv_steps} - begin), 0)
"""

    def kv_step(self) -> str:
        """One iteration: a block of keys."""
        mm, wide = self.mm, self.spec.wide
        return f"""
{self.wait()}
T.tvm_storage_sync("shared")
{self.fill("V", "value", f"j * {mm.keys}", "seen")}
for i in T.unroll({mm.thread_rows * mm.thread_keys}):
    scores[i] = T.{wide}(0)
{mm.scores()}
{self.wait()}
T.tvm_storage_sync("shared")
{self.fill("K", "key", f"j * {mm.keys} + {mm.keys}", "seen")}
{self.masked_softmax()}
{mm.values()}
"""

    def masked_softmax(self) -> str:
        """The scores of a block of keys become weights."""
        return f"""
{self.bias_scores()}
if j >= unmasked:
{indent(self.mask_scores(f'T.Cast("int32", (j - unmasked) * {self.mm.keys})'), "    ")}
{self.softmax()}
{self.rescale()}
"""

    def columns(self, to: str) -> tuple[int, int, str]:
        """For the tile of a name: the width of a row in memory, 0 where it is not known, that in the tile, and the first column."""
        mm = self.mm
        return (self.v_width, mm.v_width, "") if to == "V" else (self.width, mm.width, "")

    def mask_scores(self, before: str) -> str:
        """Hide the scores of keys that a row does not see; ``before``: the keys between the edge and this block."""
        mm = self.mm
        return f"""
for r in T.unroll({mm.thread_rows}):
    for c in T.unroll({mm.thread_keys}):
        if T.Cast("int32", {mm.next_key("c")}) >= edge[r] - {before}:
            scores[{mm.score("r", "c")}] = T.{self.spec.wide}("-inf")
"""

    def limit(self) -> str:
        """The end of the keys that a thread's row ``r`` sees."""
        if not self.is_causal:
            return "keys"
        return f"T.min(keys, {self.position_of('start + ' + self.mm.row('r'))}{self.causal_end})"

    def fill(self, to: str, name: str, first: str, limit: str) -> str:
        """Copy a block of rows to shared memory, with zeros past the last row and past the width of a row."""
        mm, source = self.mm, self.buffers[name].dtype
        width, padded, first_column = self.columns(to)
        lanes = _lanes(width or 1, VECTOR_BYTES // max(source.itemsize, DataType(mm.dtype).itemsize))
        each = padded // lanes
        height = mm.rows if to == "Q" else mm.keys
        count = height * each
        chunk = f"(s * {self.threads} + ty * {WARP} + tx)"
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes}"
        inside = f'T.Cast("int32", {row}) < there'
        if padded != width:
            inside = f"{inside} and {first_column}{column} < {width or self.size(name, 'D')}"
        value = self.element(name, f"{first} + {row}", f"{first_column}{column} + x")
        if source.name != mm.dtype:
            value = f'T.Cast("{mm.dtype}", {value})'
        copy = f"""
for x in T.vectorized({lanes}):
    {mm.element(to, height, row, column, "x")} = T.if_then_else({inside}, {value}, T.{mm.dtype}(0))
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

    def bias_scores(self) -> str:
        """Scale the scores and add the bias, unless the exponent scales them."""
        if self.folds_scale:
            return ""
        spec, mm = self.spec, self.mm
        score = f"scores[{mm.score('r', 'c')}]"
        value = f"{score} * scale"
        if spec.bias is not None:
            row, key = (
                f"T.min(start + {mm.row('r')}, rows - 1)",
                f"T.min(j * {mm.keys} + {mm.first_key} + {mm.next_key('c')}, keys - 1)",
            )
            positions = ("batch", self.head_of(row), self.position_of(row), key)[4 - spec.bias.ndim :]
            indices = [
                "0" if is_one(dim) else at if type(dim) is IntImm else f"T.Select(n{axis} == 1, T.int64(0), {at})"
                for axis, (dim, at) in enumerate(zip(spec.bias.shape, positions))
            ]
            bias = f"bias[{', '.join(indices)}]" if indices else "bias[()]"
            if spec.bias.dtype.is_bool:
                value = f'T.Select({bias}, {value}, T.{spec.wide}("-inf"))'
            else:
                value = f'{value} + T.Cast("{spec.wide}", {bias}) * T.{spec.wide}({math.log2(math.e)!r})'
        return f"""
for r in T.unroll({mm.thread_rows}):
    for c in T.unroll({mm.thread_keys}):
        {score} = {value}
"""

    def exponent(self, value: str) -> str:
        """2 to the power of a score less the base of its row."""
        less = f"T.fma({value}, scale, T.{self.spec.wide}(0) - base[r])" if self.folds_scale else f"{value} - base[r]"
        return f"T.{'exp2' if self.spec.wide == 'float64' else 'ptx_ex2'}({less})"

    def softmax(self) -> str:
        """Replace scores by weights, and say how the sums that the row carries are rescaled."""
        mm, wide = self.mm, self.spec.wide
        score = f"scores[{mm.score('r', 'c')}]"
        return f"""
{self.row_max()}
    base[r] = T.Select(top[r] == T.{wide}("-inf"), T.{wide}(0), top[r]{" * scale" * self.folds_scale})
    correction[r] = {self.exponent("high[r]")}
    high[r] = top[r]
    total[r] = total[r] * correction[r]
    for c in T.unroll({mm.thread_keys}):
        {score} = {self.exponent(score)}
        total[r] = total[r] + {score}
"""

    def row_max(self) -> str:
        """For each row, the highest of its scores and of what it carries: a loop to which more may be added."""
        mm = self.mm
        across_lanes = "\n    ".join([f"top[r] = T.max(top[r], {from_lane('top[r]', d)})" for d in mm.lanes])
        return f"""for r in T.unroll({mm.thread_rows}):
    top[r] = high[r]
    for c in T.unroll({mm.thread_keys}):
        top[r] = T.max(top[r], scores[{mm.score("r", "c")}])
    {across_lanes}"""

    def rescale(self) -> str:
        """Rescale the results that the row carries."""
        mm = self.mm
        return f"""
for r in T.unroll({mm.thread_rows}):
    for g in T.unroll({mm.thread_columns // mm.contiguous}):
        for x in T.unroll({mm.contiguous}):
            acc[{mm.result("r", "g", "x")}] = acc[{mm.result("r", "g", "x")}] * correction[r]
"""

    def finish(self) -> str:
        """Store the results of a thread: for the kernel that combines the splits, or divided by the sums of weights."""
        sums = "\n    ".join([f"total[r] = total[r] + {from_lane('total[r]', d)}" for d in self.mm.lanes])
        summed = f"for r in T.unroll({self.mm.thread_rows}):\n    {sums}\n"
        return summed + (self.store_parts() if self.splits else self.store_rows())

    def store_parts(self) -> str:
        """Store the undivided results of a piece of the keys, and the maximum score and the sum of weights of each row."""
        mm = self.mm
        cell, column = f"block, start + {mm.row('r')}", mm.column("g", "x")
        loop, inside = f"for x in T.unroll({mm.contiguous}):", f"if {column} < {self.v_width}:"
        if self.v_width % mm.contiguous == 0:
            loop, inside = f"if {mm.column('g', '0')} < {self.v_width}:", f"for x in T.vectorized({mm.contiguous}):"
        return f"""
for r in T.unroll({mm.thread_rows}):
    if {mm.row("r")} < rows:
        for g in T.unroll({mm.thread_columns // mm.contiguous}):
            {loop}
                {inside}
                    parts[{cell}, {column}] = acc[{mm.result("r", "g", "x")}]
if {mm.first_key} == 0:
    for r in T.unroll({mm.thread_rows}):
        if {mm.row("r")} < rows:
            states[{cell}, 0] = high[r]{" * scale" * self.folds_scale}
            states[{cell}, 1] = total[r]
"""

    def store_rows(self) -> str:
        """Store the rows through shared memory, so that accesses are contiguous. Results are divided one by one: as vectors, they
        would lie in pairs of registers through the whole loop on devices with packed arithmetic (sm_100)."""
        mm, out = self.mm, self.buffers["out"].dtype
        known, of_tile, first_column = self.columns("V")
        lanes = _lanes(known or 1, VECTOR_BYTES // out.itemsize)
        width = mm.v_width + PAD_BYTES // out.itemsize
        chunk, each = f"(s * {self.threads} + ty * {WARP} + tx)", (of_tile if first_column else known) // lanes
        row, column = f"{chunk} // {each}", f"{chunk} % {each} * {lanes}"
        inside = f" and {first_column}{column} < {known or 'v_width'}" if first_column else ""
        result = self.normalized(f"acc[{mm.result('r', 'g', 'x')}]", "total[r]")
        kv_steps = -(-mm.rows * each // self.threads)
        loop = f"T.unroll({kv_steps})"
        if not int_value(self.group):  # unrolled, a quotient for each row would be kept since the query was copied
            loop = f'T.serial({kv_steps}, annotations={{"unroll": 1}})'
        return f"""
lines = T.alloc_buffer(({mm.rows}, {width}), "{out.name}", scope="shared.dyn")
neighbours = T.alloc_buffer(({mm.contiguous},), "{out.name}", scope="local")
for r in T.unroll({mm.thread_rows}):
    for g in T.unroll({mm.thread_columns // mm.contiguous}):
        for x in T.unroll({mm.contiguous}):
            neighbours[x] = {result}
        for x in T.vectorized({mm.contiguous}):
            lines[{mm.row("r")}, {mm.column("g", "x")}] = neighbours[x]
T.tvm_storage_sync("shared")
for s in {loop}:
    if {row} < T.min({mm.rows}, rows - start){inside}:
        for x in T.vectorized({lanes}):
            {self.element("out", f"start + {row}", f"{first_column}{column} + x")} = lines[{row}, {column} + x]
"""
