"""fuse_ops_by_pattern: what a pattern describes becomes a function of its own, named after the pattern.

Rewrite, for the pattern ``("blas.mm_relu", is_op("R.nn.relu")(is_op("R.matmul")(wildcard(), wildcard())))``:
``y = R.matmul(x, w); z = R.nn.relu(y)`` -> ``z = fused_blas_mm_relu(x, w)``, a private function with the attributes
``{"Composite": "blas.mm_relu", "Primitive": True}``. With ``annotate_codegen`` each is wrapped in a function marked
``{"Codegen": "blas"}``, as `run_codegen` takes it.

Patterns are tried in the order given. A match is refused when one of its calls belongs to an earlier one, when its ``check`` says
no, or when a value would have to be known before it is computed. Values used outside become further results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    GlobalVar,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ....ir.function import Function, is_marked
from ....ir.infer import is_pure_call
from ....ir.module import IRModule
from ....ir.types import Expr
from ....ir.walk import fresh_copy, used_vars
from ....support.arguments import checked
from ....support.errors import PassError
from ...dpl.matcher import Matcher
from ...dpl.pattern import DFPattern
from ...dpl.rewrite import topological_order
from ...infra.passes import module_pass
from ..rewriting.graph_rewriter import OnBlocks
from .fuse_ops import FunctionTable, Group, replace_groups


@dataclass(slots=True, frozen=True)
class PatternCheckContext:
    """The facts that ``check`` of a pattern is given (names as in TVM).

    ``matched_expr``: the value of the whole match; ``annotated_expr``: what the pattern's ``annotations`` matched, by name;
    ``matched_bindings``: values by variable; ``var_usages``: users of each variable of the block; ``value_to_bound_var``: the
    variable of each value.
    """

    matched_expr: Expr
    annotated_expr: dict[str, Expr]
    matched_bindings: dict[Var, Expr]
    var_usages: dict[Var, list[Var]]
    value_to_bound_var: dict[Expr, Var]


Check = Callable[[PatternCheckContext], bool]


@dataclass(slots=True, frozen=True)
class FusionPattern:
    """A pattern with a name (``"library.kind"``), names for parts of it, and a further condition.

    ``attrs_getter`` gives attributes of the function made of a match, from what the named parts matched.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] | None = None
    check: Check | None = None
    attrs_getter: Callable[[dict[str, Expr]], Mapping[str, Any]] | None = None

    @property
    def annotations(self) -> Mapping[str, DFPattern]:
        """Names of parts."""
        return self.annotation_patterns or {}


PATTERNS: list[FusionPattern] = []
"""Registered patterns; the last one registered comes first."""


