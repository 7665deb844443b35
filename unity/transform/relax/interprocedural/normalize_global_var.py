"""Public functions get their symbol as name in the module; a private one that had the name gets another.

Rewrite: ``def f`` with ``global_symbol="main"`` and a private ``def main`` -> ``def main`` and ``def main1``; calls follow. After
`attach_global_symbol` the two names agree the other way round: public functions and kernels get the name that they have in the
module as symbol, since that is what callers use. Graph functions without a symbol stay private.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, GlobalVar, Op, StringImm
from ....ir.function import Function, PrimFunc
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.walk import rewrite
from ...infra.passes import module_pass


@module_pass()
def normalize_global_var(mod: IRModule) -> IRModule:
    """Rename public functions in the module to their ``global_symbol``."""
    symbols = {name: fn.attrs["global_symbol"] for name, fn in mod.functions.items() if "global_symbol" in fn.attrs}
    taken = set(symbols.values())
    supply = NameSupply([*mod.functions, *taken])
    names = {name: symbols.get(name) or (supply.fresh(name) if name in taken else name) for name in mod.functions}
    if all([old == new for old, new in names.items()]):
        return mod

    def renamed(node: GlobalVar) -> GlobalVar:
        new = names.get(node.name, node.name)
        return node if new == node.name else replace(node, name=new)

    def called(node: Call) -> Call:
        first = node.args[0] if node.args else None
        if type(node.op) is not Op or not node.op.name.startswith("T.call_") or type(first) is not StringImm:
            return node
        if names.get(first.value, first.value) == first.value:
            return node
        return replace(node, args=(replace(first, value=names[first.value]), *node.args[1:]))

    rules: dict[type, Any] = {GlobalVar: renamed, Call: called}
    functions = {names[name]: rewrite(fn, rules) for name, fn in mod.functions.items()}
    return IRModule(functions, mod.attrs, mod.global_infos, mod.name)


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
