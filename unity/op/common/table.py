"""Rows become callables: ``row(...)`` registers an OpInfo and returns an ``Operator`` that builds calls from Python values.

Here: binding of arguments to parameters, conversion of Python values to expressions. Not here: any operator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, cast

import numpy as np

from ...arith.index_map import IndexMap
from ...ffi.dtype import DataType, dtype_names
from ...ffi.tensor import Tensor, tensor
from ...ir.buffer import Buffer, BufferRegion
from ...ir.build import const, wrap_int
from ...ir.builder import make_call
from ...ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    IntImm,
    Op,
    ShapeExpr,
    StringImm,
    Tuple,
    op,
)
from ...ir.function import Function, PrimFunc
from ...ir.node import frozen
from ...ir.op import REQUIRED, OpInfo, Param, register_op, usage
from ...ir.relation import tensor_type
from ...ir.scalar import CommReducer, IterVar
from ...ir.types import Expr, PrimType, TensorType, Type
from ...support.arguments import guarded
from ...support.errors import ArgumentError, FFIError, TypeRuleError, suggest
from ...support.source import Span
from .parameters import DESCRIPTIONS

_SCALARS = {bool: "bool", int: "int64", float: "float32"}
_ELEMENTS = {"int64": "int32", "float64": "float32"}


def constant(value: Any, dtype: str | DataType | None = None) -> Constant:
    """Return ``value`` as a constant: Python numbers and lists become tensors of int32, float32 or bool unless ``dtype`` is given,
    arrays keep their dtype. Raises TypeRuleError E201 for a value that the dtype does not have, E211 for an integer outside int32.
    """
    if isinstance(value, Tensor):
        data = value
    elif dtype and DataType(dtype).name not in dtype_names():
        raise TypeRuleError("E211", f"there is no constant of {dtype}", help="write for example int64, float32, bool")
    elif dtype:
        try:
            data = tensor(np.array(value) if isinstance(value, np.ndarray) else value, dtype)
        except FFIError as error:
            raise TypeRuleError("E201", error.message, help=error.help or "write a number that it can hold") from None
    elif isinstance(value, (np.ndarray, np.generic)):
        data = Tensor(np.asarray(value))
    else:
        data = Tensor(number_array(value))
    return Constant(data, tensor_type([const(n, "int64") for n in data.shape], data.dtype))


def number_array(value: Any) -> np.ndarray:
    """Python numbers without a data type as an array: int32, float32 or bool. Raises TypeRuleError E211 outside int32."""
    array = np.asarray(value)
    result = array.astype(_ELEMENTS.get(array.dtype.name, "bool"))
    if array.dtype.kind not in "bif" or (array.dtype.kind == "i" and not np.array_equal(result, array)):
        raise TypeRuleError(
            "E211",
            "the values are not numbers of int32, float32 or bool",
            help='write the data type: R.const(value, "int64")',
        )
    return result


def to_expr(value: Any) -> Expr:
    """Expression of a Python value: numbers are scalars, tuples of scalars shapes, tuples of others tuples, arrays constants.
    Raises TypeRuleError E210, E211."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (Tensor, np.ndarray, np.generic)):  # numpy's float64 is a float
        return constant(value)
    if isinstance(value, (bool, int, float)):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TypeRuleError("E211", "this integer is outside the range of int64", help="write a float")
        return const(value, next(dtype for kind, dtype in _SCALARS.items() if isinstance(value, kind)))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, DataType):
        return DataTypeImm(value)
    if isinstance(value, (tuple, list)):
        parts = [to_expr(v) for v in value]
        if parts and not all([isinstance(p.ty, PrimType) for p in parts]):
            return Tuple(tuple(parts))
        return ShapeExpr(tuple(parts))
    raise TypeRuleError(
        "E210",
        f"a value of type {type(value).__name__} is not an expression",
        help="give an expression, a number or an array",
    )


