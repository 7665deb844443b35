"""``KernelTable``: adds tensor programs to a module under fresh names, sharing equal ones.

Programs with a global symbol belong to whoever wrote them and are never shared.
"""

from __future__ import annotations

from ..ir.expr import GlobalVar
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.structural import structural_equal, structural_hash


class KernelTable:
    """Tensor programs of a module by structure. ``added`` holds the new ones by name."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.added: dict[str, PrimFunc] = {}
        self._counts: dict[str, int] = {}
        """The last number given to each name."""
        self._by_hash: dict[int, list[tuple[str, PrimFunc]]] = {}
        for name, fn in mod.prim_funcs().items():
            if "global_symbol" not in fn.attrs:
                self._by_hash.setdefault(structural_hash(fn), []).append((name, fn))

    def add(self, func: PrimFunc, hint: str) -> GlobalVar:
        """Reference to an equal function of the module, or to this one added under a fresh name."""
        bucket = self._by_hash.setdefault(structural_hash(func), [])
        for name, known in bucket:
            if structural_equal(known, func):
                return GlobalVar(name)
        name, count = hint, self._counts.get(hint, 0)
        while name in self.mod.functions or name in self.added:
            count += 1
            name = f"{hint}{count}"
        self._counts[hint] = count
        self.added[name] = func
        bucket.append((name, func))
        return GlobalVar(name)
