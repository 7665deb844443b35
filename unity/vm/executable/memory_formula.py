"""Memory of one call as formulas of the symbols: the blocks of the arena and the results, read from the bytecode.

Execution side: no IR. Invariant: ``temporaries`` is what the native driver takes from its arena for a call in which every
instruction runs once; a conditional takes no more, and functions that are called (``calls``) have formulas of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...ffi.abi import Dim, evaluate, product, symbols_of
from ...ffi.dtype import DataType
from ...support.errors import VMError
from . import bytecode as bc

ALIGN = 64
"""Blocks of the arena begin at multiples of this; each takes at least one."""


@dataclass(slots=True, frozen=True)
class MemoryFormula:
    """Bytes that a call of ``function`` needs beside its arguments and the program's constants.

    ``storages``: blocks of the arena that planning gave to temporaries; ``tensors``: results and other tensors made anew, as
    formulas of the slots named ``symbols``. ``print`` shows both as text.
    """

    function: str
    symbols: tuple[str, ...]
    storages: tuple[Dim, ...]
    tensors: tuple[Dim, ...]
    calls: tuple[str, ...] = ()

    def temporaries(self, **sizes: int) -> int:
        """Bytes of the arena for sizes of the symbols by name. Raises VMError E631 for a symbol that is missing or unknown."""
        values = self._values(sizes, self.storages)
        return sum([max(ALIGN, -(-evaluate(size, values) // ALIGN) * ALIGN) for size in self.storages])

    def results(self, **sizes: int) -> int:
        """Bytes of the tensors made anew."""
        values = self._values(sizes, self.tensors)
        return sum([evaluate(size, values) for size in self.tensors])

    def _values(self, sizes: dict[str, int], dims: tuple[Dim, ...]) -> list[int]:
        needed = {self.symbols[k] for dim in dims for k in symbols_of(dim)}
        wrong = sorted(needed - set(sizes)) or sorted(set(sizes) - set(self.symbols))
        if wrong:
            raise VMError(
                "E631",
                f"{self.function}: no size for the symbol {wrong[0]!r}" if wrong[0] in needed
                else f"{self.function} has no symbol {wrong[0]!r}",
                help=f"its memory depends on: {', '.join(sorted(needed)) or 'nothing'}",
            )  # fmt: skip
        return [sizes.get(name, 0) for name in self.symbols]

    def __str__(self) -> str:
        blocks = f"{len(self.storages)} block{'' if len(self.storages) == 1 else 's'}"
        text = f"{self.function}: temporaries {self._sum(self.storages)} bytes in {blocks}, "
        text += f"results {self._sum(self.tensors)} bytes"
        return text + (f", and what it calls: {', '.join(self.calls)}" if self.calls else "")

    def _sum(self, dims: tuple[Dim, ...]) -> str:
        fixed = sum([dim for dim in dims if isinstance(dim, int)])
        terms = Counter([bc.dim_text(dim, self.symbols) for dim in dims if not isinstance(dim, int)])
        parts = [text if count == 1 else f"{count} * {text}" for text, count in terms.items()]
        return " + ".join([*parts, str(fixed)] if fixed or not parts else parts)


def memory_formula(program: bc.Program, name: str) -> MemoryFormula:
    """The memory of a graph function. Raises VMError E631 for an unknown name."""
    fn = program.functions.get(name)
    if fn is None:
        raise VMError(
            "E631", f"the program has no graph function {name!r}", help=f"it has: {', '.join(program.functions)}"
        )
    storages: list[Dim] = []
    tensors: list[Dim] = []
    calls: dict[str, None] = {}
    for instruction in fn.code:
        if not isinstance(instruction, bc.Call):
            continue
        row = program.table[instruction.function]
        sizes = [arg.dim for arg in instruction.args if isinstance(arg, bc.Size)]
        if row.kind == "vm":
            calls[row.name] = None
        elif row.name == "alloc_storage" and row.kind == "builtin":
            storages += sizes
        elif row.name == "new_tensor" and row.kind == "builtin":
            dtype = instruction.args[0]
            assert isinstance(dtype, bc.Imm)
            tensors.append(product((*sizes, DataType(str(dtype.value)).itemsize)))
    return MemoryFormula(name, tuple([slot.name for slot in fn.slots]), tuple(storages), tuple(tensors), tuple(calls))
