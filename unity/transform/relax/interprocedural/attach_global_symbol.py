"""Every function gets the name it has in the module as its symbol: public ones keep theirs, kernels get one for the
linker.

Graph functions without a symbol stay private. A symbol that differs from the name in the module is replaced by the
name, since the name is what callers use.
"""

from __future__ import annotations

from typing import Any

from ....ir.function import Function, PrimFunc
from ....ir.module import IRModule
from ...infra.passes import module_pass


@module_pass()
def attach_global_symbol(mod: IRModule) -> IRModule:
    """Name every public function and tensor program by its name in the module. Gives the attribute ``global_symbol``."""
    changes: dict[str, Any] = {}
    for name, fn in mod.functions.items():
        kernel = type(fn) is PrimFunc
        public = type(fn) is Function and "global_symbol" in fn.attrs
        if (kernel or public) and fn.attrs.get("global_symbol") != name:
            changes[name] = fn.with_attr("global_symbol", name)
    return mod.with_functions(changes)
