"""Sums of products named by letters: einsum, and the outer product.

Operands are contracted from left to right, so the work is that of pairwise products. A dimension of size 1 broadcasts, as in
numpy; narrow floats are summed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir.expr import Call, Tuple
from ...ir.relation import dims, tensor_type, unequal
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import fields_of, operand_shape
from ..common.lowering import SMALL_FLOATS, cast_tensor, compute_dtype, result_dtype
from ..common.table import R, attribute, rows
from ..common.type_rules import attr, dtype_value, fail, is_one, same_dtype, same_vdevice, tensor_tuple

row = rows("linalg")
Labels = tuple[str, ...]


def parse_subscripts(call: Call, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """Labels of each operand's axes and of the result; the axes of ``...`` are named "0", "1", ... from the last one.

    Raises E214 for text that is not an einsum, or does not fit the ranks.
    """
    text = attr(call, "subscripts")
    if not isinstance(text, str):
        raise fail(call, "E214", f"subscripts must be text, got {text!r}")
    inputs, arrow, output = text.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise fail(call, "E214", f"subscripts {text!r} name {len(terms)} operands, got {len(ranks)}")
    ellipsis_rank = 0
    for term, rank in zip(terms, ranks):
        letters = term.replace("...", "", 1)
        if any([not c.isalpha() for c in letters]):
            raise fail(call, "E214", f"subscripts {text!r} must be letters, commas, '...' and one '->'")
        if len(letters) > rank or ("..." not in term and len(letters) != rank):
            raise fail(call, "E214", f"{term!r} names {len(letters)} axes of an operand of rank {rank}")
        ellipsis_rank = max(ellipsis_rank, rank - len(letters))
    found = []
    for term, rank in zip(terms, ranks):
        head, dots, tail = term.partition("...")
        count = rank - len(head) - len(tail)
        found.append((*head, *[str(n) for n in range(count - 1, -1, -1)], *tail))
    rest = tuple([str(n) for n in range(ellipsis_rank - 1, -1, -1)])
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        return found, (*rest, *sorted([c for c in set(letters) if letters.count(c) == 1]))
    head, dots, tail = output.partition("...")
    result = (*head, *(rest if dots else ()), *tail)
    known = {c for labels in found for c in labels}
    if (
        len(set(result)) != len(result)
        or any([c not in known for c in result])
        or any([c in "0123456789" for c in head + tail])
    ):
        raise fail(call, "E214", f"the result of {text!r} must name labels of the operands, each once")
    return found, result


def _sizes(call: Call, labels: list[Labels], shapes: list[tuple[Expr, ...]]) -> dict[str, Expr]:
    sizes: dict[str, Expr] = {}
    for names, shape in zip(labels, shapes):
        for name, dim in zip(names, shape):
            known = sizes.get(name)
            if known is None or is_one(known):
                sizes[name] = dim
            elif not is_one(dim) and unequal(known, dim):
                raise fail(call, "E213", f"label {name!r} has sizes {known} and {dim}")
    return sizes


def _einsum_type(call: Call) -> Type:
    types = tensor_tuple(call, 0, "operands")
    if not types:
        raise fail(call, "E210", "at least one operand is needed")
    dtype = dtype_value(call, attr(call, "out_dtype"), "out_dtype") or same_dtype(call, *types)
    vdevice = same_vdevice(*types)
    if dtype is not None and dtype.is_bool:
        raise fail(call, "E211", "bool tensors have no products", 'cast first: R.astype(x, "int32")', 0)
    if any([t.ndim == -1 for t in types]):
        return TensorType(None, dtype, -1, vdevice)
    labels, output = parse_subscripts(call, [t.ndim for t in types])
    shapes = [s for s in [dims(t) for t in types] if s is not None]
    if len(shapes) != len(types):
        return TensorType(None, dtype, len(output), vdevice)
    sizes = _sizes(call, labels, shapes)
    return tensor_type([sizes[c] for c in output], dtype, vdevice=vdevice)


def _contract(
    left: tuple[te.Tensor, Labels],
    right: tuple[te.Tensor, Labels] | None,
    output: Labels,
    sizes: dict[str, Expr],
    acc_dtype: str,
) -> te.Tensor:
    """Product of one or two tensors summed over the labels not in the output."""
    parts = [left] if right is None else [left, right]
    summed = list(dict.fromkeys([c for _, labels in parts for c in labels if c not in output]))
    axes = {c: te.reduce_axis((0, sizes[c]), f"k{n}" if len(summed) > 1 else "k") for n, c in enumerate(summed)}

    def body(*i: te.Value) -> te.Value:
        label_index: dict[str, Any] = {**dict(zip(output, i)), **axes}
        value: Any = None
        for tensor, labels in parts:
            index = [0 if is_one(d) and not is_one(sizes[c]) else label_index[c] for c, d in zip(labels, tensor.shape)]
            factor = tensor[index].astype(acc_dtype)
            value = factor if value is None else value * factor
        return te.sum(value, axis=list(axes.values())) if axes else value

    return te.compute([sizes[c] for c in output], body, "einsum")


def _einsum(call: Call, operands: list[te.Tensor]) -> te.Tensor:
    labels, output = parse_subscripts(call, [x.ndim for x in operands])
    sizes = _sizes(call, labels, [x.shape for x in operands])
    dtype = result_dtype(call)
    acc_dtype = compute_dtype(dtype).name
    partial, names = operands[0], labels[0]
    if len(operands) == 1:
        partial = _contract((partial, names), None, output, sizes, acc_dtype)
    for n in range(1, len(operands)):
        later = {c for rest in labels[n + 1 :] for c in rest} | set(output)
        labels_out = (
            output if n == len(operands) - 1 else tuple([c for c in dict.fromkeys([*names, *labels[n]]) if c in later])
        )
        partial = _contract((partial, names), (operands[n], labels[n]), labels_out, sizes, acc_dtype)
        names = labels_out
    return cast_tensor(partial, dtype, "einsum_cast")


def _einsum_ref(operands: tuple[np.ndarray, ...], subscripts: str, out_dtype: str | None = None) -> np.ndarray:
    dtype = np.dtype(out_dtype) if out_dtype else operands[0].dtype
    acc_dtype = np.float32 if str(dtype) in SMALL_FLOATS else dtype
    return np.asarray(np.einsum(subscripts, *[x.astype(acc_dtype) for x in operands])).astype(dtype)


def _einsum_grad(call: Call, g: Expr) -> list[Any]:
    source = call.args[0]
    operands = fields_of(source)
    count = len(operands)
    labels, output = parse_subscripts(call, [len(operand_shape(call, x)) for x in operands])
    letters = {c: chr(ord("a") + n) for n, c in enumerate(dict.fromkeys([c for names in labels for c in names]))}
    grads = []
    for k, x in enumerate(operands):
        shape = operand_shape(call, x)
        if len(set(labels[k])) != len(labels[k]) or any([getattr(d, "value", 0) == 1 for d in shape]):
            raise fail(call, "E214", "the gradient needs different labels within an operand, and no axis of size 1")
        others = [n for n in range(count) if n != k]
        known = {c for n in others for c in labels[n]} | set(output)
        terms = [output, *[labels[n] for n in others]]
        kept_axes = [c for c in labels[k] if c in known]
        text = ",".join(["".join([letters[c] for c in names]) for names in terms])
        part = R.einsum(
            Tuple((g, *[operands[n] for n in others])), subscripts=f"{text}->{''.join([letters[c] for c in kept_axes])}"
        )
        missing = [a for a, c in enumerate(labels[k]) if c not in known]
        grads.append(R.broadcast_to(R.expand_dims(part, axis=missing), shape) if missing else part)
    return [Tuple(tuple(grads))]


einsum = row(
    "einsum",
    (
        "operands: tuple of tensors",
        attribute("subscripts", doc='letters of axes: "ij,jk->ik"; ... for further axes'),
        attribute("out_dtype", None),
    ),
    _einsum_type,
    "Sums products of the operands over the axes that the subscripts name.",
    lower=_einsum,
    ref=_einsum_ref,
    grad=_einsum_grad,
    mixed_precision="always",
    samples="[f32[3,4], f32[4,5]], subscripts='ij,jk->ik'; "
    "[f32[4,4]], subscripts=each('ii->i', 'ii', 'ij->ji'); [f32[3], f32[4]], subscripts='i,j'; "
    "[f32[2,3,4], f32[2,4,2]], subscripts='bij,bjk->bik'; "
    "[f32[2,1,3,4], f32[5,4,2]], subscripts='...ij,...jk->...ik'; "
    "[f32[2,3], f32[3,4], f32[4,2]], subscripts='ij,jk,kl->il'; "
    "[f32[2,3], f32[3]], subscripts='ab,b->'; [f32[3,1], f32[3,4]], subscripts='ij,ij->i'; "
    "[f32[3,2]], subscripts='i...->...'; [f32[0,4], f32[4,2]], subscripts='ij, jk'; "
    "[f32[2,3,4], f32[4,5], f32[2,5]], subscripts='abc,cd,ad->b'; "
    "[f16[3,4], f16[4,2]], subscripts='ij,jk->ik'; [i8[3,4], i8[2,4]], subscripts='ik,jk->ij', out_dtype='int32'; "
    "[i32[3,4], i32[4]], subscripts='ij,j->i'",
)
