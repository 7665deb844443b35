"""The sizes of a tile that warpgroups compute: who has which part, shared memory and registers of a block.

Not here: the kernel (`warpgroup_tiles.py`), which tile a product takes (`tile_costs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 4
"""Warps of a warpgroup."""
ROWS = 64
"""Rows of a warpgroup's product."""
SWIZZLE = 128
"""Bytes of a tile's row."""
WARP_ROWS = 16
"""Rows of a warp."""
HALF_ROWS = 8
"""Rows of a warp whose sums are written together."""
FILE = 1 << 16
"""Registers of a processor."""
MOST = 248
"""Registers that an instruction can name, in steps of eight."""
BESIDE = 26
"""Registers that the assembler asks for beside the sums of a product."""
OTHERS, OTHERS_IN_TURN = 32, 64
"""Registers of a thread that multiplies beside its sums: with one tile, with one after another."""
BULK_REGISTERS, COPY_REGISTERS = (40, 32, 24), 88
"""Registers of a thread that copies, for two, three and four warpgroups that multiply."""


@dataclass(slots=True, frozen=True)
class WarpgroupTile:
    """Sizes of a block's tile; how many warpgroups share its rows and its columns; stages of the ring; pieces of the sum, each of
    a block of its own. ``swapped``: the operands are swapped, so that rows of the tile are columns of the result. ``blocks``: so
    many take one tile after another; 0 for one of each tile."""

    rows: int
    columns: int
    steps: int
    row_groups: int
    column_groups: int
    stages: int
    pieces: int = 1
    swapped: bool = False
    blocks: int = 0

    def __str__(self) -> str:
        rows, columns = (self.columns, self.rows) if self.swapped else (self.rows, self.columns)
        pieces = f" of {self.pieces} pieces" if self.pieces > 1 else ""
        blocks = f", one after another in {self.blocks} blocks" if self.blocks else ""
        return f"{rows} x {columns} by {self.steps} in {self.stages} stages{pieces}{', operands swapped' * self.swapped}{blocks}"

    @property
    def groups(self) -> int:
        """Warpgroups that multiply; one more copies."""
        return self.row_groups * self.column_groups

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return GROUP * self.groups

    @property
    def group_columns(self) -> int:
        """Columns of a warpgroup."""
        return self.columns // self.column_groups

    @property
    def sums(self) -> int:
        """Registers of a thread for its sums."""
        return self.group_columns // 2

    @property
    def staging(self) -> tuple[int, int, int]:
        """Lines and cells of a line that a warp writes by way of shared memory at once, and the elements behind a line so that what
        is written or read together lies in different banks. A line is along the columns of the result."""
        if self.swapped:
            return (32 if self.group_columns % 32 == 0 else 16), WARP_ROWS, 4
        return HALF_ROWS, (64 if self.group_columns % 64 == 0 else 32), 8

    @property
    def stage_bytes(self) -> int:
        """Shared memory of a stage: a tile of each operand, and two barriers."""
        return (self.rows + self.columns) * SWIZZLE + 2 * 8

    @property
    def bytes(self) -> int:
        """Shared memory of a block: the ring, and what sums are written by way of."""
        lines, cells, behind = self.staging
        return self.stages * self.stage_bytes + self.warps * lines * (cells + behind) * 4

    @property
    def initial_registers(self) -> int:
        """Registers that each thread begins with."""
        return min(MOST, FILE // ((self.groups + 1) * GROUP * 32) // 8 * 8)

    def has_room(self, is_bulk: bool) -> bool:
        """True if threads that multiply have registers for their sums: when they begin as many as the assembler asks for."""
        limits = self.registers(is_bulk)
        others = OTHERS_IN_TURN if self.blocks else OTHERS
        return self.sums + BESIDE <= self.initial_registers and (limits is None or self.sums + others <= limits[1])

    def registers(self, is_bulk: bool) -> tuple[int, int] | None:
        """Registers of a thread that copies, and of one that multiplies: together all that a processor has. None where each can
        have as many as an instruction can name."""
        if self.groups == 1:
            return None
        each = self.initial_registers
        fewer = BULK_REGISTERS[self.groups - 2] if is_bulk else COPY_REGISTERS
        return fewer, ((self.groups + 1) * each - fewer) // self.groups // 8 * 8
