"""Printing of types: ``R.Tensor``, ``R.Shape``, ``R.Callable`` ...

Invariant: in a signature, dimensions with symbols are quoted, since their names are bound only inside the function.
"""

from __future__ import annotations

from ...ir import types as ty
from ...ir.expr import IntImm, ShapeExpr
from ...ir.types import Expr, Type
from ..spelling.ranges import same_expr
from .core import INDEX, TYPES, Printer, closing, quote
from .intrinsic import pointer_text


def _dimension(p: Printer, value: Expr) -> None:
    """A dimension; inside a signature one with symbols is quoted."""
    if p.quoting and type(value) is not IntImm:
        p.put(quote(p.text_of(lambda: p.expr(value, INDEX))))
    else:
        p.expr(value, INDEX)


def _tensor_type(p: Printer, node: ty.TensorType) -> None:
    parts: list[str] = []
    shape = node.shape
    if type(shape) is ShapeExpr:
        dims = p.text_of(lambda: p.joined(shape.values, _dimension))
        parts.append(f"({dims}{closing(shape.values)}")
    elif shape is not None:
        parts.append(p.text_of(lambda: p.expr(shape, INDEX)))
    if node.dtype is not None:
        parts.append(f'"{node.dtype.name}"' if parts else f'dtype="{node.dtype.name}"')
    if node.ndim >= 0 and type(shape) is not ShapeExpr:
        parts.append(f"ndim={node.ndim}")
    if node.vdevice is not None:
        parts.append(f"vdevice={quote(node.vdevice)}")
    p.put(f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor")


def _shape_type(p: Printer, node: ty.ShapeType) -> None:
    if node.values is not None:
        p.put("R.Shape([")
        p.joined(node.values, _dimension)
        p.put("])")
    else:
        p.put(f"R.Shape(ndim={node.ndim})" if node.ndim >= 0 else "R.Shape")


def _tuple_type(p: Printer, node: ty.TupleType) -> None:
    p.put("R.Tuple(")
    p.joined(node.fields, Printer.type)
    p.put(")")


def _func_type(p: Printer, node: ty.FuncType) -> None:
    if node.params is None and type(node.ret) is ty.ObjectType and not node.pure and node.derive is None:
        p.put("R.Callable")
        return
    p.put("R.Callable(")
    if node.params is None:
        p.put("None")
    else:
        p.put("(")
        p.joined(node.params, Printer.type)
        p.put(closing(node.params))
    p.put(", ", node.ret)
    if p.dialect.tvm or node.pure is (node.params is None):
        p.put(f", {node.pure}")
    if node.derive is not None:
        p.put(f", derive_func={quote(node.derive)}")
    p.put(")")


TYPES.update({
    ty.TensorType: _tensor_type, ty.ShapeType: _shape_type, ty.TupleType: _tuple_type, ty.FuncType: _func_type,
    ty.PrimType: lambda p, node: p.put(f'R.Prim("{node.dtype.name}")' if p.level == "R" else f"T.{node.dtype.name}"),
    ty.PointerType: lambda p, node: p.put(pointer_text(node)), ty.ObjectType: lambda p, node: p.put(p.word("R.Object")),
})  # fmt: skip


def same_type(a: Type, b: Type) -> bool:
    """True when two types are written alike over the same variables."""
    return a is b or (type(a) is type(b) and same_expr(a, b))
