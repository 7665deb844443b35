"""Loops as functions of functions: ``while_loop``, ``scan``, ``map`` become private functions that end with a call of themselves.

``loop(carried, rest) = loop(body(carried, rest), rest) if cond(carried, rest) else carried``; the VM runs it as a loop
of any length. What a scan stacks is memory made before the loop and carried, one row written in each step.
Not here: conditionals (``control.py``). Invariant: every value carried keeps the dtype and shape torch gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

from ....ffi.dtype import DataType
from ....ir.builder import make_call
from ....ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    GlobalVar,
    If,
    IntImm,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.relation import Answer, is_subtype
from ....ir.types import Expr, FuncType, PrimType, ShapeType, Type, prim_type
from ....ir.walk import fresh_copy, rewrite
from ....op import add, less, reshape, take, tensor_to_shape
from ....op.common.table import R
from ....op.memory import builtin_alloc_tensor
from ....script.reader.module import parse
from ..context.context import Context, dtype_name, dtype_of, number, rank_of, shape_of, to_dim
from ..context.report import Gap
from .control import Parts


def _require_fitting(c: Context, carried: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise Gap where a value carried is not a tensor of the type torch has for it."""
    for value, meta in zip(carried, found):
        if not isinstance(value, Expr) or isinstance(value.ty, PrimType):
            raise Gap(f"it carries {value}, which is neither a tensor nor an integer")
        wanted = value.ty if isinstance(meta, c.torch.SymInt) else c.type_of(meta)
        if is_subtype(value.ty, wanted) is not Answer.YES:
            raise Gap(f"it carries a value of type {value.ty}, torch's result is {wanted}")


def _while_loop(parts: Parts) -> list[Expr]:
    """The values carried when the condition no longer holds."""
    c, node = parts.c, parts.node
    carried, rest = [parts.value_of(list(raw)) for raw in node.args[2:4]]
    numbers = {k for k, found in enumerate(node.meta["val"]) if isinstance(found, c.torch.SymInt)}
    carried = [c.emit(c.cast(value, "int64")) if k in numbers else value for k, value in enumerate(carried)]
    _require_fitting(c, carried, node.meta["val"])
    counters = {k: Var(f"i{k}", prim_type("int64")) for k in numbers}

    def results(index: int, params: list[Var], shared: list[Any]) -> list[Any]:
        graph = parts.graph(index)
        inner = [n for n in graph.nodes if n.op == "placeholder"]
        for k in numbers:
            c.symbols.define(inner[k].meta["val"], counters[k])
        return parts.results(graph, [*[counters.get(k, p) for k, p in enumerate(params)], *shared])

    def condition(params: list[Var], shared: list[Any]) -> Expr:
        for k, counter in counters.items():
            _read(c, params[k], counter)
        again = results(0, params, shared)[0]
        return again if isinstance(again, Expr) else c.symbols.expr(again)

    def body(params: list[Var], shared: list[Any]) -> list[Any]:
        made = results(1, params, shared)
        return [c.cast(value, "int64") if k in numbers else value for k, value in enumerate(made)]

    after = _self_calling(c, "while_loop", carried, rest, condition, body)
    for k in sorted(numbers):
        symbol = Var(f"n{k}", prim_type("int64"))
        _read(c, after[k], symbol)
        c.symbols.define(node.meta["val"][k], symbol)
        after[k] = symbol
    return after


def _scan(parts: Parts) -> list[Expr]:
    """``carry, ys[i] = body(carry, xs[i])`` for each row; a map is a scan that carries nothing."""
    c, node = parts.c, parts.node
    raw = node.args[1:] if str(node.target) == "scan" else ((), *node.args[1:])
    init, xs, rest = [parts.value_of(list(part)) for part in raw]
    rows = to_dim(shape_of(xs[0])[0])
    _require_fitting(c, init, node.meta["val"])
    made = [_memory(c, found) for found in node.meta["val"][len(init) :]]
    graph = parts.graph(0)

    def condition(params: list[Var], shared: list[Any]) -> Expr:
        return less(params[0], number(rows.value, "int64") if type(rows) is IntImm else c.cast(rows, "int64"))

    def body(params: list[Var], shared: list[Any]) -> list[Any]:
        at, carry, ys = params[0], params[1 : len(init) + 1], params[len(init) + 1 :]
        current = [c.emit(take(x, at, axis=0)) for x in shared[: len(xs)]]
        found = parts.results(graph, [*carry, *current, *shared[len(xs) :]])
        written = [_written(c, y, c.emit(row), at) for y, row in zip(ys, found[len(init) :])]
        return [add(at, number(1, "int64")), *found[: len(init)], *written]

    start = c.emit(number(0, "int64"))
    return _self_calling(c, "scan", [start, *init, *made], [*xs, *rest], condition, body)[1:]


def _memory(c: Context, found: Any) -> Expr:
    """Memory for a result of torch."""
    shape, dtype = ShapeExpr(c.symbols.dims(found.shape)), DataTypeImm(DataType(dtype_name(found.dtype)))
    return c.emit(builtin_alloc_tensor(shape, dtype, to_dim(0), StringImm("global")))


