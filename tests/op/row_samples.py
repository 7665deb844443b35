"""Samples of operators as arrays: of the texts in their rows, and of pointwise ones of parameters, type rule and domain.

``CASES``: (name, inputs, attributes); inputs are arrays, tuples of arrays, shapes (``Shape``) or numbers. ``GRADIENT_CASES``:
the same in float64, away from the edges of the domain.
"""

import zlib

import numpy as np
from op_samples import Draw, Sample, read_samples
from op_values import Shape

from unity.ir import Var
from unity.ir.build import const
from unity.ir.op import OPS, REQUIRED
from unity.ir.relation import tensor_type
from unity.op import OPERATORS
from unity.support.errors import TypeRuleError

SHAPES = {
    1: [((3, 5),), ((0, 3),)],
    2: [((3, 4), (4,)), ((2, 1), (1, 3)), ((0, 4), (1, 4))],
    3: [((3, 4), (4,), (1,))],
}
"""Shapes of so many operands."""
DTYPES = ("float32", "float64", "float16", "int32", "uint8", "bool")
MOST_ELEMENTS = 80
"""Gradients are compared with differences for every element."""


def takes(info, dtype):
    """Does the type rule take operands of a data type?"""
    x = Var("x", tensor_type([const(3, "int64")], dtype))
    try:
        OPERATORS[info.name](*[x] * operands(info))
    except TypeRuleError:
        return False
    return True


def operands(info):
    return len([p for p in info.params if p.kind == "expr"])


def pointwise(info):
    """Samples of a pointwise operator in every data type; none where an attribute must be given."""
    if not info.pointwise or any([p.kind == "attr" and p.default is REQUIRED for p in info.params]):
        return []
    known = [d for d in DTYPES if takes(info, d)]
    assert known, f"{info.name} takes no data type of {DTYPES}"
    shapes = SHAPES[operands(info)]
    wanted = [(s, known[0]) for s in shapes] + [(shapes[0], d) for d in known[1:]]
    return [Sample([Draw(d, s, *info.domain) for s in every], {}) for every, d in wanted]


def array(draw, rng, wide=False):
    """Elements of a tensor; ``wide``: floats in float64, within a part of their bounds where functions are smooth."""
    floating = "float" in draw.dtype
    dtype = "float64" if wide and floating else draw.dtype
    if draw.elements is not None:
        return np.array(draw.elements, dtype)
    low, high = draw.low, draw.high
    if floating:
        edge = 0.05 * (high - low) if wide and low is not None else 0
        low, high = ((0.2, 0.9) if wide else (-2.0, 2.0)) if low is None else (low + edge, high - edge)
        return rng.uniform(low, high, draw.shape).astype(dtype)
    if low is None or draw.dtype == "bool":
        low, high = (0, 2) if draw.dtype == "bool" else (0 if draw.dtype.startswith("u") else -5, 6)
    return rng.integers(int(low), max(int(high), int(low) + 1), draw.shape).astype(dtype)


def values(sample, rng, wide=False):
    """The inputs of a sample."""

    def value(given):
        if isinstance(given, Draw):
            return array(given, rng, wide)
        if isinstance(given, list):
            return tuple([value(v) for v in given])
        return Shape(given) if isinstance(given, tuple) else given

    return [value(given) for given in sample.inputs]


def draws(sample):
    return [d for v in sample.inputs for d in (v if isinstance(v, list) else [v]) if isinstance(d, Draw)]


def samples(info):
    """Pairs of a sample and the generator of its elements: the same whatever other samples there are."""
    for sample in [*pointwise(info), *read_samples(info.samples)]:
        yield sample, np.random.default_rng(zlib.crc32(f"{info.name} {sample.inputs} {sorted(sample.attrs)}".encode()))


def differentiable(info, sample):
    """Are there floats that differences of float64 can be taken of?"""
    kinds = {d.dtype for d in draws(sample)}
    counts = [int(np.prod(d.shape)) for d in draws(sample)]
    return callable(info.grad) and "float32" in kinds and "float16" not in kinds and 0 < max(counts) <= MOST_ELEMENTS


def smooth(info, inputs, attrs):
    """Does the meaning stay in float64, without NaN and infinities?"""
    with np.errstate(all="ignore"):
        made = info.ref(*inputs, **attrs)
    parts = [np.asarray(m) for m in (made if isinstance(made, tuple) else (made,))]
    return any([p.dtype == "float64" for p in parts]) and all([np.isfinite(p).all() for p in parts])


CASES = [(info.name[2:], values(s, rng), s.attrs) for info in OPS.values() for s, rng in samples(info)]
_WIDE = [
    (info, values(s, rng, True), s.attrs)
    for info in OPS.values()
    for s, rng in samples(info)
    if differentiable(info, s)
]
GRADIENT_CASES = [(info.name[2:], inputs, attrs) for info, inputs, attrs in _WIDE if smooth(info, inputs, attrs)]
