"""``dynamic_shapes`` of ``torch.export``: expanded over objects, compared with the example inputs. Not here: symbols, guards."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Signature
from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require


def expand_dynamic_shapes(
    signature: Signature | None, dynamic_shapes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Dynamic shapes in which one ``{axis: dim}`` given for an object stands for all tensors of the object.

    ``signature``: that of ``forward``; arguments gathered by ``*x`` are one entry, as for torch, or an entry each. Raises
    FrontendError E732 where the shapes do not fit the example inputs.
    """
    if dynamic_shapes is None:
        return None
    if not isinstance(dynamic_shapes, (dict, tuple)):
        raise FrontendError(
            "E732", f"dynamic_shapes is a {type(dynamic_shapes).__name__}, expected one entry for each input", help=_EXAMPLE
        )  # fmt: skip
    given = _arguments(signature, args, kwargs)
    if isinstance(dynamic_shapes, tuple):
        if signature is not None and not kwargs and len(dynamic_shapes) == len(args) != len(given):  # *x, an entry each
            place = [p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()].index(True)
            dynamic_shapes = (*dynamic_shapes[:place], dynamic_shapes[place:])
        if len(dynamic_shapes) != len(given):
            raise FrontendError(
                "E732", f"dynamic_shapes has {len(dynamic_shapes)} entries, the example inputs are {len(given)}", help=_EXAMPLE
            )  # fmt: skip
        made: Any = tuple([_expand_one(shapes, value) for shapes, value in zip(dynamic_shapes, given.values())])
        entries = list(zip(given, made, given.values()))
    else:
        alone = kwargs and not args
        made = {k: _expand_one(v, kwargs.get(k)) for k, v in dynamic_shapes.items()} if alone else dynamic_shapes
        entries = [(name, shapes, given.get(name)) for name, shapes in made.items()]
    for name, shapes, value in entries:
        for path, axes, tensor in _tensors(name, shapes, value):
            _check_axes(path, axes, tensor)
    return made


def _arguments(signature: Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The example inputs by name."""
    if signature is not None:
        return dict(signature.bind(*args, **kwargs).arguments)
    return {**{f"input {n}": value for n, value in enumerate(args)}, **kwargs}


_EXAMPLE = 'for forward(self, x, y): dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "y": None}'


def _expand_one(shapes: Any, value: Any) -> Any:
    torch = require("torch")
    if not _is_axes(shapes) or isinstance(value, (torch.Tensor, dict)):
        return shapes
    if isinstance(value, (list, tuple)):
        return type(value)([_expand_one(shapes, v) for v in value])
    return [shapes] * len(torch.utils._pytree.tree_leaves(value))


def _is_axes(shapes: Any) -> bool:
    return isinstance(shapes, dict) and bool(shapes) and all([isinstance(k, int) for k in shapes])


def _tensors(path: str, shapes: Any, value: Any) -> Iterator[tuple[str, dict[int, Any], Any]]:
    """(path, ``{axis: dim}``, tensor) of the tensors that vary, as far as both are nested alike; torch explains the rest."""
    if isinstance(value, require("torch").Tensor):
        if _is_axes(shapes):
            yield path, shapes, value
        elif isinstance(shapes, (list, tuple)):
            yield path, dict(enumerate(shapes)), value
    elif isinstance(shapes, dict) and isinstance(value, dict):
        for key in shapes.keys() & value.keys():
            yield from _tensors(f"{path}[{key!r}]", shapes[key], value[key])
    elif isinstance(shapes, (list, tuple)) and isinstance(value, (list, tuple)):
        for index, (inner, part) in enumerate(zip(shapes, value)):
            yield from _tensors(f"{path}[{index}]", inner, part)


def _check_axes(path: str, axes: dict[int, Any], tensor: Any) -> None:
    """Raise FrontendError E732 for an axis the example has not, and for a size of it outside the range of its ``Dim``."""
    for axis, dim in axes.items():
        if not 0 <= axis < tensor.dim():
            raise FrontendError(
                "E732", f"dynamic_shapes names axis {axis} of {path}, which has shape {tuple(tensor.shape)}", help=_EXAMPLE
            )  # fmt: skip
        low, high = getattr(dim, "min", None), getattr(dim, "max", None)
        size = tensor.shape[axis]
        if (low is not None and size < low) or (high is not None and size > high):
            name = getattr(dim, "__name__", None) or str(dim)
            raise FrontendError(
                "E732", f"the example's {path}.shape[{axis}] is {size}, outside the range {low} to {high} of {name}",
                help="give an example inside the range",
            )  # fmt: skip


def without_dim_names(dynamic_shapes: Any) -> Any:
    """The same shapes with ranges in place of named dimensions."""
    torch = require("torch")
    named = [torch.export.Dim, type(torch.export.Dim("n") * 2)]

    def span(leaf: Any) -> Any:
        return torch.export.Dim.AUTO(min=leaf.min, max=leaf.max) if type(leaf) in named else leaf

    return torch.utils._pytree.tree_map(span, dynamic_shapes)


def smallest_lower_bound(dynamic_shapes: Any) -> int:
    """The smallest lower bound of a range that is the user's own: 2 where a ``Dim`` says so, else 3.

    torch.export assumes sizes of at least 2 by itself, which is not a promise; nor is that of ``n + 1``.
    """
    leaves = require("torch").utils._pytree.tree_leaves(dynamic_shapes)
    return 2 if any([getattr(leaf, "min", None) == 2 and not hasattr(leaf, "root") for leaf in leaves]) else 3
