"""``PyExprMutator``: rewriting graph functions by methods, one per kind of node, as in TVM.

``builder_`` is the BlockBuilder that receives the new bindings: what a method emits stands before the binding being visited, and
nested calls that it returns are bound to variables. Unchanged parts keep their identity. Walks that change nothing:
``expr_functor.py``.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ..ir.builder import UNKNOWN
from ..ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ..ir.function import Function
from ..ir.infer import find_impure_call
from ..ir.module import IRModule
from ..ir.node import replace
from ..ir.relation import Answer, erase, is_subtype
from ..ir.structural import structural_equal
from ..ir.types import Expr, Type
from ..ir.walk import Rewriter, free_vars, used_vars
from ..op.building.block_builder import BlockBuilder
from ..op.common.table import to_expr
from ..support.arguments import guarded
from ..support.recursion import deep_recursion
from .visitor import METHODS, ExprFunctor, decorated, nothing_returned

_N = TypeVar("_N")


class PyExprMutator(ExprFunctor):
    """Rewrites functions: ``MyMutator(mod).visit_expr(func)``, then ``self.builder_.update_func(name, func)``.

    Methods return the new node; where none is returned E741 is raised.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._replacer = Rewriter()
        self._inside = False

    # ---- where methods are chosen

    def visit_expr(self, expr: Expr) -> Expr:
        """The expression rewritten, in normal form where it changed."""
        with deep_recursion():
            name = self._method_of(expr)
            return self._finished(self._hand(name, expr), expr, name)

    def visit_expr_post_order(self, expr: Expr) -> Expr:
        """The expression with its parts rewritten, without asking the method of its own kind."""
        with deep_recursion():
            name = self._method_of(expr)
            return self._finished(getattr(PyExprMutator, name)(self, expr), expr, name)

    def _finished(self, made: Any, expr: Expr, name: str) -> Expr:
        if made is None:
            raise nothing_returned(self, name, expr)
        if made is expr or isinstance(expr, (SeqExpr, Function)) or isinstance(made, Var):
            return made  # type: ignore[no-any-return]
        return self.builder_.normalize(to_expr(made))

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """The block rewritten."""
        made: BindingBlock | None = super().visit_binding_block(block)
        if made is None:
            raise nothing_returned(self, METHODS[type(block)], block)
        return made

    def visit_var_def(self, var: Var) -> Var:
        """The variable to bind in place of ``var``."""
        made: Var | None = super().visit_var_def(var)
        if made is None:
            raise nothing_returned(self, "visit_var_def", var)
        if made is not var:
            self.set_var_remap(var, made)
        return made

    # ---- variables

    @guarded
    def set_var_remap(self, old_var: Var, new_var: Var) -> None:
        """Let uses of a variable become uses of another one, symbols in types included."""
        self._replacer.mapping[old_var] = new_var

    @guarded
    def get_var_remap(self, var: Var) -> Var:
        """The expression that stands for a variable now: itself if nothing else does."""
        found: Var = self._replacer.mapping.get(var, var)
        return found

    @guarded
    def lookup_binding(self, var: Var) -> Expr | None:
        """The new value bound to a variable, None for a parameter."""
        return self.builder_.lookup_binding(var)

    @guarded
    def with_type(self, var: Var, ty: Type) -> Var:
        """The variable if its type is this one, else a new variable of the type."""
        same = ty is var.ty or structural_equal(ty, var.ty)
        return var if same else replace(var, ty=ty)

    with_ty = with_struct_info = with_type

    def _replaced(self, node: _N) -> _N:
        """A type or scalar with variables replaced."""
        return self._replacer.visit(node) if self._replacer.mapping else node

    # ---- scopes

    def visit_with_new_scope(self, expr: Expr) -> SeqExpr:
        """The body of a function or branch, rewritten in a scope of its own."""
        with self.builder_.new_sequence() as finish:
            made = self.visit_expr(expr)
            return finish(made)

    def visit_function_(self, op: Function) -> Function:
        """Parameters, then the body; the result type follows the body where it has to, purity as well."""
        outermost = not self._inside
        if outermost:
            self.builder_.avoid_names([v.name for v in used_vars(op)])
        self._inside = True
        try:
            params = tuple([self.visit_var_def(p) for p in op.params])
            body = self.visit_with_new_scope(op.body)
        finally:
            self._inside = not outermost
        if body is op.body and all([x is y for x, y in zip(params, op.params)]):
            return op
        ret_ty = self._replaced(op.ret_ty)
        if is_subtype(body.ty, ret_ty) is not Answer.YES:
            known = [var for param in params for var in (param, *free_vars(param.ty))]
            ret_ty = erase(body.ty, known)
        pure = op.pure and (bool(op.attrs.get("force_pure")) or find_impure_call(body) is None)
        return Function(params, body, ret_ty, pure, op.attrs, op.span)

    def visit_seq_expr_(self, op: SeqExpr) -> SeqExpr:
        """The blocks, then the result; what the result needs bound goes into a last block."""
        blocks = [self.visit_binding_block(block) for block in op.blocks]
        self.builder_.begin_block()
        body = self.visit_expr(op.body)
        last = self.builder_.end_block()
        if body is op.body and not last.bindings and all([x is y for x, y in zip(blocks, op.blocks)]):
            return op
        kept = [b for b in (*blocks, last) if b.bindings or type(b) is DataflowBlock]
        return SeqExpr(tuple(kept), body, op.span)

    def visit_if_(self, op: If) -> Expr:
        """The condition, then each branch in a scope of its own."""
        cond = self.visit_expr(op.cond)
        then_branch, else_branch = self.visit_with_new_scope(op.then_branch), self.visit_with_new_scope(op.else_branch)
        if cond is op.cond and then_branch is op.then_branch and else_branch is op.else_branch:
            return op
        return If(cond, then_branch, else_branch, op.ty, op.span)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """The bindings in order, in a new block."""
        return self._block(block, False)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """The bindings in order, in a new dataflow block."""
        return self._block(block, True)

    def _block(self, block: BindingBlock, dataflow: bool) -> BindingBlock:
        self.builder_.begin_block(dataflow)
        for binding in block.bindings:
            self.visit_binding(binding)
        made = self.builder_.end_block()
        same = len(made.bindings) == len(block.bindings) and type(made) is type(block)
        if same and all([x is y for x, y in zip(made.bindings, block.bindings)]):
            return block
        return replace(made, span=block.span)

    # ---- bindings

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Bind the new value; a variable whose type changed is a new one, and its uses follow."""
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        made = binding
        if value is not binding.value or var is not binding.var:
            made = VarBinding(self._retyped(binding.var, var, value.ty), value, binding.span)
        self.builder_.emit_normalized(made)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Bind the new value, cast to the type with variables replaced."""
        value = self.builder_.as_argument(self.visit_expr(binding.value))
        target = self._replaced(binding.target)
        var = self.visit_var_def(binding.var)
        made: Binding = binding
        if value is not binding.value or target is not binding.target or var is not binding.var:
            made = MatchCast(self._retyped(binding.var, var, target), value, target, binding.span)
        self.builder_.emit_normalized(made)

    def _retyped(self, old: Var, var: Var, ty: Type) -> Var:
        made = self.with_type(var, ty)
        if made is not old:
            self.set_var_remap(old, made)
        return made

    def visit_var_def_(self, var: Var) -> Var:
        """The variable; a new one where variables in its type are replaced."""
        return self.with_type(var, self._replaced(var.ty))

    visit_dataflow_var_def_ = visit_var_def_

    # ---- expressions

    def visit_call_(self, op: Call) -> Expr:
        """Callee and arguments; the type of a call that changed is deduced anew."""
        callee = self.visit_expr(op.op)
        args = tuple([self.visit_expr(arg) for arg in op.args])
        rest = self._replaced(Call(op.op, (), op.attrs, op.ty_args, op.ty))
        changed = callee is not op.op or any([x is not y for x, y in zip(args, op.args)])
        if not changed and rest.attrs is op.attrs and rest.ty_args is op.ty_args:
            return op
        return Call(callee, args, rest.attrs, rest.ty_args, UNKNOWN, op.span)

    def visit_tuple_(self, op: Tuple) -> Expr:
        """The fields."""
        fields = tuple([self.visit_expr(value) for value in op.fields])
        return op if all([x is y for x, y in zip(fields, op.fields)]) else Tuple(fields, op.span)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """The tuple."""
        source = self.visit_expr(op.tuple_value)
        return op if source is op.tuple_value else TupleGetItem(source, op.index, op.span)

    def visit_var_(self, op: Var) -> Expr:
        """The expression that stands for the variable."""
        return self.get_var_remap(op)

    visit_dataflow_var_ = visit_var_

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        """The shape with variables replaced."""
        return self._replaced(op)

    def visit_prim_value_(self, op: Expr) -> Expr:
        """The scalar with variables replaced."""
        return self._replaced(op)

    def visit_constant_(self, op: Expr) -> Expr:
        """Itself."""
        return op

    visit_extern_func_ = visit_global_var_ = visit_op_ = visit_string_imm_ = visit_data_type_imm_ = visit_constant_
    visit_generic_const_ = visit_constant_
    visit_expr_fallback_ = visit_prim_value_


_Class = TypeVar("_Class", bound=type)


def mutator(cls: _Class) -> _Class:
    """TVM's decorator of classes over ``PyExprMutator``."""
    return decorated(cls, PyExprMutator)
