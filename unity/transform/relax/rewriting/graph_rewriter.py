"""``GraphRewriter``: rewrite the bindings of a graph function in order, keeping scopes, names and unchanged parts.

A rule gets each bound value (its variables already replaced, its branches and local functions already rewritten)
and returns the new value (None drops the binding). Calls nested in it are bound before it, an object that stands in several places
once. Through the rewriter a rule may emit bindings itself, or replace the bound variable by another expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ....ir.builder import is_nested, is_unknown, join_branches
from ....ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ....ir.function import Function
from ....ir.infer import infer_call, is_pure_call
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.structural import structural_equal
from ....ir.types import Expr, Type
from ....ir.walk import Rewriter, used_vars
from ....support.source import Span

Rule = Callable[[Expr, "GraphRewriter"], Expr]


class Replaced:
    """Result of a rule: the variable stands for ``value`` and its binding goes away."""

    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value


class GraphRewriter:
    """Rewrites one function with a rule. ``var``: the variable being bound, ``name_hint``: its name, ``in_dataflow``: where."""

    def __init__(
        self,
        rule: Callable[[Expr, GraphRewriter], Any],
        on_match: Callable[[MatchCast, Expr, GraphRewriter], Replaced | None] | None = None,
        names: NameSupply | None = None,
    ) -> None:
        self.rule = rule
        self.on_match = on_match
        self.replacer = Rewriter()
        self._names = names
        self._whole: Function | None = None
        self.name_hint = "lv"
        self.var: Var
        self.enters_functions = True
        self.in_dataflow = False
        self._out: list[Binding] = []
        self._bound: dict[int, tuple[Expr, Var]] = {}
        """Nested calls in what rules gave for the block, and the variables they are bound to."""
        self._span: Span | None = None

    @property
    def names(self) -> NameSupply:
        """Names that no variable of the function has (looked up when one is first needed)."""
        if self._names is None:
            self._names = NameSupply([v.name for v in used_vars(self._whole)] if self._whole is not None else ())
        return self._names

    def function(self, fn: Function) -> Function:
        """The function with every sequence rewritten; the same object if nothing changed."""
        self._names, self._whole = None, fn
        return self._function(fn)

    def _function(self, fn: Function) -> Function:
        return replace(fn, body=self._sequence(fn.body))

    def emit(self, value: Expr, hint: str = "") -> Var:
        """Bind a value before the current binding."""
        value = self.flat(value)
        var = Var(self.names.fresh(hint or self.name_hint), value.ty, None, self.in_dataflow)
        self._out.append(VarBinding(var, self._placed(value)))
        return var

    def append(self, binding: Binding) -> None:
        """Put a finished binding before the current one."""
        self._out.append(binding)

    def emit_match(self, value: Expr, target: Type, hint: str) -> Var:
        """Bind ``match_cast(value, target)`` before the current binding; the value is a leaf."""
        var = Var(self.names.fresh(hint), target, None, self.in_dataflow)
        self._out.append(MatchCast(var, value, target, getattr(value, "span", None)))
        return var

    def leaf(self, value: Expr, hint: str = "") -> Expr:
        """The value as an argument: a nested one as a variable bound to it."""
        if type(value) is Tuple:
            return replace(value, fields=tuple([self.leaf(f) for f in value.fields]))
        if not is_nested(value):
            return value
        known = self._bound.get(id(value))
        if known is not None:
            return known[1]
        var = self.emit(value, hint)
        if type(value) is not Call or is_pure_call(value):
            self._bound[id(value)] = value, var
        return var

    def flat(self, value: Expr) -> Expr:
        """The value with variables for what is nested in it, its type inferred."""
        if type(value) is Call:
            made = replace(value, args=tuple([self.leaf(a) for a in value.args]))
            return replace(made, ty=infer_call(made)) if made is not value or is_unknown(made.ty) else made
        if type(value) is TupleGetItem:
            return replace(value, tuple_value=self.leaf(value.tuple_value))
        return self.leaf(value) if type(value) is Tuple else value

    def field(self, value: Expr, index: int) -> Expr:
        """Field of a tuple as an argument."""
        return value.fields[index] if type(value) is Tuple else self.emit(TupleGetItem(value, index))

    def _placed(self, value: Expr) -> Expr:
        """A call that a rule made stands where the value being rewritten stands in the source."""
        if type(value) is Call and value.span is None and self._span is not None:
            return replace(value, span=self._span)
        return value

    def _apply(self, value: Any) -> Any:
        return self.replacer.visit(value) if self.replacer.mapping else value

    def _sequence(self, expr: Expr) -> Expr:
        if type(expr) is not SeqExpr:
            return self._apply(expr)  # type: ignore[no-any-return]
        blocks = [self.block(b) for b in expr.blocks]
        body = self._apply(expr.body)
        kept = tuple([b for b in blocks if b.bindings or type(b) is DataflowBlock])
        return replace(expr, blocks=kept, body=body)

    def block(self, block: BindingBlock) -> BindingBlock:
        """A block of its own, rewritten."""
        saved = self._out, self.in_dataflow, self._bound
        self._out, self.in_dataflow, self._bound = [], type(block) is DataflowBlock, {}
        for binding in block.bindings:
            self._binding(binding)
        out = self._out
        self._out, self.in_dataflow, self._bound = saved
        return replace(block, bindings=tuple(out))

    def _binding(self, binding: Binding) -> None:
        self.var, self.name_hint = binding.var, binding.var.name
        if isinstance(binding, MatchCast):
            value, target = self._apply(binding.value), self._apply(binding.target)
            found = self.on_match(binding, value, self) if self.on_match is not None else None
            if found is not None:
                self.replacer.mapping[binding.var] = found.value
                return
            var = binding.var if target is binding.target else self._redefine(binding.var, target)
            self._out.append(replace(binding, var=var, value=value, target=target))
            return
        assert isinstance(binding, VarBinding)
        value = self._enter(binding.value)
        self.var, self.name_hint = binding.var, binding.var.name
        self._span = getattr(binding.value, "span", None) or binding.span
        made = self.rule(value, self)
        if made is None:
            return
        if isinstance(made, Expr) and made is not value:
            made = self.flat(made)
        if isinstance(made, Replaced):
            self.replacer.mapping[binding.var] = made.value
        elif made is binding.value:
            self._out.append(binding)
        else:
            self._out.append(VarBinding(self._redefine(binding.var, made.ty), self._placed(made), binding.span))

    def _redefine(self, var: Var, ty: Any) -> Var:
        if ty is var.ty or structural_equal(ty, var.ty, map_free_vars=False):
            return var
        made = replace(var, ty=ty)
        self.replacer.mapping[var] = made
        return made

    def _enter(self, value: Expr) -> Expr:
        if type(value) is If:
            cond = self._apply(value.cond)
            first, second = self._sequence(value.then_branch), self._sequence(value.else_branch)
            made = replace(value, cond=cond, then_branch=first, else_branch=second)
            if made is not value and isinstance(first, SeqExpr) and isinstance(second, SeqExpr):
                return replace(made, ty=join_branches(first, second))
            return made
        if type(value) is Function:
            return self._function(value) if self.enters_functions else self._apply(value)
        if type(value) is SeqExpr:
            return self._sequence(value)
        return self._apply(value)  # type: ignore[no-any-return]


def rewrite_calls(fn: Function, change: Callable[[Call, GraphRewriter], Any], *names: str) -> Function:
    """The function with calls of these operators, all calls where none is named, as ``change`` gives them; None leaves a call."""

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        made = change(value, rewriter) if type(value) is Call and (not names or value.op_name in names) else None
        return value if made is None else made

    return GraphRewriter(rule).function(fn)


def each_binding(fn: Function) -> Iterator[tuple[BindingBlock, Binding]]:
    """Bindings of a function in order, those of branches and local functions before the binding that holds them."""
    stack: list[Any] = [fn.body]
    found: list[tuple[BindingBlock, Binding]] = []
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            found.append(item)
            continue
        if type(item) is SeqExpr:
            work: list[Any] = []
            for block in item.blocks:
                for binding in block.bindings:
                    value = binding.value
                    if type(value) is If:
                        work += [value.then_branch, value.else_branch]
                    elif type(value) is Function:
                        work.append(value.body)
                    work.append((block, binding))
            stack += reversed(work)
    return iter(found)


def without(body: SeqExpr, gone: Callable[[Binding], bool]) -> SeqExpr:
    """The sequence without some bindings, and the blocks that they leave empty."""
    blocks = [replace(b, bindings=tuple([x for x in b.bindings if not gone(x)])) for b in body.blocks]
    return replace(body, blocks=tuple([b for b in blocks if b.bindings]))


def join_blocks(blocks: Iterable[BindingBlock], dataflow: bool = False) -> tuple[BindingBlock, ...]:
    """The blocks without empty plain ones, neighbouring plain ones joined; dataflow blocks as well where asked."""
    made: list[BindingBlock] = []
    for block in blocks:
        last = made[-1] if made else None
        if type(block) is BindingBlock and not block.bindings:
            continue
        if last is not None and type(last) is type(block) and (dataflow or type(block) is not DataflowBlock):
            made[-1] = type(block)((*last.bindings, *block.bindings), last.span)
        else:
            made.append(block)
    return tuple(made)


class OnBlocks(Rewriter):
    """Rewrites the dataflow blocks of a function, those of branches and local functions included."""

    def __init__(self, rule: Callable[[DataflowBlock], BindingBlock]) -> None:
        super().__init__()
        self.rule = rule

    def enter(self, node: Any) -> Any | None:
        return self.rule(node) if type(node) is DataflowBlock else None
