"""Forms that have a value: data types, casts, lets, ranges, reducers, axes, limits. ``VALUE_FORMS`` is the table.

Not here: intrinsics and nodes by name (``intrinsics.py``), forms that are statements (``statement_forms.py``).
"""

from __future__ import annotations

import math
from typing import Any

from ....arith.index_map import IndexMap
from ....ffi.dtype import DataType
from ....ir import (
    Call,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    Let,
    PointerType,
    PrimType,
    Range,
    Reduce,
    ShapeExpr,
    Var,
    build as b,
    op,
    prim_type,
    scalar as scalar_nodes,
)  # fmt: skip
from ....ir.intrinsic import INTRINSICS
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.ranges import extent_of
from ..common.calls import apply_lambda, arguments, bound_arguments, takes_arguments
from ..common.plain import is_number
from ..common.reading import Form, Reading, bind_arguments
from ..common.scope import Scope, dtype_name
from ..common.types import dimension, make_type, result_type
from ..common.values import (
    INT64,
    as_cast,
    as_dtype,
    as_expr,
    as_index,
    as_operand,
    as_text,
    as_typed,
    read_expr,
    read_integer,
    read_scalar,
    read_sequence,
)
from .buffers import BufferSpec, buffer_spec
from .intrinsics import typed_argument

_LIMITS = {"T.min_value": b.min_value, "T.max_value": b.max_value, "T.infinity": b.infinity}


def dtype_call(r: Reading, path: str, node: s.Call) -> Any:
    """``T.float32(x)``, or ``n = T.int64()`` which declares a symbol."""
    name = dtype_name(path) or "handle"
    args, keywords = arguments(r, node)
    keywords.pop("is_size_var", None)
    value = bind_arguments(r, node, f"T.{name}", ("value",), args, keywords, 0).get("value")
    dtype = DataType(name)
    if value is None:
        return declare_symbol(r, dtype, node)
    if type(value) is str:
        if not dtype.is_float or value.lstrip("+-") not in ("inf", "nan", "infinity"):
            raise r.error("E106", f"T.{name} of the string {value!r}", node, 'strings are "inf", "-inf", "nan"')
        value = float(value)
    if is_number(value):
        finite = type(value) is not float or math.isfinite(value)
        if dtype.is_integral and finite and b.wrap_int(int(value), dtype) != int(value):
            raise r.error("E106", f"{value} is outside the range of {name}", node)
    return as_typed(r, value, dtype, node)


def declare_symbol(r: Reading, dtype: DataType, node: s.Call) -> Expr:
    """``n = T.int64()``: the symbol named by the target of the assignment."""
    if not r.hint or r.naming is not node:
        message = f"T.{dtype.name}() declares a symbol, which needs a name"
        raise r.error("E113", message, node, f"write n = T.{dtype.name}()")
    found = r.symbols.get(r.hint)
    if not isinstance(found, Var) or found.ty is not prim_type(dtype):
        found = Var(r.hint, prim_type(dtype))
        if dtype.is_integral:
            r.symbols[r.hint] = found
    r.declared.add(found)
    return found


def type_call(r: Reading, path: str, node: s.Call) -> Any:
    """``R.Tensor(...)`` and the other types; ``p = T.handle("float32")`` in a body declares a pointer that comes from outside."""
    args, keywords = arguments(r, node)
    if path == "T.handle" and not args and not keywords:
        return dtype_call(r, path, node)
    result = make_type(r, path, node, args, keywords)
    if isinstance(result, PointerType) and not r.defining and r.hint:
        pointer = Var(r.hint, result)
        r.declared.add(pointer)
        return pointer
    return result


def _cast(r: Reading, path: str, node: s.Call) -> Expr:
    args, keywords = arguments(r, node)
    fields = ("dtype", "value") if path == "T.Cast" else ("value", "dtype")
    bound = bind_arguments(r, node, path, fields, args, keywords, 2)
    value, dtype = bound["value"], as_dtype(r, bound["dtype"], node)
    if path == "T.cast" or is_number(value):
        return as_cast(r, value, dtype, node)
    return scalar_nodes.Cast(as_expr(r, value, node), prim_type(dtype), r.span(node))


@takes_arguments
def _immediate(r: Reading, path: str, node: s.Call, dtype: Any, value: Any) -> Expr:
    dtype = as_dtype(r, dtype, node)
    if not is_number(value) or dtype.is_float != (path == "T.FloatImm"):
        raise r.error("E113", f"{path} takes a data type and a plain number of its kind", node)
    return b.const(value, dtype, r.span(node))


