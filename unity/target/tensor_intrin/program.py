"""Texts of intrinsic programs: buffers with symbolic offsets (and strides where they lie in memory), one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...ir.function import PrimFunc
from ...script import parse


@dataclass(slots=True, frozen=True)
class Operand:
    """A buffer parameter ``name``. The program may use ``<name>_offset`` and, with ``strided``, ``<name>_stride`` of the rows."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"
    factor: int = 1
    strided: bool = False

    def symbols(self) -> list[str]:
        """Names of its symbols."""
        return [f"{self.name}_offset", *([f"{self.name}_stride"] if self.strided else [])]

    def declaration(self) -> str:
        """The line that matches it."""
        inner = [prod(self.shape[axis + 1 :]) for axis in range(1, len(self.shape))]
        strides = f"strides=({', '.join([f'{self.name}_stride', *[str(n) for n in inner]])}), " if self.strided else ""
        return (
            f"    {self.name} = T.match_buffer(p_{self.name}, {self.shape}, {self.dtype!r}, {strides}"
            f"elem_offset={self.name}_offset, scope={self.scope!r}, align=64, offset_factor={self.factor})"
        )

    def region(self) -> str:
        """The whole of it."""
        return f"{self.name}[{', '.join([f'0:{n}' for n in self.shape])}]"


def program(operands: Sequence[Operand], reads: str, writes: str, body: str) -> PrimFunc:
    """A tensor program over operands; ``reads`` and ``writes`` are names apart by blanks, ``body`` is script without
    indentation."""
    table = {operand.name: operand for operand in operands}
    symbols = [symbol for operand in operands for symbol in operand.symbols()]
    lines = [
        "@T.prim_func",
        f"def intrinsic({', '.join([f'p_{name}: T.handle' for name in table])}):",
        f"    {', '.join(symbols)} = {', '.join(['T.int64()'] * len(symbols))}",
        *[operand.declaration() for operand in operands],
        '    with T.block("root"):',
        f"        T.reads({', '.join([table[name].region() for name in reads.split()])})",
        f"        T.writes({', '.join([table[name].region() for name in writes.split()])})",
        *[f"        {line}" for line in body.strip("\n").splitlines()],
    ]
    found = parse("\n".join(lines) + "\n")
    assert isinstance(found, PrimFunc)
    return found
