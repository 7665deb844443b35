"""The two products of fused attention, Q K^T and weights times V, on tensor cores by warps, or on tiles of registers.

Both hold the scores and results of a block of ``rows`` and ``keys`` in registers of ``warps``. Shared memory holds elements of
type ``dtype``, in rows of ``width`` (query, key) and ``v_width`` (value). A thread holds ``thread_rows`` rows, and of each
``thread_keys`` scores and ``thread_columns`` results, ``contiguous`` of them neighbours. A row is reduced over its lanes by
shuffles at the xor distances ``lanes``. The softmax between the products (`attention_kernel.py`) is the same for both. Their texts
are script for the thread ``ty``, ``tx`` of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ffi.dtype import DataType

WARP = 32
PAD_BYTES = 16
"""Padding of each row in shared memory, in bytes: rows that are read together begin in different banks."""


class PaddedTiles:
    """Tiles in shared memory whose rows are padded."""

    __slots__ = ()
    dtype: str

    def tile(self, name: str, rows: int, columns: int) -> str:
        """The shared memory of a tile."""
        pad = PAD_BYTES // DataType(self.dtype).itemsize
        return f'{name} = T.alloc_buffer(({rows}, {columns + pad}), "{self.dtype}", scope="shared.dyn")'

    def element(self, name: str, rows: int, row: str, column: str, x: str) -> str:
        """Element ``x`` behind a row and column of a tile; there are a power of two of them together."""
        return f"{name}[{row}, {column} + {x}]"


@dataclass(slots=True, frozen=True)
class TensorCores(PaddedTiles):
    """Products by ``mma.sync`` of 16-bit floats: a warp has ``tiles`` times 16 rows."""

    tiles: int
    keys: int
    warps: int
    dtype: str
    width: int
    v_width: int

    lanes = (1, 2)
    contiguous = 2

    @property
    def rows(self) -> int:
        return self.warps * self.tiles * 16

    @property
    def thread_rows(self) -> int:
        return 2 * self.tiles

    @property
    def thread_keys(self) -> int:
        return self.keys // 4

    @property
    def thread_columns(self) -> int:
        return self.v_width // 4

    def row(self, r: str) -> str:
        """The row of the block that is a thread's own ``r``-th."""
        return f"ty * {16 * self.tiles} + {r} // 2 * 16 + {r} % 2 * 8 + tx // 4"

    first_key = "tx % 4 * 2"
    """The key of a thread's first score of a row."""

    def next_key(self, c: str) -> str:
        """The distance from there to the key of the ``c``-th score."""
        return f"{c} // 2 * 8 + {c} % 2"

    def column(self, g: str, x: str) -> str:
        """The column of element ``x`` of the ``g``-th contiguous group of results."""
        return f"{g} * 8 + tx % 4 * 2 + {x}"

    def score(self, r: str, c: str) -> str:
        """The register of a score."""
        return f"({r} // 2 * {self.keys // 8} + {c} // 2) * 4 + {r} % 2 * 2 + {c} % 2"

    def result(self, r: str, g: str, x: str) -> str:
        """The register of a result."""
        return f"({r} // 2 * {self.v_width // 8} + {g}) * 4 + {r} % 2 * 2 + {x}"

    def buffers(self) -> str:
        """Buffers that only the products use."""
        return f"""
left = T.alloc_buffer(({8 * self.tiles},), "{self.dtype}", scope="local")
right = T.alloc_buffer((8,), "{self.dtype}", scope="local")
"""

    def _mma(self, a: str, b: str, c: str, to: str) -> str:
        kind = {"float16": "fp16", "bfloat16": "bf16"}[self.dtype]
        head = f'"float32", "m16n8k16", "row", "col", "{kind}", "{kind}", "fp32"'
        return f"T.ptx_mma({head}, left.data, {a}, right.data, {b}, {to}.data, {c}, T.bool(False))"

    def _load(self, to: str, at: str, source: str, row: str, column: str, pitch: int, transposed: bool = False) -> str:
        address = f"({row}) * {pitch} + {column}"
        return f'T.ptx_ldmatrix("{self.dtype}", T.bool({transposed}), 4, ".b16", {to}.data, {at}, {source}.data, {address})'

    def scores(self) -> str:
        """Add the products of Q and K to the scores."""
        pitch = self.width + PAD_BYTES // 2
        query = self._load(
            "left", "m * 8", "Q", f"ty * {16 * self.tiles} + m * 16 + tx % 16", "k * 16 + tx // 16 * 8", pitch
        )
        key = self._load("right", "0", "K", "n * 16 + tx // 16 * 8 + tx % 8", "k * 16 + tx // 8 % 2 * 8", pitch)
        return f"""
for k in T.unroll({self.width // 16}):
    for m in T.unroll({self.tiles}):
        {query}
    for n in T.unroll({self.keys // 16}):
        {key}
        for m in T.unroll({self.tiles}):
            for h in T.unroll(2):
                {self._mma("m * 8", "h * 4", f"(m * {self.keys // 8} + n * 2 + h) * 4", "scores")}
"""

    def values(self) -> str:
        """Add the products of the weights, which have replaced the scores, and V to the results."""
        pitch = self.v_width + PAD_BYTES // 2
        value = self._load("right", "0", "V", "k * 16 + tx % 16", "n * 16 + tx // 16 * 8", pitch, True)
        return f"""
for k in T.unroll({self.keys // 16}):
    for m in T.unroll({self.tiles}):
        for h in T.unroll(4):
            for x in T.vectorized(2):
                left[m * 8 + h * 2 + x] = T.Cast("{self.dtype}", scores[(m * {self.keys // 8} + k * 2) * 4 + h * 2 + x])
    for n in T.unroll({self.v_width // 16}):
        {value}
        for m in T.unroll({self.tiles}):
            for h in T.unroll(2):
                {self._mma("m * 8", "h * 4", f"(m * {self.v_width // 8} + n * 2 + h) * 4", "acc")}
"""

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        pad = PAD_BYTES // 2
        return 2 * max(
            (self.rows + self.keys) * (self.width + pad) + self.keys * (self.v_width + pad),
            self.rows * (self.v_width + pad),
        )


