"""Reverse-mode differentiation: ``gradient.with_options(func_name="main")`` adds ``main_adjoint``.

Rewrite: ``main(x, w) -> loss`` -> in addition ``main_adjoint(x, w) -> (loss, (gradient of x, gradient of w))``. The target is the
result itself, or field ``target_index`` of a tuple of results: a float tensor of rank 0. Operators are differentiated by their
rows' rules; what no gradient reaches gets zeros. The function must be a straight line of operators: inline private functions
first; conditionals have no gradient here, calls of kernels one where ``R.call_dps_with_grad`` names it (PassError E559 says
which and why).

Source: R. E. Wengert, A simple automatic derivative evaluation program, 1964; the order is the reverse of the bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.expr import Binding, Call, MatchCast, Op, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function, seq_body
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.op import OPS
from ....ir.relation import dims
from ....ir.types import Expr, TensorType, TupleType, Type
from ....ir.walk import free_vars, fresh_copy
from ....op.building.block_builder import BlockBuilder
from ....op.common.gradients import TE_GRADIENTS, field_of
from ....op.common.table import R, constant
from ....op.common.type_rules import python_value
from ....op.elementwise.binary import add
from ....op.manipulate.create import zeros
from ....support.errors import PassError
from ...infra.passes import module_pass
from ..analysis.mutable_vars import leaf_vars
from ..normalize.convert_to_dataflow import convert_to_dataflow, to_non_dataflow


def _is_float(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return any([_is_float(f) for f in ty.fields])
    return isinstance(ty, TensorType) and ty.dtype is not None and ty.dtype.is_float


class _Adjoint:
    """Gradients of the variables of one function, built after its own bindings."""

    def __init__(self, bb: BlockBuilder, bindings: Sequence[Binding], wanted: Sequence[Var]) -> None:
        self.bb = bb
        self.bindings = bindings
        self.grads: dict[Var, Any] = {}
        """The gradient of a tensor variable; a list with a place for each field of a tuple variable."""
        self.active: set[Var] = set(wanted)
        for binding in bindings:
            if _is_float(binding.var.ty) and any([v in self.active for v in free_vars(binding.value)]):
                self.active.add(binding.var)

    def add(self, target: Expr, part: Any) -> None:
        """Add a gradient to a variable, or to the variables in a tuple."""
        if part is None:
            return
        if type(target) is Tuple:
            for index, item in enumerate(target.fields):
                self.add(item, part[index] if isinstance(part, list) else field_of(part, index))
        elif isinstance(target, Var) and target in self.active:
            if isinstance(target.ty, TupleType):
                for index in range(len(target.ty.fields)):
                    self.add_to_field(target, index, part[index] if isinstance(part, list) else field_of(part, index))
            else:
                self.grads[target] = self.sum(self.grads.get(target), part, target)

    def add_to_field(self, target: Expr, index: int, part: Any) -> None:
        """Add a gradient to one field of a tuple variable."""
        if isinstance(target, Var) and target in self.active and isinstance(target.ty, TupleType):
            held = self.grads.setdefault(target, [None] * len(target.ty.fields))
            held[index] = self.sum(held[index], part, target)

    def sum(self, held: Any, part: Any, target: Var) -> Any:
        """Sum of gradients; lists for tuples inside tuples."""
        if part is None:
            return held
        if isinstance(part, list):
            return part if held is None else [self.sum(h, p, target) for h, p in zip(held, part)]
        part = part if isinstance(part, Var) else self.bb.emit(part, f"{target.name}_adjoint")
        return part if held is None else self.bb.emit(add(held, part), f"{target.name}_adjoint")

    def run(self) -> None:
        """Go through the bindings backwards."""
        for binding in reversed(self.bindings):
            grad = self.grads.get(binding.var)
            if grad is None:
                continue
            assert isinstance(binding, (VarBinding, MatchCast))
            value = binding.value
            if isinstance(binding, MatchCast) or isinstance(value, (Var, Tuple)):
                self.add(value, grad)
            elif type(value) is TupleGetItem:
                self.add_to_field(value.tuple_value, value.index, grad)
            elif type(value) is Call:
                self.call(value, grad, binding.var)
            else:
                raise PassError("E559", f"a {type(value).__name__} has no gradient", getattr(value, "span", None))

    def call(self, call: Call, grad: Any, result: Var) -> None:
        """Gradients of the arguments of a call, ``result`` being its value: rules that use the call itself take it from there."""
        if not any([v in self.active for a in call.args for v in leaf_vars(a)]):
            return
        info = OPS.get(call.op.name) if type(call.op) is Op else None
        if info is None:
            name = getattr(call.op, "name", "this value")
            raise PassError(
                "E559", f"the call of {name} has no gradient", call.span, help="run inline_private_functions first"
            )
        if info.name == R.call_dps_with_grad.name:
            self.kernel(call, self.whole(grad, call.ty))
            return
        if not callable(info.grad):
            raise PassError("E559", f"{info.name} has no gradient: {info.grad}", call.span)
        flow = self.whole(grad, call.ty)
        with self.bb.sharing((call, result)):
            for arg, part in zip(call.args, info.grad(call, flow)):
                self.add(arg, part)

    def kernel(self, call: Call, flow: Expr) -> None:
        """Gradients of the arguments of a tensor program, as the function registered for it computes them."""
        name = str(python_value(call.attrs["te_grad_name"]))
        func = TE_GRADIENTS.get(name)
        if func is None:
            raise PassError("E559", f"no gradient named {name!r} is registered", call.span,
                            help="register_te_gradient(name, function)")  # fmt: skip
        inputs = call.args[1].fields if type(call.args[1]) is Tuple else (call.args[1],)
        options = {k: python_value(v) for k, v in (call.attrs.get("te_grad_kwargs") or {}).items()}
        made = self.bb.emit(self.bb.call_te(func, flow, *inputs, primfunc_name_hint=f"{name}_grad", **options))
        several = isinstance(made.ty, TupleType)
        count = len(made.ty.fields) if isinstance(made.ty, TupleType) else 1
        if count != len(inputs):
            raise PassError(
                "E559", f"the gradient {name!r} gives {count} tensors for {len(inputs)} arguments", call.span
            )
        for index, value in enumerate(inputs):
            self.add(value, field_of(made, index) if several else made)

    def whole(self, grad: Any, ty: Type) -> Expr:
        """The gradient of a result as one expression, zeros where none arrived."""
        if isinstance(ty, TupleType):
            parts = grad if isinstance(grad, list) else [None] * len(ty.fields)
            return Tuple(tuple([self.whole(p, t) for p, t in zip(parts, ty.fields)]))
        return self.zeros(ty) if grad is None else grad

    def zeros(self, ty: Type) -> Expr:
        """Zeros of a type. Raises PassError E559 where the shape is not known."""
        known = dims(ty) if isinstance(ty, TensorType) else None
        if known is None or not isinstance(ty, TensorType) or ty.dtype is None:
            raise PassError(
                "E559", f"the gradient of a value of type {ty} needs its shape", help="name it with R.match_cast"
            )
        return self.bb.emit(zeros(known, ty.dtype.name))


def _target(result: Expr, index: int) -> tuple[Expr, Any]:
    """The differentiated value, and how its gradient enters the result."""
    value = result
    if isinstance(result.ty, TupleType):
        if not 0 <= index < len(result.ty.fields):
            raise PassError("E559", f"target_index {index} is out of range for {len(result.ty.fields)} results")
        value = field_of(result, index)
    elif index != 0:
        raise PassError("E559", f"target_index {index} is out of range for one result")
    ty = value.ty
    if not isinstance(ty, TensorType) or ty.ndim != 0 or ty.dtype is None or not ty.dtype.is_float:
        raise PassError(
            "E559", f"the target must be a float tensor of rank 0, got {ty}", help="reduce it: R.sum(x), R.mean(x)"
        )
    return value, constant(1.0, ty.dtype)


def differentiate(
    fn: Function, func_name: str, require_grads: tuple[str, ...], target_index: int, bb: BlockBuilder, name: str
) -> Function:
    """The adjoint of a function, built in a module where tensor programs it needs are put. Raises PassError E559."""
    fn = to_non_dataflow.on(fresh_copy(fn))
    body = seq_body(fn)
    wanted = [p for p in fn.params if (p.name in require_grads if require_grads else _is_float(p.ty))]
    unknown = set(require_grads) - {p.name for p in wanted}
    bad = [p.name for p in wanted if not _is_float(p.ty)]
    if unknown or bad:
        names = ", ".join([*sorted(unknown), *bad])
        raise PassError("E559", f"{names}: no float parameter of {func_name}", help="name float parameters")
    target, one = _target(body.body, target_index)
    bindings = body.bindings
    with bb.function(name, fn.params, private=True):
        for binding in bindings:
            bb.emit_binding(binding)
        adjoint = _Adjoint(bb, bindings, wanted)
        if type(target) is TupleGetItem:
            adjoint.add_to_field(target.tuple_value, target.index, bb.emit(one))
        elif isinstance(target, Var):
            adjoint.add(target, bb.emit(one))
        adjoint.run()
        grads = [adjoint.whole(adjoint.grads.get(p), p.ty) for p in wanted]
        bb.emit_func_output(Tuple((body.body, Tuple(tuple(grads)))))
    made = bb.get()[name]
    grouped: Function = convert_to_dataflow.function(made, min_size=1)
    return replace(grouped, pure=fn.pure)


@module_pass()
def gradient(
    mod: IRModule, *, func_name: str = "main", require_grads: tuple[str, ...] = (), target_index: int = 0
) -> IRModule:
    """Add ``main_adjoint``: the results of a function and the gradients of its parameters, in reverse mode.

    Requires a straight line of operators and a float scalar result, field ``target_index`` of a tuple. Raises PassError E559.
    ``func_name``: the function; ``require_grads``: names of parameters, all of float type when empty; ``target_index``:
    the field of the result that is differentiated.
    """
    fn = mod[func_name]
    if not isinstance(fn, Function):
        raise PassError("E559", f"{func_name} is not a graph function")
    name = f"{func_name}_adjoint"
    if name in mod:
        raise PassError("E559", f"the module has a function {name} already", help="rename it")
    attrs = {**fn.attrs, "global_symbol": name} if "global_symbol" in fn.attrs else dict(fn.attrs)
    bb = BlockBuilder(mod)
    made = differentiate(fn, func_name, require_grads, target_index, bb, name)
    return bb.get().with_functions({name: replace(made, attrs=attrs)})