def _let(r: Reading, path: str, node: s.Call) -> Expr:
    where = [keyword for keyword in node.keywords if keyword.name == "where"]
    if len(where) != 1 or type(where[0].value) is not s.DictLit or len(node.args) != 1:
        raise r.error("E112", "write T.Let(body, where={x: value})", node)
    table = where[0].value
    outer = r.scope
    r.scope = Scope(outer)
    bound: list[tuple[Var, Expr]] = []
    try:
        for key, value_node in zip(table.keys, table.values):
            if type(key) is not s.Name:
                raise r.error("E113", "a name is bound here", key or node)
            value = read_scalar(r, value_node)
            known = r.scope.get(key.name)
            fresh = isinstance(known, Var) and known not in r.let_bound
            var = known if fresh else Var(key.name, value.ty, r.span(key))
            r.let_bound.add(var)
            r.scope.names[key.name] = var
            bound.append((var, value))
        body: Expr = read_scalar(r, node.args[0])
    finally:
        r.scope = outer
    for var, value in reversed(bound):
        body = Let(var, value, body, r.span(node))
    return body


def _call_intrin(r: Reading, path: str, node: s.Call) -> Expr:
    args, _ = arguments(r, node)
    if len(args) < 2:
        raise r.error("E112", "write T.call_intrin(dtype, name, ...)", node)
    name = as_text(r, args[1], node, "the name of an intrinsic")
    full = "T." + name.rpartition(".")[2]
    if full not in INTRINSICS:
        raise r.error("E111", f"no intrinsic {name}", node, suggest(full, INTRINSICS))
    ty = result_type(r, args[0], node)
    exprs = tuple([typed_argument(r, full, arg, ty, node) for arg in args[2:]])
    return Call(op(full), exprs, {}, (), ty, r.span(node))


def _ceildiv(r: Reading, path: str, node: s.Call) -> Expr:
    bound = bound_arguments(r, path, node, ("a", "b"), 2)
    return b.ceildiv(as_operand(r, bound["a"], node), as_operand(r, bound["b"], node), r.span(node))


def _var(r: Reading, path: str, node: s.Call) -> Any:
    args, keywords = arguments(r, node)
    as_text(r, keywords.pop("name", ""), node)
    if len(args) == 2 and type(args[0]) is str:
        del args[0]  # T.Var("n", "int64"): the symbol is named by its target
    bound = bind_arguments(r, node, path, ("dtype",), args, keywords, 0)
    return declare_symbol(r, as_dtype(r, bound.get("dtype", "int64"), node), node)


def _range(r: Reading, path: str, node: s.Call) -> Range:
    bound = bound_arguments(r, path, node, ("begin", "end"), 1)
    begin = as_index(r, bound["begin"], node)
    if "end" not in bound:
        return Range(IntImm(0, begin.ty if isinstance(begin.ty, PrimType) else INT64), begin)
    end = as_index(r, bound["end"], node)
    return Range(begin, extent_of(begin, end))


def _comm_reducer(r: Reading, path: str, node: s.Call) -> CommReducer:
    if len(node.args) != 2 or type(node.args[0]) is not s.Lambda or node.keywords:
        raise r.error("E112", "write T.comm_reducer(lambda x, y: x + y, [identity])", node)
    function = node.args[0]
    identity = [as_expr(r, item, node.args[1]) for item in read_sequence(r, node.args[1])]
    count = len(identity)
    if len(function.params) != 2 * count:
        raise r.error("E112", f"{count} identities need {2 * count} lambda parameters", node)
    types = [item.ty for item in identity]
    variables = [Var(p.name, types[k % count]) for k, p in enumerate(function.params)]
    result = apply_lambda(r, function, list(variables))
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    exprs = tuple([as_expr(r, item, function) for item in results])
    return CommReducer(tuple(variables[:count]), tuple(variables[count:]), exprs, tuple(identity), r.span(node))


def _iter_var(r: Reading, path: str, node: s.Call) -> IterVar:
    if len(node.args) != 4 or type(node.args[0]) is not s.Name:
        raise r.error("E112", "write T.iter_var(name, T.Range(a, b), kind, thread)", node)
    dom = read_expr(r, node.args[1])
    if isinstance(dom, (tuple, list)) and len(dom) == 2:
        low, stop = [as_index(r, end, node.args[1]) for end in dom]
        dom = Range(low, extent_of(low, stop))
    if dom is not None and type(dom) is not Range:
        raise r.error("E113", "expected T.Range(a, b)", node.args[1])
    kind, tag = [as_text(r, read_expr(r, arg), arg) for arg in node.args[2:]]
    ty = dom.min.ty if type(dom) is Range else INT64
    known = r.scope.get(node.args[0].name)
    var = known if isinstance(known, Var) else Var(node.args[0].name, ty, r.span(node))
    r.scope.names[var.name] = var
    return IterVar(var, dom, kind, tag, r.span(node))