def bind_arguments(
    info: OpInfo, args: Sequence[Any], kwargs: Mapping[str, Any], span: Span | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """Match Python arguments ``args`` and ``kwargs`` with the parameters of ``info``: (values of "expr" parameters, values of
    "attr" parameters).

    Defaults that are not None are put in; trailing optional expressions are left out. Raises TypeRuleError E215, at ``span``, for
    too many, unknown, doubled or missing arguments.
    """
    name = info.name
    given: dict[str, Any] = {}
    rest: list[Any] = []
    params = list(info.params)
    positional = [p for p in params if p.kind != "exprs"]
    variadic = next((p for p in params if p.kind == "exprs"), None)
    if variadic is not None:
        leading = params[: params.index(variadic)]
        for param, value in zip(leading, args):
            given[param.name] = value
        rest = list(args[len(leading) :])
    else:
        if len(args) > len(positional):
            raise TypeRuleError(
                "E215", f"{name} takes {len(positional)} arguments, got {len(args)}", span, help=usage(info)
            )
        for param, value in zip(positional, args):
            given[param.name] = value
    known = {p.name for p in params}
    for key, value in kwargs.items():
        if key not in known:
            near = suggest(key, known)
            help_text = f"{near} {usage(info)}" if near else usage(info)
            raise TypeRuleError("E215", f"{name} has no parameter {key!r}", span, help=help_text)
        if key in given:
            raise TypeRuleError("E215", f"{name} got {key!r} twice", span, help=usage(info))
        if variadic is not None and key == variadic.name:
            if not isinstance(value, (tuple, list)):
                raise TypeRuleError("E215", f"{name}: {key} must be a tuple of arguments", span, help=usage(info))
            rest = list(value)
            continue
        given[key] = value
    exprs: list[Any] = []
    attrs: dict[str, Any] = {}
    pending: list[str] = []
    for param in params:
        if param.kind == "exprs":
            exprs.extend(rest)
            continue
        value = given.get(param.name, param.default)
        if value is REQUIRED or (value is None and param.default is REQUIRED and param.kind == "expr"):
            raise TypeRuleError("E215", f"{name}: argument {param.name!r} is missing", span, help=usage(info))
        if param.kind == "attr":
            if (
                param.default is None
                and param.name.endswith("dtype")
                and isinstance(value, str)
                and value in ("", "void")
            ):
                value = None  # TVM's spellings of a data type that is not given
            attrs[param.name] = _attribute(value, f"{name}: {param.name}")
        elif value is None:
            pending.append(param.name)
        else:
            if pending:
                rule = info.implied
                implied = [rule(left_out, exprs[0]) for left_out in pending] if rule is not None else [None]
                if any([meant is None for meant in implied]):
                    raise TypeRuleError(
                        "E215", f"{name}: {param.name!r} needs the optional argument before it", span, help=usage(info)
                    )
                exprs += implied
                pending.clear()
            exprs.append(value)
    return exprs, attrs


def is_attribute_node(value: Any) -> bool:
    """True for the IR nodes that an attribute may hold: those with a spelling as a value."""
    kinds = (Type, Expr, Buffer, BufferRegion, IterVar, CommReducer, IndexMap)
    return isinstance(value, kinds) and not isinstance(value, (Function, PrimFunc))


def _attribute(value: Any, what: str) -> Any:
    """The value of an attribute, frozen. Raises TypeRuleError E214 for what no attribute holds."""
    if isinstance(value, (list, tuple)):
        return tuple([_attribute(v, what) for v in value])
    if isinstance(value, DataType):
        return value.name
    value = frozen(value)
    if value is None or isinstance(value, (bool, int, float, str, dict, tuple)) or is_attribute_node(value):
        return value
    raise TypeRuleError(
        "E214",
        f"{what} cannot be a value of type {type(value).__name__}",
        help="write a number, a string, or a tuple of these",
    )


@dataclass(slots=True, frozen=True, eq=False)
class Operator:
    """Builds calls of one row: ``unity.op.add(x, y)`` -> Call with its type."""

    info: OpInfo
    name: str = field(init=False)
    """The script name, ``R.add``."""
    op: Op = field(init=False)
    """The operator that calls of it apply."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.info.name)
        object.__setattr__(self, "op", op(self.info.name))

    @guarded
    def __call__(self, *args: Any, ty_args: Sequence[Type] = (), span: Span | None = None, **kwargs: Any) -> Call:
        if self.info.variadic and len(args) > 1 and all([isinstance(a, Expr) for a in args]):
            args = (Tuple(tuple(args)),)
        values, attrs = bind_arguments(self.info, args, kwargs, span)
        return make_call(self.op, call_arguments(self.info, values, attrs), attrs, ty_args, span)

    def __repr__(self) -> str:
        return f"<operator {usage(self.info)}>"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        described = [f"{p.name}: {p.doc}" for p in self.info.params if p.doc]
        return "\n".join([f"``{usage(self.info)}``: {self.info.doc}", *described])


OPERATORS: dict[str, Operator] = {}
"""Operators by script name, one for each row."""


class Builders:
    """Operators by attribute, as script writes them: ``R.nn.relu(x)``. ``find`` gives what a path names, ``paths`` all of them.

    A name is looked up when it is asked for: the rows of all families may refer to each other, whichever is read first.
    """

    name: str
    op: Op
    info: OpInfo
    """The properties of the operator."""

    def __init__(
        self, path: str, find: Callable[[str], Any] = OPERATORS.get, paths: Callable[[], Iterable[str]] = OPERATORS.keys
    ) -> None:
        self._path, self._find, self._paths = path, find, paths

    def importable(self, name: str) -> None:
        """Let import statements find the operators in a module of this name: ``from unity.relax.op.nn import relu``."""
        sys.modules[name] = cast(ModuleType, self)
        for part in dir(self):
            if f"{self._path}.{part}" not in self._paths():
                getattr(self, part).importable(f"{name}.{part}")

    def __getattr__(self, name: str) -> Builders:
        if name.startswith("__"):  # which Python asks modules and other objects for
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        found = self._find(path)
        if found is None:
            if not any([known.startswith(f"{path}.") for known in self._paths()]):
                close = suggest(path, self._paths())
                raise AttributeError(f"there is no operator {path}" + (f"; {close}" if close else ""))
            found = Builders(path, self._find, self._paths)
        setattr(self, name, found)
        return found  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        below = [path for path in self._paths() if path.startswith(f"{self._path}.")]
        return sorted({path[len(self._path) + 1 :].partition(".")[0] for path in below})

    def __call__(self, *args: Any, **kwargs: Any) -> Expr:
        raise ArgumentError("E717", f"{self._path} is not an operator", help="operators are below it: R.nn.relu(x)")


R = Builders("R")
"""All operators; for what gradients are written with."""


def call_arguments(info: OpInfo, values: Sequence[Any], attrs: Mapping[str, Any]) -> list[Expr]:
    """Expressions of Python values for the expression parameters of an operator.

    Numbers among the operands that the row says so of become constants of the dtype of its tensors, with all their digits. A float
    among integers stays a literal (the type rule refuses it). Where a float dtype of the result is given, floats are of it;
    functions that take values of any kind get them in float64. Raises E211 for an integer the dtype cannot hold.
    """
    any_kind = any([p.kind == "exprs" for p in info.params])
    wide = DataType("float64") if any_kind else _float_type(attrs.get("dtype"))
    if wide is not None:
        return [const(v, wide) if type(v) is float else to_expr(v) for v in values]
    first = len(values) if info.scalars_from is None else info.scalars_from
    result: list[Any] = [v if type(v) is float and n >= first else to_expr(v) for n, v in enumerate(values)]
    tensors = [v.ty for v in result[first:] if isinstance(v, Expr) and isinstance(v.ty, TensorType)]
    dtype = next((ty.dtype for ty in tensors if ty.dtype is not None), None)
    if dtype is None:
        return [to_expr(v) for v in result]
    return [*result[:first], *[_adopt(info, v, dtype) for v in result[first:]]]


def _float_type(given: Any) -> DataType | None:
    """The float data type that an attribute names; None where it names another one, or none (the type rule says so)."""
    try:
        dtype = DataType(given)
    except (FFIError, TypeError):
        return None
    return dtype if dtype.is_float else None


def _adopt(info: OpInfo, value: Any, dtype: DataType) -> Expr:
    number: Any = value.value if isinstance(value, (FloatImm, IntImm)) else value
    if type(number) is float:
        return constant(number, dtype) if dtype.is_float else to_expr(value)
    if type(value) is not IntImm:
        return to_expr(value)
    if dtype.is_integral and wrap_int(number, dtype) != number:
        raise TypeRuleError(
            "E211",
            f"{info.name}: {number} is not a {dtype.name} value",
            value.span,
            help="cast the tensor first: R.astype(x, ...)",
        )
    return constant(number, dtype)


def _param(given: Param | str) -> Param:
    """A parameter with its description: its own, or that of its name."""
    if isinstance(given, str):
        name, _, doc = given.partition(": ")
        given = Param(name, doc=doc)
    return given if given.doc else replace(given, doc=DESCRIPTIONS.get(given.name, ""))


def row(
    name: str,
    params: Sequence[Param | str],
    infer: Callable[[Call], Type],
    doc: str,
    kind: type[Operator] = Operator,
    **fields: Any,
) -> Operator:
    """Register an operator ``R.<name>``.

    ``params``: parameters in order; a text, ``name`` or ``name: meaning``, is a required expression, and ``parameters.py``
    describes shared ones. ``infer``: type rule, a function of the call. ``doc``: one sentence that says what it computes. ``kind``:
    class of what is called in Python. ``fields``: further fields of ``OpInfo``.
    """
    result = tuple([_param(p) for p in params])
    operator = OPERATORS[f"R.{name}"] = kind(register_op(OpInfo(f"R.{name}", result, infer, doc, **fields)))
    return operator


def rows(family: str) -> Callable[..., Operator]:
    """``row`` for the operators of a file, which are of one family: the heading under which the page lists them."""
    return partial(row, family=family)


def attribute(name: str, default: Any = REQUIRED, doc: str = "") -> Param:
    """Describe a compile-time parameter: its ``name``, its ``default`` (none: required), and ``doc``, its meaning."""
    return Param(name, "attr", default, doc)


def optional(name: str, default: Any = None, doc: str = "") -> Param:
    """Describe an expression that may be left out: its ``name``, its ``default``, and ``doc``, its meaning."""
    return Param(name, "expr", default, doc)


def extern(name: str) -> ExternFunc:
    """Reference to a registered function."""
    return ExternFunc(name)
