"""Attention on CUDA devices: a block of threads computes a block of rows and reads keys and values through shared memory.

The algorithm is that of the lowering for CPUs (`op/nn/attention_blocks.py`), an online softmax: each row carries its maximum score,
the sum of its weights and the weighted values. Here scores and results of a block are in registers. Copies are asynchronous if the
architecture has them: values arrive while scores are computed, the next keys while values are added. Blocks of keys that a causal
mask hides are not read; only those at its edge, and the last one, are masked. Query heads that share keys are rows of one block.
Any length is allowed, and nothing is padded in global memory.

If there are few rows, several blocks split the keys, and a second kernel combines their results ("flash decoding").

On Hopper one thread copies for warpgroups that multiply (`attention_ring_kernel.py`), if bulk copies take the tensors.

Heads that are too wide for registers, or of a width that is not known, go by pieces (`attention_pieces.py`).

Not here: the other kernel (`attention_kernel.py`), its products (`attention_products.py`).
"""

from __future__ import annotations

from functools import partial

from ... import te
from ...ir.build import int_value
from ...ir.expr import Call
from ...ir.stmt import Stmt
from ...op.nn.attention import lower_attention
from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine, machine_in_use
from .attention_kernel import ASYNC_CAPABILITY, VECTOR_BYTES, Kernel, rounded
from .attention_pieces import V_WIDTH, WIDTH, PiecesKernel
from .attention_products import Products, RegisterTiles, TensorCores
from .attention_ring import LINE, Ring, fits
from .attention_ring_kernel import RingKernel

WIDEST = 256
"""Largest width of a head whose rows are kept in registers."""


def attention(call: Call, q: te.Tensor, k: te.Tensor, v: te.Tensor, bias: te.Tensor | None = None) -> te.Tensor:
    """The lowering of ``R.nn.attention`` for CUDA devices."""
    return lower_attention(call, q, k, v, bias, partial(_program, machine_in_use().gpu))


def _program(gpu: GpuMachine, spec: Attention) -> Stmt:
    products = _products(spec, gpu)
    if products is None:
        return spec.emit()
    if isinstance(products, Ring):
        return RingKernel(spec, products, gpu).statement()
    return (PiecesKernel if _in_pieces(spec) else Kernel)(spec, products, gpu).statement()


def _in_pieces(spec: Attention) -> bool:
    """True if the width of a head is not known, or larger than what registers hold."""
    widths = [int_value(tensor.size("D")) for tensor in (spec.query, spec.value)]
    return any([width is None or width > WIDEST for width in widths])


_RINGS = {64: ((128, 12, 2), (128, 8, 4)), 128: ((128, 8, 2),)}
"""By the largest width of a head, where one thread copies for warpgroups that multiply: keys of a block, warps, and stages."""
_RING_TILES = {2: 0.5, 3: 2}
"""By the number of warpgroups, how many of their tiles for each multiprocessor are enough. With two, each is at least twice as fast
as with smaller tiles. Three compute as many rows in four fifths of the time, which larger tiles lose where there are few."""
_LONG = 2048
"""The known length and number of keys from which three warpgroups are tried (they lose with 1,024), where heads share no keys:
indices of heads that do leave them too few registers."""
_CORE_TILES = {
    64: ((2, 64, 4), (1, 64, 8), (1, 64, 4), (1, 64, 2), (1, 64, 1)),
    128: ((1, 64, 8), (1, 64, 4), (1, 32, 2), (1, 32, 1)),
    256: ((1, 16, 4), (1, 16, 2), (1, 16, 1)),
}
"""By the largest width of a head: 16-row tiles of a warp, keys of a block, and its warps. Two tiles of a warp halve the reads of
shared memory; a bias or a wide head leaves no registers for them."""
_REGISTER_TILES = ((4, 32, 8), (2, 32, 8), (1, 32, 8), (1, 16, 4))
"""Rows of a thread, keys and warps of a block."""


def _products(spec: Attention, gpu: GpuMachine) -> Products | None:
    """The implementation of the two products: the largest tiles that fit into shared memory and occupy all multiprocessors. None if
    heads have no elements, or they do not fit."""
    width, v_width = int_value(spec.query.size("D")), int_value(spec.value.size("D"))
    if 0 in (width, v_width):
        return None
    if width is None or v_width is None or _in_pieces(spec):
        width, v_width = WIDTH, V_WIDTH
    heads, shared, length = [int_value(e) for e in (spec.query.size("H"), spec.key.size("H"), spec.query.size("S"))]
    rows = length * (heads // shared) if length is not None and heads and shared else 1 << 20
    outer = (int_value(spec.query.size("B")) or 1) * (shared or 1)
    dtype = spec.query.buffer.dtype
    found: list[Products]
    if dtype.name in ("float16", "bfloat16") and gpu.capability >= ASYNC_CAPABILITY:
        wide = (rounded(width, 16), rounded(v_width, 16))
        most = 2 if spec.bias is None else 1
        sizes = next(sizes for limit, sizes in _CORE_TILES.items() if max(wide) <= limit)
        found = [TensorCores(*size, dtype.name, *wide) for size in sizes if size[0] <= most]
        if gpu.warpgroups and fits(spec) and not _in_pieces(spec):
            lines = (rounded(width, LINE), rounded(v_width, LINE))
            rings = [Ring(1, keys, warps, dtype.name, *lines, stages) for keys, warps, stages in _RINGS[max(lines)]]
            is_long = rows == length and min(rows, int_value(spec.key.size("S")) or 0) >= _LONG
            found = [*[ring for ring in rings if ring.groups == 2 or is_long], *found]
    else:
        vector = VECTOR_BYTES // (8 if spec.wide == "float64" else 4)
        contiguous = next(n for n in (4, 2, 1) if n <= vector and (n == 1 or v_width > 16 * (n // 2)))
        wide = (rounded(width, vector), rounded(v_width, 16 * contiguous))
        found = [RegisterTiles(*size, spec.wide, *wide, vector) for size in _REGISTER_TILES]
    small = [p for p in found if p.shared_bytes <= gpu.shared_bytes]
    filled = [p for p in small if p.rows < 2 * rows] or small[-1:]
    least = [_RING_TILES[p.groups] if isinstance(p, Ring) else 1 for p in filled]
    busy = [p for p, each in zip(filled, least) if outer * -(-rows // p.rows) >= each * gpu.processors]
    return next(iter(busy or filled[-1:]), None)
