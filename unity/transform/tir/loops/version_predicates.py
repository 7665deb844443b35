"""version_predicates: bounds checks inside a tile are asked once for the whole tile.

Where loops inside a loop check indices against bounds (as tiles of sizes that do not divide do), the greatest index of all inner
iterations is checked first: if it holds, a copy of the body without the checks runs, else the body as it was.

Rewrite: ``for io: for ii: if io * 6 + ii < n: s`` ->
``for io: if io * 6 + 5 < n: { for ii: s } else: { for ii: if io * 6 + ii < n: s }``. With ``vectors`` vectorized loops alone are
copied so: the one that is left runs without checks, and the other lane by lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ....arith.analyzer import Analyzer
from ....arith.intset import eval_set
from ....ir.build import conjuncts, const, dtype_of, ge, gt, logical_and, sub
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.scalar import GE, GT, LE, LT, And, Let, Select
from ....ir.stmt import NOTHING, Bind, For, IfThenElse, SeqStmt, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import Rewriter, StatementRewriter, children, collect, fresh_copy, substitute, used_vars
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import is_choice, slope
from ..analysis.touched_regions import domains_of
from .hoist_if_then_else import is_plain
from .unroll_loop import statement_count


@dataclass(slots=True)
class _Check:
    """A comparison that an inner loop changes, and the condition under which it holds in all inner iterations."""

    atom: Expr
    whole: Expr


def difference_of(atom: Expr) -> tuple[Expr, bool] | None:
    """(expression, strict) for a comparison: it says ``expression > 0`` or ``expression >= 0``."""
    if isinstance(atom, (LT, LE)):
        return sub(atom.b, atom.a), type(atom) is LT
    if isinstance(atom, (GT, GE)):
        return sub(atom.a, atom.b), type(atom) is GT
    return None


class _Checks:
    """Finds the checks inside the body of a loop; ``bound``: variables that have no value before it."""

    def __init__(self, done: set[Node], bound: set[Var]) -> None:
        self.done = done
        self.bound = bound
        self.ana = Analyzer()
        self.found: list[_Check] = []

    def visit(self, node: Any, loops: tuple[For, ...]) -> None:
        kind = type(node)
        if node in self.done:
            return
        if kind is For:
            self.visit(node.body, (*loops, node))
            return
        if kind is IfThenElse or is_choice(node):
            cond = node.cond if kind is IfThenElse else node.args[0]
            for atom in conjuncts(cond):
                self.atom(atom, loops)
        if not node.is_reference:
            for child in children(node):
                self.visit(child, loops)

    def atom(self, atom: Expr, loops: tuple[For, ...]) -> None:
        """Keep an atom that inner loops change, if its worst case can be written."""
        variables = {loop.loop_var for loop in loops}
        used = used_vars(atom)
        if not is_plain(atom) or not any([v in variables for v in used]) or any([v in self.bound for v in used]):
            return
        difference = difference_of(atom)
        if difference is None:
            return
        least = eval_set(difference[0], domains_of(loops, self.ana), self.ana).low
        if least is None or type(least) is IntImm or any([v in variables for v in used_vars(least)]):
            return
        zero = const(0, dtype_of(least))
        self.found.append(_Check(atom, gt(least, zero) if difference[1] else ge(least, zero)))


def has_choices(body: Stmt) -> bool:
    """True if there is a condition in a statement: a branch, or a value that depends on one."""
    return any([type(node) is not Call or is_choice(node) for node in collect(body, (IfThenElse, Call, Select))])


class _Version(StatementRewriter):
    def __init__(self, max_statements: int, vectors: bool) -> None:
        super().__init__()
        self.max_statements, self.vectors = max_statements, vectors
        self.done: set[Node] = set()
        """Statements that were dealt with."""

    def leave(self, node: Any) -> Any:
        if self.vectors:
            return self.vector(node) if type(node) is For and node.kind == "vectorized" else node
        if type(node) is not For or node.kind in ("vectorized", "unrolled", "thread_binding"):
            return node
        finder = _Checks(self.done, {part.var for part in collect(node.body, (Bind, Let))})
        finder.visit(node.body, ())
        checks = [c for c in finder.found if node.loop_var in used_vars(c.whole)]
        if not checks or statement_count(node.body) > self.max_statements:
            return node
        whole = _all(checks)
        if type(node.body) is IfThenElse and structural_equal(node.body.cond, whole):
            self.done.add(node.body)  # written by an earlier run
            return node
        fast = Assume({check.atom: True for check in checks})(node.body)
        made = IfThenElse(whole, fresh_copy(fast), node.body)
        self.done.add(made)
        return replace(node, body=made)

    def vector(self, node: For) -> Stmt:
        """A vectorized loop whose lanes are checked, in two copies."""
        finder = _Checks(self.done, {part.var for part in collect(node.body, (Bind, Let))})
        finder.visit(node, ())
        if not finder.found:
            return node
        fast = Assume({check.atom: True for check in finder.found})(node)
        if type(node.body) is IfThenElse and node.body.else_case is None:
            outermost = conjuncts(node.body.cond) == [check.atom for check in finder.found]
            if outermost and all([_of_all_lanes(check.atom, node, finder.ana) for check in finder.found]):
                return IfThenElse(_all(finder.found), fast)
        return IfThenElse(_all(finder.found), fresh_copy(fast), replace(node, kind="serial"))


def _of_all_lanes(atom: Expr, loop: For, ana: Analyzer) -> bool:
    """True if a check of the lanes of a vector holds for all of them or for none: ``4 * i + lane < 4 * n``."""
    found = difference_of(atom)
    if found is None or not found[1] or type(loop.extent) is not IntImm:
        return False
    difference, lanes = found[0], loop.extent.value
    first = substitute(difference, {loop.loop_var: const(0, dtype_of(loop.loop_var))})
    known = ana.modular_set(first)
    return slope(difference, loop.loop_var) == -1 and known.coeff % lanes == 0 and known.base % lanes == 0


def _all(checks: Sequence[_Check]) -> Expr:
    """The condition under which all checks hold."""
    conditions: list[Expr] = []
    for check in checks:
        if not any([structural_equal(check.whole, c) for c in conditions]):
            conditions.append(check.whole)
    return reduce(logical_and, conditions)


class Assume(Rewriter):
    """Comparisons whose value is known take it; choices that are decided by it are made."""

    def __init__(self, known: Mapping[Expr, bool]) -> None:
        super().__init__()
        self.known = known

    def enter(self, node: Any) -> Any | None:
        return const(self.known[node]) if node in self.known else None

    def leave(self, node: Any) -> Any:
        """Fold what became constant."""
        if type(node) is And:
            return logical_and(node.a, node.b)
        if type(node) is SeqStmt:
            return seq(*node.stmts)
        if type(node) is IfThenElse and type(node.cond) is IntImm:
            return node.then_case if node.cond.value else node.else_case or NOTHING
        if is_choice(node) and type(node.args[0]) is IntImm:
            return node.args[1] if node.args[0].value else node.args[2]
        return node


@prim_func_pass()
def version_predicates(func: PrimFunc, *, max_statements: int = 128, vectors: bool = False) -> PrimFunc:
    """Check the bounds of a tile once instead of in every iteration. For programs without blocks.

    ``max_statements`` of a body that is written twice. ``vectors``: bodies are those of vectorized loops.
    """
    if not has_choices(func.body):
        return func
    return replace(func, body=_Version(max_statements, vectors)(func.body))
