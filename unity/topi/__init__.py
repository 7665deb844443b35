"""``unity.topi``: the operators as functions on te.Tensors, ``topi.add(A, B)``, ``topi.nn.relu(A)``.

Every operator with a lowering is here under its own name (``R.nn.relu`` is ``topi.nn.relu``); nothing is written twice: a
call is checked by the operator's type rule and computed by its lowering. Names of arguments are TVM's or the operator's. Where TVM
has another order of arguments it holds (``orders.py``); names of its library that are not operators stand in ``_EXTRA``.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from .. import te
from ..ir.expr import Call, Constant, FloatImm, IntImm, ShapeExpr, Tuple, Var
from ..ir.op import OPS
from ..ir.relation import tensor_type
from ..ir.types import Expr, PrimType, ShapeType
from ..op import OPERATORS
from ..op.common.table import Builders
from ..op.composite import COMPOSITES
from ..support.arguments import public
from ..support.errors import TypeRuleError
from ..te.tensor import OPERATIONS
from .orders import ALIASES, FIRST, more, orders, pool_kind, whole_number


class _Arguments:
    """Python arguments with te.Tensors as an operator's expressions, and back."""

    def __init__(self) -> None:
        self.tensors: dict[Var, te.Tensor] = {}
        self.vars: dict[te.Tensor, Var] = {}
        self.made: dict[Call, Any] = {}

    def to_expr(self, value: Any) -> Any:
        """Variables for tensors, expressions for te.Values; other things as they are."""
        if isinstance(value, te.Tensor):
            found = self.vars.get(value)
            if found is None:
                found = self.vars[value] = Var(value.name, tensor_type(value.shape, value.data_type))
                self.tensors[found] = value
            return found
        if isinstance(value, te.Value):
            return value.expr
        if isinstance(value, (list, tuple)):
            fields = [self.to_expr(v) for v in value]
            return Tuple(tuple(fields)) if fields and all([f in self.tensors for f in fields]) else tuple(fields)
        return value

    def to_te(self, value: Expr, scalars: bool = False) -> Any:
        """The value that a lowering receives for an argument of the call; of a call what it computes."""
        if isinstance(value, Var) and value in self.tensors:
            return self.tensors[value]
        if type(value) is Call:
            if value not in self.made:  # a combination may use a value several times
                info = OPS[value.op_name]
                assert callable(info.lower)
                parts = [self.to_te(a, info.scalars_from is not None) for a in value.args]
                self.made[value] = info.lower(value, *parts)
            return self.made[value]
        if type(value) is Tuple:
            return [self.to_te(f, scalars) for f in value.fields]
        if isinstance(value.ty, ShapeType):
            return value.values if type(value) is ShapeExpr else value.ty.values
        if type(value) is Constant and value.data.ndim == 0 and scalars:
            return te.const(value.data.numpy()[()].item(), value.data.dtype)
        if isinstance(value, (IntImm, FloatImm)) or isinstance(value.ty, PrimType):
            return te.Value(value)
        if type(value) is Constant:
            raise TypeRuleError("E217", "an array cannot stand in a tensor expression", help="make it a te.placeholder")
        return value


def _function(name: str, operator: Callable[..., Expr], names: list[str], doc: str) -> Callable[..., Any]:
    """The operator, or the combination of operators, on te.Tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = _Arguments()
        return arguments.to_te(
            operator(
                *[arguments.to_expr(a) for a in args],
                **{_tvm_argument(names, k): arguments.to_expr(v) for k, v in kwargs.items()},
            )
        )

    call.__name__ = call.__qualname__ = name.split(".")[-1]
    call.__doc__ = f"``{name}`` of te.Tensors: {doc}"
    return call


def _tvm_argument(names: list[str], name: str) -> str:
    """The name of an argument that may be called as in TVM."""
    if name in names:
        return name
    return names[0] if name in FIRST else ALIASES.get(name, name)


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None) -> Any:
    """``data @ weight.T (+ bias)``: a linear layer with the weight of shape (out, in), as torch stores it."""
    product = _FUNCTIONS["einsum"]((data, weight), subscripts="...k,nk->...n")
    product.op.name = product.name = "dense"
    return product if bias is None else _FUNCTIONS["add"](product, bias)


def batch_matmul(
    tensor_a: te.Tensor, tensor_b: te.Tensor, oshape: Any = None, out_dtype: str | None = None, transpose_a: bool = False,
    transpose_b: bool = True,
) -> Any:  # fmt: skip
    """Products of a batch of matrices; the second ones are given transposed unless ``transpose_b`` is False."""
    return _EXTRA["nn.matmul"](tensor_a, tensor_b, None, out_dtype, transpose_a, transpose_b)


def depthwise_conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Any:
    """Convolution of each channel with its own weights, of shape (channels, multiplier, height, width)."""
    channels, multiplier, *space = kernel.shape
    single = _FUNCTIONS["reshape"](kernel, [te.Value(channels) * te.Value(multiplier), 1, *space])
    groups = whole_number(channels, "the number of channels of a depthwise convolution")
    return _FUNCTIONS["nn.conv2d"](data, single, stride, padding, dilation, groups, out_dtype=out_dtype)


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> Any:
    """Mean ("avg") or largest ("max") of each channel of images, the axes kept."""
    reduce = "mean" if pool_kind(pool_type) == "avg" else "max"
    return _FUNCTIONS[reduce](data, axis=[layout.index("H"), layout.index("W")], keepdims=True)


def gather(data: te.Tensor, axis: int, indices: te.Tensor) -> Any:
    """Elements of ``data`` at ``indices`` along an axis; the result has the shape of the indices."""
    return _FUNCTIONS["gather_elements"](data, indices, axis=axis)


def trilu(data: te.Tensor, k: Any, upper: bool) -> Any:
    """The upper or lower triangle of matrices, the rest zero."""
    return _FUNCTIONS["triu" if upper else "tril"](data, k)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name[2:]: _function(name, operator, [p.name for p in OPS[name].params], OPS[name].doc)
    for name, operator in OPERATORS.items()
    if callable(OPS[name].lower)
} | {
    name[2:]: _function(name, function, [*signature(function).parameters], function.__doc__ or "")
    for name, function in COMPOSITES.items()
}
_EXTRA: dict[str, Callable[..., Any]] = {
    **orders(_FUNCTIONS),
    **more(_FUNCTIONS),
    "cast": _FUNCTIONS["astype"],
    "concatenate": _FUNCTIONS["concat"],
    "gather": gather,
    "nn.batch_matmul": batch_matmul,
    "nn.dense": dense,
    "nn.depthwise_conv2d_nchw": depthwise_conv2d_nchw,
    "nn.flatten": _FUNCTIONS["nn.batch_flatten"],
    "nn.global_pool": global_pool,
    "nn.leaky_relu": _FUNCTIONS["nn.leakyrelu"],
    "transpose": _FUNCTIONS["permute_dims"],
    "trilu": trilu,
}
_ALL = {**_FUNCTIONS, **_EXTRA}


OPERATIONS.update({n: _FUNCTIONS[n] for n in ("add", "subtract", "multiply", "divide", "negative", "astype")})


def _find(path: str) -> Any:
    found = _ALL.get(path.removeprefix("topi."))
    return None if found is None else public(found)


_TOPI = Builders("topi", _find, lambda: [f"topi.{name}" for name in _ALL])
for _family in {name.partition(".")[0] for name in _ALL if "." in name}:
    getattr(_TOPI, _family).importable(f"{__name__}.{_family}")


def __getattr__(name: str) -> Any:
    return getattr(_TOPI, name)


def __dir__() -> list[str]:
    return dir(_TOPI)
