"""``unity.topi``: the operators as functions on te.Tensors, ``topi.add(A, B)``, ``topi.nn.relu(A)``.

Every operator with a lowering is here under its own name (``R.nn.relu`` is ``topi.nn.relu``); nothing is written twice: a
call is checked by the operator's type rule and computed by its lowering. A few names of TVM's library that are no operator
stand in ``_EXTRA``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..ir.expr import Call, Constant, FloatImm, IntImm, ShapeExpr, Tuple, Var
from ..ir.op import OPS
from ..ir.relation import tensor_type
from ..ir.types import Expr, PrimType, ShapeType
from ..support.errors import TypeRuleError
from . import OPERATORS
from .table import Operator


class _Arguments:
    """Python arguments with te.Tensors as an operator's expressions, and back."""

    def __init__(self) -> None:
        self.tensors: dict[Var, te.Tensor] = {}
        self.vars: dict[te.Tensor, Var] = {}

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

    def to_te(self, value: Expr, scalars: bool) -> Any:
        """What a lowering receives for an argument of the call."""
        if isinstance(value, Var) and value in self.tensors:
            return self.tensors[value]
        if type(value) is Tuple:
            return [self.to_te(f, scalars) for f in value.fields]
        if isinstance(value.ty, ShapeType):
            return value.values if type(value) is ShapeExpr else value.ty.values
        if type(value) is Constant and value.data.ndim == 0 and scalars:
            return te.const(value.data.numpy()[()].item(), value.data.dtype)
        if type(value) in (IntImm, FloatImm) or isinstance(value.ty, PrimType):
            return te.Value(value)
        if type(value) is Constant:
            raise TypeRuleError("E217", "an array cannot stand in a tensor expression", help="make it a te.placeholder")
        return value


def _function(operator: Operator) -> Callable[..., Any]:
    info = operator.info

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = _Arguments()
        made: Call = operator(
            *[arguments.to_expr(a) for a in args], **{k: arguments.to_expr(v) for k, v in kwargs.items()}
        )
        assert callable(info.lower)
        scalars = bool(info.extra.get("scalars"))
        return info.lower(made, *[arguments.to_te(a, scalars) for a in made.args])

    call.__name__ = call.__qualname__ = info.name.split(".")[-1]
    call.__doc__ = f"``{info.name}`` of te.Tensors: {info.doc}"
    return call


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None) -> Any:
    """``data @ weight.T (+ bias)``: a linear layer with the weight of shape (out, in), as torch stores it."""
    product = _FUNCTIONS["einsum"]((data, weight), subscripts="...k,nk->...n")
    product.op.name = product.name = "dense"
    return product if bias is None else _FUNCTIONS["add"](product, bias)


def _named(source: str) -> Callable[..., Any]:
    return _FUNCTIONS[source]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name[2:]: _function(operator) for name, operator in OPERATORS.items() if callable(OPS[name].lower)
}
_EXTRA: dict[str, Callable[..., Any]] = {
    "nn.dense": dense,
    "nn.matmul": _named("matmul"),
    "transpose": _named("permute_dims"),
}
_ALL = {**_FUNCTIONS, **_EXTRA}


class _Names:
    """The functions whose names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return _find(f"{self._prefix}{name}")

    def __dir__(self) -> list[str]:
        return sorted({n[len(self._prefix) :].partition(".")[0] for n in _ALL if n.startswith(self._prefix)})


def _find(name: str) -> Any:
    found = _ALL.get(name)
    if found is not None:
        return found
    if any([n.startswith(f"{name}.") for n in _ALL]):
        return _Names(f"{name}.")
    raise AttributeError(f"unity.topi has no function {name!r}")


def __getattr__(name: str) -> Any:
    return _find(name)


def __dir__() -> list[str]:
    return sorted({n.partition(".")[0] for n in _ALL})