def _reduce(r: Reading, path: str, node: s.Call) -> Expr:
    parts = {keyword.name: keyword.value for keyword in node.keywords}
    if len(node.args) != 1 or not {"source", "axis"} <= set(parts):
        raise r.error("E112", "write T.reduce(combiner, source=[...], axis=[...])", node)
    combiner = read_expr(r, node.args[0])
    if type(combiner) is not CommReducer:
        raise r.error("E113", "expected T.comm_reducer(...)", node.args[0])
    axes = read_sequence(r, parts["axis"])
    if not all([type(axis) is IterVar for axis in axes]):
        raise r.error("E113", "expected T.iter_var(...)", parts["axis"])
    source = tuple([as_expr(r, item, node) for item in read_sequence(r, parts["source"])])
    condition = read_scalar(r, parts["where"]) if "where" in parts else b.const(True)
    index = read_integer(r, parts["value_index"]) if "value_index" in parts else 0
    init = tuple([as_expr(r, item, node) for item in read_sequence(r, parts["init"])]) if "init" in parts else ()
    if not 0 <= index < len(source):
        raise r.error("E113", f"value_index {index} of {len(source)} sources", node)
    return Reduce(combiner, source, tuple(axes), condition, index, init, source[index].ty, r.span(node))


def _fold_bools(r: Reading, path: str, node: s.Call) -> Expr:
    """``T.all(a, b, c)``, ``T.any(...)``: conjunction and disjunction of any number of conditions."""
    args, keywords = arguments(r, node)
    if keywords or not args:
        raise r.error("E112", f"{path} takes conditions", node)
    result = b.as_bool(as_operand(r, args[0], node))
    for arg in args[1:]:
        right = b.as_bool(as_operand(r, arg, node))
        result = b.logical_and(result, right) if path == "T.all" else b.logical_or(result, right)
    return result


def _meta_var(r: Reading, path: str, node: s.Call) -> Any:
    if len(node.args) != 1 or node.keywords:
        raise r.error("E112", f"{path} takes one value", node)
    return read_expr(r, node.args[0])


def _buffer(r: Reading, path: str, node: s.Call) -> BufferSpec:
    return buffer_spec(r, path, node, *arguments(r, node))


def target(r: Reading, path: str, node: s.Call) -> Any:
    """``T.target("cuda", host="llvm")`` as plain data: the description alone, or a dict of both."""
    bound = bound_arguments(r, path, node, ("target", "host"), 1)
    if bound.get("host", ...) is None:
        del bound["host"]
    if not all([isinstance(described, (str, dict)) for described in bound.values()]):
        raise r.error("E113", f"{path} takes a string or a dict", node)
    return bound if "host" in bound else bound["target"]


def _index_map(r: Reading, path: str, node: s.Call) -> IndexMap:
    given = {keyword.name: keyword.value for keyword in node.keywords}
    mapping = node.args[0] if len(node.args) == 1 else given.pop("mapping", None)
    index_dtype = given.pop("index_dtype", None)
    if given.pop("inverse_index_map", None) is not None:
        raise r.error("E117", "T.index_map: an inverse is computed, never taken as given", node, "leave it out")
    if type(mapping) is not s.Lambda or given or len(node.args) > 1:
        raise r.error("E112", "write T.index_map(lambda i, j: (i // 4, j, i % 4))", node)
    dtype = INT64.dtype if index_dtype is None else as_dtype(r, read_expr(r, index_dtype), index_dtype)
    if not dtype.is_integral or dtype.lanes != 1:
        raise r.error("E113", "the indices of a map are integers", index_dtype or node)
    return read_index_map(r, mapping, dtype)


def read_index_map(r: Reading, function: s.Lambda, dtype: DataType = INT64.dtype) -> IndexMap:
    """The index map a lambda of indices writes. Raises E112."""
    if any([p.annotation is not None or p.default is not None or p.star for p in function.params]):
        raise r.error("E112", "an index map is a lambda of plain names: lambda i, j: (j, i)", function)
    variables = [Var(p.name, prim_type(dtype)) for p in function.params]
    result = apply_lambda(r, function, list(variables))
    items = result.values if type(result) is ShapeExpr else result if isinstance(result, (tuple, list)) else (result,)
    return IndexMap(tuple(variables), tuple([b.cast(dimension(r, item, function.body), dtype) for item in items]))


VALUE_FORMS: dict[str, Form] = {
    "T.Cast": _cast, "T.cast": _cast, "T.IntImm": _immediate, "T.FloatImm": _immediate, "T.Let": _let,
    "T.call_intrin": _call_intrin, "T.ceildiv": _ceildiv, "T.var": _var, "I.dynamic": _var, "T.dynamic": _var,
    **dict.fromkeys(_LIMITS, takes_arguments(lambda r, path, node, dtype: _LIMITS[path](as_dtype(r, dtype, node)))),
    "T.all": _fold_bools, "T.any": _fold_bools, "T.Range": _range,
    "I.Range": _range, "T.comm_reducer": _comm_reducer, "T.iter_var": _iter_var, "T.reduce": _reduce,
    "T.meta_var": _meta_var, "I.meta_var": _meta_var, "T.Buffer": _buffer, "T.target": target, "I.target": target,
    "T.index_map": _index_map, "T.type_annotation": takes_arguments(
        lambda r, path, node, dtype: Call(op(path), (), {}, (), result_type(r, dtype, node), r.span(node))),
}  # fmt: skip
"""Spellings with a value, besides nodes, data types and intrinsics."""
