"""TVM's names of graph nodes and types: called, they make a node of Python's lists, numbers and strings; in ``isinstance`` and as
a key of rules they stand for the class of ``unity.ir``.

``relax.Call(op, [x, y])``, ``isinstance(call, relax.Call)``, ``rewrite(func, {relax.Call: rule})``. Not here: operators, calls of
tensor programs (``calls.py``). Invariant: what is made is a node of ``unity.ir`` with its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ffi.dtype import DataType
from ..ir import expr as ir, function, relation, types
from ..ir.builder import UNKNOWN, is_unknown, join_branches
from ..ir.infer import find_impure_call, infer_call
from ..ir.node import replace
from ..ir.walk import free_vars
from ..op.building.block_builder import BlockBuilder
from ..op.common.table import constant, to_expr
from ..support.arguments import checked
from ..support.errors import TypeRuleError
from ..support.source import Span
from ..te.tensor import shape_of


class _Front(type):
    """A maker of nodes that stands for their class."""

    kind: type
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kind)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls.kind or (type(other) is _Front and other.kind is cls.kind)

    def __hash__(cls) -> int:
        return hash(cls.kind)


def makes(kind: type) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: the function's name stands for a class of nodes, and calls of it are calls of the function."""

    def wrap(make: Callable[..., Any]) -> Any:
        held = {
            "kind": kind,
            "make": staticmethod(checked(make)),
            "__doc__": make.__doc__,
            "__module__": make.__module__,
        }
        return _Front(make.__name__, (), held)

    return wrap


# ---- types


@makes(types.TensorType)
def TensorType(
    shape: Any = None, dtype: str | DataType | None = "float32", vdevice: Any = None, ndim: int = -1
) -> types.Type:
    """Type of a tensor: numbers, te.Values and scalar variables as dimensions, or a value of ShapeType; None where the shape is
    not known."""
    if isinstance(vdevice, int):  # the order of arguments before there were virtual devices
        vdevice, ndim = None, vdevice
    whole = shape is None or (isinstance(shape, types.Expr) and isinstance(shape.ty, types.ShapeType))
    made = relation.tensor_type(shape if whole else shape_of(shape), dtype, ndim)
    return made if vdevice is None else types.TensorType(made.shape, made.dtype, made.ndim, vdevice)


@makes(types.ShapeType)
def ShapeType(values: Any = None, ndim: int = -1) -> types.Type:
    """Type of a shape value."""
    return types.ShapeType(None, ndim) if values is None else relation.shape_type(shape_of(values))


@makes(types.TupleType)
def TupleType(fields: Sequence[types.Type]) -> types.Type:
    """Type of a tuple."""
    return types.TupleType(tuple(fields))


@makes(types.PrimType)
def PrimType(dtype: str | DataType) -> types.Type:
    """Type of a scalar."""
    return types.prim_type(dtype)


@makes(types.ObjectType)
def ObjectType() -> types.Type:
    """Type of anything."""
    return types.OBJECT


@makes(types.FuncType)
def FuncType(params: Sequence[types.Type], ret: types.Type, purity: bool = True) -> types.Type:
    """Type of a function."""
    return types.FuncType(tuple(params), ret, purity)


# ---- expressions


@makes(ir.Var)
def Var(name: str, annotation: Any = None, dtype: str | DataType | None = None) -> ir.Var:
    """A variable of the graph level: ``Var("x", type)``, or ``Var("x", (n, 4), "float32")`` for a tensor.

    Raises TypeRuleError E210 without a type.
    """
    if annotation is None:
        raise TypeRuleError("E210", f"variable {name} needs a type", help='relax.Var("x", (4, 4), "float32")')
    given = isinstance(annotation, types.Type)
    return ir.Var(name, annotation if given else TensorType(annotation, dtype or "float32"))


