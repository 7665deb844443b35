"""Named tensor programs replaced by others that take their buffers in other layouts: ``alter_op_impl``.

A program with the attribute ``operator_name`` gives way to the one of ``op_impl_map`` for it. ``op_buffer_transforms`` has an
index map (or a function of indices, or None) for each of its inputs and outputs: around the call, operands and results are moved
by ``R.layout_transform``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...arith.index_map import IndexMap, index_map
from ...ir.expr import Call, GlobalVar, Tuple, TupleGetItem
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, TensorType, TupleType, Type
from ...op.common.table import R
from ...op.manipulate.layout import layout_transform, mapped_shape
from ...op.manipulate.slicing import strided_slice
from ...support.errors import PassError
from ...te.kernel_table import KernelTable
from ...transform.infra.passes import module_pass
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls

Layout = IndexMap | Callable[..., Any] | None


def _as_map(layout: Layout, ty: Type) -> IndexMap | None:
    rank = ty.ndim if isinstance(ty, TensorType) else -1
    return layout if layout is None or isinstance(layout, IndexMap) else index_map(rank, layout)


def _transformed(value: Expr, layout: Layout) -> Expr:
    """An operand in a layout."""
    return value if layout is None else layout_transform(value, _as_map(layout, value.ty))


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


def _transformed_back(value: Expr, layout: Layout, ty: Type) -> Expr:
    """A result in its own layout again, without what stands for padding."""
    shape, mapping = dims(ty), _as_map(layout, ty)
    if mapping is None or shape is None:
        return value
    padded = mapping.padded_shape(shape)
    back = layout_transform(value, mapping.inverse(padded))
    if all([full is size for full, size in zip(padded, shape)]):
        return back
    return strided_slice(
        back, axes=tuple(range(len(shape))), begin=(0,) * len(shape), end=tuple(shape), assume_inbound=True
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
        args = Tuple(tuple([_transformed(v, t) for v, t in zip(operands.fields, layouts)]))
        types = tuple([_transformed_type(ty, t) for ty, t in zip(results, layouts[count:])])
        ty = TupleType(types) if several else types[0]
        made = rewriter.emit(Call(value.op, (target, args, *value.args[2:]), {}, types, ty, value.span))
        fields = [TupleGetItem(made, i) for i in range(len(results))] if several else [made]
        own = [_transformed_back(v, t, r) for v, t, r in zip(fields, layouts[count:], results)]
        return Tuple(tuple(own)) if several else own[0]

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, R.call_dps.name), kernels.added)
