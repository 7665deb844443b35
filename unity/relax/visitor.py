"""``ExprFunctor`` and ``PyExprVisitor``: walks over graph functions written as methods, one per kind of node, as in TVM.

A subclass overrides ``visit_call_``, ``visit_var_``, ``visit_var_binding_``, ... and goes on with ``super()``. Passes of the house
use ``unity.ir.collect`` and ``GraphRewriter``; this is for those who think in visitors. Rewriting: ``mutator.py``. Not here:
tensor programs. Invariant: a visitor changes nothing, and types are not entered.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from ..ir import scalar
from ..ir.builder import is_graph_call
from ..ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    If,
    IntImm,
    MatchCast,
    Op,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    is_dataflow_var,
)  # fmt: skip
from ..ir.function import Function
from ..ir.node import Node
from ..ir.types import Expr
from ..support.errors import PassError
from ..support.recursion import deep_recursion
from .nodes import DataflowVar

_SNAKE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_METHOD = re.compile(r"visit_\w+_")
_KINDS: tuple[type, ...] = (
    Call, Tuple, Var, DataflowVar, ShapeExpr, ExternFunc, GlobalVar, Function, SeqExpr, If, Op, Constant, StringImm, DataTypeImm,
    VarBinding, MatchCast, BindingBlock, DataflowBlock,
)  # fmt: skip
_OF_SCALARS = [kind for kind in vars(scalar).values() if isinstance(kind, type) and issubclass(kind, Expr)]
_SCALARS: list[type] = [IntImm, FloatImm, *_OF_SCALARS]
METHODS: dict[Any, str] = {kind: f"visit_{_SNAKE.sub('_', kind.__name__).lower()}_" for kind in _KINDS}
"""The method of each kind of node of the graph level."""
METHODS[TupleGetItem] = "visit_tuple_getitem_"
SCALARS: dict[type, str] = {kind: f"visit_{_SNAKE.sub('_', kind.__name__).lower()}_" for kind in _SCALARS}
"""The methods of scalar expressions; where a class has none of its own, ``visit_prim_value_`` takes its place."""
_PARTS: dict[type, tuple[str, ...]] = {
    Call: ("op", "args"), Tuple: ("fields",), TupleGetItem: ("tuple_value",), ShapeExpr: ("values",),
    If: ("cond", "then_branch", "else_branch"),
}  # fmt: skip
"""The parts of expressions that a visitor visits."""
DEFINITIONS = {Var: "visit_var_def_", DataflowVar: "visit_dataflow_var_def_"}
_ALIASES = {"visit_generic_const_": "visit_constant_", "visit_expr_fallback_": "visit_prim_value_"}
"""Names of TVM 0.27 for methods that were called otherwise before."""
_KNOWN = {*METHODS.values(), *SCALARS.values(), *DEFINITIONS.values(), *_ALIASES, "visit_prim_value_"}


def _kind(node: Any) -> Any:
    """The class that TVM has for a node."""
    return DataflowVar if is_dataflow_var(node) else type(node)


def _named(table: Mapping[Any, str], node: Any, what: str) -> str:
    """The name of the method for a node. Raises PassError E740 for what is none of its kind."""
    name = table.get(_kind(node))
    if name is None:
        raise PassError("E740", f"a {type(node).__name__} is not one of the {what}s of the graph level")
    return name


class ExprFunctor:
    """Hands each node to the method of its kind. A kind without a method raises PassError E740.

    A subclass whose method's name is nearly that of a kind (``visit_cal_``) is refused when it is defined: E742.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in list(vars(cls).items()):
            if name in _ALIASES:
                setattr(cls, _ALIASES[name], value)
            elif _METHOD.fullmatch(name) and name not in _KNOWN:
                close = difflib.get_close_matches(name, _KNOWN, 1, 0.8)
                if close:
                    raise PassError("E742", f"{cls.__name__}.{name} would never be called: no kind of node has this method",
                                    help=f"did you mean {close[0]}?")  # fmt: skip

    def _hand(self, name: str, node: Any) -> Any:
        method = getattr(self, name, None)
        if method is None:
            raise PassError("E740", f"{type(self).__name__} has no {name} for {type(node).__name__}",
                            help="define the method, or derive from PyExprVisitor or PyExprMutator")  # fmt: skip
        return method(node)

    def _method_of(self, expr: Any) -> str:
        """Name of the method for an expression. Raises PassError E740 for what is none of the graph level."""
        if type(expr) is Call and not is_graph_call(expr):
            return "visit_prim_value_"
        name = METHODS.get(_kind(expr))
        if name is None:
            name = SCALARS.get(type(expr))
            name = name if name is None or hasattr(self, name) else "visit_prim_value_"
        if name is None or not isinstance(expr, Expr):
            raise PassError("E740", f"visit_expr takes an expression of the graph level, got {type(expr).__name__}",
                            help="visit the graph functions of a module one by one: "
                                 "for name, func in mod.graph_functions().items(): ...")  # fmt: skip
        return name

    def visit_expr(self, expr: Expr) -> Any:
        """Visit an expression, a function included."""
        with deep_recursion():
            return self._hand(self._method_of(expr), expr)

    def visit_binding(self, binding: Binding) -> None:
        """Visit a binding."""
        self._hand(_named(METHODS, binding, "binding"), binding)

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Visit a block."""
        return self._hand(_named(METHODS, block, "block of bindings"), block)

    def visit_var_def(self, var: Var) -> Any:
        """Visit a variable where it is bound."""
        return self._hand(_named(DEFINITIONS, var, "variable"), var)


class PyExprVisitor(ExprFunctor):
    """Visits everything in order: values before the variables bound to them, blocks before the result of their sequence."""

    def visit_call_(self, op: Expr) -> None:
        """The operator or callee, then the arguments; of other expressions the parts in order."""
        for name in _PARTS[type(op)]:
            held = getattr(op, name)
            for part in held if isinstance(held, tuple) else (held,):
                self.visit_expr(part)

    visit_tuple_ = visit_tuple_getitem_ = visit_shape_expr_ = visit_if_ = visit_call_

    def visit_function_(self, op: Function) -> None:
        """The parameters as definitions, then the body."""
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """The blocks, then the result."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_var_(self, op: Expr) -> None:
        """A use of a variable; constant data, functions, operators, strings and data types likewise hold nothing to visit."""

    visit_dataflow_var_ = visit_constant_ = visit_extern_func_ = visit_global_var_ = visit_op_ = visit_var_
    visit_string_imm_ = visit_data_type_imm_ = visit_var_

    def visit_prim_value_(self, op: Expr) -> None:
        """A scalar expression as a whole: a number, ``n * 2``. Methods like ``visit_int_imm_`` or ``visit_add_`` go before."""

    def visit_var_binding_(self, binding: Binding) -> None:
        """The value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    visit_match_cast_ = visit_var_binding_

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """The bindings in order."""
        for binding in block.bindings:
            self.visit_binding(binding)

    visit_dataflow_block_ = visit_binding_block_

    def visit_var_def_(self, var: Var) -> None:
        """A variable where it is bound."""

    visit_dataflow_var_def_ = visit_var_def_
    visit_generic_const_ = visit_constant_
    visit_expr_fallback_ = visit_prim_value_


_Class = TypeVar("_Class", bound=type)


def decorated(cls: _Class, base: type) -> _Class:
    """The class as it is: TVM's decorators are taken, not needed. Raises PassError E742 for a class over something else."""
    if not issubclass(cls, base):
        raise PassError(
            "E742", f"{cls.__name__} is not a {base.__name__}", help=f"class {cls.__name__}({base.__name__}): ..."
        )
    return cls


def visitor(cls: _Class) -> _Class:
    """TVM's decorator of classes over ``PyExprVisitor``."""
    return decorated(cls, PyExprVisitor)


def nothing_returned(owner: object, name: str, node: Node) -> PassError:
    """The error for a method that forgot its ``return``."""
    return PassError("E741", f"{type(owner).__name__}.{name} returned None for {type(node).__name__}",
                     help="return the node itself where nothing changes, or what super() gives")  # fmt: skip
