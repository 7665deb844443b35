"""The thread that copies in attention by warpgroups: the query once for a tile of rows, keys and values into rings of stages.

Two barriers for each stage tell that it is full, and that it is empty again. Stages are counted in turns, over all tiles of a
block: ``before`` are those of earlier tiles, of which ``loads`` had keys.

Not here: what reads the stages (`attention_ring_kernel.py`).
"""

from __future__ import annotations

from textwrap import indent

from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine
from .attention_kernel import Kernel, size_of
from .attention_ring import LINE, SWIZZLE, Ring

SWIZZLED_ROWS = 8
"""Rows after which the exchange repeats."""


class RingCopies(Kernel):
    """The part of the program that copies."""

    by: Ring

    def __init__(self, what: Attention, products: Ring, gpu: GpuMachine) -> None:
        Kernel.__init__(self, what, products, gpu)
        self.by, self.pieces, self.processors = products, "", gpu.processors
        self.heads_each = size_of(self.group) or 1
        self.by_boxes = products.rows % (SWIZZLED_ROWS * self.heads_each) == 0
        """The query comes by bulk copies. The rows of a tile are then those of its first head, then those of the next one."""

    # ---- barriers

    def full(self, kind: str) -> int:
        """The barrier that tells that the first stage of keys ("K") or values ("V") is full, or the query ("Q")."""
        return {"K": 0, "V": 2, "Q": 4}[kind] * self.by.stages

    def empty(self, kind: str) -> int:
        """The barrier that tells that it is empty."""
        return self.full(kind) + (1 if kind == "Q" else self.by.stages)

    @property
    def first_turn(self) -> int:
        """The barrier by which the first warpgroup gets its turn."""
        return self.empty("Q") + 1

    def begin_barriers(self) -> str:
        """Make the barriers."""
        by, s = self.by, self.by.stages
        return f"""
T.create_barriers({self.first_turn + by.groups})
if warp == 0 and tx == 0:
    for s in range({s}):
        T.ptx_init_barrier_thread_count({self.full("K")} + s, 1)
        T.ptx_init_barrier_thread_count({self.empty("K")} + s, {by.warps})
        T.ptx_init_barrier_thread_count({self.full("V")} + s, 1)
        T.ptx_init_barrier_thread_count({self.empty("V")} + s, {by.warps})
    T.ptx_init_barrier_thread_count({self.full("Q")}, {1 if self.by_boxes else by.warps})
    T.ptx_init_barrier_thread_count({self.empty("Q")}, {by.warps})
    for g in range({by.groups}):
        T.ptx_init_barrier_thread_count({self.first_turn} + g, {by.warps // by.groups})
T.tvm_storage_sync("shared")
"""

    def slot(self, turn: str) -> str:
        """The stage of a turn."""
        return f"((before + {turn}) % {self.by.stages})"

    def parity(self, turn: str) -> str:
        """The parity of the phase in which the stage of a turn is full."""
        return f"((before + {turn}) // {self.by.stages} % 2)"

    # ---- rows

    def head_of(self, row: str) -> str:
        if not self.by_boxes or self.one_group:
            return Kernel.head_of(self, row)
        return f"head * group + ({row} - start) // {self.by.rows // self.heads_each}"

    def place_of(self, row: str) -> str:
        if not self.by_boxes or self.one_group:
            return Kernel.place_of(self, row)
        return f"(start // group + ({row} - start) % {self.by.rows // self.heads_each})"

    # ---- copies

    def copies(self) -> str:
        """Bring the query, then keys and values in the order in which they are used, the last ones first."""
        return f"""
if turns > 0:
{indent(self.query_boxes() if self.by_boxes else "pass", "    ")}
    for turn in range(turns + 1):
        if turn < turns:
{indent(self.stage("K", "key", "turn", self.by.width), " " * 12)}
        if turn > 0:
{indent(self.stage("V", "value", "(turn - 1)", self.by.mixed), " " * 12)}
"""

    def stage(self, kind: str, name: str, turn: str, columns: int) -> str:
        """Bring the keys or values of a turn when its stage is empty."""
        by, slot = self.by, self.slot(turn)
        first = f'T.Cast("int64", turns - 1 - {turn}) * {by.keys}'
        boxes = []
        for piece in range(0, columns, LINE):
            to = f"{kind}.data, {slot} * {by.keys * columns} + {piece * by.keys}"
            boxes.append(self.box(name, to, f"{self.full(kind)} + {slot}", by.keys, "head", first, piece))
        return f"""
T.ptx_wait_barrier({self.empty(kind)} + {slot}, 1 - {self.parity(turn)})
T.ptx_arrive_barrier_expect_tx({self.full(kind)} + {slot}, {2 * by.keys * columns})
""" + "\n".join(boxes)  # fmt: skip

    def query_boxes(self) -> str:
        """Bring the query, in a box for each head and line of columns."""
        by, places, barrier = self.by, self.by.rows // self.heads_each, str(self.full("Q"))
        boxes = []
        for piece in range(0, by.width, LINE):
            for g in range(self.heads_each):
                to = f"Q.data, {piece * by.rows + g * places * LINE}"
                boxes.append(self.box("query", to, barrier, places, f"head * group + {g}", "start // group", piece))
        return f"""
{self.await_empty_query()}
T.ptx_arrive_barrier_expect_tx({barrier}, {2 * by.rows * by.width})
""" + "\n".join(boxes)  # fmt: skip

    def await_empty_query(self) -> str:
        """Wait until all warps have read the query of the tile before."""
        return f"T.ptx_wait_barrier({self.empty('Q')}, (loads + 1) % 2)"

    def box(self, name: str, to: str, barrier: str, count: int, head: str, place: str, column: int) -> str:
        """Copy a box of one batch and head, of ``count`` places and a line of columns."""
        order = self.orders[name]
        sizes = [self.size(name, axis) for axis in order]
        box = [{"S": str(count), "D": str(LINE)}.get(axis, "1") for axis in order]
        corner = [{"B": "batch", "H": head, "S": place, "D": str(column)}.get(axis, axis) for axis in order]
        shown = ", ".join([*sizes, *box, *corner])
        return f'T.ptx_cp_async_bulk_tensor("{self.by.dtype}", {to}, {name}.data, {barrier}, {SWIZZLE}, {shown})'
