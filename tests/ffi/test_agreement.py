"""Machine code and Python accept exactly the same arguments and read the same values out of them (random specs)."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from fuzz import TIMES
from hypothesis import HealthCheck, given, settings, strategies as st

from unity.ffi import Tensor
from unity.ffi.abi import evaluate
from unity.ffi.calls.check import ArgumentChecker
from unity.ffi.calls.entry_spec import EntrySpec, ScalarArg, ShapeArg, TensorArg
from unity.ffi.calls.fastcall import driver_function
from unity.ffi.dtype import DataType
from unity.support.errors import UnityError, VMError

DTYPES = ("float32", "int8", "bfloat16", "float64", "bool")
N, M = ("sym", 0), ("sym", 1)
DIMS = (N, M, 2, 0, None, ("add", N, 1), ("mul", N, M), ("floordiv", M, 2))


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def record(env: int, leaves: int, symbols: int) -> object:
    """A driver in Python: the address of leaf 0 and the values of both symbols."""
    return ctypes.c_uint64.from_address(leaves).value, list((ctypes.c_int64 * 2).from_address(symbols))


ADDRESS = ctypes.cast(record, ctypes.c_void_p).value


@st.composite
def specs(draw):
    tensor = st.builds(
        TensorArg, st.just("x"), st.sampled_from(DTYPES),
        st.lists(st.sampled_from(DIMS), max_size=3).map(tuple), written=st.booleans(),
        align=st.sampled_from((0, 0, 0, 64)),
    )  # fmt: skip
    strided = st.builds(
        TensorArg, st.just("v"), st.sampled_from(DTYPES), st.just((N, M)),
        st.sampled_from(((M, 1), (1, N), (None, 2), (N, None))),
    )  # fmt: skip
    args = [draw(st.one_of(tensor, tensor, strided)), draw(tensor), ShapeArg("s", (N, M)), ScalarArg("k", "int8")]
    return EntrySpec("f", tuple(args), ("n", "m"))


@st.composite
def arrays(draw, spec_arg, symbols):
    name = spec_arg.dtype if draw(st.integers(0, 9)) else draw(st.sampled_from(DTYPES))
    shape = []
    for dim in spec_arg.shape:
        right = 2 if dim is None else evaluate(dim, symbols)
        shape.append(right if draw(st.integers(0, 19)) else draw(st.integers(0, 3)))
    if not draw(st.integers(0, 9)):
        shape.append(1)
    dtype = DataType(name).numpy
    kind = draw(st.sampled_from(("plain", "plain", "plain", "fortran", "step", "shift", "fixed", "negative")))
    array = np.zeros(shape, dtype, order="F" if kind == "fortran" else "C")
    if kind == "step" and shape:
        array = np.zeros([*shape[:-1], 2 * shape[-1]], dtype)[..., ::2]
    if kind == "negative" and shape:
        array = array[::-1]
    if kind == "shift":
        array = np.frombuffer(bytearray(array.nbytes + 1), np.uint8, array.nbytes, 1).view(dtype).reshape(shape)
    if kind == "fixed":
        array.flags.writeable = False
    wrap = draw(st.sampled_from(("numpy", "tensor", "torch")))
    if wrap == "tensor":
        return Tensor(array)
    if wrap == "torch" and kind in ("plain", "fortran", "step"):
        return Tensor(array).torch()
    return array


def address_of(value: object) -> int:
    return value.data_ptr() if isinstance(value, torch.Tensor) else Tensor.from_dlpack(value).data_ptr if isinstance(
        value, Tensor) else value.ctypes.data  # fmt: skip


@settings(
    max_examples=100 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.data())
def test_machine_code_agrees_with_the_checker(data):
    spec = data.draw(specs())
    function = driver_function(spec, ADDRESS, keep=[record])
    for _ in range(4):
        shape = (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3)))
        first, second = [data.draw(arrays(arg, shape)) for arg in spec.args[:2]]
        scalar = data.draw(st.sampled_from((1, 1, 1, 200, True, 1.0)))
        args = (first, second, shape, scalar)
        try:
            expected = ArgumentChecker(spec).bind(args)
        except UnityError as error:
            wanted = error.code
        else:
            wanted = ""
        try:
            result = function(*args)
        except VMError as error:
            assert error.code == wanted
        else:
            assert wanted == "" and result[1] == expected[1]
            if np.asarray(expected[0][0]).size:
                assert result[0] == address_of(first)
