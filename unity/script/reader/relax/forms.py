"""Forms of graph functions that have a value: constants, shapes, tuples, strings, functions, devices. ``GRAPH_FORMS`` is the table.

Not here: operators (``operators.py``).
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from ....arith.index_map import IndexMap
from ....ffi.device import Device, device_from_dlpack
from ....ffi.targets.kinds import DEFAULT
from ....ir import Constant, DataTypeImm, Expr, ExternFunc, IntImm, PrimType, ShapeExpr, StringImm, Tuple
from ....ir.relation import tensor_type
from ....op.composite import COMPOSITES
from ...parser import syntax as s
from ..common.calls import arguments, bound_arguments, takes_arguments
from ..common.constants import constant_bytes, constant_data
from ..common.plain import is_number
from ..common.reading import Form, Reading, bind_arguments
from ..common.types import dimensions, listed_vdevice
from ..common.values import INT64, as_dtype, as_expr, as_integer, as_text
from ..tir.calls import EXPRESSION_FORMS
from ..tir.forms import read_index_map
from .dps import DPS_FORMS
from .expr import tuple_field
from .operators import call_operator, tuple_of


def _const(r: Reading, path: str, node: s.Call) -> Constant:
    if path == "R.const_bytes":
        data = constant_bytes(r, path, node)
    else:
        bound = bound_arguments(r, path, node, ("value", "dtype"), 1)
        data = constant_data(r, bound["value"], bound.get("dtype"), node)
    dims = tuple([IntImm(extent, INT64) for extent in data.shape])
    return Constant(data, tensor_type(dims, data.data_type), r.span(node))


def _tuple_call(r: Reading, path: str, node: s.Call) -> Tuple:
    args, keywords = arguments(r, node)
    if keywords:
        raise r.error("E112", "R.tuple takes fields only", node)
    return tuple_of(r, args, node)


@takes_arguments
def _prim_value(r: Reading, path: str, node: s.Call, value: Any) -> Any:
    if is_number(value):  # its type follows from where it stands, as that of a bare number
        return value
    value = as_expr(r, value, node)
    if not isinstance(value.ty, PrimType):
        raise r.error("E113", "R.prim_value takes a number or a scalar expression", node)
    return value


def _composite(r: Reading, path: str, node: s.Call) -> Expr:
    parameters = signature(COMPOSITES[path]).parameters
    required = len([p for p in parameters.values() if p.default is p.empty])
    return COMPOSITES[path](**bound_arguments(r, path, node, tuple(parameters), required))


def _device(r: Reading, path: str, node: s.Call) -> str:
    """``R.cuda(1)``, or ``R.device(1, 0)``, ``R.device("cpu", 0)``: a kind by its DLPack number or name, and an index."""
    args, keywords = arguments(r, node)
    if path == "R.device":
        bound = bind_arguments(r, node, path, ("dev_type", "dev_id"), args, keywords, 1)
        kind, index = bound["dev_type"], as_integer(r, bound.get("dev_id", 0), node)
        return str(Device(kind, index) if type(kind) is str else device_from_dlpack(as_integer(r, kind, node), index))
    bound = bind_arguments(r, node, path, ("index",), args, keywords, 0)
    return f"{path[2:]}:{as_integer(r, bound.get('index', 0), node)}"


@takes_arguments
def _vdevice(
    r: Reading, path: str, node: s.Call, target: Any = DEFAULT, id: Any = 0, scope: Any = "global"
) -> dict[str, Any]:
    """``I.vdevice("cuda", 0, "global")`` as plain data: target, id, scope."""
    if not isinstance(target, (str, dict)):
        raise r.error("E113", "a target is a string or a dict", node)
    return {
        "target": target, "id": as_integer(r, id, node),
        "scope": as_text(r, scope, node),
    }  # fmt: skip


def _on_vdevice(r: Reading, path: str, node: s.Call) -> Expr:
    """As other operators; the device may be one of the module's table."""
    args, keywords = arguments(r, node)
    args = [listed_vdevice(r, _of_tensor(value), node) for value in args]
    return call_operator(r, path, args, {k: listed_vdevice(r, _of_tensor(v), node) for k, v in keywords.items()}, node)


def _layout_transform(r: Reading, path: str, node: s.Call) -> Expr:
    """As other operators; the index map may be a bare lambda."""
    lambdas = {k: a for k, a in enumerate(node.args) if type(a) is s.Lambda}
    named = [k for k in node.keywords if type(k.value) is s.Lambda]
    rest = [a for k, a in enumerate(node.args) if k not in lambdas]
    kept = [k for k in node.keywords if k not in named]
    args, keywords = arguments(r, s.Call(node.start, node.end, node.func, rest, kept))
    for at, function in lambdas.items():
        args.insert(at, read_index_map(r, function))
    for keyword in named:
        if keyword.name is None or keyword.name in keywords:
            raise r.error("E112", f"argument {keyword.name!r} is given twice, or not by name", keyword)
        assert type(keyword.value) is s.Lambda
        keywords[keyword.name] = read_index_map(r, keyword.value)
    args = [_of_tensor(value) for value in args]
    return call_operator(r, path, args, {name: _of_tensor(value) for name, value in keywords.items()}, node)


def _of_tensor(value: Any) -> Any:
    """An index map as one of int64, the type of the indices of a tensor."""
    return value.with_dtype("int64") if isinstance(value, IndexMap) else value


GRAPH_FORMS: dict[str, Form] = {
    **EXPRESSION_FORMS, **DPS_FORMS, "R.const": _const, "R.layout_transform": _layout_transform,
    "R.to_vdevice": _on_vdevice, "R.hint_on_device": _on_vdevice,
    "R.const_bytes": _const, "R.tuple": _tuple_call, "R.prim_value": _prim_value, **dict.fromkeys(COMPOSITES, _composite),
    "I.vdevice": _vdevice, "I.dummy_global_info": lambda r, path, node: {"kind": "dummy"},
    **dict.fromkeys(("R.cpu", "R.cuda", "R.gpu", "R.device"), _device),
    "R.shape": takes_arguments(lambda r, path, node, values: ShapeExpr(dimensions(r, values, node), r.span(node))),
    "R.TupleGetItem": takes_arguments(lambda r, path, node, tuple_value, index: tuple_field(
        r, as_expr(r, tuple_value, node), as_integer(r, index, node), node)),
    "R.str": takes_arguments(lambda r, path, node, value: StringImm(as_text(r, value, node), r.span(node))),
    "R.dtype": takes_arguments(lambda r, path, node, value: DataTypeImm(as_dtype(r, value, node), r.span(node))),
    **dict.fromkeys(("R.ExternFunc", "R.extern"), takes_arguments(
        lambda r, path, node, name, ty=None: ExternFunc(as_text(r, name, node), r.span(node)))),
    "I.GlobalVar": takes_arguments(lambda r, path, node, name: r.module.member(r, as_text(r, name, node), node)),
}  # fmt: skip
"""Forms of graph functions and of the lines of a module."""
