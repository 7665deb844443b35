"""The kernel of attention for heads that are wider than a block keeps, or whose width is not known.

Scores are summed over pieces of the width, one after the other. A block computes a slice of the columns of the results; each slice
computes the scores anew.
"""

from __future__ import annotations

from textwrap import indent

from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine
from .attention_kernel import Kernel
from .attention_products import Products

WIDTH, V_WIDTH = 64, 128
"""Elements of a piece of the width, and of a slice of the columns."""


class PiecesKernel(Kernel):
    """The program for one attention by products of pieces."""

    def __init__(self, spec: Attention, products: Products, gpu: GpuMachine) -> None:
        super().__init__(spec, products, gpu)
        self.splits, self.slices = "", f"((v_width + {products.v_width - 1}) // {products.v_width})"

    def columns(self, to: str) -> tuple[int, int, str]:
        known, of_tile, _ = super().columns(to)
        return known, of_tile, "slice_from + " if to == "V" else "piece_from + "

    def body(self) -> str:
        mm, wide = self.mm, self.spec.wide
        step = f"""
for i in T.unroll({mm.thread_rows * mm.thread_keys}):
    scores[i] = T.{wide}(0)
for piece in range((width + {mm.width - 1}) // {mm.width}):
    piece_from: T.int64 = piece * {mm.width}
    T.tvm_storage_sync("shared")
{indent(self.fill("Q", "query", "start", "rows"), "    ")}
{indent(self.fill("K", "key", f"j * {mm.keys}", "seen"), "    ")}
    {self.wait()}
    T.tvm_storage_sync("shared")
{indent(mm.scores(), "    ")}
T.tvm_storage_sync("shared")
{self.fill("V", "value", f"j * {mm.keys}", "seen")}
{self.masked_softmax()}
{self.wait()}
T.tvm_storage_sync("shared")
{mm.values()}
"""
        return f"""
{self.begin()}
slice_from: T.int64 = block % {self.slices} * {mm.v_width}
{self.init_rows("unmasked")}
for j in range((seen + {mm.keys - 1}) // {mm.keys}):
{indent(step, "    ")}
{self.finish()}
"""
