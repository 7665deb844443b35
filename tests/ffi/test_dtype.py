"""Data types compare by identity, with each other and with the text of their name."""

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from unity import te, tir
from unity.ffi.dtype import DataType
from unity.ffi.tensor import Tensor
from unity.ir import prim_type
from unity.nd import empty
from unity.support.errors import FFIError


@pytest.mark.parametrize(
    "name", ["float32", "int64x4", "bool", "bfloat16", "float8_e4m3fn", "float32xvscalex4", "handle"]
)
def test_a_text_equals_the_type_of_its_name(name: str) -> None:
    dtype = DataType(name)
    assert dtype == name and name == dtype and dtype in (name,) and {name: 1}[dtype] == {dtype: 1}[name] == 1
    assert dtype != f"{name}x2" and dtype != "int16" and (dtype == 3) is False
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert dtype == DataType(name) and dtype != DataType("int16")


@pytest.mark.parametrize(
    "of_numpy", [np.float32, np.int8, np.bool_, np.dtype("uint16"), np.dtype("float64"), ml_dtypes.bfloat16]
)
def test_types_of_numpy_are_data_types(of_numpy: Any) -> None:
    name = np.dtype(of_numpy).name
    assert DataType(of_numpy) is DataType(name) and prim_type(of_numpy) is prim_type(name)
    assert te.placeholder((2,), of_numpy).dtype == name and Tensor(np.zeros(2, of_numpy)).dtype == name
    assert tir.Var("x", of_numpy).ty is prim_type(name)


@pytest.mark.parametrize("wrong", [3, None, [1], object(), float, np.complex64, np.dtype("S3")])
def test_what_is_no_data_type_is_refused(wrong: Any) -> None:
    for use in (
        DataType,
        prim_type,
        lambda d: te.placeholder((2,), d),
        lambda d: tir.Var("x", d),
        lambda d: empty((2,), d),
    ):
        with pytest.raises(FFIError, match=r"E70[12]"):
            use(wrong)
