"""Attention on CUDA devices: a block of threads has a block of rows, keys and values pass by through shared memory.

The algorithm is that of the lowering for processors (`op/nn/attention_blocks.py`): for each row the highest score, the sum of the
weights and the mixed values are carried along. Here scores and mixed values of a block lie in registers. Copies run beside the
products where the architecture has them: values arrive while scores are computed, the next keys while values are mixed. Blocks
of keys that a causal mask hides are not read; only those at its edge, and the last one, are masked. Heads that share keys are
rows of one block, any length is guarded, nothing is padded in memory.

Where rows are few, several blocks share the keys, and a second kernel joins what they have found ("flash decoding").

Not here: the kernel (`attention_kernel.py`), its products (`attention_products.py`); programs with other sizes stay those for
processors.
"""

from __future__ import annotations

from functools import partial

from ... import te
from ...ir.expr import Call
from ...ir.stmt import Stmt
from ...op.nn.attention import lower_attention
from ...op.nn.attention_blocks import Attention
from ...transform.infra.backend import GpuMachine, machine_in_use
from .attention_kernel import ASYNC_CAPABILITY, VECTOR_BYTES, Kernel, rounded, size_of
from .attention_products import Products, RegisterTiles, TensorCores

WIDEST = 256
"""Width of a head up to which its rows are kept in registers."""


def attention(call: Call, q: te.Tensor, k: te.Tensor, v: te.Tensor, bias: te.Tensor | None = None) -> te.Tensor:
    """The lowering of ``R.nn.attention`` for CUDA devices."""
    return lower_attention(call, q, k, v, bias, partial(_program, machine_in_use().gpu))


def _program(gpu: GpuMachine, what: Attention) -> Stmt:
    products = _products(what, gpu)
    if products is None:
        return what.emit()
    return Kernel(what, products, gpu).statement()


_CORE_TILES = {
    64: ((2, 64, 4), (1, 64, 8), (1, 64, 4), (1, 64, 2), (1, 64, 1)),
    128: ((1, 64, 8), (1, 64, 4), (1, 32, 2), (1, 32, 1)),
    256: ((1, 16, 4), (1, 16, 2), (1, 16, 1)),
}
"""By the width of a head at most: tiles of a warp, keys, and warps of a block. Two tiles of a warp halve what is read of shared
memory: a bias, or wide heads, leave no registers for that."""
_REGISTER_TILES = ((4, 32, 8), (2, 32, 8), (1, 32, 8), (1, 16, 4))
"""Rows of a thread, keys and warps of a block."""


def _products(what: Attention, gpu: GpuMachine) -> Products | None:
    """The way products are computed: the largest tiles that the block has room for and that give all processors work. None where
    rows are too wide, or of a width that is not known."""
    width, mixed = size_of(what.query.size("D")), size_of(what.value.size("D"))
    if width is None or mixed is None or max(width, mixed) > WIDEST or min(width, mixed) == 0:
        return None
    heads, shared, length = [size_of(e) for e in (what.query.size("H"), what.key.size("H"), what.query.size("S"))]
    rows = length * (heads // shared) if length is not None and heads and shared else 1 << 20
    lines = (size_of(what.query.size("B")) or 1) * (shared or 1)
    dtype = what.query.buffer.dtype
    found: list[Products]
    if dtype.name in ("float16", "bfloat16") and gpu.capability >= ASYNC_CAPABILITY:
        wide = (rounded(width, 16), rounded(mixed, 16))
        most = 2 if what.bias is None else 1
        sizes = next(sizes for limit, sizes in _CORE_TILES.items() if max(wide) <= limit)
        found = [TensorCores(*size, dtype.name, *wide) for size in sizes if size[0] <= most]
    else:
        vector = VECTOR_BYTES // (8 if what.wide == "float64" else 4)
        together = next(n for n in (4, 2, 1) if n <= vector and (n == 1 or mixed > 16 * (n // 2)))
        wide = (rounded(width, vector), rounded(mixed, 16 * together))
        found = [RegisterTiles(*size, what.wide, *wide, vector) for size in _REGISTER_TILES]
    fits = [p for p in found if p.shared_bytes <= gpu.shared_bytes]
    filled = [p for p in fits if p.rows < 2 * rows] or fits[-1:]
    busy = [p for p in filled if lines * -(-rows // p.rows) >= gpu.processors]
    return next(iter(busy or filled[-1:]), None)
