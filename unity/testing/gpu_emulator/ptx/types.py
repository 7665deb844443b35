"""Types of PTX: how many bits each has and which numpy type holds a value of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(slots=True, frozen=True)
class Type:
    """One fundamental or packed type. ``kind`` is b(its), u(nsigned), s(igned), f(loat) or p(redicate)."""

    name: str
    kind: str
    bits: int
    numpy: np.dtype[Any]
    """The numpy type of a value; formats that numpy lacks (bf16, e4m3, packed pairs) are bits."""

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return max(1, self.bits // 8)


def _rows() -> dict[str, Type]:
    rows = [("pred", "p", 8, "?"), ("b128", "b", 128, "c16")]
    for bits in (8, 16, 32, 64):
        rows += [
            (f"{kind}{bits}", kind, bits, f"{code}{bits // 8}") for kind, code in (("b", "u"), ("u", "u"), ("s", "i"))
        ]
    rows += [(f"f{bits}", "f", bits, f"f{bits // 8}") for bits in (16, 32, 64)]
    rows += [("bf16", "f", 16, "u2"), ("tf32", "f", 32, "f4"), ("e4m3", "f", 8, "u1"), ("e5m2", "f", 8, "u1")]
    rows += [(f"{half}x2", "f", 32, "u4") for half in ("f16", "bf16")]
    rows += [("u16x2", "u", 32, "u4"), ("s16x2", "s", 32, "u4"), ("e4m3x2", "f", 16, "u2"), ("e5m2x2", "f", 16, "u2")]
    rows += [("u4", "u", 4, "u1"), ("s4", "s", 4, "i1"), ("b1", "b", 1, "u1"), ("f32x2", "f", 64, "u8")]
    return {name: Type(name, kind, bits, np.dtype(code)) for name, kind, bits, code in rows}


TYPES = _rows()
"""Types by the names that instructions give them."""
UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("u2"),
    4: np.dtype("u4"),
    8: np.dtype("u8"),
    16: np.dtype("c16"),
}
"""The numpy type that holds so many bytes as bits; complex numbers stand for 16 bytes, which numpy copies as they are."""
SIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("i1"), 2: np.dtype("i2"), 4: np.dtype("i4"), 8: np.dtype("i8")}