def _written(c: Context, rows: Var, row: Expr, at: Var) -> Expr:
    """The memory of rows after one of them was written."""
    dtype = dtype_of(row)
    program = c.programs.get(("write_row", rank_of(row), dtype))
    if program is None:
        program = c.builder.add_func(_write_row(rank_of(row), dtype), "write_row")
        c.programs["write_row", rank_of(row), dtype] = program
    operands = Tuple((rows, row, at))
    return Call(R.call_inplace.op, (program, operands), {"inplace_indices": (0,)}, (rows.ty,), rows.ty)


@cache
def _write_row(rank: int, dtype: str) -> PrimFunc:
    """``ys[at] = x`` for rows of a rank."""
    sizes = "".join([f"d{k}, " for k in range(rank)])
    lines = [f"{size} = T.int64()" for size in ("n", *[f"d{k}" for k in range(rank)])]
    lines += [
        f'rows = T.match_buffer(ys, (n, {sizes}), "{dtype}")',
        f'row = T.match_buffer(x, ({sizes}), "{dtype}")',
        'place = T.match_buffer(at, (), "int64")',
    ]
    text = ["@T.prim_func(private=True)", "def write_row(ys: T.handle, x: T.handle, at: T.handle):"]
    indent, starts = "    ", [*lines, *[f"for j{k} in range(d{k}):" for k in range(rank)], 'with T.block("write_row"):']
    for line in starts:
        text.append(indent + line)
        indent += "    " * line.endswith(":")
    text += [f"{indent}v{k} = T.axis.spatial(d{k}, j{k})" for k in range(rank)]
    places = "".join([f"v{k}, " for k in range(rank)])
    text.append(f"{indent}rows[place[()], {places}] = row[{places or '()'}]")
    return cast(PrimFunc, parse("\n".join(text)))


def _self_calling(
    c: Context,
    hint: str,
    carried: list[Any],
    rest: list[Any],
    condition: Callable[[list[Var], list[Any]], Expr],
    body: Callable[[list[Var], list[Any]], list[Any]],
) -> list[Expr]:
    """The values carried by a new private function when its condition no longer holds."""
    params = [Var(f"c{i}", value.ty) for i, value in enumerate(carried)]
    shared: list[Any] = []
    """Of each further operand, what stands for it inside: a parameter, or a constant or size that is known there too."""
    outside: list[Expr] = []
    for value in rest:
        if isinstance(value, Expr) and not isinstance(value, Constant) and not isinstance(value.ty, PrimType):
            outside.append(value)
            shared.append(Var(f"a{len(outside)}", value.ty))
        else:
            shared.append(value)
    inside: list[Expr] = [v for v in shared if isinstance(v, Var) and not isinstance(v.ty, PrimType)]
    sizes = c.symbols.variables()
    if sizes:
        shape = ShapeExpr(tuple(sizes))
        outside.append(shape)
        inside.append(shape)
    parameters = [
        *params,
        *[v if isinstance(v, Var) else Var("sizes", ShapeType(tuple(sizes), len(sizes))) for v in inside],
    ]
    wanted: Type = Tuple(tuple(params)).ty
    declared = FuncType(tuple([p.ty for p in parameters]), wanted)
    loop = GlobalVar(hint, declared)  # its name is known when the loops inside have theirs
    with c.symbols.scope():
        c.builder.begin_sequence()
        again = condition(params, shared)
        if not isinstance(again.ty, PrimType) and rank_of(again):
            again = c.reshape(again, [])
        again = c.emit(again)
        c.builder.begin_sequence()
        following = [_as_carried(c, value, param) for value, param in zip(body(params, shared), params)]
        call = c.emit(Call(loop, (*following, *inside), {}, (), wanted))
        then = c.builder.end_sequence(call)
    c.builder.begin_sequence()
    otherwise = c.builder.end_sequence(c.emit(Tuple(tuple(params))))
    result = c.emit(If(again, then, otherwise, wanted))
    function = c.builder.finish_function(parameters, result, None, None, wanted)
    name = c.builder.get().fresh_name(hint)
    itself = GlobalVar(name, replace(declared, pure=function.pure))
    named = rewrite(function, {GlobalVar: lambda v: itself if v is loop else v})
    reference = c.builder.add_func(fresh_copy(named), name)
    found = c.emit(make_call(reference, [*carried, *outside]))
    return [c.emit(TupleGetItem(found, i)) for i in range(len(carried))]


def _read(c: Context, x: Expr, symbol: Var) -> None:
    """Bind a symbol to the one number of a tensor."""
    values = c.emit(reshape(x, ShapeExpr((to_dim(1),))))
    c.builder.match_cast(c.emit(tensor_to_shape(values)), ShapeType((symbol,), 1))


def _as_carried(c: Context, value: Any, param: Var) -> Expr:
    """A result of the body as the next value of a parameter. Raises Gap."""
    if not isinstance(value, Expr) or is_subtype(value.ty, param.ty) is Answer.NO:
        raise Gap(f"the body gives {getattr(value, 'ty', value)} for a value of type {param.ty}")
    if is_subtype(value.ty, param.ty) is Answer.YES:
        return c.emit(value)
    return c.builder.match_cast(value, param.ty)


LOOPS: dict[str, Callable[[Parts], list[Expr]]] = {"while_loop": _while_loop, "scan": _scan, "map_impl": _scan}
"""torch's functions of functions that are loops."""
