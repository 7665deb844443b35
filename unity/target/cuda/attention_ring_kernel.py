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
    """The program for one attention by a ``Ring``. A tile of rows sees ``kv_steps`` blocks of keys, of which all rows see the first
    ``unmasked``; steps count from the last one."""

    # ---- tiles

    def launch(self) -> str:
        mm = self.mm
        count = f"((length * group + {mm.rows - 1}) // {mm.rows})"
        any_keys = type(self.spec.key.size("S")) is not IntImm
        tiles = f"batches * shared * {count}" + " * T.min(keys, 1)" * any_keys
        grid = f"T.min({tiles}, {self.processors})"
        fewer, more = REGISTERS[mm.groups]
        return f"""
for block in T.thread_binding({grid}, thread="blockIdx.x"):
    for ty in T.thread_binding({mm.warps + GROUP}, thread="threadIdx.y"):
        for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
            {mm.tile("Q", mm.rows, mm.width)}
            {mm.ring("K", mm.width)}
            {mm.ring("V", mm.v_width)}
            warp: T.int32 = T.tvm_warp_shuffle(T.uint32({(1 << WARP) - 1}), T.Cast("int32", ty), 0, {WARP}, {WARP})
            warpgroup: T.int32 = warp // {GROUP}
            scale: T.{self.spec.wide} = factor
{indent(self.init_barriers(), " " * 12)}
            if warp >= {mm.warps}:
                T.ptx_setmaxnreg(False, {fewer})
                if warp == {mm.warps} and tx == 0:
{indent(self.each_tile(tiles, grid, count, self.copies()), " " * 20)}
            else:
                T.ptx_setmaxnreg(True, {more})
{indent(self.registers(), " " * 16)}
{indent(self.each_tile(tiles, grid, count, self.consume()), " " * 16)}
{self.without_keys() if any_keys else ""}
"""

    def each_tile(self, tiles: str, grid: str, count: str, body: str) -> str:
        """A body for each tile of a block. Rounds go forth and back, so that blocks have as many keys in all."""
        keys, seen, unmasked = self.mm.keys, "keys", "keys"
        if self.is_causal:
            last = f"T.min((start + {self.mm.rows - 1}) // group, length - 1)"
            seen = f"T.max(T.min(keys, {last}{self.causal_end}), 0)"
            unmasked = f"T.max(T.min(keys, {Kernel.position_of(self, 'start')}{self.causal_end}), 0)"
        return f"""
past = T.alloc_buffer((2,), "int32", scope="local")
past[0] = 0
past[1] = 0
count: T.int32 = T.Cast("int32", {count})
all_lines: T.int32 = T.Cast("int32", batches * shared)
for n in range(({tiles} + {grid} - 1) // {grid}):
    tile: T.int32 = T.Cast("int32", n * {grid} + T.Select(n % 2 == 0, block, {grid} - 1 - block))
    if tile < T.Cast("int32", {tiles}):
{indent(self.tile_rows_and_head(), " " * 8)}
        start: T.int64 = T.Cast("int64", number) * {self.mm.rows}
        batch: T.int64 = T.Cast("int64", line // T.Cast("int32", shared))
        head: T.int64 = T.Cast("int64", line % T.Cast("int32", shared))
        rows: T.int64 = length * group
        seen: T.int64 = {seen}
        kv_steps: T.int32 = T.Cast("int32", (seen + {keys - 1}) // {keys})
        unmasked: T.int32 = T.min(T.Cast("int32", {unmasked} // {keys}), kv_steps - 1)
        before: T.int32 = past[0]
        loads: T.int32 = past[1]
{indent(body, " " * 8)}
        past[0] = before + kv_steps
        past[1] = loads + T.min(kv_steps, 1)
"""

    def tile_rows_and_head(self) -> str:
        """The rows and the head of a tile, in 32 bits, which divide faster. With a causal mask, tiles of all heads come by the
        number of their keys, most first, of as many heads together as the second cache holds."""
        if not self.is_causal:
            return "number: T.int32 = tile % count\nline: T.int32 = tile // count"
        most = TOGETHER_BYTES // (2 * (self.mm.width + self.mm.v_width))
        return f"""
most: T.int32 = T.min(T.max(T.int32({most}) // T.max(T.Cast("int32", keys), 1), 1), all_lines)
first: T.int32 = tile // (most * count) * most
together: T.int32 = T.min(most, all_lines - first)
number: T.int32 = count - 1 - tile % (most * count) // together
line: T.int32 = first + tile % (most * count) % together
"""

    # ---- warpgroups

    def registers(self) -> str:
        """The registers of a thread, and the lines by way of which it stores results."""
        mm = self.mm
        return f"""
{self.state_registers("high", "top", "base", "correction", "total", "added")}
left = T.alloc_buffer(({mm.keys // 2},), "{mm.dtype}", scope="local")
lines = T.alloc_buffer(({mm.warps}, {ROWS}, {LINE // 8}, 8), "{mm.dtype}", scope="shared.dyn")
"""

    def consume(self) -> str:
        """Compute a tile, and store it."""
        return f"""
{self.init_rows('T.Cast("int64", unmasked)')}
if kv_steps > 0:
{indent(self.main_loop(), "    ")}
{self.finish()}
"""

    def main_loop(self) -> str:
        """The blocks of keys: the first one, the others, and the products with the last values."""
        last = "(kv_steps - 1)"
        return f"""
{self.await_query()}
{self.await_full("K", "0")}
T.ptx_wgmma_fence()
{self.mm.scores_of(self.slot("0"), self.width)}
T.ptx_wgmma_commit_group()
T.ptx_wgmma_wait_group(0)
{self.release("K", "0")}
{self.bias_scores()}
{self.mask_scores(self.keys_to_edge("0"))}
{self.softmax()}
{self.cast_weights()}
for i in range(kv_steps - 1):
    kv_step: T.int32 = i + 1
{indent(self.next_step(), "    ")}
if tx == 0:
    T.ptx_arrive_barrier({self.empty("Q")})
{self.await_full("V", last)}
T.ptx_wgmma_fence()
{self.mm.values_of(self.slot(last))}
T.ptx_wgmma_commit_group()
T.ptx_wgmma_wait_group(0)
{self.release("V", last)}
"""

    def next_step(self) -> str:
        """Begin the scores of a key block and the products with the values of the one before; take the softmax beside those. A
        branch stands between the weights and the wait for these products: the assembler would move the wait to the front."""
        mm, former = self.mm, "(kv_step - 1)"
        return f"""
{self.await_full("K", "kv_step")}
{self.await_order()}
T.ptx_wgmma_fence()
{mm.scores_of(self.slot("kv_step"), self.width)}
T.ptx_wgmma_commit_group()
{self.await_full("V", former)}
{mm.values_of(self.slot(former))}
T.ptx_wgmma_commit_group()
{self.pass_order()}
T.ptx_wgmma_wait_group(1)
{self.release("K", "kv_step")}
{self.bias_scores()}
if kv_step < kv_steps - unmasked:
{indent(self.mask_scores(self.keys_to_edge("kv_step")), "    ")}
{self.lazy_softmax()}
if grows:
    T.ptx_wgmma_wait_group(0)
    for r in T.unroll({mm.thread_rows}):
        total[r] = total[r] * correction[r]
        high[r] = top[r]
{indent(self.rescale(), "    ")}
T.ptx_wgmma_wait_group(0)
{self.release("V", former)}
for r in T.unroll({mm.thread_rows}):
    total[r] = total[r] + added[r]
{self.cast_weights()}
"""

    def lazy_softmax(self) -> str:
        """Replace scores by weights, relative to the highest score that the row carries, or to a new one if in some row of the warp
        it has grown by far."""
        mm, wide = self.mm, self.spec.wide
        factor, score = " * scale" * self.folds_scale, f"scores[{mm.score('r', 'c')}]"
        grown = " or ".join([f"(top[{r}] - high[{r}]){factor} > T.{wide}({GROWTH})" for r in range(mm.thread_rows)])
        return f"""
{self.row_max()}
grows: T.bool = T.call_llvm_pure_intrin("bool", "llvm.nvvm.vote.any.sync", T.int32(-1), {grown})
for r in T.unroll({mm.thread_rows}):
    top[r] = T.Select(grows, top[r], high[r])
    base[r] = T.Select(top[r] == T.{wide}("-inf"), T.{wide}(0), top[r]{factor})
    correction[r] = {self.exponent("high[r]")}
    added[r] = T.{wide}(0)
    for c in T.unroll({mm.thread_keys}):
        {score} = {self.exponent(score)}
        added[r] = added[r] + {score}
"""

    def keys_to_edge(self, kv_step: str) -> str:
        """Keys between the first block that some rows do not see, and that of a key block."""
        return f"(kv_steps - 1 - {kv_step} - unmasked) * {self.mm.keys}"

    def cast_weights(self) -> str:
        """The weights in the type of the values."""
        return f"""
for i in T.unroll({self.mm.keys // 4}):
    for x in T.vectorized(2):
        left[i * 2 + x] = T.Cast("{self.mm.dtype}", scores[i * 2 + x])
"""

    # ---- waits

    def await_query(self) -> str:
        """Wait for the rows of the query; where bulk copies do not bring them, the warps do."""
        full = f"T.ptx_wait_barrier({self.full('Q')}, loads % 2)"
        if self.query_by_tma:
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

    def await_full(self, kind: str, kv_step: str) -> str:
        """Wait until the stage of a key block is full."""
        return f"T.ptx_wait_barrier({self.full(kind)} + {self.slot(kv_step)}, {self.parity(kv_step)})"

    def release(self, kind: str, kv_step: str) -> str:
        """Tell that the stage of a key block is empty."""
        return f"if tx == 0:\n    T.ptx_arrive_barrier({self.empty(kind)} + {self.slot(kv_step)})"

    def await_order(self) -> str:
        """Wait until the warpgroup before has begun its products; the first one begins."""
        later = "T.Select(warpgroup == 0, 0, 1)"
        return f"T.ptx_wait_barrier({self.first_order} + warpgroup, (before - loads + kv_step + {later}) % 2)"

    def pass_order(self) -> str:
        """Let the next warpgroup begin its products."""
        return f"if tx == 0:\n    T.ptx_arrive_barrier({self.first_order} + (warpgroup + 1) % {self.mm.groups})"

    # ---- results

    def store_rows(self) -> str:
        """Store the rows of a warp through shared memory of its own, a line of columns at a time."""
        mm, lanes = self.mm, VECTOR_BYTES // 2
        each = LINE // lanes
        row, lane_row = f"(s * {WARP // each} + tx // {each})", "(r * 8 + tx // 4)"
        pos = f'start + T.Cast("int64", warp * {ROWS} + {row})'
        column = f"p * {LINE} + tx % {each} * {lanes}"
        inside = f"{self.position_of(pos)} < length" if self.query_by_tma else f"{pos} < rows"
        if self.v_width % LINE:
            inside += f" and {column} < {self.v_width}"
        result = self.normalized(f"acc[{mm.result('r', f'(p * {LINE // 8} + g)', 'x')}]", "total[r]")
        return f"""
for p in T.unroll({mm.v_width // LINE}):
    for r in T.unroll({mm.thread_rows}):
        for g in T.unroll({LINE // 8}):
            for x in T.vectorized(2):
                lines[warp, {lane_row}, T.bitwise_xor(g, {lane_row} % 8), tx % 4 * 2 + x] = {result}
    T.tvm_storage_sync("warp")
    for s in T.unroll({ROWS * each // WARP}):
        if {inside}:
            for x in T.vectorized({lanes}):
                {self.element("out", pos, f"{column} + x")} = lines[warp, {row}, T.bitwise_xor(tx % {each}, {row} % 8), x]
    T.tvm_storage_sync("warp")
"""

    def without_keys(self) -> str:
        """The results where there are no keys: no tensor map describes those."""
        wide = self.spec.wide
        at = {"B": "batch", "H": "head * group + row % group", "S": "row // group", "D": f"e * {WARP} + tx"}
        cell = f"out[{', '.join([at[axis] for axis in self.orders['out']])}]"
        return f"""
for block in T.thread_binding(batches * shared * (length * group) * (1 - T.min(keys, 1)), thread="blockIdx.x"):
    for tx in T.thread_binding({WARP}, thread="threadIdx.x"):
        row: T.int64 = block % (length * group)
        batch: T.int64 = block // (length * group) // shared
        head: T.int64 = block // (length * group) % shared
        for e in range({-(-self.v_width // WARP)}):
            if e * {WARP} + tx < {self.v_width}:
                {cell} = {self.normalized(f"T.{wide}(0)", f"T.{wide}(0)")}
"""
