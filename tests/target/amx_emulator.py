"""AMX tile registers in Python: kernels compiled for a processor with AMX run on one without.

``emulated(text)`` rewrites LLVM IR: each intrinsic of the tiles becomes a call of a function here, everything else stays machine
code. The functions check what the processor would fault on. One thread: they need the interpreter's lock, which its caller holds. Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 2, the instructions by name.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import numpy as np

_PTR, _TILE, _STRIDE = ctypes.c_void_p, ctypes.c_int8, ctypes.c_int64


class Tiles:
    """Eight tile registers and their configuration; ``problems`` lists what the processor would refuse, ``count`` the products."""

    def __init__(self) -> None:
        self.rows: list[int] | None = None
        self.width: list[int] = []
        self.data = np.zeros((8, 16, 64), "uint8")
        self.problems: list[str] = []
        self.count = 0
        self._kept = [
            (name, ctypes.CFUNCTYPE(None, *kinds)(getattr(self, name)), kinds)
            for name, kinds in (
                ("ldtilecfg", (_PTR,)),
                ("tilerelease", ()),
                ("tilezero", (_TILE,)),
                ("tileloadd64", (_TILE, _PTR, _STRIDE)),
                ("tilestored64", (_TILE, _PTR, _STRIDE)),
                ("tdpbf16ps", (_TILE,) * 3),
                ("tdpbssd", (_TILE,) * 3),
                ("tdpbusd", (_TILE,) * 3),
            )
        ]

    def emulated(self, text: str) -> str:
        """LLVM IR without AMX."""
        words = {_PTR: "ptr", _TILE: "i8", _STRIDE: "i64"}
        for name, function, kinds in self._kept:
            if f"@llvm.x86.{name}(" not in text:
                continue
            text = re.sub(rf"declare void @llvm\.x86\.{name}\(.*\n", "", text)
            text = text.replace(f"@llvm.x86.{name}(", f"@emulated.{name}(").replace("i8 immarg", "i8")
            params = ", ".join([f"{words[kind]} %a{k}" for k, kind in enumerate(kinds)])
            address = ctypes.cast(function, ctypes.c_void_p).value
            call = f"  call void inttoptr (i64 {address} to ptr)({params})\n"
            text += f"\ndefine internal void @emulated.{name}({params}) noinline {{\n{call}  ret void\n}}\n"
        return text

    def refuse(self, problem: str) -> None:
        self.problems.append(problem)

    def ldtilecfg(self, address: int) -> None:
        config = np.frombuffer(ctypes.string_at(address, 64), "uint8")
        if config[0] != 1 or config[1:16].any() or config[32:48].any() or config[56:].any():
            self.refuse("configuration of another palette, or reserved bytes that are not zero")
        self.width = [int(w) for w in config[16:32].view("uint16")]
        self.rows = [int(r) for r in config[48:56]]
        if any([w > 64 or r > 16 or (w == 0) != (r == 0) for w, r in zip(self.width, self.rows)]):
            self.refuse("a tile larger than the registers")
        self.data[:] = 0

    def tilerelease(self) -> None:
        self.rows = None

    def _shape(self, tile: int) -> tuple[int, int]:
        if self.rows is None or self.rows[tile] == 0:
            self.refuse(f"tile {tile} is not configured")
            return 0, 0
        return self.rows[tile], self.width[tile]

    def tilezero(self, tile: int) -> None:
        self._shape(tile)
        self.data[tile] = 0

    def tileloadd64(self, tile: int, address: int, stride: int) -> None:
        rows, width = self._shape(tile)
        self.data[tile] = 0
        for row in range(rows):
            self.data[tile, row, :width] = np.frombuffer(ctypes.string_at(address + row * stride, width), "uint8")

    def tilestored64(self, tile: int, address: int, stride: int) -> None:
        rows, width = self._shape(tile)
        for row in range(rows):
            ctypes.memmove(address + row * stride, self.data[tile, row].tobytes(), width)

    def _product(self, total: int, left: int, right: int, kinds: tuple[str, str, str], widen: Callable) -> None:
        (m, n), (rows, depth), (steps, columns) = self._shape(total), self._shape(left), self._shape(right)
        if len({total, left, right}) < 3 or rows != m or columns != n or depth != 4 * steps:
            self.refuse(f"tiles {total}, {left}, {right} do not fit together")
        self.count += 1
        a = widen(self.data[left].view(kinds[0]))
        b = widen(self.data[right].view(kinds[1])).reshape(16, 16, -1).transpose(0, 2, 1).reshape(a.shape[1], 16)
        self.data[total].view(kinds[2])[:] += (a @ b).astype(kinds[2])

    def tdpbf16ps(self, total: int, left: int, right: int) -> None:
        def widen(half: np.ndarray) -> np.ndarray:
            return (half.astype("uint32") << 16).view("float32")

        self._product(total, left, right, ("uint16", "uint16", "float32"), widen)

    def tdpbssd(self, total: int, left: int, right: int) -> None:
        self._product(total, left, right, ("int8", "int8", "int32"), lambda v: v.astype("int64"))

    def tdpbusd(self, total: int, left: int, right: int) -> None:
        self._product(total, left, right, ("uint8", "int8", "int32"), lambda v: v.astype("int64"))