@checked
def register_patterns(patterns: Sequence[FusionPattern | tuple[Any, ...]]) -> None:
    """Add patterns; later ones take precedence over earlier ones, and within one call the first over the rest."""
    PATTERNS[:0] = [as_pattern(p) for p in patterns]


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """Registered patterns whose names start with ``prefix``, by precedence."""
    return [p for p in PATTERNS if p.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern:
    """The registered pattern of a name. Raises PassError E553."""
    for pattern in PATTERNS:
        if pattern.name == name:
            return pattern
    raise PassError(
        "E553", f"no pattern {name!r} is registered", help=f"known: {', '.join([p.name for p in PATTERNS]) or 'none'}"
    )


def as_pattern(given: FusionPattern | tuple[Any, ...]) -> FusionPattern:
    """A pattern from ``(name, pattern[, annotations[, check[, attrs_getter]]])``; the third may also be the check."""
    if isinstance(given, FusionPattern):
        return given
    name, pattern, *rest = given
    annotations = rest[0] if rest and isinstance(rest[0], Mapping) else {}
    functions = [r for r in rest if callable(r) or (r is None and annotations)]
    return FusionPattern(name, pattern, dict(annotations), *functions[:2])


class BlockView:
    """A dataflow block with the order, users and outside uses of its variables."""

    def __init__(self, block: DataflowBlock) -> None:
        self.bindings = {b.var: b for b in block.bindings}
        self.order = {b.var: k for k, b in enumerate(block.bindings)}
        self.users: dict[Var, list[Var]] = {var: [] for var in self.bindings}
        for binding in block.bindings:
            for var in dict.fromkeys(used_vars(binding.value)):
                if var in self.users:
                    self.users[var].append(binding.var)

    def outputs(self, group: set[Var]) -> list[Var]:
        """Variables of a group that are used outside of it, in order."""
        found = [v for v in group if not v.dataflow or any([u not in group for u in self.users[v]])]
        return sorted(found, key=self.order.__getitem__)

    def is_convex(self, group: set[Var]) -> bool:
        """True when nothing outside both needs a value of the group and is needed by it."""
        last = max([self.order[v] for v in group])
        work = [u for v in group for u in self.users[v] if u not in group]
        seen: set[Var] = set()
        while work:
            var = work.pop()
            if var in group:
                return False
            if var not in seen and self.order[var] < last:
                seen.add(var)
                work += self.users[var]
        return True


def _matches(
    pattern: FusionPattern, view: BlockView, values: dict[Var, Expr], taken: set[Var]
) -> list[tuple[list[Var], dict[str, Any]]]:
    """Groups of variables of a block that match a pattern, and the attributes of their functions."""
    bound = {value: var for var, value in values.items()}
    found: list[tuple[list[Var], dict[str, Any]]] = []
    for var, value in reversed(
        values.items()
    ):  # the last value of a match first: a pattern with optional ends is matched whole
        if var in taken or not _may_move(value):
            continue
        matcher = Matcher(values)
        if not matcher.match(pattern.pattern, value):
            continue
        group = {bound[e] for e in matcher.inside if e in bound} | {var}
        if any([v in taken or not _may_move(values[v]) for v in group]) or not view.is_convex(group):
            continue
        if not view.outputs(group):  # nothing uses it: dead code
            continue
        context = _context(pattern, matcher, value, group, view, values, bound)
        if pattern.check is not None and not pattern.check(context):
            continue
        taken |= group
        more = pattern.attrs_getter(context.annotated_expr) if pattern.attrs_getter is not None else {}
        attrs = {"Composite": pattern.name, "Primitive": True, **more}
        found.append((sorted(group, key=view.order.__getitem__), attrs))
    return found


def _may_move(value: Expr) -> bool:
    return isinstance(value, (Tuple, TupleGetItem)) or (type(value) is Call and is_pure_call(value))


def _context(
    pattern: FusionPattern, matcher: Matcher, value: Expr, group: set[Var], view: BlockView, values: dict[Var, Expr],
    bound: dict[Expr, Var],
) -> PatternCheckContext:  # fmt: skip
    annotated = {name: matcher.found[p] for name, p in pattern.annotations.items() if p in matcher.found}
    return PatternCheckContext(value, annotated, {v: values[v] for v in group}, view.users, bound)


def replace_matches(
    block: DataflowBlock,
    groups: Sequence[tuple[list[Var], Callable[[Function], GlobalVar], dict[str, Any]]],
    lift: bool,
) -> DataflowBlock:
    """A block with each group of variables computed by a call of a function of its own, made known by the given callback."""
    view = BlockView(block)
    chosen: list[Group] = []
    for group, add, attrs in groups:
        bindings = [b for b in [view.bindings[v] for v in group] if isinstance(b, VarBinding)]
        chosen.append((bindings, view.outputs(set(group)), add, attrs))
    made = replace_groups(block, chosen, lift)
    return DataflowBlock(tuple(topological_order(list(made.bindings))), block.span)


def wrap_for_codegen(fn: Function, name: str, codegen: str) -> Function:
    """A function marked for a code generator that holds ``fn`` as a local function and calls it."""
    shell: Function = fresh_copy(Function(fn.params, fn.params[0] if fn.params else Tuple(()), fn.ret_ty, True, {}))
    params = shell.params
    local = Var(name, fn.ty)
    call = Call(local, params, {}, (), shell.ret_ty)
    result = Var("gv", shell.ret_ty)
    blocks = (BindingBlock((VarBinding(local, fn),)), DataflowBlock((VarBinding(result, call),)))
    return Function(params, SeqExpr(blocks, result), shell.ret_ty, True, {"Codegen": codegen})


@module_pass()
def fuse_ops_by_pattern(
    mod: IRModule,
    *,
    patterns: tuple[Any, ...] = (),
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: tuple[str, ...] = (),
) -> IRModule:
    """Group the matches of patterns into composite functions.

    Gives private functions with the attribute ``Composite``, and ``Codegen`` with ``annotate_codegen``.
    ``patterns``: what to look for, by precedence; ``bind_constants``: constants stay inside the functions; ``annotate_codegen``:
    wrap each for its code generator; ``entry_functions``: graph functions to search, () for all.
    """
    table = FunctionTable(mod)
    changes: dict[str, Any] = {}

    def target(name: str) -> Callable[[Function], GlobalVar]:
        hint = "fused_" + name.replace(".", "_")

        def add(fn: Function) -> GlobalVar:
            if annotate_codegen:
                return table.add(wrap_for_codegen(fn, hint, name.split(".")[0]), hint)
            return table.add(fn, hint)

        return add

    def rule(block: DataflowBlock) -> DataflowBlock:
        view = BlockView(block)
        values = {b.var: b.value for b in block.bindings if isinstance(b, VarBinding)}
        taken: set[Var] = set()
        groups = []
        for pattern in map(as_pattern, patterns):
            for group, attrs in _matches(pattern, view, values, taken):
                groups.append((group, target(pattern.name), attrs))
        return replace_matches(block, groups, not bind_constants) if groups else block

    for name, fn in mod.graph_functions().items():
        chosen = not entry_functions or name in entry_functions
        if chosen and not is_marked(fn):
            changes[name] = OnBlocks(rule)(fn)
    return mod.with_functions({**changes, **table.added})
