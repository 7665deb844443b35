"""``KernelTable``: adds tensor programs to a module under fresh names, sharing equal ones.

Programs with a global symbol belong to whoever wrote them and are never shared.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..ir.build import int_value
from ..ir.expr import GlobalVar, Op
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.names import identifier, is_function_name
from ..ir.stmt import BufferStore, Stmt
from ..ir.structural import structural_equal, structural_hash
from ..ir.walk import children


class KernelTable:
    """Tensor programs of a module by structure. ``added`` holds the new ones by name."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.added: dict[str, PrimFunc] = {}
        self._counts: dict[str, int] = {}
        """The last number given to each name."""
        self._alike: dict[Hashable, list[str]] = {}
        """Programs by what they show at first sight: few are looked into as a whole."""
        self._hashes: dict[str, int] = {}
        for name, fn in mod.prim_funcs().items():
            if "global_symbol" not in fn.attrs:
                self._alike.setdefault(_outline(fn), []).append(name)

    def add(self, func: PrimFunc, hint: str) -> GlobalVar:
        """Reference to an equal function of the module, or to this one added under a fresh name."""
        alike = self._alike.setdefault(_outline(func), [])
        key = structural_hash(func) if alike else None
        for name in alike:
            known = self._program(name)
            if self._hash(name, known) == key and structural_equal(known, func):
                return GlobalVar(name)
        name = hint = identifier(hint)
        count = self._counts.get(hint, 0)
        while not is_function_name(name) or name in self.mod.functions or name in self.added:
            count += 1
            name = f"{hint}{count}"
        self._counts[hint] = count
        self.added[name] = func
        if key is not None:
            self._hashes[name] = key
        alike.append(name)
        return GlobalVar(name)

    def _program(self, name: str) -> PrimFunc:
        found = self.added.get(name) or self.mod.functions[name]
        assert isinstance(found, PrimFunc)
        return found

    def _hash(self, name: str, func: PrimFunc) -> int:
        found = self._hashes.get(name)
        if found is None:
            found = self._hashes[name] = structural_hash(func)
        return found


def _outline(func: PrimFunc) -> Hashable:
    """Something that equal programs have in common and different ones mostly do not: ranks and dtypes of the buffers, numbers
    among their sizes, and what the last store computes."""
    buffers = [(b.dtype.name, *[int_value(d) for d in b.shape]) for b in func.buffer_map.values()]
    stmt: Stmt | None = func.body
    while stmt is not None and type(stmt) is not BufferStore:
        stmt = next((part for part in reversed(children(stmt)) if isinstance(part, Stmt)), None)
    value = stmt.value if stmt is not None else None
    op = getattr(value, "op", None)
    return len(func.params), tuple(buffers), type(value), op.name if type(op) is Op else None
