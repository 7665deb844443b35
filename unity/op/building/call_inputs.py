"""From a call of an operator to what its lowering takes: te.Tensors for tensors, te.Values for scalars.

Not here: what is done with the result. Invariant: a tensor that stands twice among the arguments is one input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...arith.cost import Cost, cost_of
from ...ir.expr import Call, Constant, FloatImm, IntImm, Op, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir.op import OPS, OpInfo
from ...ir.types import Expr, PrimType, ShapeType, TensorType, TupleType, Type
from ...ir.walk import substitute
from ...support.errors import TypeRuleError
from ...support.source import Span
from ..common.lowering import known_dims
from ..common.table import R


def kernel_call(
    kernel: Expr, values: Sequence[Expr], symbols: Sequence[Expr], ty: Type, span: Span | None = None
) -> Call:
    """``R.call_dps`` of a kernel with tensors and symbols whose results are of type ``ty``."""
    args = (kernel, Tuple(tuple(values)), *([ShapeExpr(tuple(symbols))] if symbols else []))
    return Call(R.call_dps.op, args, {}, ty.fields if isinstance(ty, TupleType) else (ty,), ty, span)


class CallInputs:
    """Graph arguments as inputs of a lowering, with the kernel's parameters and the values passed for them.

    ``field`` gives one part of a tuple.
    """

    def __init__(self, call: Call, info: OpInfo, field: Callable[[Expr, int], Expr]) -> None:
        self.call = call
        self.info = info
        self.field = field
        self.params: list[Any] = []
        self.values: list[Expr] = []
        self.by_tensor: dict[te.Tensor, Expr] = {}
        self.placeholders: dict[Expr, te.Tensor] = {}

    def all(self) -> list[Any]:
        """Every argument of the call. Raises TypeRuleError E218 for a shape that is not known."""
        names = [p.name for p in self.info.params if p.kind != "attr"]
        return [self.convert(a, names[min(i, len(names) - 1)]) for i, a in enumerate(self.call.args)]

    def convert(self, arg: Expr, name: str) -> Any:
        """One argument: a te.Tensor, te.Value, tuple of dimensions, or a list of them."""
        ty = arg.ty
        if isinstance(ty, TensorType):
            return self.tensor(arg, ty, name)
        if isinstance(ty, TupleType):
            fields = [self.field(arg, i) for i in range(len(ty.fields))]
            return [self.convert(f, f"{name}{i}") for i, f in enumerate(fields)]
        if isinstance(ty, ShapeType):
            return arg.values if type(arg) is ShapeExpr else ty.values
        if isinstance(ty, PrimType) and not isinstance(arg, (IntImm, FloatImm)):
            scalar = Var(name, ty)
            self.params.append(scalar)
            self.values.append(arg)
            return te.Value(scalar)
        return te.Value(arg) if isinstance(ty, PrimType) else arg

    def tensor(self, arg: Expr, ty: TensorType, name: str) -> Any:
        """The placeholder of a tensor, or the number of a constant of rank 0."""
        if type(arg) is Constant and arg.data.ndim == 0 and self.info.scalars_from is not None:
            return te.const(arg.data.numpy()[()].item(), arg.data.dtype)
        shape = known_dims(self.call, ty)
        if ty.dtype is None:
            known_dims(self.call, TensorType(None, None))
        if arg in self.placeholders:
            return self.placeholders[arg]
        result = te.placeholder(shape, ty.dtype or "float32", name)
        self.params.append(result)
        self.values.append(arg)
        self.by_tensor[result] = arg
        self.placeholders[arg] = result
        return result


def _field(value: Expr, index: int) -> Expr:
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


def call_cost(call: Call) -> Cost | None:
    """Work of an operator's call, in the symbols of its types; None for one without lowering or of unknown shape."""
    info = OPS.get(call.op.name) if isinstance(call.op, Op) else None
    if info is None or not callable(info.lower):
        return None
    inputs = CallInputs(call, info, _field)
    try:
        result = info.lower(call, *inputs.all())
    except TypeRuleError:
        return None
    results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if r not in inputs.by_tensor]
    if not results:
        return None
    func, symbols = te.create_prim_func_with_symbols([*inputs.params, *results])
    own: dict[Any, Any] = dict(zip(func.params[len(inputs.params) + len(results) :], symbols))
    for param, given, value in zip(func.params, inputs.params, inputs.values):
        if isinstance(given, te.Tensor):
            own |= {dim: size for dim, size in zip(func.buffer_map[param].shape, given.shape) if type(dim) is Var}
        else:
            own[param] = value
    work = cost_of(func)
    return Cost(*[substitute(amount, own) for amount in (work.flops, work.read, work.written)])
