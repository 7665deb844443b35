"""Expressions of tensor programs with a reading rule of their own: casts, lets, ranges, reducers, axes, limits.

Not here: node forms and intrinsics (``tir_expr.py``). Invariant: each function reads the arguments of one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arith.index_map import IndexMap
from ...ir import (
    Call,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    Let,
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
from ...ir.intrinsic import INTRINSICS
from ..parser import syntax as s
from ..spelling.ranges import extent_of
from .base import bind_arguments, suggest
from .buffers import BufferSpec
from .plain import is_number

_INT64 = prim_type("int64")
_LIMITS = {"T.min_value": b.min_value, "T.max_value": b.max_value, "T.infinity": b.infinity}


def _cast(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    fields = ("dtype", "value") if path == "T.Cast" else ("value", "dtype")
    bound = bind_arguments(reader.reading, node, path, fields, args, keywords, 2)
    value, dtype, span = bound["value"], reader.dtype(bound["dtype"], node), reader.reading.span(node)
    if path == "T.cast" or is_number(value):
        return b.const(value, dtype, span) if is_number(value) else b.cast(reader.expr(value, node), dtype, span)
    return scalar_nodes.Cast(reader.expr(value, node), prim_type(dtype), span)


def _immediate(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("dtype", "value"), args, keywords, 2)
    dtype = reader.dtype(bound["dtype"], node)
    if not is_number(bound["value"]) or dtype.is_float != (path == "T.FloatImm"):
        raise reader.error("E113", f"{path} takes a data type and a plain number of its kind", node)
    return b.const(bound["value"], dtype, reader.reading.span(node))


def _let(reader: Any, path: str, node: s.Call) -> Expr:
    where = [keyword for keyword in node.keywords if keyword.name == "where"]
    if len(where) != 1 or type(where[0].value) is not s.DictLit or len(node.args) != 1:
        raise reader.error("E112", "write T.Let(body, where={x: value})", node)
    table = where[0].value
    outer = reader.scope
    reader.scope = type(outer)(outer) if type(outer).__name__ == "Scope" else outer
    bound: list[tuple[Var, Expr]] = []
    try:
        for key, value_node in zip(table.keys, table.values):
            if type(key) is not s.Name:
                raise reader.error("E113", "a name is bound here", key or node)
            value = reader.read(value_node)
            known = reader.scope.get(key.name)
            fresh = isinstance(known, Var) and known not in reader.let_bound
            var = known if fresh else Var(key.name, value.ty, reader.reading.span(key))
            reader.let_bound.add(var)
            reader.scope.names[key.name] = var
            bound.append((var, value))
        body: Expr = reader.read(node.args[0])
    finally:
        reader.scope = outer
    for var, value in reversed(bound):
        body = Let(var, value, body, reader.reading.span(node))
    return body


def _call_intrin(reader: Any, path: str, node: s.Call) -> Expr:
    args, _ = reader.arguments(node)
    if len(args) < 2:
        raise reader.error("E112", "write T.call_intrin(dtype, name, ...)", node)
    name = reader.text(args[1], node, "the name of an intrinsic")
    full = "T." + name.rpartition(".")[2]
    if full not in INTRINSICS:
        raise reader.error("E111", f"no intrinsic {name}", node, suggest(full, INTRINSICS))
    exprs = tuple([reader.expr(arg, node) for arg in args[2:]])
    return Call(op(full), exprs, {}, (), reader.result_type(args[0], node), reader.reading.span(node))


def _ceildiv(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("a", "b"), args, keywords, 2)
    return b.ceildiv(reader.operand(bound["a"], node), reader.operand(bound["b"], node), reader.reading.span(node))


def _limit(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("dtype",), args, keywords, 1)
    return _LIMITS[path](reader.dtype(bound["dtype"], node))


def _var(reader: Any, path: str, node: s.Call) -> Any:
    args, keywords = reader.arguments(node)
    reader.text(keywords.pop("name", ""), node)
    if len(args) == 2 and type(args[0]) is str:
        del args[0]  # T.Var("n", "int64"): the symbol is named by its target
    bound = bind_arguments(reader.reading, node, path, ("dtype",), args, keywords, 0)
    return reader.declare_symbol(reader.dtype(bound.get("dtype", "int64"), node), node)


def _range(reader: Any, path: str, node: s.Call) -> Range:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("begin", "end"), args, keywords, 1)
    begin = reader.index(bound["begin"], node)
    if "end" not in bound:
        return Range(IntImm(0, begin.ty if isinstance(begin.ty, PrimType) else _INT64), begin)
    end = reader.index(bound["end"], node)
    return Range(begin, extent_of(begin, end))


def _comm_reducer(reader: Any, path: str, node: s.Call) -> CommReducer:
    if len(node.args) != 2 or type(node.args[0]) is not s.Lambda or node.keywords:
        raise reader.error("E112", "write T.comm_reducer(lambda x, y: x + y, [identity])", node)
    function = node.args[0]
    identity = [reader.expr(item, node.args[1]) for item in reader.sequence(node.args[1])]
    count = len(identity)
    if len(function.params) != 2 * count:
        raise reader.error("E112", f"{count} identities need {2 * count} lambda parameters", node)
    types = [item.ty for item in identity]
    variables = [Var(p.name, types[k % count]) for k, p in enumerate(function.params)]
    result = reader.apply_lambda(function, list(variables))
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    exprs = tuple([reader.expr(item, function) for item in results])
    return CommReducer(
        tuple(variables[:count]), tuple(variables[count:]), exprs, tuple(identity), reader.reading.span(node)
    )


def _iter_var(reader: Any, path: str, node: s.Call) -> IterVar:
    if len(node.args) != 4 or type(node.args[0]) is not s.Name:
        raise reader.error("E112", "write T.iter_var(name, T.Range(a, b), kind, thread)", node)
    dom = reader.evaluate(node.args[1])
    kind, tag = [reader.text(reader.evaluate(arg), arg) for arg in node.args[2:]]
    ty = dom.min.ty if type(dom) is Range else _INT64
    known = reader.scope.get(node.args[0].name)
    var = known if isinstance(known, Var) else Var(node.args[0].name, ty, reader.reading.span(node))
    reader.scope.names[var.name] = var
    return IterVar(var, dom, kind, tag, reader.reading.span(node))


def _reduce(reader: Any, path: str, node: s.Call) -> Expr:
    parts = {keyword.name: keyword.value for keyword in node.keywords}
    if len(node.args) != 1 or not {"source", "axis"} <= set(parts):
        raise reader.error("E112", "write T.reduce(combiner, source=[...], axis=[...])", node)
    combiner = reader.evaluate(node.args[0])
    if type(combiner) is not CommReducer:
        raise reader.error("E113", "expected T.comm_reducer(...)", node.args[0])
    axes = reader.sequence(parts["axis"])
    if not all([type(axis) is IterVar for axis in axes]):
        raise reader.error("E113", "expected T.iter_var(...)", parts["axis"])
    source = tuple([reader.expr(item, node) for item in reader.sequence(parts["source"])])
    condition = reader.read(parts["where"]) if "where" in parts else b.const(True)
    index = reader.integer(parts["value_index"]) if "value_index" in parts else 0
    init = tuple([reader.expr(item, node) for item in reader.sequence(parts["init"])]) if "init" in parts else ()
    if not 0 <= index < len(source):
        raise reader.error("E113", f"value_index {index} of {len(source)} sources", node)
    return Reduce(combiner, source, tuple(axes), condition, index, init, source[index].ty, reader.reading.span(node))


def _fold_bools(reader: Any, path: str, node: s.Call) -> Expr:
    """``T.all(a, b, c)``, ``T.any(...)``: conjunction and disjunction of any number of conditions."""
    args, keywords = reader.arguments(node)
    if keywords or not args:
        raise reader.error("E112", f"{path} takes conditions", node)
    result = b.as_bool(reader.operand(args[0], node))
    for arg in args[1:]:
        right = b.as_bool(reader.operand(arg, node))
        result = b.logical_and(result, right) if path == "T.all" else b.logical_or(result, right)
    return result


def _meta_var(reader: Any, path: str, node: s.Call) -> Any:
    if len(node.args) != 1 or node.keywords:
        raise reader.error("E112", f"{path} takes one value", node)
    return reader.evaluate(node.args[0])


def _make_buffer(reader: Any, path: str, node: s.Call) -> BufferSpec:
    args, keywords = reader.arguments(node)
    made: BufferSpec = reader.buffer_spec(path, node, args, keywords)
    return made


def target(reader: Any, path: str, node: s.Call) -> Any:
    """``T.target("cuda", host="llvm")`` as plain data: the description alone, or a dict of both."""
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("target", "host"), args, keywords, 1)
    if bound.get("host", ...) is None:
        del bound["host"]
    if not all([isinstance(described, (str, dict)) for described in bound.values()]):
        raise reader.error("E113", f"{path} takes a text or a dict", node)
    return bound if "host" in bound else bound["target"]


def _type_annotation(reader: Any, path: str, node: s.Call) -> Expr:
    args, keywords = reader.arguments(node)
    bound = bind_arguments(reader.reading, node, path, ("dtype",), args, keywords, 1)
    return Call(op(path), (), {}, (), reader.result_type(bound["dtype"], node), reader.reading.span(node))


def _index_map(reader: Any, path: str, node: s.Call) -> IndexMap:
    given = {keyword.name: keyword.value for keyword in node.keywords}
    mapping = node.args[0] if len(node.args) == 1 else given.pop("mapping", None)
    index_dtype = given.pop("index_dtype", None)  # its indices are those of what it maps: here int64
    if given.pop("inverse_index_map", None) is not None:
        raise reader.error("E117", "T.index_map: an inverse is computed, never taken as given", node, "leave it out")
    if type(mapping) is not s.Lambda or given or len(node.args) > 1:
        raise reader.error("E112", "write T.index_map(lambda i, j: (i // 4, j, i % 4))", node)
    if index_dtype is not None and not reader.dtype(reader.evaluate(index_dtype), index_dtype).is_integral:
        raise reader.error("E113", "the indices of a map are integers", index_dtype)
    return read_index_map(reader, mapping)


def read_index_map(reader: Any, function: s.Lambda) -> IndexMap:
    """The index map a lambda of indices writes. Raises E112."""
    if any([p.annotation is not None or p.default is not None or p.star for p in function.params]):
        raise reader.error("E112", "an index map is a lambda of plain names: lambda i, j: (j, i)", function)
    variables = [Var(p.name, _INT64) for p in function.params]
    made = reader.apply_lambda(function, list(variables))
    items = made.values if type(made) is ShapeExpr else made if isinstance(made, (tuple, list)) else (made,)
    return IndexMap(tuple(variables), tuple([reader.dimension(item, function.body) for item in items]))


TENSOR_FORMS: dict[str, Callable[[Any, str, s.Call], Any]] = {
    "T.Cast": _cast,
    "T.cast": _cast,
    "T.IntImm": _immediate,
    "T.FloatImm": _immediate,
    "T.Let": _let,
    "T.call_intrin": _call_intrin,
    "T.ceildiv": _ceildiv,
    "T.min_value": _limit,
    "T.max_value": _limit,
    "T.infinity": _limit,
    "T.var": _var,
    "T.all": _fold_bools,
    "T.any": _fold_bools,
    "T.Range": _range,
    "I.Range": _range,
    "T.comm_reducer": _comm_reducer,
    "T.iter_var": _iter_var,
    "T.reduce": _reduce,
    "T.meta_var": _meta_var,
    "I.meta_var": _meta_var,
    "T.Buffer": _make_buffer,
    "T.target": target,
    "I.target": target,
    "T.type_annotation": _type_annotation,
    "T.index_map": _index_map,
}
"""Spellings of tensor programs with a reading rule of their own."""

SPECIAL_NAMES = tuple(TENSOR_FORMS)
"""Spellings handled here besides nodes, data types and intrinsics."""
