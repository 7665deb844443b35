"""Values of graph functions with a spelling of their own: constants, shapes, tuples, texts, functions, devices.

Not here: operators (``relax_expr.py``). Invariant: each function reads the arguments of one call and builds one node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

from ...ffi.device import Device, device_from_dlpack
from ...ir import (
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    IntImm,
    PrimType,
    ShapeExpr,
    StringImm,
    Tuple,
    prim_type,
)  # fmt: skip
from ...ir.relation import tensor_type
from ...op.composite import COMPOSITES
from ..parser import syntax as s
from .base import bind_arguments
from .constants import constant_bytes, constant_data
from .tir_special import read_index_map

_INT64 = prim_type("int64")


def _const(reader: Any, path: str, node: s.Call) -> Constant:
    args, keywords = reader.arguments(node)
    if path == "R.const_bytes":
        bound = bind_arguments(reader.reading, node, path, ("data", "shape", "dtype"), args, keywords, 3)
        data = constant_bytes(reader, bound, node)
    else:
        bound = bind_arguments(reader.reading, node, path, ("value", "dtype"), args, keywords, 1)
        data = constant_data(reader, bound["value"], bound.get("dtype"), node)
    dims = tuple([IntImm(extent, _INT64) for extent in data.shape])
    return Constant(data, tensor_type(dims, data.data_type), reader.reading.span(node))


def _shape(reader: Any, path: str, node: s.Call) -> ShapeExpr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("values",), args, keywords, 1)
    return ShapeExpr(reader.dimensions(bound["values"], node), reader.reading.span(node))


def _tuple_call(reader: Any, path: str, node: s.Call) -> Tuple:
    args, keywords = reader.arguments(node)
    if keywords:
        raise reader.error("E112", "R.tuple takes fields only", node)
    return Tuple(tuple([reader.expr(arg, node) for arg in args]), reader.reading.span(node))


def _tuple_field(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("tuple_value", "index"), args, keywords, 2)
    return reader.field(reader.expr(bound["tuple_value"], node), reader.as_integer(bound["index"], node), node)  # type: ignore[no-any-return]


def _prim_value(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("value",), args, keywords, 1)
    value: Expr = reader.expr(bound["value"], node)
    if not isinstance(value.ty, PrimType):
        raise reader.error("E113", "R.prim_value takes a number or a scalar expression", node)
    return value


def _str(reader: Any, path: str, node: s.Call) -> StringImm:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("value",), args, keywords, 1)
    return StringImm(reader.text(bound["value"], node), reader.reading.span(node))


def _dtype_value(reader: Any, path: str, node: s.Call) -> DataTypeImm:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("value",), args, keywords, 1)
    return DataTypeImm(reader.dtype(bound["value"], node), reader.reading.span(node))


def _extern_func(reader: Any, path: str, node: s.Call) -> ExternFunc:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("name", "ty"), args, keywords, 1)
    return ExternFunc(reader.text(bound["name"], node), reader.reading.span(node))


def _global_var(reader: Any, path: str, node: s.Call) -> Any:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("name",), args, keywords, 1)
    return reader.module_member(reader.text(bound["name"], node), node)


def _composite(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    composite = COMPOSITES[path]
    names = tuple(signature(composite).parameters)
    bound = bind_arguments(reader.reading, node, path, names, args, keywords, 2)
    return composite(**{name: bound[name] for name in names if name in bound})


def _device(reader: Any, path: str, node: s.Call) -> str:
    """``R.cuda(1)``, or ``R.device(1, 0)``, ``R.device("cpu", 0)``: a kind by its DLPack number or name, and an index."""
    args, keywords = reader.arguments(node)
    if path == "R.device":
        bound = bind_arguments(reader.reading, node, path, ("dev_type", "dev_id"), args, keywords, 1)
        kind, index = bound["dev_type"], reader.as_integer(bound.get("dev_id", 0), node)
        return str(
            Device(kind, index) if type(kind) is str else device_from_dlpack(reader.as_integer(kind, node), index)
        )
    bound = bind_arguments(reader.reading, node, path, ("index",), args, keywords, 0)
    return f"{path[2:]}:{reader.as_integer(bound.get('index', 0), node)}"


def vdevice(reader: Any, path: str, node: s.Call) -> dict[str, Any]:
    """``I.vdevice("cuda", 0, "global")`` as plain data: target, id, scope."""
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("target", "id", "scope"), args, keywords, 0)
    target = bound.get("target", "llvm")
    if not isinstance(target, (str, dict)):
        raise reader.error("E113", "a target is a text or a dict", node)
    return {
        "target": target, "id": reader.as_integer(bound.get("id", 0), node),
        "scope": reader.text(bound.get("scope", "global"), node),
    }  # fmt: skip


def _layout_transform(reader: Any, path: str, node: s.Call) -> Expr:
    """As other operators; the index map may be a bare lambda."""
    lambdas = {k: a for k, a in enumerate(node.args) if type(a) is s.Lambda}
    named = [k for k in node.keywords if type(k.value) is s.Lambda]
    rest = [a for k, a in enumerate(node.args) if k not in lambdas]
    args, keywords = reader.arguments(replace(node, args=rest, keywords=[k for k in node.keywords if k not in named]))
    for at, function in lambdas.items():
        args.insert(at, read_index_map(reader, function))
    for keyword in named:
        if keyword.name is None or keyword.name in keywords:
            raise reader.error("E112", f"argument {keyword.name!r} is given twice, or not by name", keyword)
        assert type(keyword.value) is s.Lambda
        keywords[keyword.name] = read_index_map(reader, keyword.value)
    return reader.operator(path, args, keywords, node)  # type: ignore[no-any-return]


GRAPH_FORMS: dict[str, Callable[[Any, str, s.Call], Any]] = {
    "R.const": _const,
    "R.layout_transform": _layout_transform,
    "R.const_bytes": _const,
    "R.shape": _shape,
    "R.tuple": _tuple_call,
    "R.TupleGetItem": _tuple_field,
    "R.prim_value": _prim_value,
    "R.str": _str,
    "R.dtype": _dtype_value,
    "R.ExternFunc": _extern_func,
    "R.extern": _extern_func,
    **dict.fromkeys(COMPOSITES, _composite),
    "I.GlobalVar": _global_var,
    "I.vdevice": vdevice,
    "R.cpu": _device,
    "R.cuda": _device,
    "R.gpu": _device,
    "R.device": _device,
}
"""Spellings of graph functions with a reading rule of their own."""
