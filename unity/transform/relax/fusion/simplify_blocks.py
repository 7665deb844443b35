"""simplify_blocks: indices and conditions inside blocks in simplest form, with the domains of the block's iterators known.

For programs that still have blocks (``transform/tir/expressions/simplify.py`` is for lowered ones): after inlining, ``x[(i * 4
+ j) // 4, (i * 4 + j) % 4]`` with ``j`` below 4 becomes ``x[i, j]``. Loops and domains stay as they are.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.use import shape_symbols, size_symbols
from ....ir.build import dtype_of
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Cast, Select
from ....ir.stmt import Block, BufferStore
from ....ir.types import Expr, PrimType
from ....ir.walk import Rewriter, children, rewrite
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import is_choice


class _Indices(Rewriter):
    """Simplifies what is arithmetic of iterators and symbols; data is left as written."""

    def __init__(self, analyzer: Analyzer, known: set[Var]) -> None:
        super().__init__()
        self.analyzer, self.known = analyzer, known

    def over_known(self, expr: Any) -> bool:
        kind = type(expr)
        if kind is Var:
            return expr in self.known
        if kind is BufferLoad or kind is Call or kind is Cast:
            return False
        return all([self.over_known(child) for child in children(expr)])

    def enter(self, node: Any) -> Any | None:
        if not isinstance(node, Expr) or isinstance(node, (IntImm, Var)):
            return None
        if type(node) is Select or is_choice(node):
            return self.choice(node)
        if type(node.ty) is PrimType:
            dtype = dtype_of(node)
            if dtype.lanes == 1 and (dtype.is_integral or dtype.is_bool) and self.over_known(node):
                return self.analyzer.simplify(node)
        return None

    def choice(self, node: Call | Select) -> Expr:
        """A choice between values: decided where the condition is, else each side under its condition."""
        cond, yes, no = node.args if isinstance(node, Call) else (node.cond, node.true_value, node.false_value)
        known = self.over_known(cond)
        found = self.visit(cond)
        if type(found) is IntImm:
            chosen: Expr = self.visit(yes if found.value else no)
            return chosen
        if known:
            with self.analyzer.constraint(found):
                first = self.visit(yes)
        else:
            first = self.visit(yes)
        second = self.visit(no)
        if found is cond and first is yes and second is no:
            return node
        if isinstance(node, Call):
            return replace(node, args=(found, first, second))
        return replace(node, cond=found, true_value=first, false_value=second)


@prim_func_pass()
def simplify_blocks(func: PrimFunc) -> PrimFunc:
    """Simplify indices and conditions inside blocks."""
    sizes, symbols = size_symbols(func), shape_symbols(func)

    def block(node: Block) -> Block:
        if type(node.body) is not BufferStore:
            return node
        analyzer = Analyzer(sizes)
        analyzer.bind_iterators(node.iter_vars)
        known = {*symbols, *[iterator.var for iterator in node.iter_vars]}
        return replace(node, body=_Indices(analyzer, known)(node.body))

    return rewrite(func, {Block: block})
