"""The most that dimensions of a graph function can be, from what its attributes promise (``ir/analysis/symbol_bounds.py``)."""

from __future__ import annotations

from ....arith.analyzer import Analyzer
from ....ir.analysis.symbol_bounds import noted_bounds, promised_bounds
from ....ir.build import const
from ....ir.expr import IntImm
from ....ir.function import Function
from ....ir.types import Expr

_MOST = (1 << 63) - 1


class SizeBounds:
    """The most that dimensions of one function can be. ``noted``: also by the ranges that an importer noted."""

    def __init__(self, fn: Function, noted: bool = True) -> None:
        self.bounds = {**(noted_bounds(fn) if noted else {}), **promised_bounds(fn)}
        self.analyzer = Analyzer()
        for var, bounds in self.bounds.items():
            lowest = -_MOST if var in fn.params else 0  # a scalar may be negative, a dimension may not
            least = lowest if bounds.least is None else max(bounds.least, lowest)
            self.analyzer.bind_range(var, least, _MOST if bounds.most is None else bounds.most)
        self.limited = any([b.most is not None for b in self.bounds.values()])

    def most(self, dim: Expr) -> Expr:
        """A number that a dimension never exceeds where one is known, else the dimension."""
        if not self.limited or type(dim) is IntImm:
            return dim
        high = self.analyzer.const_int_bound(dim).high
        return const(max(int(high), 0), "int64") if isinstance(high, int) and high < _MOST else dim
