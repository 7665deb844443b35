"""The programs of the table as data: inputs, the graph function, the same in numpy, what it does. Needs numpy alone.

Sizes: ``full`` and ``quick`` for devices, ``tiny`` for the emulated one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EXPONENT = -1.4426950408889634


@dataclass(slots=True, frozen=True)
class Program:
    """``shapes`` by a size; ``body`` of the graph function in x, y, z; ``reference`` in float32. ``rows``: positions of the inputs
    whose leading rows alone the leading rows of the result need. ``work``: operations (products, attention) or bytes moved."""

    name: str
    dtype: str
    sizes: dict[str, Sequence[int]]
    shapes: Callable[[int], Sequence[tuple[int, ...]]]
    body: str
    reference: Callable[..., Array]
    work: Callable[[int], float]
    unit: str
    rows: tuple[int, ...] = ()
    wanted: float = 1.0
    """The ratio to the best of the peers that is aimed at."""

    @property
    def allowed(self) -> float:
        """The error that is allowed, relative to a value or to the root mean square of its row."""
        return {"float32": 1e-4}.get(self.dtype, 2e-2)

    def script(self, size: int) -> str:
        """The module in script."""
        signature = [f'{n}: R.Tensor({s}, "{self.dtype}")' for n, s in zip("xyz", self.shapes(size))]
        return (
            f"@I.ir_module\nclass Module:\n    @R.function\n    def main({', '.join(signature)}):\n"
            f"        return {self.body.format(n=size)}\n"
        )

    def inputs(self, size: int, seed: int = 0) -> list[Array]:
        """Inputs as float32, of values that the program's type holds exactly."""
        draw = np.random.default_rng(seed)
        found = [draw.standard_normal(shape, "float32") for shape in self.shapes(size)]
        return [decode(encode(array, self.dtype), self.dtype) for array in found]

    def expected(self, inputs: Sequence[Array], most: int = 64) -> Array:
        """The result, or its first ``most`` rows where those can be had alone."""
        cut = [a[:most] if number in self.rows else a for number, a in enumerate(inputs)]
        return self.reference(*cut)

    def difference(self, found: Array, expected: Array) -> str:
        """What is wrong with a result, or nothing."""
        cut = found[: len(expected)] if self.rows else found
        if cut.shape != expected.shape:
            return f"shape {cut.shape} instead of {expected.shape}"
        scale = np.maximum(np.abs(expected), np.sqrt(np.mean(expected.astype("float64") ** 2, -1, keepdims=True)))
        far = ~(np.abs(cut - expected) <= self.allowed * scale)
        return f"{int(far.sum())} of {far.size} values differ" if far.any() else ""


def encode(values: Array, dtype: str) -> Array:
    """Float32 in the bytes of a type; bfloat16 (nearest, ties to even) as uint16."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = np.ascontiguousarray(values, "float32").view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def decode(raw: Array, dtype: str) -> Array:
    """What ``encode`` gave, as float32."""
    if dtype != "bfloat16":
        return raw.astype("float32")
    return (raw.astype("uint32") << 16).view("float32")


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _layer_norm(x: Array, g: Array, b: Array) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b)


def _rms_norm(x: Array, g: Array) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g)


def _chain(x: Array, y: Array, z: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp2(x * EXPONENT)) * y + z)


def _attention(q: Array, k: Array, v: Array) -> Array:
    made = np.empty(q.shape, "float32")
    length = q.shape[1]
    future = np.triu(np.ones((length, length), bool), 1)
    for b in range(q.shape[0]):
        for head in range(q.shape[2]):
            scores = q[b, :, head] @ k[b, :, head].T / np.float32(np.sqrt(q.shape[-1]))
            made[b, :, head] = _softmax(np.where(future, -np.inf, scores)) @ v[b, :, head]
    return made


def _square(count: int, others: int = 0) -> Callable[[int], Sequence[tuple[int, ...]]]:
    """Arrays of 4096 rows (8 for the emulated device) by the size, and others of one row."""
    return lambda n: [(4096 if n >= 512 else 8, n)] * count + [(n,)] * others


def _bytes(count: int, itemsize: int) -> Callable[[int], float]:
    return lambda n: count * itemsize * 4096.0 * n


def _product(dtype: str) -> Program:
    sizes = {"full": (1024, 2048, 4096, 8192), "quick": (4096,), "tiny": (64,)}
    return Program(
        f"product {dtype}", dtype, sizes, lambda n: [(n, n), (n, n)], "R.matmul(x, y)", lambda x, y: x @ y,
        lambda n: 2.0 * n**3, "TFLOP/s", (0,), 0.9,
    )  # fmt: skip


_ROWS = {"full": (512, 1024, 4096, 16384), "quick": (4096,), "tiny": (64,)}
PROGRAMS = (
    _product("bfloat16"),
    _product("float32"),
    Program("softmax", "float16", _ROWS, _square(1), "R.nn.softmax(x, axis=-1)", _softmax, _bytes(2, 2), "GB/s", (0,)),
    Program("layer norm", "float16", _ROWS, _square(1, 2), "R.nn.layer_norm(x, y, z, axes=[-1])", _layer_norm,
            _bytes(2, 2), "GB/s", (0,)),
    Program("RMS norm", "float16", _ROWS, _square(1, 1), "R.nn.rms_norm(x, y, axes=[-1])", _rms_norm, _bytes(2, 2), "GB/s", (0,)),
    Program("silu(x) * y + z", "float16", _ROWS, _square(3), "R.nn.silu(x) * y + z", _chain, _bytes(4, 2), "GB/s", (0, 1, 2)),
    Program("attention", "bfloat16", {"full": (1024, 2048, 4096, 8192), "quick": (2048,), "tiny": (8,)},
            lambda n: [(1, n, 16, 128) if n >= 512 else (1, n, 1, 16)] * 3,
            'R.nn.attention(x, y, z, causal_mask="TopLeft")', _attention, lambda n: 2.0 * n * n * 16 * 128, "TFLOP/s", (), 0.9),
)  # fmt: skip
"""What the table has, models aside."""
