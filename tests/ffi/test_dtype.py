"""Data types compare by identity, with each other and with the text of their name."""

import copy
import pickle

import pytest

from unity.ffi.dtype import DataType


@pytest.mark.parametrize(
    "name", ["float32", "int64x4", "bool", "bfloat16", "float8_e4m3fn", "float32xvscalex4", "handle"]
)
def test_a_text_equals_the_type_of_its_name(name: str) -> None:
    dtype = DataType(name)
    assert dtype == name and name == dtype and dtype in (name,) and {name: 1}[dtype] == {dtype: 1}[name] == 1
    assert dtype != f"{name}x2" and dtype != "int16" and (dtype == 3) is False
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert dtype == DataType(name) and dtype != DataType("int16")
