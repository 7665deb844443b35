"""Named tensor programs replaced by others that take their buffers in other layouts: ``alter_op_impl``.

A program with the attribute ``operator_name`` gives way to the one of ``op_impl_map`` for it. ``op_buffer_transforms`` has an
index map (or a function of indices, or None) for each of its inputs and outputs: around the call, operands and results are moved
by ``R.layout_transform``.

``optimize_layout_transform`` takes away what that leaves between two programs: ``R.layout_transform(R.layout_transform(x, f), g)``
-> x where g undoes f, else ``R.layout_transform(x, g after f)``; ``R.strided_slice`` of the first that only takes padding off again
-> x. Padding is zero, or what ``pad_value`` says, so a layout that pads is joined with nothing but its own undoing: what a program
wrote into the padding of its result is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....arith.analyzer import Analyzer
from ....arith.index_map import IndexMap, index_map
from ....ir.buffer import Range
from ....ir.build import const
from ....ir.expr import Call, GlobalVar, Tuple, TupleGetItem, Var
from ....ir.function import Function, PrimFunc
from ....ir.module import IRModule
from ....ir.relation import Answer, dims, same_dims, tensor_type
from ....ir.types import Expr, TensorType, TupleType, Type
from ....ir.walk import substitute
from ....op.common.table import R
from ....op.common.type_rules import attr
from ....op.manipulate.layout import layout_transform, mapped_shape
from ....op.manipulate.slicing import strided_slice
from ....support.errors import PassError, TypeRuleError
from ....te.kernel_table import KernelTable
from ...infra.passes import function_pass, module_pass
from ..analysis.mutable_vars import changed_vars, returned_vars
from ..analysis.use_def import Source, rewrite_with_sources
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

Layout = IndexMap | Callable[..., Any] | None


def _as_map(layout: Layout, ty: Type) -> IndexMap | None:
    rank = ty.ndim if isinstance(ty, TensorType) else -1
    return layout if layout is None or isinstance(layout, IndexMap) else index_map(rank, layout)


def _transformed(value: Expr, layout: Layout, rewriter: GraphRewriter) -> Expr:
    """An operand in a layout."""
    return value if layout is None else rewriter.emit(layout_transform(value, _as_map(layout, value.ty)))


def _transformed_type(ty: Type, layout: Layout) -> Type:
    """The type of a result in a layout. Raises PassError E747 for one of unknown sizes, which could not be moved back."""
    if layout is None:
        return ty
    shape = dims(ty)
    if shape is None or not isinstance(ty, TensorType):
        raise PassError("E747", f"a result of type {ty} has no sizes that a layout could move",
                        help="give None as the layout of this output")  # fmt: skip
    mapping = _as_map(layout, ty)
    assert mapping is not None
    return tensor_type(mapped_shape(mapping, shape), ty.dtype)


def _transformed_back(value: Expr, layout: Layout, ty: Type, rewriter: GraphRewriter) -> Expr:
    """A result in its own layout again, without what stands for padding."""
    shape, mapping = dims(ty), _as_map(layout, ty)
    if mapping is None or shape is None:
        return value
    padded = mapping.padded_shape(shape)
    back = layout_transform(value, mapping.inverse(padded))
    if all([full is size for full, size in zip(padded, shape)]):
        return back
    whole = rewriter.emit(back)
    return strided_slice(
        whole, axes=tuple(range(len(shape))), begin=(0,) * len(shape), end=tuple(shape), assume_inbound=True
    )


@module_pass()
def alter_op_impl(
    mod: IRModule,
    *,
    op_impl_map: Mapping[str, PrimFunc] | None = None,
    op_buffer_transforms: Mapping[str, Sequence[Layout]] | None = None,
) -> IRModule:
    """Replace tensor programs that have the attribute ``operator_name`` by programs with other layouts.

    Gives calls of ``R.layout_transform`` around the new programs; ``optimize_layout_transform`` joins them.
    ``op_impl_map``: the program for each name; ``op_buffer_transforms``: layouts of its inputs, then of its outputs.
    """
    kernels, programs = KernelTable(mod), mod.prim_funcs()
    impls, transforms = op_impl_map or {}, op_buffer_transforms or {}

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        callee, operands = value.args[0], value.args[1]
        if type(callee) is not GlobalVar or type(operands) is not Tuple or callee.name not in programs:
            return None
        name = str(programs[callee.name].attrs.get("operator_name", ""))
        if name not in impls:
            return None
        several = isinstance(value.ty, TupleType)
        results = value.ty.fields if isinstance(value.ty, TupleType) else (value.ty,)
        count = len(operands.fields)
        layouts = list(transforms.get(name, [None] * (count + len(results))))
        if len(layouts) != count + len(results):
            raise PassError("E747", f"{name} has {count + len(results)} buffers, {len(layouts)} layouts are given", value.span,
                            help="give one per input and output, None where it stays")  # fmt: skip
        target = kernels.add(impls[name].without_attr("global_symbol"), callee.name)
        args = Tuple(tuple([_transformed(v, t, rewriter) for v, t in zip(operands.fields, layouts)]))
        types = tuple([_transformed_type(ty, t) for ty, t in zip(results, layouts[count:])])
        ty = TupleType(types) if several else types[0]
        made = rewriter.emit(Call(value.op, (target, args, *value.args[2:]), {}, types, ty, value.span))
        fields = [rewriter.emit(TupleGetItem(made, i)) for i in range(len(results))] if several else [made]
        own = [_transformed_back(v, t, r, rewriter) for v, t, r in zip(fields, layouts[count:], results)]
        return Tuple(tuple([rewriter.leaf(v) for v in own])) if several else own[0]

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, R.call_dps.name), kernels.added)


def _map_of(call: Call) -> IndexMap | None:
    """The index map of a plain layout_transform."""
    plain = not any([attr(call, name) for name in ("axis_separators", "input_axis_separators")])
    found = call.attrs.get("index_map")
    return found if plain and isinstance(found, IndexMap) and not found.axis_separators else None


def _composed(first: IndexMap, second: IndexMap, shape: Sequence[Expr]) -> IndexMap:
    """``second`` after ``first`` on indices of a shape, simplified."""
    fresh = tuple([Var(v.name, v.ty) for v in first.initial_indices])
    analyzer = Analyzer()
    for var, extent in zip(fresh, shape):
        analyzer.bind(var, Range(const(0, "int64"), extent))
    renamed = dict(zip(first.initial_indices, fresh))
    whole = second.map_indices([substitute(e, renamed) for e in first.final_indices])
    return IndexMap(fresh, tuple([analyzer.simplify(e) for e in whole]))


def _is_identity(mapping: IndexMap) -> bool:
    return len(mapping.initial_indices) == len(mapping.final_indices) and all(
        [e is v for e, v in zip(mapping.final_indices, mapping.initial_indices)]
    )


def _same(a: Sequence[Expr] | None, b: Sequence[Expr] | None) -> bool:
    return a is not None and b is not None and same_dims(tuple(a), tuple(b)) is Answer.YES


def _pads(mapping: IndexMap, shape: Sequence[Expr]) -> bool:
    return not _same(mapping.padded_shape(shape), shape)


def _pair(call: Call, source: Source) -> tuple[Expr, IndexMap, IndexMap, Sequence[Expr]] | None:
    """(x, first map, second map, shape of x) of two layouts that follow each other."""
    inner = source(call.args[0])
    if inner is None or inner.op_name != R.layout_transform.name:
        return None
    first, second, shape = _map_of(inner), _map_of(call), dims(inner.args[0].ty)
    return None if first is None or second is None or shape is None else (inner.args[0], first, second, shape)


def _takes_padding_off(call: Call, shape: Sequence[Expr]) -> bool:
    """True if a slice is the leading part of a shape in every axis."""
    zeros = [getattr(v, "value", v) == 0 for v in attr(call, "begin")]
    steps = attr(call, "strides") or ()
    return all(zeros) and all([getattr(v, "value", v) == 1 for v in steps]) and _same(dims(call.ty), shape)


@function_pass()
def optimize_layout_transform(fn: Function) -> Function:
    """Join consecutive layout transformations, and remove those that cancel."""
    kept = changed_vars(fn) | returned_vars(fn)

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Any:
        name = call.op_name
        outer = source(call.args[0]) if name == R.strided_slice.name else call
        if outer is None or outer.op_name != R.layout_transform.name:
            return None
        found = _pair(outer, source)
        if found is None:
            return None
        x, first, second, shape = found
        whole = _composed(first, second, shape)
        if _is_identity(whole):
            back = _takes_padding_off(call, shape) if outer is not call else _same(dims(call.ty), shape)
            return x if back and rewriter.var not in kept else None
        middle = dims(call.args[0].ty)
        if outer is not call or middle is None or _pads(first, shape) or _pads(second, middle) or _pads(whole, shape):
            return None
        try:
            made = layout_transform(x, whole)
        except TypeRuleError:  # a map that the prover of bijectivity does not see through
            return None
        return made if _same(dims(made.ty), dims(call.ty)) else None

    return rewrite_with_sources(fn, lambda value: value.op_name == R.layout_transform.name, change)
