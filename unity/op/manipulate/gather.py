"""Reading and writing elements by index tensors: gathers, each with the scatter that writes where it reads.

Indices follow index.py: below 0 counts from the end, outside is clamped; the last of several writes to an element wins. Three ways
to name elements (``Way``) differ; type rules, loops and gradients are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, ShapeExpr
from ...ir.relation import dims, unequal, unequal_shapes
from ...ir.stmt import BufferStore, Stmt, seq
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import operand_shape
from ..common.loop_nests import loops, read
from ..common.lowering import broadcast_indices, known_dims, short_name
from ..common.table import Operator, R, attribute, rows
from ..common.type_rules import (
    attr,
    axis_attr,
    bool_attr,
    broadcast_dims,
    fail,
    int_attr,
    is_one,
    put_at,
    same_dtype,
    tensor_arg,
    tensor_tuple,
    with_rank,
    with_shape,
)
from .index import check_indexable, check_not_larger, clamp_index, in_range, index_tensor

row = rows("index")
Shape = tuple[Expr, ...]
Region = Shape | int
"""The shape of what indices name; its rank where the shape is not known, -1 where that is not either."""
At = Callable[[int, Sequence[Any]], te.Value]
"""(number of an index tensor, indices) -> its element."""


@dataclass(slots=True, frozen=True)
class Way:
    """A way in which index tensors name elements. ``region``: what a call names, checked; ``place``: the indices of the element at
    a position of the region; ``positions``: the same for all positions, in numpy; ``fits``: checks that updates cover the region,
    ``broadcasts``: if need be by broadcasting."""

    region: Callable[[Call], Region]
    place: Callable[[Call, Shape, Sequence[Shape], At, Sequence[te.Value]], list[Any]]
    positions: Callable[..., tuple[np.ndarray, ...]]
    fits: Callable[[Call, TensorType, Shape], None]
    broadcasts: bool = False


# ---- one index for each element, along an axis


def _along_axis(call: Call) -> Region:
    data, indices = tensor_arg(call, 0, "data"), index_tensor(call, 1)
    ranks = {t.ndim for t in (data, indices) if t.ndim != -1}
    if len(ranks) > 1:
        raise fail(call, "E212", f"data and indices must have one rank, got {data.ndim} and {indices.ndim}", arg=1)
    axis = axis_attr(call, data.ndim)
    known, picked = dims(data), dims(indices)
    if known is not None and picked is not None:
        check_indexable(call, axis, known[axis], picked)
        for a, (size, position) in enumerate(zip(known, picked)):
            if a != axis:
                check_not_larger(call, a, position, size, ("indices", "data"))
    return indices.ndim if picked is None else picked


def _place_along_axis(call: Call, shape: Shape, given: Sequence[Shape], at: At, i: Sequence[te.Value]) -> list[Any]:
    axis = axis_attr(call, len(shape))
    return put_at(i, axis, in_range(at(0, i), shape[axis]))


def _positions_along_axis(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray, ...]:
    axis %= data.ndim
    return tuple(put_at([*np.indices(indices.shape)], axis, clamp_index(indices, data.shape[axis])))


def _at_least(call: Call, updates: TensorType, region: Shape) -> None:
    """Updates may be larger than the indices: those beyond are not used."""
    if updates.ndim not in (-1, len(region)):
        raise fail(call, "E212", f"updates must have rank {len(region)}, got {updates.ndim}", arg=2)
    for axis, (position, size) in enumerate(zip(region, dims(updates) or ())):
        check_not_larger(call, axis, position, size, ("indices", "updates"))


# ---- tuples of indices in the last axis, each of which names a slice


def _tuples(call: Call) -> Region:
    data, indices = tensor_arg(call, 0, "data"), index_tensor(call, 1)
    batch = int_attr(call, "batch_dims", 0)
    if batch < 0 or (indices.ndim != -1 and batch >= max(indices.ndim, 1)):
        raise fail(call, "E214", f"batch_dims must be from 0 below the rank of indices, got {batch}")
    if indices.ndim == 0:
        raise fail(call, "E212", "indices must have at least one axis", arg=1)
    shape, picked = dims(data), dims(indices)
    if picked is None or data.ndim == -1:
        return -1
    if type(picked[-1]) is not IntImm:
        raise fail(call, "E214", f"the last axis of indices must have a constant size, got {picked[-1]}", arg=1)
    depth = picked[-1].value
    if not 0 < depth <= data.ndim - batch:
        raise fail(call, "E212", f"indices name {depth} axes of a tensor of rank {data.ndim}", arg=1)
    if shape is None:
        return -1
    if unequal_shapes(shape[:batch], picked[:batch]):
        raise fail(call, "E213", "the batch axes of data and indices differ", arg=1)
    for axis in range(batch, batch + depth):
        check_indexable(call, axis, shape[axis], picked[:-1])
    return (*picked[:-1], *shape[batch + depth :])


def _place_of_tuple(call: Call, shape: Shape, given: Sequence[Shape], at: At, i: Sequence[te.Value]) -> list[Any]:
    batch, lead, depth = int_attr(call, "batch_dims", 0), len(given[0]) - 1, int(build.number(given[0][-1]))
    picked = [in_range(at(0, [*i[:lead], k]), shape[batch + k]) for k in range(depth)]
    return [*i[:batch], *picked, *i[lead:]]


def _positions_of_tuples(data: np.ndarray, indices: np.ndarray, batch_dims: int = 0) -> tuple[np.ndarray, ...]:
    picked = [clamp_index(part, n) for part, n in zip(np.moveaxis(indices, -1, 0), data.shape[batch_dims:])]
    return (*np.indices(indices.shape[:-1])[:batch_dims], *picked)


def _same_shape(call: Call, updates: TensorType, region: Shape) -> None:
    known = dims(updates)
    if updates.ndim not in (-1, len(region)) or (known is not None and unequal_shapes(known, region)):
        raise fail(call, "E213", f"updates must have shape {list(region)}, got {updates}", arg=2)


# ---- a tensor of indices for each leading axis, broadcast


def _by_tensors(call: Call) -> Region:
    data, indices = tensor_arg(call, 0, "data"), tensor_tuple(call, 1, "indices")
    kinds = [t.dtype for t in indices if t.dtype is not None and not t.dtype.is_integral]
    if kinds:
        hint = 'cast first: R.astype(x, "int64")'
        raise fail(call, "E211", f"indices must be integers, got {kinds[0].name}", hint, 1)
    if data.ndim != -1 and len(indices) > data.ndim:
        raise fail(call, "E212", f"{len(indices)} index tensors for a tensor of rank {data.ndim}", arg=1)
    known, shapes = dims(data), [s for s in [dims(t) for t in indices] if s is not None]
    picked = broadcast_dims(call, shapes)
    if known is None or len(shapes) != len(indices):
        return -1
    for axis, extent in enumerate(known[: len(indices)]):
        check_indexable(call, axis, extent, picked)
    return (*picked, *known[len(indices) :])


def _place_by_tensors(call: Call, shape: Shape, given: Sequence[Shape], at: At, i: Sequence[te.Value]) -> list[Any]:
    picked = broadcast_dims(call, given)
    rank = len(picked)
    found = [at(n, broadcast_indices(own, i[:rank], picked)) for n, own in enumerate(given)]
    return [*[in_range(index, shape[n]) for n, index in enumerate(found)], *i[rank:]]


def _positions_by_tensors(data: np.ndarray, indices: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple([clamp_index(t, data.shape[a]) for a, t in enumerate(indices)])


def _broadcast(call: Call, values: TensorType, region: Shape) -> None:
    known = dims(values) or ()
    if len(known) > len(region):
        raise fail(call, "E212", f"values of rank {len(known)} for {len(region)} axes to set", arg=2)
    for size, wanted in zip(reversed(known), reversed(region)):
        if not is_one(size) and unequal(size, wanted):
            raise fail(call, "E213", f"values of shape {values} do not fit {list(region)}", arg=2)


ALONG_AXIS = Way(_along_axis, _place_along_axis, _positions_along_axis, _at_least)
TUPLES = Way(_tuples, _place_of_tuple, _positions_of_tuples, _same_shape)
BY_TENSORS = Way(_by_tensors, _place_by_tensors, _positions_by_tensors, _broadcast, True)


# ---- what they share


def _for_bool(
    arithmetic: Callable[[Expr, Expr], Expr], logical: Callable[[Expr, Expr], Expr]
) -> Callable[[Expr, Expr], Expr]:
    """A combination of numbers; of bool what numpy makes of it: or for sums and the largest, and for the others."""
    return lambda old, new: (logical if build.dtype_of(old).is_bool else arithmetic)(old, new)


COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "update": lambda old, new: new,
    "add": _for_bool(build.add, build.logical_or),
    "mul": _for_bool(build.mul, build.logical_and),
    "min": _for_bool(build.minimum, build.logical_and),
    "max": _for_bool(build.maximum, build.logical_or),
}
_NUMPY_COMBINE: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
_REDUCTION = attribute("reduction", "update", doc='"update", "add", "mul", "min" or "max"')


def reduction_of(call: Call) -> str:
    """The combination of updates with what is there. Raises E214."""
    if attr(call, "accumulate") is not None:
        return "add" if bool_attr(call, "accumulate") else "update"
    found = attr(call, "reduction")
    if found not in tuple(COMBINE):
        raise fail(call, "E214", f"reduction must be one of {', '.join(COMBINE)}, got {call.attrs['reduction']!r}")
    return str(found)


def tensors_of(given: Any) -> list[te.Tensor]:
    """The index tensors of a call."""
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _gather(
    name: str, scatter: str, way: Way, adding: dict[str, Any], params: Sequence[Any], doc: str, samples: str
) -> Operator:
    """The operator that reads. ``scatter``: the one that writes there, which adds with the attributes ``adding``."""

    def rule(call: Call) -> Type:
        data, region = tensor_arg(call, 0, "data"), way.region(call)
        return with_rank(data, region) if isinstance(region, int) else with_shape(data, region)

    def lower(call: Call, x: te.Tensor, indices: Any) -> te.Tensor:
        tensors = tensors_of(indices)

        def element(*i: te.Value) -> te.Value:
            return x[way.place(call, x.shape, [t.shape for t in tensors], lambda n, index: tensors[n][index], i)]

        return te.compute(known_dims(call, call.ty), element, name)

    def ref(data: np.ndarray, indices: Any, **attrs: Any) -> np.ndarray:
        return np.array(data[way.positions(data, indices, **attrs)])

    def grad(call: Call, g: Expr) -> list[Any]:
        if attr(call, "batch_dims", 0):
            raise fail(call, "E214", "the gradient needs batch_dims=0")
        attrs = {**_axis(call), **adding}
        return [getattr(R, scatter)(R.zeros_like(call.args[0]), call.args[1], g, **attrs), None]

    return row(name, params, rule, doc, lower=lower, ref=ref, grad=grad, samples=samples)


def _axis(call: Call) -> dict[str, Any]:
    return {"axis": int_attr(call, "axis")} if attr(call, "axis") is not None else {}


Target = Callable[[Sequence[Expr]], tuple[tuple[Expr, ...], Expr]]
"""Position in the region -> indices of the element that is written, and the update."""
Write = Callable[..., Stmt]
"""(output, target, tensors besides) -> statements that combine updates with elements."""


def lower_scatter(way: Way, call: Call, data: te.Tensor, indices: Any, updates: te.Tensor) -> te.Tensor:
    """A scatter with one update after another."""
    combine = COMBINE[reduction_of(call)]

    def write(out: Buffer, target: Target) -> Stmt:
        def store(i: Sequence[Expr]) -> Stmt:
            index, value = target(i)
            return BufferStore(out, combine(read(out, index), value), index)

        return loops(region_of(way, call), store)

    return write_scatter(way, call, data, indices, updates, write)


def region_of(way: Way, call: Call) -> Shape:
    """The shape of what the indices of a scatter name."""
    region = way.region(call)
    assert not isinstance(region, int)
    return region


def write_scatter(
    way: Way, call: Call, data: te.Tensor, indices: Any, updates: te.Tensor, write: Write, *more: te.Tensor
) -> te.Tensor:
    """A copy of the data, and the statements that ``write`` makes around updates. ``more``: tensors that these read besides."""
    region, tensors = region_of(way, call), tensors_of(indices)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        count, out = len(tensors), outs[0]
        source, places, given = ins[0], ins[1 : count + 1], ins[count + 1]

        def at(n: int, index: Sequence[Any]) -> te.Value:
            return te.Value(read(places[n], [te.to_scalar(i, "int64") for i in index]))

        def target(i: Sequence[Expr]) -> tuple[tuple[Expr, ...], Expr]:
            found = way.place(call, out.shape, [p.shape for p in places], at, [te.Value(v) for v in i])
            picked = broadcast_indices(given.shape, i, region) if way.broadcasts else i
            value = read(given, [te.to_scalar(v, "int64") for v in picked])
            return tuple([te.to_scalar(v, "int64") for v in found]), value

        copied = loops(source.shape, lambda i: BufferStore(out, read(source, i), tuple(i)), "c")
        return seq(copied, write(out, target, *ins[count + 2 :]))

    return te.extern(data.shape, [data, *tensors, updates, *more], emit, short_name(call), data.data_type)


def _scatter(name: str, gather: str, way: Way, params: Sequence[Any], doc: str, samples: str) -> Operator:
    """The operator that writes where ``gather`` reads."""

    def rule(call: Call) -> Type:
        data, region, updates = tensor_arg(call, 0, "data"), way.region(call), tensor_arg(call, 2, "updates")
        same_dtype(call, data, updates)
        reduction_of(call)
        if not isinstance(region, int):
            way.fits(call, updates, region)
        return data

    def ref(data: np.ndarray, indices: Any, updates: np.ndarray, **attrs: Any) -> np.ndarray:
        how = "add" if attrs.pop("accumulate", False) else attrs.pop("reduction", "update")
        places, result = way.positions(data, indices, **attrs), data.copy()
        if not way.broadcasts:
            updates = updates[tuple([slice(n) for n in data[places].shape])]
        if how == "update":
            result[places] = updates
        else:
            _NUMPY_COMBINE[how].at(result, places, updates)
        return result

    def grad(call: Call, g: Expr) -> list[Any]:
        _, indices, updates = call.args
        how = reduction_of(call)
        if how not in ("update", "add"):
            raise fail(call, "E214", f"the gradient needs the reduction update or add, got {how}")
        kept = g if how == "add" else getattr(R, name)(g, indices, R.zeros_like(updates), **_axis(call))
        taken = getattr(R, gather)(g, indices, **_axis(call))
        shape = ShapeExpr(operand_shape(call, updates)) if way.broadcasts else None
        return [kept, None, taken if shape is None else R.collapse_sum_to(taken, shape)]

    def lower(call: Call, data: te.Tensor, indices: Any, updates: te.Tensor) -> te.Tensor:
        return lower_scatter(way, call, data, indices, updates)

    return row(name, params, rule, doc, lower=lower, ref=ref, grad=grad, samples=samples)


_TUPLES_DOC = "indices: index tuples in the last axis; negative from the end, clamped outside"
_TENSORS_DOC = "indices: tuple of integer tensors, broadcast; negative from the end, clamped outside"

gather_elements = _gather(
    "gather_elements",
    "scatter_elements",
    ALONG_AXIS,
    {"reduction": "add"},
    ("data", "indices", attribute("axis", 0, doc="the axis; a negative one counts from the last")),
    "Picks elements along an axis: out[i, j] = data[indices[i, j], j] for axis 0.",
    "f32[4,3], i64[2,3](-4,4), axis=0",
)
scatter_elements = _scatter(
    "scatter_elements",
    "gather_elements",
    ALONG_AXIS,
    ("data", "indices", "updates", attribute("axis", 0), _REDUCTION),
    "Returns data with data[indices[i, j], j] = updates[i, j] for axis 0, or combined by the reduction.",
    "f32[4,3], i32[2,3](-4,4), f32[2,3], axis=0, reduction=each('update', 'add', 'mul', 'min', 'max')",
)
gather_nd = _gather(
    "gather_nd",
    "scatter_nd",
    TUPLES,
    {"reduction": "add"},
    ("data", _TUPLES_DOC, attribute("batch_dims", 0, doc="leading axes that both share")),
    "Picks the slices of data at the index tuples in the last axis of indices.",
    "f32[4,5,2], i32[3,2](0,4); f32[4,5], i64[2,3,1](-6,6); f32[2,3,4], i32[2,5,1](0,3), batch_dims=1; i32[3], i32[0,1]",
)
scatter_nd = _scatter(
    "scatter_nd",
    "gather_nd",
    TUPLES,
    ("data", _TUPLES_DOC, "updates", _REDUCTION),
    "Returns data with the slices at the index tuples set to updates, or combined by the reduction.",
    "f32[4,5], i64([[0,1],[-1,2]]), f32[2]; f32[4,5], i64([[0,1],[-1,2],[0,1]]), f32[3], "
    "reduction=each('add', 'mul', 'min', 'max'); f32[4,3], i64([[0],[2]]), f32[2,3]; i32[4], i32[0,1], i32[0], reduction='add'",
)
index_tensor_op = _gather(
    "index_tensor",
    "index_put",
    BY_TENSORS,
    {"accumulate": True},
    ("data", _TENSORS_DOC),
    "Picks elements at index tensors, one for each leading axis, as numpy's data[i, j] does.",
    "f32[4,5,2], [i32[3,1](-4,4), i32[2](0,5)]; f32[4,5], [i32[3](-4,4)]",
)
index_put = _scatter(
    "index_put",
    "index_tensor",
    BY_TENSORS,
    (
        "data",
        _TENSORS_DOC,
        "values: the values written, broadcast",
        attribute("accumulate", False, doc="add to the elements instead of replacing them"),
    ),
    "Returns data with the elements at the index tensors replaced by values; of several writes to one place the last wins.",
    "f32[4,5], [i64([0,2,3]), i64([1,-1,1])], f32[3]; f32[4,5], [i32[3](0,2)], f32[3,5], accumulate=True; "
    "f32[3,4], [i64([0,2,2])], f32[1,4], accumulate=True",
)
