"""The thread that copies in attention by warpgroups: the query once for a tile of rows, keys and values into rings of stages.

Two barriers for each stage tell that it is full, and that it is empty again. Stages are counted in key blocks, over all tiles of a
block: ``before`` are those of earlier tiles, of which ``loads`` had keys.

Not here: what reads the stages (`attention_ring_kernel.py`).
"""

from __future__ import annotations

from textwrap import indent

from ...ir.build import int_value
from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine
from .attention_kernel import Kernel
from .attention_ring import LINE, SWIZZLE, Ring

SWIZZLED_ROWS = 8
"""Rows after which the exchange repeats."""


class RingCopies(Kernel):
    """The part of the program that copies."""

    mm: Ring

    def __init__(self, spec: Attention, products: Ring, gpu: GpuMachine) -> None:
        Kernel.__init__(self, spec, products, gpu)
        self.mm, self.splits, self.processors = products, "", gpu.processors
        self.heads_each = int_value(self.group) or 1
        self.query_by_tma = products.rows % (SWIZZLED_ROWS * self.heads_each) == 0
        """The query comes by bulk copies. The rows of a tile are then those of its first head, then those of the next one."""

    # ---- barriers

    def full(self, kind: str) -> int:
        """The barrier that tells that the first stage of keys ("K") or values ("V") is full, or the query ("Q")."""
        return {"K": 0, "V": 2, "Q": 4}[kind] * self.mm.stages

    def empty(self, kind: str) -> int:
        """The barrier that tells that it is empty."""
        return self.full(kind) + (1 if kind == "Q" else self.mm.stages)

    @property
    def first_order(self) -> int:
        """The barrier by which the first warpgroup gets its turn."""
        return self.empty("Q") + 1

    def init_barriers(self) -> str:
        """Make the barriers."""
        mm, s = self.mm, self.mm.stages
        return f"""
T.create_barriers({self.first_order + mm.groups})
if warp == 0 and tx == 0:
    for s in range({s}):
        T.ptx_init_barrier_thread_count({self.full("K")} + s, 1)
        T.ptx_init_barrier_thread_count({self.empty("K")} + s, {mm.warps})
        T.ptx_init_barrier_thread_count({self.full("V")} + s, 1)
        T.ptx_init_barrier_thread_count({self.empty("V")} + s, {mm.warps})
    T.ptx_init_barrier_thread_count({self.full("Q")}, {1 if self.query_by_tma else mm.warps})
    T.ptx_init_barrier_thread_count({self.empty("Q")}, {mm.warps})
    for g in range({mm.groups}):
        T.ptx_init_barrier_thread_count({self.first_order} + g, {mm.warps // mm.groups})
T.tvm_storage_sync("shared")
"""

    def slot(self, kv_step: str) -> str:
        """The stage of a key block."""
        return f"((before + {kv_step}) % {self.mm.stages})"

    def parity(self, kv_step: str) -> str:
        """The parity of the phase in which the stage of a key block is full."""
        return f"((before + {kv_step}) // {self.mm.stages} % 2)"

    # ---- rows

    def head_of(self, row: str) -> str:
        if not self.query_by_tma or self.one_group:
            return Kernel.head_of(self, row)
        return f"head * group + ({row} - start) // {self.mm.rows // self.heads_each}"

    def position_of(self, row: str) -> str:
        if not self.query_by_tma or self.one_group:
            return Kernel.position_of(self, row)
        return f"(start // group + ({row} - start) % {self.mm.rows // self.heads_each})"

    # ---- copies

    def copies(self) -> str:
        """Bring the query, then keys and values in the order in which they are used, the last ones first."""
        return f"""
if kv_steps > 0:
{indent(self.query_boxes() if self.query_by_tma else "pass", "    ")}
    for kv_step in range(kv_steps + 1):
        if kv_step < kv_steps:
{indent(self.stage("K", "key", "kv_step", self.mm.width), " " * 12)}
        if kv_step > 0:
{indent(self.stage("V", "value", "(kv_step - 1)", self.mm.v_width), " " * 12)}
"""

    def stage(self, kind: str, name: str, kv_step: str, columns: int) -> str:
        """Bring the keys or values of a key block when its stage is empty."""
        mm, slot = self.mm, self.slot(kv_step)
        first = f'T.Cast("int64", kv_steps - 1 - {kv_step}) * {mm.keys}'
        boxes = []
        for piece in range(0, columns, LINE):
            to = f"{kind}.data, {slot} * {mm.keys * columns} + {piece * mm.keys}"
            boxes.append(self.box(name, to, f"{self.full(kind)} + {slot}", mm.keys, "head", first, piece))
        return f"""
T.ptx_wait_barrier({self.empty(kind)} + {slot}, 1 - {self.parity(kv_step)})
T.ptx_arrive_barrier_expect_tx({self.full(kind)} + {slot}, {2 * mm.keys * columns})
""" + "\n".join(boxes)  # fmt: skip

    def query_boxes(self) -> str:
        """Bring the query, in a box for each head and line of columns."""
        mm, positions, barrier = self.mm, self.mm.rows // self.heads_each, str(self.full("Q"))
        boxes = []
        for piece in range(0, mm.width, LINE):
            for g in range(self.heads_each):
                to = f"Q.data, {piece * mm.rows + g * positions * LINE}"
                boxes.append(self.box("query", to, barrier, positions, f"head * group + {g}", "start // group", piece))
        return f"""
{self.await_empty_query()}
T.ptx_arrive_barrier_expect_tx({barrier}, {2 * mm.rows * mm.width})
""" + "\n".join(boxes)  # fmt: skip

    def await_empty_query(self) -> str:
        """Wait until all warps have read the query of the tile before."""
        return f"T.ptx_wait_barrier({self.empty('Q')}, (loads + 1) % 2)"

    def box(self, name: str, to: str, barrier: str, count: int, head: str, pos: str, column: int) -> str:
        """Copy a box of one batch and head, of ``count`` positions and a line of columns."""
        order = self.orders[name]
        sizes = [self.size(name, axis) for axis in order]
        box = [{"S": str(count), "D": str(LINE)}.get(axis, "1") for axis in order]
        corner = [{"B": "batch", "H": head, "S": pos, "D": str(column)}.get(axis, axis) for axis in order]
        shown = ", ".join([*sizes, *box, *corner])
        return f'T.ptx_cp_async_bulk_tensor("{self.mm.dtype}", {to}, {name}.data, {barrier}, {SWIZZLE}, {shown})'
