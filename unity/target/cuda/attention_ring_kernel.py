"""The kernel of attention on Hopper: warpgroups multiply and take the softmax beside their products, while one thread copies.

As many blocks as multiprocessors compute several tiles of rows each; the next one is copied while the results of one are stored.
Warpgroups begin their products in turn, so that one multiplies while another one computes weights.

The blocks of keys of a row pass by from the last one to the first: those which need a mask come first, the others jump over it. No
barrier of the block stands in the loop. While the weights of a block are multiplied by its values, the scores of the
next one become weights. What weights are relative to, the highest score of a row, is kept until a score exceeds it by far:
results are rescaled seldom.

Source: Shah et al. 2024, "FlashAttention-3", arXiv 2407.08608.

Not here: copies and barriers (`attention_copies.py`), products (`attention_ring.py`), what all kernels share: masks, division
(`attention_kernel.py`).
"""

from __future__ import annotations

from textwrap import indent

from ...ir.expr import IntImm
from .attention_copies import RingCopies
from .attention_kernel import VECTOR_BYTES, Kernel
from .attention_products import WARP
from .attention_ring import GROUP, LINE, REGISTERS

TOGETHER_BYTES = 32 << 20
"""Keys and values that blocks which run at the same time read: they stay in the second cache."""
GROWTH = 8.0
"""Weights are at most two to the power of this, then they are made relative to a higher score."""
ROWS = 16
"""Rows of a warp."""


