"""The table of registered functions, and C functions called through their signature."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from unity.ffi import (
    get_global_func,
    list_global_func_names,
    register_c_func,
    register_func,
    remove_global_func,
    tensor,
)
from unity.ffi.cfunc import parse_signature
from unity.ffi.machine_code.engine import Engine, process_symbol
from unity.ffi.registry import PackedFunc
from unity.support.errors import FFIError


@pytest.fixture
def names():
    """Names that the test may register; removed afterwards."""
    before = set(list_global_func_names())
    yield
    for name in set(list_global_func_names()) - before:
        remove_global_func(name)


@pytest.mark.usefixtures("names")
def test_register_in_every_form():
    @register_func("t.double")
    def double(x):
        return 2 * x

    @register_func
    def t_plain(x):
        return x

    assert register_func("t.lambda", abs) is abs
    assert double(2) == 4 and get_global_func("t.double")(4) == 8 and get_global_func("t_plain")(1) == 1
    assert isinstance(get_global_func("t.lambda"), PackedFunc) and get_global_func("t.lambda").address == 0
    assert {"t.double", "t.lambda", "t_plain"} <= set(list_global_func_names())


@pytest.mark.usefixtures("names")
def test_override_and_missing():
    register_func("t.f", abs)
    with pytest.raises(FFIError) as caught:
        register_func("t.f", len)
    assert caught.value.code == "E705"
    register_func("t.f", len, override=True)
    assert get_global_func("t.f")([1, 2]) == 2
    with pytest.raises(FFIError) as caught:
        get_global_func("t.g")
    assert caught.value.code == "E706" and "t.f" in str(caught.value)
    assert get_global_func("t.g", allow_missing=True) is None
    with pytest.raises(FFIError):
        remove_global_func("t.g")


def test_signatures_parse_and_print():
    text = "(const float32*, void*, int64, bool) -> int32"
    assert str(parse_signature(text)) == text
    assert str(parse_signature("()->void")) == "() -> void"
    for bad in ("float32*", "(float32 -> int32", "(flaot32*) -> void", "(void) -> void", "(a b c) -> void"):
        with pytest.raises(FFIError) as caught:
            parse_signature(bad)
        assert caught.value.code in ("E707", "E701")


AXPY = """
define i32 @axpy(ptr %x, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %px
  %b = load float, ptr %py
  %s = fadd float %a, %b
  store float %s, ptr %py
  %j = add i64 %i, 1
  br label %loop
done:
  ret i32 7
}
"""


@pytest.mark.usefixtures("names")
def test_c_function_on_every_kind_of_tensor():
    engine = Engine().add_ir(AXPY)
    f = register_c_func("t.axpy", engine.address("axpy"), "(const float32*, float32*, int64) -> int32")
    assert f.address == engine.address("axpy")
    y = np.arange(4, dtype=np.float32)
    assert f(tensor([1.0, 1, 1, 1]), y, 4) == 7
    assert f(torch.ones(4), y, np.int64(4)) == 7
    np.testing.assert_array_equal(y, np.arange(4) + 2)


@pytest.mark.usefixtures("names")
def test_c_function_refuses_what_does_not_fit():
    f = register_c_func("t.k", process_symbol("abs"), "(const float32*, float32*, int8) -> int32")
    x = np.zeros(4, np.float32)
    fixed = x.copy()
    fixed.flags.writeable = False
    for args, words in (
        ((x, x), "takes 3"),
        ((x.astype("f8"), x, 1), "float32"),
        ((x[::2], x, 1), "C-contiguous"),
        ((x, fixed, 1), "writeable"),
        ((x, x, 1000), "int8"),
        ((x, x, 1.5), "int8"),
        ((x, 3, 1), "tensor"),
    ):
        with pytest.raises(FFIError, match=words) as caught:
            f(*args)
        assert caught.value.code == "E713"
    with pytest.raises(FFIError):
        register_c_func("t.null", 0, "() -> void")


@pytest.mark.usefixtures("names")
def test_c_library_function():
    f = register_c_func("t.sqrt", process_symbol("sqrt"), "(float64) -> float64")
    assert f(2.0) == 2.0**0.5 and f(np.float32(4)) == 2.0
    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(f.address)
    assert callback(9.0) == 3.0
