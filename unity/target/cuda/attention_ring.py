"""Attention on Hopper by warpgroups that read keys and values out of rings: sizes and products, and which attention they take.

A block has a tile of rows of the query. Keys and values come in blocks by bulk copies (TMA), each kind into a ring of stages, in
rows of 128 bytes whose pieces of 16 are exchanged. Results and weights stay in registers: weights are the left operand of the
product with the values.

Not here: the thread that copies (`attention_copies.py`), the warpgroups that multiply (`attention_ring_kernel.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import build
from ...ir.build import int_value
from ...op.nn.attention_blocks import Attention
from .attention_products import TensorCores

GROUP = 4
"""Warps of a warpgroup."""
LINE = 64
"""Elements of a row of a tile: 128 bytes."""
PIECE = 8
"""Elements that are exchanged."""
PIECE_BYTES = 16
"""Rows of tensors that bulk copies take are multiples of it."""
LEAST, MOST = LINE // 2, 2 * LINE
"""Widths of heads: narrower ones are faster by warps, of wider ones registers do not hold the results."""
MOST_AXES = 5
"""Axes of such a tensor."""
SWIZZLE = 128
"""Bytes of a row of a tile, whose pieces are exchanged."""
STEP = 16
"""Elements that a product sums at once."""
REGISTERS = {2: (24, 240), 3: (32, 160)}
"""Registers of a thread that copies, and of one that multiplies, by the number of warpgroups that do."""
STATIC_BYTES = 1024
"""Shared memory that barriers take."""


@dataclass(slots=True, frozen=True)
class Ring(TensorCores):
    """Products by ``wgmma`` out of rings of ``stages`` blocks of keys and of values; a thread has the scores and results that it
    has by ``mma.sync`` of one tile. Heads are padded to whole lines."""

    stages: int

    @property
    def groups(self) -> int:
        """Warpgroups that multiply."""
        return self.warps // GROUP

    def tile(self, name: str, rows: int, columns: int) -> str:
        shape = f"({columns // LINE}, {rows}, {LINE // PIECE}, {PIECE})"
        return f'{name} = T.alloc_buffer({shape}, "{self.dtype}", scope="shared.dyn", align=1024)'

    def element(self, name: str, rows: int, row: str, column: str, x: str) -> str:
        piece = f"T.bitwise_xor(({column}) % {LINE} // {PIECE}, ({row}) % 8)"
        return f"{name}[({column}) // {LINE}, {row}, {piece}, ({column}) % {PIECE} + {x}]"

    def ring(self, name: str, columns: int) -> str:
        """The shared memory of all stages."""
        shape = f"({self.stages}, {columns // LINE}, {self.keys}, {LINE})"
        return f'{name} = T.alloc_buffer({shape}, "{self.dtype}", scope="shared.dyn", align=1024)'

    def _product(self, columns: int, transposed: bool, left: str, right: str, to: str, added: bool) -> str:
        names = f'"m64n{columns}k{STEP}", "row", "{"row" if transposed else "col"}", "{self.dtype}", "{self.dtype}", "float32"'
        pitch = f", {self.keys * LINE}" if transposed else ""
        return f'T.ptx_wgmma("float32", {names}, {left}, {right}, {to}.data, 0, {SWIZZLE}, T.bool({added}){pitch})'

    def scores_of(self, slot: str, width: int) -> str:
        """Begin the products of the query and the keys of a stage, of heads of a width; the first one does not add."""

        def step(k: str, added: bool) -> str:
            line, column = f"{k} // {LINE // STEP}", f"{k} % {LINE // STEP} * {STEP}"
            query = f"Q.data, {line} * {self.rows * LINE} + warpgroup * {GROUP * 16 * LINE} + {column}"
            key = f"K.data, {slot} * {self.keys * self.width} + {line} * {self.keys * LINE} + {column}"
            return self._product(self.keys, False, query, key, "scores", added)

        return f"{step('0', False)}\nfor k in T.unroll({-(-width // STEP) - 1}):\n    {step('(k + 1)', True)}"

    def values_of(self, slot: str) -> str:
        """Begin the products of the weights and the values of a stage."""
        value = f"V.data, {slot} * {self.keys * self.v_width} + k * {STEP * LINE}"
        product = self._product(self.v_width, True, "left.data, k * 8", value, "acc", True)
        return f"for k in T.unroll({self.keys // STEP}):\n    {product}"

    @property
    def shared_bytes(self) -> int:
        lines = self.rows * LINE  # by way of which results are stored
        return (
            2 * (self.rows * self.width + self.stages * self.keys * (self.width + self.v_width) + lines) + STATIC_BYTES
        )


def fits(spec: Attention) -> bool:
    """True for an attention that is computed so: heads of such a width, no bias, a known number of heads that share keys (else the
    assembler computes one product after the other), and tensors that bulk copies take: the rows are multiples of 16 bytes."""
    inputs = (spec.query, spec.key, spec.value)
    widths = [int_value(t.size("D")) for t in (*inputs, spec.out)]
    rows = all([width is not None and LEAST < width <= MOST and width * 2 % PIECE_BYTES == 0 for width in widths])
    return (
        spec.bias is None
        and int_value(build.floordiv(spec.query.size("H"), spec.key.size("H"))) is not None
        and rows
        and all([t.order[-1] == "D" and len(t.order) <= MOST_AXES for t in (*inputs, spec.out)])
        and not any([t.buffer.strides or t.buffer.elem_offset is not None for t in inputs])
    )
