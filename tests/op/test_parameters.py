"""What rows and the shared table say of parameters: all are described, and what is said of axes, sizes and types holds."""

import re

import numpy as np
import pytest
from op_samples import Draw, Sample, read_samples, sample_call

from unity.ir.op import OPS
from unity.ir.types import TensorType
from unity.op import SHIPPED
from unity.op.common.parameters import DESCRIPTIONS

ROWS = [OPS[name] for name in sorted(SHIPPED)]
SAMPLES = [(info, sample) for info in ROWS for sample in read_samples(info.samples)]


def described(info, name, start):
    """Does the description of a parameter begin so?"""
    return any([p.name == name and p.kind == "attr" and p.doc.startswith(start) for p in info.params])


def call_type(info, sample, **attrs):
    return str(sample_call(info, Sample(sample.inputs, {**sample.attrs, **attrs})).ty)


def test_every_parameter_is_described():
    assert [(info.name, p.name) for info in ROWS for p in info.params if not p.doc] == []


def test_rows_are_described_by_sentences():
    """A verb comes first: "Returns the sum of ..."."""
    assert [info.name for info in ROWS if not re.fullmatch(r"[A-Z][a-z]+s .*\.", info.doc)] == []


def test_shared_descriptions_are_shared():
    for name, doc in DESCRIPTIONS.items():
        users = [info.name for info in ROWS if any([p.name == name and p.doc == doc for p in info.params])]
        assert len(users) > 1, f"{name} is described for {users} alone: describe it in the row"


def test_negative_axes_count_from_the_last():
    tried = set()
    for info, sample in SAMPLES:
        axis = sample.attrs.get("axis")
        if type(axis) is not int or not described(info, "axis", DESCRIPTIONS["axis"]):
            continue
        first = next(d for v in sample.inputs for d in (v if isinstance(v, list) else [v]) if isinstance(d, Draw))
        other = axis + len(first.shape) if axis < 0 else axis - len(first.shape)
        assert call_type(info, sample, axis=other) == call_type(info, sample), info.name
        tried.add(info.name)
    assert len(tried) >= 11


@pytest.mark.parametrize("name", ["strides", "padding", "dilation", "pool_size", "output_size"])
def test_one_number_stands_for_all_axes(name):
    tried = set()
    for info, sample in SAMPLES:
        value = sample.attrs.get(name)
        if type(value) is int and described(info, name, DESCRIPTIONS[name]):
            rank = len(sample.inputs[0].shape) - 2
            assert call_type(info, sample, **{name: [value] * rank}) == call_type(info, sample), info.name
            tried.add(info.name)
    assert len(tried) >= 3


def test_types_that_are_left_out():
    """``None: that of x`` and the like."""
    tried = set()
    for info, sample in SAMPLES:
        for name in ("dtype", "out_dtype"):
            said = [p.doc.rpartition("None: ")[2] for p in info.params if p.name == name and "None: that of" in p.doc]
            if said and sample.attrs.get(name) is None and isinstance(sample.inputs[0], Draw):
                ty = sample_call(info, sample).ty
                given = sample.inputs[0].dtype
                wanted = "int64" if given == "bool" and "int64 of bool" in said[0] else given
                assert isinstance(ty, TensorType) and ty.dtype.name == wanted, (info.name, said)
                tried.add(info.name)
    assert len(tried) >= 8


def test_kept_dimensions_have_size_1():
    for info, sample in SAMPLES:
        if described(info, "keepdims", DESCRIPTIONS["keepdims"]) and callable(info.ref):
            array = np.zeros(sample.inputs[0].shape, sample.inputs[0].dtype)
            made = info.ref(array, **{**sample.attrs, "keepdims": True})
            assert np.ndim(made[0] if isinstance(made, tuple) else made) == array.ndim
