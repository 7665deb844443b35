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
    types = ty.fields if isinstance(ty, TupleType) and len(ty.fields) > 1 else (ty,)
    return Call(R.call_dps.op, args, {}, types, ty, span)


class KernelInputs:
    """The parameters of a kernel and the graph values passed for them; a value that is passed twice is one parameter."""

    def __init__(self) -> None:
        self.given: dict[Expr, Any] = {}

    @property
    def params(self) -> list[Any]:
        """The parameters: te.Tensors and variables."""
        return list(self.given.values())

    @property
    def values(self) -> tuple[Expr, ...]:
        """The values passed for them."""
        return tuple(self.given)

    @property
    def by_param(self) -> dict[Any, Expr]:
        """The value that is passed for a parameter."""
        return {param: value for value, param in self.given.items()}

    def tensor(self, value: Expr, shape: Sequence[Expr], dtype: Any, name: str) -> te.Tensor:
        """The placeholder of a tensor."""
        found: te.Tensor | None = self.given.get(value)
        if found is None:
            found = self.given[value] = te.placeholder(shape, dtype, name)
        return found

    def scalar(self, value: Expr, ty: PrimType, name: str) -> te.Value:
        """The variable of a scalar."""
        return te.Value(self.given.setdefault(value, Var(name, ty)))


class CallInputs(KernelInputs):
    """The arguments of an operator's call as inputs of its lowering. ``field`` gives one part of a tuple."""

    def __init__(self, call: Call, info: OpInfo, field: Callable[[Expr, int], Expr]) -> None:
        super().__init__()
        self.call = call
        self.info = info
        self.field = field

    def all(self) -> list[Any]:
        """Every argument of the call. Raises TypeRuleError E218 for a shape that is not known."""
        names = [p.name for p in self.info.params if p.kind != "attr"]
        return [self.convert(a, names[min(i, len(names) - 1)]) for i, a in enumerate(self.call.args)]

    def convert(self, arg: Expr, name: str) -> Any:
        """One argument: a te.Tensor, te.Value, tuple of dimensions, or a list of them."""
        ty = arg.ty
        if isinstance(ty, TensorType):
            return self.argument(arg, ty, name)
        if isinstance(ty, TupleType):
            fields = [self.field(arg, i) for i in range(len(ty.fields))]
            return [self.convert(f, f"{name}{i}") for i, f in enumerate(fields)]
        if isinstance(ty, ShapeType):
            return arg.values if type(arg) is ShapeExpr else ty.values
        if isinstance(ty, PrimType) and not isinstance(arg, (IntImm, FloatImm)):
            return self.scalar(arg, ty, name)
        return te.Value(arg) if isinstance(ty, PrimType) else arg

    def argument(self, arg: Expr, ty: TensorType, name: str) -> Any:
        """The placeholder of a tensor, or the number of a constant of rank 0."""
        if type(arg) is Constant and arg.data.ndim == 0 and self.info.scalars_from is not None:
            return te.const(arg.data.numpy()[()].item(), arg.data.dtype)
        shape = known_dims(self.call, ty if ty.dtype is not None else TensorType(None, None))
        return self.tensor(arg, shape, ty.dtype, name)


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
    results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if r not in inputs.by_param]
    if not results:
        return None
    func, symbols = te.create_prim_func_with_symbols([*inputs.params, *results])
    own: dict[Any, Any] = dict(zip(func.params[len(inputs.given) + len(results) :], symbols))
    for param, (value, given) in zip(func.params, inputs.given.items()):
        if isinstance(given, te.Tensor):
            own |= {dim: size for dim, size in zip(func.buffer_map[param].shape, given.shape) if type(dim) is Var}
        else:
            own[param] = value
    work = cost_of(func)
    return Cost(*[substitute(amount, own) for amount in (work.flops, work.read, work.written)])
