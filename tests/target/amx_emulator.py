"""AMX tile registers in Python: kernels compiled for a processor with AMX and AVX-512 run on any.

``emulated(text)`` rewrites LLVM IR: each intrinsic of the tiles becomes a call of a function here, the dot products of AVX-512
become plain LLVM IR, everything else stays machine code. The functions check what the processor would fault on. One thread: they need the interpreter's lock, which its caller holds. Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 2, the instructions by name.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import numpy as np

_PTR, _TILE, _STRIDE = ctypes.c_void_p, ctypes.c_int8, ctypes.c_int64


_FLOAT = "  %{0}1 = zext <32 x i16> %{0}0 to <32 x i32>\n  %{0}2 = shl <32 x i32> %{0}1, splat (i32 16)\n  %{0} = bitcast <32 x i32> %{0}2 to <32 x float>"
DOTS = {
    "avx512.vpdpbusd.512": (
        4,
        "i8",
        "i32",
        "  %{0} = zext <64 x i8> %{0}0 to <64 x i32>",
        "  %{0} = sext <64 x i8> %{0}0 to <64 x i32>",
        "mul",
        "add",
    ),
    "avx512bf16.dpbf16ps.512": (2, "i16", "float", _FLOAT, _FLOAT, "fmul", "fadd"),
}
"""Dot products: items that a lane sums, their type and the sum's, how the left and right ones are widened, the operations."""


def _dot(name: str, kinds: list[str]) -> str:
    """LLVM IR of a dot product; ``kinds`` are the types of its operands."""
    group, item, total, left, right, multiply, plus = DOTS[name]
    whole, result = f"<{16 * group} x {total}>", f"<16 x {total}>"
    lines = [f"  %{side}0 = bitcast {kind} %{side}_ to <{16 * group} x {item}>" for side, kind in zip("ab", kinds[1:])]
    lines += [left.format("a"), right.format("b"), f"  %p = {multiply} {whole} %a, %b"]
    for k in range(group):
        places = ", ".join([f"i32 {group * i + k}" for i in range(16)])
        lines.append(f"  %q{k} = shufflevector {whole} %p, {whole} poison, <16 x i32> <{places}>")
        lines.append(f"  %s{k + 1} = {plus} {result} %s{k}, %q{k}")
    params = f"{kinds[0]} %s0, {kinds[1]} %a_, {kinds[2]} %b_"
    body = "\n".join(lines)
    return f"\ndefine internal {result} @emulated.{name}({params}) {{\n{body}\n  ret {result} %s{group}\n}}\n"


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
        for name in DOTS:
            call = re.search(rf"@llvm\.x86\.{re.escape(name)}\((.*)\)", text)
            if call is None:
                continue
            kinds = [re.match(r" *(<[^>]*>)", part).group(1) for part in call.group(1).split(",")]  # type: ignore[union-attr]
            text = re.sub(rf"declare .*@llvm\.x86\.{re.escape(name)}\(.*\n", "", text)
            text = text.replace(f"@llvm.x86.{name}(", f"@emulated.{name}(") + _dot(name, kinds)
        left = sorted(set(re.findall(r"@llvm\.x86\.[\w.]*", text)))
        assert not left, f"instructions that nobody emulates: {left}"
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
