"""``GraphSizes``: the sizes of a tensor program by those of the graph that calls it, through the shapes of its first call.

A program has symbols of its own; what they are follows from the types of the arguments. Not here: which sizes a graph has.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arith.evaluate import evaluate
from ...ir.analysis import defined_symbols
from ...ir.analysis.symbol_bounds import noted_bounds, promised_bounds
from ...ir.expr import Call, GlobalVar, Var
from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import Expr, PrimType, TensorType, TupleType, Type
from ...ir.walk import collect
from ...op.common.table import R
from .arg_info import other_size


class GraphSizes:
    """``sizes``: of the symbols of graph functions, by name; the others are odd, and within what functions promise of them."""

    def __init__(self, mod: IRModule, sizes: Mapping[str, int]) -> None:
        self.calls: dict[str, tuple[list[Type], list[Expr]]] = {}
        """Types of the arguments and the results of the first call of a program, and its scalars."""
        self.sizes: dict[Var, int] = {}
        self.others: dict[Var, int] = {}
        if not sizes:
            return
        least: dict[str, int] = {}
        functions = list(mod.graph_functions().values())
        for fn in functions:
            for var, bounds in [*promised_bounds(fn).items(), *noted_bounds(fn).items()]:
                least[var.name] = max(least.get(var.name, 0), bounds.lower or 0)
        for var in [var for fn in functions for var in _symbols(fn) if var.name in sizes]:
            self.sizes[var] = sizes[var.name]
            self.others[var] = max(other_size(sizes[var.name]), least.get(var.name, 0))
        for call in [call for fn in functions for call in collect(fn, Call)]:
            callee = call.args[0] if call.op is R.call_dps.op else None
            if type(callee) is GlobalVar and isinstance(call.args[1].ty, TupleType):
                scalars = list(getattr(call.args[2], "values", ())) if len(call.args) > 2 else []
                self.calls.setdefault(callee.name, ([*call.args[1].ty.fields, *call.ty_args], scalars))

    @staticmethod
    def names(mod: IRModule) -> set[str]:
        """The symbols that may have sizes."""
        return {var.name for fn in mod.graph_functions().values() for var in _symbols(fn)}

    def of(self, name: str, fn: PrimFunc) -> tuple[dict[Var, int], dict[Var, int]]:
        """The sizes of a program, and other ones, as far as its call says them."""
        if name not in self.calls:
            return {}, {}
        return self._bound(name, fn, self.sizes), self._bound(name, fn, self.others)

    def _bound(self, name: str, fn: PrimFunc, sizes: Mapping[Var, int]) -> dict[Var, int]:
        types, scalars = self.calls[name]
        found: dict[Var, int] = {}
        for param, ty in zip(fn.params, types):
            buffer, extents = fn.buffer_map.get(param), dims(ty) if isinstance(ty, TensorType) else None
            for extent, value in zip(buffer.shape if buffer is not None else (), extents or ()):
                number = evaluate(value, sizes)
                if isinstance(extent, Var) and number is not None:
                    found.setdefault(extent, number)
        for param, value in zip(fn.params[len(types) :], scalars):
            number = evaluate(value, sizes)
            if number is not None:
                found[param] = number
        return found


def _symbols(fn: Function) -> list[Var]:
    return [var for var in defined_symbols(fn) if isinstance(var.ty, PrimType)]


__all__ = ["GraphSizes"]