class _OfDataflow(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return ir.is_dataflow_var(instance)


class _DataflowVars(metaclass=_OfDataflow):
    """Variables of dataflow blocks, which TVM has a class for."""


@makes(_DataflowVars)
def DataflowVar(name: str, annotation: Any = None, dtype: str | DataType | None = None) -> ir.Var:
    """A variable of a dataflow block."""
    made: ir.Var = Var(name, annotation, dtype)
    return replace(made, dataflow=True)


@makes(ir.Call)
def Call(
    op: Any, args: Sequence[Any] = (), attrs: Mapping[str, Any] | None = None, ty_args: Sequence[types.Type] | None = None,
    span: Span | None = None, *, sinfo_args: Sequence[types.Type] | None = None,
) -> ir.Call:  # fmt: skip
    """A call with its type deduced; ``op`` is an operator (or its name), a function, a variable or a registered function."""
    callee = ir.op(op) if isinstance(op, str) else op
    parts = tuple([to_expr(a) for a in tuple(args)])
    made = ir.Call(callee, parts, dict(attrs or {}), tuple(ty_args or sinfo_args or ()), UNKNOWN, span)
    nested = any([is_unknown(p.ty) for p in parts])  # deduced when it is emitted
    return made if nested else ir.Call(callee, parts, made.attrs, made.ty_args, infer_call(made), span)


@makes(ir.Tuple)
def Tuple(fields: Sequence[Any], span: Span | None = None) -> ir.Tuple:
    """A tuple value."""
    return ir.Tuple(tuple([to_expr(f) for f in tuple(fields)]), span)


@makes(ir.TupleGetItem)
def TupleGetItem(tuple_value: types.Expr, index: int, span: Span | None = None) -> ir.TupleGetItem:
    """A field of a tuple. Raises TypeRuleError E743 for an index it does not have."""
    known = tuple_value.ty.fields if isinstance(tuple_value.ty, types.TupleType) else None
    if known is not None and not 0 <= index < len(known):
        raise TypeRuleError("E743", f"a tuple of {len(known)} fields has no field {index}", span)
    return ir.TupleGetItem(tuple_value, index, span)


@makes(ir.ShapeExpr)
def ShapeExpr(values: Any, span: Span | None = None) -> ir.ShapeExpr:
    """A shape value of numbers and scalar expressions."""
    return ir.ShapeExpr(shape_of(values), span)


@makes(ir.Constant)
def Constant(data: Any, ty: Any = None, span: Span | None = None) -> ir.Constant:
    """Tensor data as an expression; its type follows from the data."""
    return constant(data)


@makes(ir.DataTypeImm)
def DataTypeImm(value: str | DataType, span: Span | None = None) -> ir.DataTypeImm:
    """A data type as a value."""
    return ir.DataTypeImm(DataType(value), span)


def _sequence(value: types.Expr) -> ir.SeqExpr:
    """A value as a sequence, its nested calls bound in it."""
    if isinstance(value, ir.SeqExpr):
        return value
    bb = BlockBuilder()
    with bb.new_sequence() as finish:
        return finish(bb.normalize(value))


@makes(ir.If)
def If(cond: types.Expr, true_branch: Any, false_branch: Any, span: Span | None = None) -> ir.If:
    """A conditional value; a branch that is not a sequence becomes one."""
    then_branch, else_branch = _sequence(to_expr(true_branch)), _sequence(to_expr(false_branch))
    return ir.If(cond, then_branch, else_branch, join_branches(then_branch, else_branch), span)


@makes(ir.SeqExpr)
def SeqExpr(blocks: Sequence[ir.BindingBlock], body: Any, span: Span | None = None) -> ir.SeqExpr:
    """Blocks of bindings and then a value."""
    return ir.SeqExpr(tuple(blocks), to_expr(body), span)


@makes(ir.BindingBlock)
def BindingBlock(bindings: Sequence[ir.Binding], span: Span | None = None) -> ir.BindingBlock:
    """Bindings in order."""
    return ir.BindingBlock(tuple(bindings), span)


@makes(ir.DataflowBlock)
def DataflowBlock(bindings: Sequence[ir.Binding], span: Span | None = None) -> ir.DataflowBlock:
    """Bindings without effects."""
    return ir.DataflowBlock(tuple(bindings), span)


@makes(function.Function)
def Function(
    params: Sequence[ir.Var], body: Any, ret_ty: types.Type | None = None, is_pure: bool | None = None,
    attrs: Mapping[str, Any] | None = None, span: Span | None = None, *, ret_struct_info: types.Type | None = None,
) -> function.Function:  # fmt: skip
    """A graph function; its result type follows from the body where none is given, its purity as well."""
    variables = tuple(params)
    sequence = _sequence(to_expr(body))
    given = ret_ty or ret_struct_info
    if given is None:
        given = relation.erase(sequence.ty, [v for p in variables for v in (p, *free_vars(p.ty))])
    pure = find_impure_call(sequence) is None if is_pure is None else is_pure
    return function.Function(variables, sequence, given, pure, dict(attrs or {}), span)


TensorStructInfo, ShapeStructInfo, TupleStructInfo = TensorType, ShapeType, TupleType
PrimStructInfo, ObjectStructInfo, FuncStructInfo, AnyType = PrimType, ObjectType, FuncType, ObjectType
tensor_type, shape_type = TensorType, ShapeType

__all__ = [
    "AnyType", "BindingBlock", "Call", "Constant", "DataTypeImm", "DataflowBlock", "DataflowVar", "FuncStructInfo", "FuncType",
    "Function", "If", "ObjectStructInfo", "ObjectType", "PrimStructInfo", "PrimType", "SeqExpr", "ShapeExpr", "ShapeStructInfo",
    "ShapeType", "TensorStructInfo", "TensorType", "Tuple", "TupleGetItem", "TupleStructInfo", "TupleType", "Var", "shape_type",
    "tensor_type",
]  # fmt: skip
