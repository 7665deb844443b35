"""``PatternContext``: patterns that use each other in any shape of graph, matched in a dataflow block together.

Roots are the patterns that are not arguments of another one. They are tried against the variables of the block in turn, and every
constraint is checked as soon as both of its ends are known. Invariant: two roots never match one variable.
"""

from __future__ import annotations

from types import TracebackType

from ...ir.analysis.use import users as find_users
from ...ir.expr import BindingBlock, Call, SeqExpr, Tuple, Var, VarBinding
from ...ir.function import Function
from ...ir.types import VOID_TYPE, Expr
from ...ir.walk import used_vars
from ...op.common.table import R
from ...support.arguments import checked_class
from .matcher import Matcher
from .pattern import CONTEXTS, CallPattern, Constraints, DFPattern, PatternSeq


@checked_class
class PatternContext:
    """``with PatternContext() as ctx:`` collects the constraints of the patterns made inside."""

    def __init__(self) -> None:
        self.constraints: Constraints = []

    def __enter__(self) -> PatternContext:
        CONTEXTS.push(self.constraints)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        CONTEXTS.pop()

    def add_constraint(self, producer: DFPattern, consumer: DFPattern, index: int = -1, only_use: bool = False) -> None:
        """Say that one match uses another (``index``: as that argument; ``only_use``: nothing else does)."""
        self.constraints.append((producer, consumer, index, only_use))

    def roots(self) -> list[DFPattern]:
        """Patterns that stand for bindings and are not arguments of another pattern."""
        known = dict.fromkeys([p for edge in self.constraints for p in edge[:2]])
        arguments = {arg for p in known if isinstance(p, CallPattern) for arg in p.args}
        return [p for p in known if p not in arguments and not isinstance(p, PatternSeq)]

    def match_dfb(self, block: BindingBlock, outputs: set[Var] | None = None) -> dict[DFPattern, Var] | None:
        """The first match in a block: the variable of each pattern that matched one. ``outputs``: variables used outside."""
        return _Search(self, block, outputs or set()).run()


class _Search:
    def __init__(self, context: PatternContext, block: BindingBlock, outputs: set[Var]) -> None:
        self.context = context
        self.bindings = {b.var: b.value for b in block.bindings if isinstance(b, VarBinding)}
        self.bound = {value: var for var, value in self.bindings.items()}
        whole = Function((), SeqExpr((block,), Tuple(())), VOID_TYPE, True, {})
        self.users = find_users(whole)
        self.outputs = outputs | {v for v in self.bindings if not v.dataflow}
        self.matcher = Matcher(self.bindings)

    def run(self) -> dict[DFPattern, Var] | None:
        roots = self.context.roots()
        if not roots or not self._assign(roots, 0, set()):
            return None
        found: dict[DFPattern, Var] = {}
        for pattern, expr in self.matcher.found.items():
            var = self._var(expr)
            if var is not None:
                found[pattern] = var
        return found

    def _assign(self, roots: list[DFPattern], position: int, taken: set[Var]) -> bool:
        if position == len(roots):
            return True
        for var in self.bindings:
            if var in taken:
                continue
            mark = self.matcher.mark()
            if self.matcher.match(roots[position], var) and self._holds():
                if self._assign(roots, position + 1, taken | {var}):
                    return True
            self.matcher.back_to(mark)
        return False

    def _var(self, expr: Expr | None) -> Var | None:
        return expr if isinstance(expr, Var) else self.bound.get(expr) if expr is not None else None

    def _holds(self) -> bool:
        """Every constraint whose ends are both known."""
        found = self.matcher.found
        for producer, consumer, index, only in self.context.constraints:
            if producer not in found or consumer not in found:
                continue
            user = self._var(found[consumer])
            source = self._var(found[producer])
            if user is None or source is None:
                if isinstance(consumer, CallPattern) and producer in consumer.args:
                    continue  # a constant or the like, matched as argument
                return False
            if not self._uses(self.bindings.get(user), source, index):
                return False
            if only and (self.users.get(source, []) != [user] or source in self.outputs):
                return False
        return True

    def _uses(self, value: Expr | None, source: Var, index: int) -> bool:
        if value is None:
            return False
        if index < 0 or type(value) is not Call:
            return source in used_vars(value)
        args = list(value.args)
        if value.op_name == R.call_dps.name and len(args) > 1 and type(args[1]) is Tuple:
            args = list(args[1].fields) if index < len(args[1].fields) and args[index] is not source else args
        return index < len(args) and args[index] is source