class RingKernel(RingCopies):
    """The program for one attention by a ``Ring``. A tile of rows sees ``turns`` blocks of keys, of which all rows see the first
    ``whole``; the turns count from the last one."""

    # ---- tiles

    def launch(self) -> str:
        by = self.by
        count = f"((length * group + {by.rows - 1}) // {by.rows})"
        any_keys = type(self.what.key.size("S")) is not IntImm
        tiles = f"batches * shared * {count}" + " * T.min(keys, 1)" * any_keys
        grid = f"T.min({tiles}, {self.processors})"
        fewer, more = REGISTERS[by.groups]
        return f"""
for block in T.thread_binding({grid}, thread="blockIdx.x"):
    for ty in T.thread_binding({by.warps + GROUP}, thread="threadIdx.y"):
        for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
            {by.tile("Q", by.rows, by.width)}
            {by.ring("K", by.width)}
            {by.ring("V", by.mixed)}
            warp: T.int32 = T.tvm_warp_shuffle(T.uint32({(1 << WARP) - 1}), T.Cast("int32", ty), 0, {WARP}, {WARP})
            warpgroup: T.int32 = warp // {GROUP}
            scale: T.{self.what.wide} = factor
{indent(self.begin_barriers(), " " * 12)}
            if warp >= {by.warps}:
                T.ptx_setmaxnreg(False, {fewer})
                if warp == {by.warps} and tx == 0:
{indent(self.each_tile(tiles, grid, count, self.copies()), " " * 20)}
            else:
                T.ptx_setmaxnreg(True, {more})
{indent(self.registers(), " " * 16)}
{indent(self.each_tile(tiles, grid, count, self.consume()), " " * 16)}
{self.without_keys() if any_keys else ""}
"""

    def each_tile(self, tiles: str, grid: str, count: str, body: str) -> str:
        """A body for each tile of a block. Rounds go forth and back, so that blocks have as many keys in all."""
        keys, seen, whole = self.by.keys, "keys", "keys"
        if self.is_causal:
            last = f"T.min((start + {self.by.rows - 1}) // group, length - 1)"
            seen = f"T.max(T.min(keys, {last}{self.behind}), 0)"
            whole = f"T.max(T.min(keys, {Kernel.place_of(self, 'start')}{self.behind}), 0)"
        return f"""
past = T.alloc_buffer((2,), "int32", scope="local")
past[0] = 0
past[1] = 0
count: T.int32 = T.Cast("int32", {count})
all_lines: T.int32 = T.Cast("int32", batches * shared)
for n in range(({tiles} + {grid} - 1) // {grid}):
    tile: T.int32 = T.Cast("int32", n * {grid} + T.Select(n % 2 == 0, block, {grid} - 1 - block))
    if tile < T.Cast("int32", {tiles}):
{indent(self.tile_at(), " " * 8)}
        start: T.int64 = T.Cast("int64", number) * {self.by.rows}
        batch: T.int64 = T.Cast("int64", line // T.Cast("int32", shared))
        head: T.int64 = T.Cast("int64", line % T.Cast("int32", shared))
        rows: T.int64 = length * group
        seen: T.int64 = {seen}
        turns: T.int32 = T.Cast("int32", (seen + {keys - 1}) // {keys})
        whole: T.int32 = T.min(T.Cast("int32", {whole} // {keys}), turns - 1)
        before: T.int32 = past[0]
        loads: T.int32 = past[1]
{indent(body, " " * 8)}
        past[0] = before + turns
        past[1] = loads + T.min(turns, 1)
"""

    def tile_at(self) -> str:
        """The rows and the head of a tile, in 32 bits, which divide faster. With a causal mask, tiles of all heads come by the
        number of their keys, most first, of as many heads together as the second cache holds."""
        if not self.is_causal:
            return "number: T.int32 = tile % count\nline: T.int32 = tile // count"
        most = TOGETHER_BYTES // (2 * (self.by.width + self.by.mixed))
        return f"""
most: T.int32 = T.min(T.max(T.int32({most}) // T.max(T.Cast("int32", keys), 1), 1), all_lines)
first: T.int32 = tile // (most * count) * most
beside: T.int32 = T.min(most, all_lines - first)
number: T.int32 = count - 1 - tile % (most * count) // beside
line: T.int32 = first + tile % (most * count) % beside
"""

    # ---- warpgroups

    def registers(self) -> str:
        """The registers of a thread, and the lines by way of which it stores results."""
        by = self.by
        return f"""
{self.held("high", "top", "base", "away", "total", "added")}
left = T.alloc_buffer(({by.keys // 2},), "{by.dtype}", scope="local")
lines = T.alloc_buffer(({by.warps}, {ROWS}, {LINE // 8}, 8), "{by.dtype}", scope="shared.dyn")
"""

    def consume(self) -> str:
        """Compute a tile, and store it."""
        return f"""
{self.begun_rows('T.Cast("int64", whole)')}
if turns > 0:
{indent(self.all_keys(), "    ")}
{self.finish()}
"""

    def all_keys(self) -> str:
        """The blocks of keys: the first one, the others, and the products with the last values."""
        last = "(turns - 1)"
        return f"""
{self.await_query()}
{self.await_full("K", "0")}
T.ptx_wgmma_fence()
{self.by.scores_of(self.slot("0"), self.width)}
T.ptx_wgmma_commit_group()
T.ptx_wgmma_wait_group(0)
{self.release("K", "0")}
{self.biased()}
{self.masked(self.before_edge("0"))}
{self.weights()}
{self.as_operand()}
for i in range(turns - 1):
    turn: T.int32 = i + 1
{indent(self.later_turn(), "    ")}
if tx == 0:
    T.ptx_arrive_barrier({self.empty("Q")})
{self.await_full("V", last)}
T.ptx_wgmma_fence()
{self.by.values_of(self.slot(last))}
T.ptx_wgmma_commit_group()
T.ptx_wgmma_wait_group(0)
{self.release("V", last)}
"""

    def later_turn(self) -> str:
        """Begin the scores of a turn and the products with the values of the one before; take the softmax beside those. A branch
        stands between the weights and the wait for these products: the assembler would move the wait to the front."""
        by, former = self.by, "(turn - 1)"
        return f"""
{self.await_full("K", "turn")}
{self.await_turn()}
T.ptx_wgmma_fence()
{by.scores_of(self.slot("turn"), self.width)}
T.ptx_wgmma_commit_group()
{self.await_full("V", former)}
{by.values_of(self.slot(former))}
T.ptx_wgmma_commit_group()
{self.give_turn()}
T.ptx_wgmma_wait_group(1)
{self.release("K", "turn")}
{self.biased()}
if turn < turns - whole:
{indent(self.masked(self.before_edge("turn")), "    ")}
{self.lasting_weights()}
if grows:
    T.ptx_wgmma_wait_group(0)
    for r in T.unroll({by.own_rows}):
        total[r] = total[r] * away[r]
        high[r] = top[r]
{indent(self.rescaled(), "    ")}
T.ptx_wgmma_wait_group(0)
{self.release("V", former)}
for r in T.unroll({by.own_rows}):
    total[r] = total[r] + added[r]
{self.as_operand()}
"""

    def lasting_weights(self) -> str:
        """Replace scores by weights, relative to the highest score that the row carries, or to a new one if in some row of the warp
        it has grown by far."""
        by, wide = self.by, self.what.wide
        factor, score = " * scale" * self.folds, f"scores[{by.score('r', 'c')}]"
        grown = " or ".join([f"(top[{r}] - high[{r}]){factor} > T.{wide}({GROWTH})" for r in range(by.own_rows)])
        return f"""
{self.highest()}
grows: T.bool = T.call_llvm_pure_intrin("bool", "llvm.nvvm.vote.any.sync", T.int32(-1), {grown})
for r in T.unroll({by.own_rows}):
    top[r] = T.Select(grows, top[r], high[r])
    base[r] = T.Select(top[r] == T.{wide}("-inf"), T.{wide}(0), top[r]{factor})
    away[r] = {self.exponent("high[r]")}
    added[r] = T.{wide}(0)
    for c in T.unroll({by.own_keys}):
        {score} = {self.exponent(score)}
        added[r] = added[r] + {score}
"""

    def before_edge(self, turn: str) -> str:
        """Keys between the first block that some rows do not see, and that of a turn."""
        return f"(turns - 1 - {turn} - whole) * {self.by.keys}"

    def as_operand(self) -> str:
        """The weights in the type of the values."""
        return f"""
for i in T.unroll({self.by.keys // 4}):
    for x in T.vectorized(2):
        left[i * 2 + x] = T.Cast("{self.by.dtype}", scores[i * 2 + x])
"""

    # ---- waits

    def await_query(self) -> str:
        """Wait for the rows of the query; where bulk copies do not bring them, the warps do."""
        full = f"T.ptx_wait_barrier({self.full('Q')}, loads % 2)"
        if self.by_boxes:
            return full
        return f"""
{self.await_empty_query()}
{self.fill("Q", "query", "start", "rows")}
T.ptx_wait_group(0)
T.ptx_fence_proxy_async()
T.tvm_storage_sync("warp")
if tx == 0:
    T.ptx_arrive_barrier({self.full("Q")})
{full}
"""

    def await_full(self, kind: str, turn: str) -> str:
        """Wait until the stage of a turn is full."""
        return f"T.ptx_wait_barrier({self.full(kind)} + {self.slot(turn)}, {self.parity(turn)})"

    def release(self, kind: str, turn: str) -> str:
        """Tell that the stage of a turn is empty."""
        return f"if tx == 0:\n    T.ptx_arrive_barrier({self.empty(kind)} + {self.slot(turn)})"

    def await_turn(self) -> str:
        """Wait until the warpgroup before has begun its products; the first one begins."""
        later = "T.Select(warpgroup == 0, 0, 1)"
        return f"T.ptx_wait_barrier({self.first_turn} + warpgroup, (before - loads + turn + {later}) % 2)"

    def give_turn(self) -> str:
        """Let the next warpgroup begin its products."""
        return f"if tx == 0:\n    T.ptx_arrive_barrier({self.first_turn} + (warpgroup + 1) % {self.by.groups})"

    # ---- results

    def store_rows(self) -> str:
        """Store the rows of a warp through shared memory of its own, a line of columns at a time."""
        by, lanes = self.by, VECTOR_BYTES // 2
        each = LINE // lanes
        row, mine = f"(s * {WARP // each} + tx // {each})", "(r * 8 + tx // 4)"
        place = f'start + T.Cast("int64", warp * {ROWS} + {row})'
        column = f"p * {LINE} + tx % {each} * {lanes}"
        inside = f"{self.place_of(place)} < length" if self.by_boxes else f"{place} < rows"
        if self.mixed % LINE:
            inside += f" and {column} < {self.mixed}"
        result = self.divided(f"mixed[{by.result('r', f'(p * {LINE // 8} + g)', 'x')}]", "total[r]")
        return f"""
for p in T.unroll({by.mixed // LINE}):
    for r in T.unroll({by.own_rows}):
        for g in T.unroll({LINE // 8}):
            for x in T.vectorized(2):
                lines[warp, {mine}, T.bitwise_xor(g, {mine} % 8), tx % 4 * 2 + x] = {result}
    T.tvm_storage_sync("warp")
    for s in T.unroll({ROWS * each // WARP}):
        if {inside}:
            for x in T.vectorized({lanes}):
                {self.element("out", place, f"{column} + x")} = lines[warp, {row}, T.bitwise_xor(tx % {each}, {row} % 8), x]
    T.tvm_storage_sync("warp")
"""

    def without_keys(self) -> str:
        """The results where there are no keys: no tensor map describes those."""
        wide = self.what.wide
        at = {"B": "batch", "H": "head * group + row % group", "S": "row // group", "D": f"e * {WARP} + tx"}
        cell = f"out[{', '.join([at[axis] for axis in self.orders['out']])}]"
        return f"""
for block in T.thread_binding(batches * shared * (length * group) * (1 - T.min(keys, 1)), thread="blockIdx.x"):
    for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
        row: T.int64 = block % (length * group)
        batch: T.int64 = block // (length * group) // shared
        head: T.int64 = block // (length * group) % shared
        for e in range({-(-self.mixed // WARP)}):
            if e * {WARP} + tx < {self.mixed}:
                {cell} = {self.divided(f"T.{wide}(0)", f"T.{wide}(0)")}
"""
