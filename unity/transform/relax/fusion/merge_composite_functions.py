"""merge_composite_functions: neighbouring composites of one library become one function for its code generator.

Rewrite: ``a = fused_blas_mm(x, w); b = fused_blas_relu(a)`` -> ``b = fused_blas(x, w)``, a function with the attribute
``{"Codegen": "blas"}`` that holds both composites as local functions. The library is what stands before the first dot of the
attribute ``Composite``. Composites join along their uses as long as nothing outside lies between them.
"""

from __future__ import annotations

from ....ir.expr import BindingBlock, Call, DataflowBlock, GlobalVar, Var, VarBinding
from ....ir.function import Function, is_marked, seq_body
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.types import Expr
from ....ir.walk import used_vars
from ...infra.passes import module_pass
from ..normalize.dead_code import reachable
from ..rewriting.graph_rewriter import OnBlocks
from .fuse_ops import FunctionTable
from .fuse_ops_by_pattern import replace_matches


def library_of(mod: IRModule, value: Expr) -> str | None:
    """The library of the composite that a value calls."""
    if type(value) is not Call or type(value.op) is not GlobalVar:
        return None
    fn = mod.functions.get(value.op.name)
    name = fn.attrs.get("Composite") if type(fn) is Function else None
    return str(name).split(".")[0] if name else None


class _Groups:
    """Groups of composite calls of a block, and which groups each variable depends on through what."""

    def __init__(self, mod: IRModule, block: DataflowBlock) -> None:
        self.members: dict[int, list[Var]] = {}
        self.library: dict[int, str] = {}
        self.of: dict[Var, int] = {}
        self.before: dict[Var, frozenset[int]] = {}
        """Groups a variable's value needs, its own left out."""
        for binding in block.bindings:
            value: Expr = binding.value
            needed = [v for v in dict.fromkeys(used_vars(value)) if v in self.before]
            library = library_of(mod, value) if isinstance(binding, VarBinding) else None
            self.before[binding.var] = self._depends(needed)
            if library is not None:
                self._place(binding.var, library, needed)

    def _depends(self, needed: list[Var]) -> frozenset[int]:
        found: set[int] = set()
        for var in needed:
            found |= self.before[var]
            if var in self.of:
                found.add(self.of[var])
        return frozenset(found)

    def _place(self, var: Var, library: str, needed: list[Var]) -> None:
        for candidate in dict.fromkeys([self.of[v] for v in needed if v in self.of]):
            if self.library[candidate] != library:
                continue
            outside = [v for v in needed if self.of.get(v) != candidate]
            if candidate in self._depends(outside):
                continue  # the group would need a value that needs the group
            self.of[var] = candidate
            self.members[candidate].append(var)
            self.before[var] = self.before[var] - {candidate}
            return
        number = len(self.members)
        self.of[var], self.members[number], self.library[number] = number, [var], library


def _inlined(mod: IRModule, fn: Function) -> Function:
    """The function with the composites it calls as local functions."""
    local: dict[str, Var] = {}
    composites: list[VarBinding] = []
    blocks: list[BindingBlock] = []
    for block in seq_body(fn).blocks:
        bindings = []
        for binding in block.bindings:
            value = binding.value
            if type(value) is Call and type(value.op) is GlobalVar and isinstance(binding, VarBinding):
                name = value.op.name
                if name not in local:
                    callee = mod[name]
                    local[name] = Var(name, callee.ty)
                    composites.append(VarBinding(local[name], callee))
                binding = replace(binding, value=replace(value, op=local[name]))
            bindings.append(binding)
        blocks.append(type(block)(tuple(bindings)))
    body = seq_body(fn)
    return replace(fn, body=replace(body, blocks=(BindingBlock(tuple(composites)), *blocks)))


@module_pass()
def merge_composite_functions(mod: IRModule) -> IRModule:
    """Join neighbouring composites of one library into functions for its code generator.

    Requires the attribute ``Composite``. Gives the attribute ``Codegen``, for ``run_codegen``.
    """
    table = FunctionTable(mod)

    def rule(block: DataflowBlock) -> DataflowBlock:
        groups = []
        found = _Groups(mod, block)
        for number, group in found.members.items():
            library = found.library[number]

            def add(fn: Function, library: str = library) -> GlobalVar:
                return table.add(_inlined(mod, fn), f"fused_{library}")

            groups.append((group, add, {"Codegen": library}))
        return replace_matches(block, groups, False) if groups else block

    merged = mod.with_graph_functions(lambda fn: fn if is_marked(fn) else OnBlocks(rule)(fn), table.added)
    if merged is mod:
        return mod
    alive = reachable(merged)
    unused = [n for n, f in merged.graph_functions().items() if f.attrs.get("Composite") and n not in alive]
    return merged.with_functions(dict.fromkeys(unused))