@dataclass(slots=True, frozen=True)
class RegisterTiles(PaddedTiles):
    """Products by tiles of registers: half a warp has ``thread_rows`` rows, and keys and columns are distributed over its lanes."""

    thread_rows: int
    keys: int
    warps: int
    dtype: str
    width: int
    v_width: int
    vector: int
    """Elements of 16 bytes."""

    lanes = (1, 2, 4, 8)

    @property
    def rows(self) -> int:
        return self.warps * 2 * self.thread_rows

    @property
    def thread_keys(self) -> int:
        return self.keys // 16

    @property
    def thread_columns(self) -> int:
        return self.v_width // 16

    @property
    def contiguous(self) -> int:
        """Neighbouring columns of a thread."""
        return min(self.vector, self.thread_columns)

    def row(self, r: str) -> str:
        return f"ty * {2 * self.thread_rows} + {r} * 2 + tx // 16"

    first_key = "tx % 16"

    def next_key(self, c: str) -> str:
        return f"{c} * 16"

    def column(self, g: str, x: str) -> str:
        return f"({g} * 16 + tx % 16) * {self.contiguous} + {x}"

    def score(self, r: str, c: str) -> str:
        return f"{r} * {self.thread_keys} + {c}"

    def result(self, r: str, g: str, x: str) -> str:
        return f"{r} * {self.thread_columns} + {g} * {self.contiguous} + {x}"

    def buffers(self) -> str:
        return f"""
weights = T.alloc_buffer(({self.rows}, {self.keys}), "{self.dtype}", scope="shared.dyn")
left = T.alloc_buffer(({self.thread_rows * self.vector},), "{self.dtype}", scope="local")
right = T.alloc_buffer(({max(self.thread_keys * self.vector, self.thread_columns)},), "{self.dtype}", scope="local")
"""

    def weight(self, key: str) -> str:
        """The column of a weight in its row: halves of a warp, which have neighbouring rows, use different banks."""
        return f"({key} + tx // 16 * 16) % {self.keys}"

    def scores(self) -> str:
        v = self.vector
        return f"""
for k in range({self.width // v}):
    for r in T.unroll({self.thread_rows}):
        for x in T.vectorized({v}):
            left[r * {v} + x] = Q[{self.row("r")}, k * {v} + x]
    for c in T.unroll({self.thread_keys}):
        for x in T.vectorized({v}):
            right[c * {v} + x] = K[{self.first_key} + {self.next_key("c")}, k * {v} + x]
    for x in T.unroll({v}):
        for r in T.unroll({self.thread_rows}):
            for c in T.unroll({self.thread_keys}):
                scores[{self.score("r", "c")}] = T.fma(left[r * {v} + x], right[c * {v} + x], scores[{self.score("r", "c")}])
"""

    def values(self) -> str:
        v, contiguous = self.vector, self.contiguous
        return f"""
for r in T.unroll({self.thread_rows}):
    for c in T.unroll({self.thread_keys}):
        weights[{self.row("r")}, {self.weight(f"{self.next_key('c')} + {self.first_key}")}] = scores[{self.score("r", "c")}]
T.tvm_storage_sync("shared")
for k in range({self.keys // v}):
    for r in T.unroll({self.thread_rows}):
        for x in T.vectorized({v}):
            left[r * {v} + x] = weights[{self.row("r")}, {self.weight(f"k * {v}")} + x]
    for x in T.unroll({v}):
        for g in T.unroll({self.thread_columns // contiguous}):
            for e in T.vectorized({contiguous}):
                right[g * {contiguous} + e] = V[k * {v} + x, {self.column("g", "e")}]
        for r in T.unroll({self.thread_rows}):
            for e in T.unroll({self.thread_columns}):
                acc[r * {self.thread_columns} + e] = T.fma(left[r * {v} + x], right[e], acc[r * {self.thread_columns} + e])
"""

    @property
    def shared_bytes(self) -> int:
        v = self.vector
        used = (self.rows + self.keys) * (self.width + v) + self.keys * (self.v_width + v) + self.rows * self.keys
        return PAD_BYTES // v * max(used, self.rows * (self.v_width + v))


Products = TensorCores | RegisterTiles
