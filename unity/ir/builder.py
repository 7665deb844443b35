"""BlockBuilder: build graph functions binding by binding, in A-normal form, with types inferred on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..support.arguments import guarded_class
from ..support.context_stack import ContextStack
from ..support.errors import TypeRuleError, VerifyError
from ..support.recursion import deep_recursion
from ..support.source import Span
from .expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from .function import Function
from .infer import find_impure_call, infer_call, is_pure_call
from .module import IRModule
from .names import NameSupply
from .node import replace, set_field
from .relation import Answer, erase, is_subtype, join
from .types import Expr, Type
from .walk import free_vars


class _Frame:
    """Bindings collected for one sequence: finished blocks and the open one."""

    def __init__(self) -> None:
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.dataflow = False

    def close_block(self) -> None:
        if self.bindings or self.dataflow:
            made = tuple(self.bindings)
            self.blocks.append(DataflowBlock(made) if self.dataflow else BindingBlock(made))
        self.bindings = []
        self.dataflow = False


_OPEN: ContextStack[BlockBuilder] = ContextStack("builders")


@guarded_class
class BlockBuilder:
    """Builds functions into a module.

    >>> bb = BlockBuilder()
    >>> with bb.function("main", [x]):
    ...     with bb.dataflow():
    ...         lv = bb.emit(relu(x))
    ...         gv = bb.emit_output(lv)
    ...     bb.emit_func_output(gv)
    >>> mod = bb.get()
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._module = mod or IRModule({}, {}, {})
        self._frames: list[_Frame] = []
        self._values: dict[Var, Expr] = {}
        self._names = NameSupply()
        self._result: Expr | None = None
        self._params: Sequence[Var] = ()
        self._reference = GlobalVar("")
        self.span: Span | None = None
        """Place given to calls and bindings that have none of their own."""
        self._shared: dict[int, tuple[Expr, Var]] | None = None

    # ---- functions and blocks

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose function is open, the innermost one; None where there is none."""
        return _OPEN.top

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[Var] = (),
        attrs: dict[str, Any] | None = None,
        pure: bool | None = None,
        private: bool = False,
    ) -> Iterator[None]:
        """Open the function ``name``; ``emit_func_output`` must be called inside.

        ``params``: parameters, here or in ``emit_func_output``. ``attrs``: attributes. ``pure``: None infers it. ``private``:
        without a global symbol. If the block ends with an error, the function is dropped. Raises VerifyError E303 without
        an output.
        """
        self.avoid_names([p.name for p in params])
        depth = len(self._frames)
        self._frames.append(_Frame())
        outer, self._result, self._params = (self._result, self._params), None, params
        around, self._reference = self._reference, GlobalVar(name)
        made = self._reference
        try:
            with _OPEN.inside(self):
                yield
            result, params = self._result, self._params
            if result is None:
                raise VerifyError("E303", f"function {name} has no output", help="call bb.emit_func_output(value)")
            known = [var for param in params for var in (param, *free_vars(param.ty))]
            fn = self.finish_function(list(params), result, attrs, pure, erase(result.ty, known))
        finally:
            del self._frames[depth:]
            self._result, self._params = outer
            self._reference = around
        if not private:
            fn = replace(fn, attrs={"global_symbol": name, **fn.attrs})
        self._module = self._module.with_functions({name: fn})
        set_field(made, "ty", fn.ty)

    def finish_function(
        self, params: list[Var], result: Expr, attrs: dict[str, Any] | None, pure: bool | None, ret_ty: Type,
    ) -> Function:  # fmt: skip
        """Close the innermost frame into a Function with these ``params``, ``result``, ``attrs``, ``pure`` and ``ret_ty``."""
        body = self.end_sequence(result)
        if pure is None:
            pure = find_impure_call(body) is None
        return Function(tuple(params), body, ret_ty, pure, dict(attrs or {}))

    def begin_sequence(self) -> None:
        """Open a sequence of bindings (function or branch body)."""
        self._frames.append(_Frame())

    def end_sequence(self, result: Expr) -> SeqExpr:
        """Close the innermost sequence with the value ``result``."""
        result = self._bound_leaf(result)
        frame = self._frames.pop()
        frame.close_block()
        return SeqExpr(tuple(frame.blocks), result)

    @contextmanager
    def new_sequence(self) -> Iterator[Callable[[Expr], SeqExpr]]:
        """A sequence of its own; what is given makes it of a value: a sequence is itself where nothing was emitted beside it.

        When the block ends with an error, what was begun in it is forgotten.
        """
        depth = len(self._frames)
        self._frames.append(_Frame())

        def finish(value: Expr) -> SeqExpr:
            frame = self._frames[-1]
            if type(value) is SeqExpr and not frame.blocks and not frame.bindings:
                self._frames.pop()
                return value
            return self.end_sequence(value)

        try:
            yield finish
        finally:
            del self._frames[depth:]

    def begin_block(self, dataflow: bool = False) -> None:
        """Open a binding block (``dataflow``: a dataflow block) that ``end_block`` returns; it is not part of the open sequence."""
        self._frames.append(_Frame())
        self._frames[-1].dataflow = dataflow

    def end_block(self) -> BindingBlock:
        """The block opened last. Raises VerifyError E303 where another block was opened in it."""
        frame = self._frames.pop() if self._frames else _Frame()
        dataflow = frame.dataflow
        frame.close_block()
        if len(frame.blocks) > 1:
            raise VerifyError("E303", "a block was opened inside a block", help="end the outer one before")
        return frame.blocks[0] if frame.blocks else (DataflowBlock if dataflow else BindingBlock)(())

    def _begin_dataflow_block(self) -> None:
        self.begin_block(True)

    _begin_binding_block, _end_block = begin_block, end_block

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """Open a dataflow block in the current sequence."""
        self.begin_dataflow()
        yield
        self.end_dataflow()

    def begin_dataflow(self) -> None:
        """Start a dataflow block."""
        frame = self._frame()
        frame.close_block()
        frame.dataflow = True

    def end_dataflow(self) -> None:
        """End the dataflow block."""
        self._frame().close_block()

    def _frame(self) -> _Frame:
        if not self._frames:
            raise VerifyError("E303", "no function is open", help="use `with bb.function(name, params):`")
        return self._frames[-1]

    # ---- bindings

    def emit(self, expr: Expr, name_hint: str = "", output: bool = False) -> Var:
        """Bind the normalised ``expr`` to a fresh variable named after ``name_hint`` and return it; ``output``: visible outside the
        dataflow block.
        """
        with self.sharing(), deep_recursion():
            return self._emit(expr, name_hint, output)

    def _emit(self, expr: Expr, name_hint: str = "", output: bool = False) -> Var:
        value = self._normalize(expr)
        frame = self._frame()
        inside = frame.dataflow and not output
        name = self._names.fresh(name_hint or ("lv" if inside else "gv"))
        span = getattr(expr, "span", None) or self.span
        var = Var(name, value.ty, span, inside)
        self._append(VarBinding(var, value, span))
        return var

    def _append(self, binding: Binding) -> None:
        self._frame().bindings.append(binding)
        if isinstance(binding, (VarBinding, MatchCast)):
            self._values[binding.var] = binding.value

    def emit_output(self, expr: Expr, name_hint: str = "") -> Var:
        """Bind ``expr`` to an output of the dataflow block named after ``name_hint``, and return it."""
        return self.emit(expr, name_hint, output=True)

    def emit_func_output(self, expr: Expr, params: Var | Sequence[Var] | None = None) -> GlobalVar:
        """Set the result ``expr`` of the function, and its ``params`` unless ``function`` was given them; return a reference.
        Raises VerifyError E303 where it has a result."""
        if self._result is not None:
            raise VerifyError(
                "E303", "the function has its output", help="call bb.emit_func_output(value) once, at the end"
            )
        if params is not None:
            if self._params:
                raise VerifyError("E303", "the parameters are given twice", help="give them to bb.function alone")
            self._params = (params,) if isinstance(params, Var) else tuple(params)
        self._result = self._bound_leaf(expr)
        return self._reference

    def match_cast(self, value: Expr, target: Type, name_hint: str = "", output: bool = False) -> Var:
        """Bind ``match_cast(value, target)`` as ``emit`` does (``name_hint``, ``output``). Raises TypeRuleError E206 if it can
        never hold.
        """
        leaf = self._bound_leaf(value)
        if is_subtype(leaf.ty, target) is Answer.NO:
            raise TypeRuleError(
                "E206", f"a value of type {leaf.ty} never has type {target}", getattr(value, "span", None)
            )
        frame = self._frame()
        inside = frame.dataflow and not output
        var = Var(self._names.fresh(name_hint or ("lv" if inside else "gv")), target, dataflow=inside)
        self._append(MatchCast(var, leaf, target, getattr(value, "span", None) or self.span))
        return var

    def emit_binding(self, binding: Binding) -> None:
        """Append a finished binding as it is."""
        self._append(binding)

    emit_normalized = emit_binding

    # ---- normal form

    @contextmanager
    def sharing(self, bound: tuple[Expr, Var] | None = None) -> Iterator[None]:
        """Expressions emitted inside share the nested objects they have in common: each is bound once, at the first place.

        ``bound`` is an object with the variable it is bound to already; used where it is a call without effects.
        """
        outer = self._shared
        self._shared = {} if outer is None else outer
        if bound is not None and type(bound[0]) is Call and is_pure_call(bound[0]):
            self._shared[id(bound[0])] = bound
        try:
            yield
        finally:
            self._shared = outer

    def normalize(self, expr: Expr) -> Expr:
        """Return ``expr`` in A-normal form with its type: nested calls are bound to variables first."""
        with self.sharing(), deep_recursion():
            return self._normalize(expr)

    def _bound_leaf(self, expr: Expr) -> Expr:
        """A variable or constant of the value of ``expr``."""
        with self.sharing(), deep_recursion():
            return self._leaf(expr)

    def _normalize(self, expr: Expr) -> Expr:
        if type(expr) is Call:
            return self._call(expr)
        if type(expr) is Tuple:
            return replace(expr, fields=tuple([self._leaf(f) for f in expr.fields]))
        if type(expr) is TupleGetItem:
            return replace(expr, tuple_value=self._leaf(expr.tuple_value))
        if type(expr) is If:
            return self._if(expr)
        if type(expr) is SeqExpr:
            return self._inline_sequence(expr)
        return expr

    def _call(self, call: Call) -> Call:
        made = replace(call, args=tuple([self._argument(a) for a in call.args]))
        changed = made is not call
        made = replace(made, span=call.span or self.span)
        return replace(made, ty=infer_call(made)) if changed or is_unknown(made.ty) else made

    def _argument(self, expr: Expr) -> Expr:
        return self._normalize(expr) if type(expr) is Tuple else self._leaf(expr)

    def _leaf(self, expr: Expr) -> Expr:
        if type(expr) is Tuple:
            return self._normalize(expr)
        return self._bound_once(expr) if is_nested(expr) else expr

    def _bound_once(self, expr: Expr) -> Expr:
        """The variable of a nested expression; an object that stands in several places is bound at the first."""
        known = self._shared.get(id(expr)) if self._shared is not None else None
        if known is not None and known[0] is expr:
            return known[1]
        var = self._emit(expr)
        if self._shared is not None and (type(expr) is not Call or is_pure_call(expr)):
            self._shared[id(expr)] = (expr, var)
        return var

    def _if(self, expr: If) -> If:
        cond = self._leaf(expr.cond)
        branches = []
        for branch in (expr.then_branch, expr.else_branch):
            if type(branch) is SeqExpr and not is_nested(branch.body):
                branches.append(branch)
                continue
            outer = self._shared
            self._shared = dict(outer or {})  # what a branch binds is not known after it
            self.begin_sequence()
            branches.append(self.end_sequence(self._normalize(branch)))
            self._shared = outer
        return If(cond, branches[0], branches[1], join_branches(branches[0], branches[1]), expr.span)

    def _inline_sequence(self, expr: SeqExpr) -> Expr:
        for binding in expr.bindings:
            self._append(binding)
        return self._normalize(expr.body)

    def current_block_is_dataflow(self) -> bool:
        """True if a dataflow block is open."""
        return self._frame().dataflow

    def lookup_binding(self, var: Var) -> Expr | None:
        """Return the value bound to ``var`` in the open function, or None."""
        return self._values.get(var)

    # ---- module

    def get(self) -> IRModule:
        """The module built so far."""
        return self._module

    finalize = get

    def get_unique_name(self, prefix: str) -> str:
        """Return a variable name that begins with ``prefix`` and is new in the open function."""
        return self._names.fresh(prefix)

    def avoid_names(self, taken: Iterable[str]) -> None:
        """Begin anew with the names of variables: these are taken. Values bound before are forgotten."""
        self._names, self._values = NameSupply(taken), {}

    def add_func(self, fn: Any, name_hint: str) -> GlobalVar:
        """Add the function ``fn`` under a fresh name made of ``name_hint``, and return the reference to it."""
        name = self._module.fresh_name(name_hint)
        self._module = self._module.with_functions({name: fn})
        return self._module.get_global_var(name)

    def update_func(self, ref: GlobalVar | str, fn: Any) -> None:
        """Replace the function that ``ref`` (a reference or a name) stands for by ``fn``."""
        self._module = self._module.with_functions({ref if isinstance(ref, str) else ref.name: fn})


UNKNOWN = Type()
"""Type of a call whose result is not inferred yet: ``Call(..., ty=UNKNOWN)``; ``normalize`` fills it in."""


def is_unknown(ty: Type) -> bool:
    """True for the placeholder type."""
    return ty is UNKNOWN


def join_branches(then_branch: SeqExpr, else_branch: SeqExpr) -> Type:
    """Type of a conditional: the join of its branches. Only a symbol of the scope around can show in both; others are erased."""
    shared = set(free_vars(then_branch.ty)) & set(free_vars(else_branch.ty))
    return join(erase(then_branch.ty, shared), erase(else_branch.ty, shared))


def is_graph_call(expr: Expr) -> bool:
    """True for calls of the graph level (scalar intrinsics are values, not bindings)."""
    return type(expr) is Call and not expr.op_name.startswith("T.")


def is_nested(expr: Expr) -> bool:
    """True if the expression must be bound to a variable before it is used."""
    return isinstance(expr, (TupleGetItem, If, SeqExpr, Function)) or is_graph_call(expr)


def make_call(name_or_op: Any, args: Sequence[Expr], attrs: dict[str, Any] | None = None, ty_args: Sequence[Type] = (),
              span: Span | None = None) -> Call:  # fmt: skip
    """Return the call of ``name_or_op`` on ``args`` with ``attrs``, ``ty_args`` and ``span``, and infer its type."""
    call = Call(name_or_op, tuple(args), dict(attrs or {}), tuple(ty_args), UNKNOWN, span)
    return Call(call.op, call.args, call.attrs, call.ty_args, infer_call(call), span)
