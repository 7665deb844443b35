"""Drivers: results made in machine code, leaves, and calls back into Python."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
import torch

from unity.ffi import Tensor, tensor
from unity.ffi.calls.entry_spec import EntrySpec, ScalarArg, ShapeArg, TensorArg
from unity.ffi.calls.fastcall import driver_function
from unity.ffi.dtype import dtype_names
from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.native_helpers import HELPER_DECLARATIONS, dtype_index, helper_symbols
from unity.support.errors import VMError

N = ("sym", 0)
F32 = dtype_index("float32")


def driver(spec: EntrySpec, body: str, env: int = 0, keep: tuple[object, ...] = ()):
    text = f"{HELPER_DECLARATIONS}\ndefine ptr @main(ptr %env, ptr %leaves, ptr %symbols) {{\n{body}\n}}\n"
    engine = Engine(helper_symbols()).add_ir(text)
    return driver_function(spec, engine.address("main"), env=env, keep=[engine, *keep])


def new_tensor(dtype: str, ndim: int):
    body = f"""  %out = alloca ptr
  %t = call ptr @unity_new_tensor(i64 {dtype_index(dtype)}, i64 {ndim}, ptr %symbols, ptr %out)
  ret ptr %t"""
    dims = tuple([("sym", k) for k in range(ndim)])
    return driver(EntrySpec("make", (ShapeArg("shape", dims),), tuple([f"s{k}" for k in range(ndim)])), body)


@pytest.mark.parametrize("name", dtype_names())
def test_new_tensors_of_every_dtype(name):
    make = new_tensor(name, 2)
    for shape in ((3, 5), (0, 7), (1, 1), (100, 1000)):
        value = make(shape)
        assert (
            type(value) is Tensor and value.dtype == name and value.shape == shape and value.device is tensor(0).device
        )
        array = value.numpy()
        assert value.data_ptr % 64 == 0 and array.flags.c_contiguous and array.flags.owndata and array.flags.writeable
        array[...] = np.ones((), array.dtype)
        assert (array.astype(np.float64) == 1).all()


def test_new_tensors_live_and_die_like_any_array():
    make = new_tensor("float32", 1)
    value = make((1000,))
    array = value.numpy()
    kept = weakref.ref(value)
    del value
    gc.collect()
    assert kept() is None
    array[:] = 3
    resized = np.array(array)
    array.resize(5000, refcheck=False)
    assert (array[:1000] == resized).all()
    shared = make((8,)).torch()
    shared[:] = 2
    assert shared.sum() == 16
    for size in range(2000):
        make((size % 50,))
    device = tensor(0).device
    count = sys.getrefcount(device)
    held = [make((4,)) for _ in range(100)]
    assert sys.getrefcount(device) == count + 100
    del held
    gc.collect()
    assert sys.getrefcount(device) == count
    assert new_tensor("float32", 0)(()).shape == ()


def test_impossible_results_are_errors():
    make = new_tensor("float64", 2)
    for shape in ((-1, 3), (2**62, 8), (2**40, 2**10), (2**31, 2**31)):
        with pytest.raises(VMError) as caught:
            make(shape)
        assert caught.value.code == "E615"


def test_leaf_records_and_scalars():
    spec = EntrySpec(
        "f",
        (TensorArg("x", "float32", None), ScalarArg("a", "float64"), ScalarArg("i", "int16"), ScalarArg("b", "bool")),
    )
    body = """  %items = alloca [5 x ptr]
  %nd.p = getelementptr i8, ptr %leaves, i64 24
  %nd = load i64, ptr %nd.p
  %dims.p = getelementptr i8, ptr %leaves, i64 16
  %dims = load ptr, ptr %dims.p
  %shape = call ptr @unity_shape(ptr %dims, i64 %nd)
  %data = load i64, ptr %leaves
  %address = call ptr @PyLong_FromLongLong(i64 %data)
  %a.p = getelementptr i8, ptr %leaves, i64 32
  %a = load double, ptr %a.p
  %ao = call ptr @PyFloat_FromDouble(double %a)
  %i.p = getelementptr i8, ptr %leaves, i64 64
  %i = load i64, ptr %i.p
  %io = call ptr @PyLong_FromLongLong(i64 %i)
  %b.p = getelementptr i8, ptr %leaves, i64 96
  %b = load i64, ptr %b.p
  %bb = icmp ne i64 %b, 0
  %bo = call ptr @unity_bool(i1 %bb)
  %p1 = getelementptr ptr, ptr %items, i64 1
  %p2 = getelementptr ptr, ptr %items, i64 2
  %p3 = getelementptr ptr, ptr %items, i64 3
  %p4 = getelementptr ptr, ptr %items, i64 4
  store ptr %shape, ptr %items
  store ptr %address, ptr %p1
  store ptr %ao, ptr %p2
  store ptr %io, ptr %p3
  store ptr %bo, ptr %p4
  %r = call ptr @unity_tuple(ptr %items, i64 5)
  ret ptr %r"""
    function = driver(spec, body)
    x = np.zeros((2, 3, 4), np.float32)
    assert function(x, 0.25, -7, True) == ((2, 3, 4), x.ctypes.data, 0.25, -7, True)
    assert function(torch.zeros(5), 1.0, 300, False)[0] == (5,)
    assert function(np.zeros((), np.float32), 1, 1, np.bool_(True))[0] == ()


def test_leaf_tensor_shares_the_callers_memory():
    spec = EntrySpec("f", (TensorArg("x", "float32", (N,)),), ("n",))
    identity = driver(spec, f"  %t = call ptr @unity_leaf_tensor(ptr %leaves, i64 {F32})\n  ret ptr %t")
    array = np.arange(3, dtype=np.float32)
    assert identity(array).numpy() is array
    wrapped = Tensor(array)
    assert identity(wrapped) is wrapped
    source = torch.arange(3, dtype=torch.float32)
    identity(source)
    view = identity(source)
    assert view.data_ptr == source.data_ptr()
    del source
    gc.collect()
    np.testing.assert_array_equal(view, [0, 1, 2])
    np.testing.assert_array_equal(identity(memoryview(array)), array)


def test_views_keep_their_owner_alive():
    arena = np.arange(16, dtype=np.float32)
    spec = EntrySpec("f", (ShapeArg("s", (N,)),), ("n",))
    body = f"""  %data.p = getelementptr i8, ptr %env, i64 16
  %data = load ptr, ptr %data.p
  %t = call ptr @unity_view_tensor(i64 {F32}, i64 1, ptr %symbols, ptr %data, ptr %env)
  ret ptr %t"""
    function = driver(spec, body, id(arena), (arena,))
    view = function((4,))
    assert np.shares_memory(view.numpy(), arena) and view.shape == (4,)
    address, count = view.data_ptr, sys.getrefcount(arena)
    del function
    gc.collect()
    assert sys.getrefcount(arena) < count and view.numpy().base is arena and address == arena.ctypes.data


CALL = """  %args = alloca [2 x ptr]
  %t = call ptr @unity_leaf_tensor(ptr %leaves, i64 {f32})
  %one = call ptr @PyLong_FromLongLong(i64 41)
  store ptr %t, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  store ptr %one, ptr %p1
  %r = call ptr @unity_call(ptr %env, ptr %args, i64 2)
  call void @Py_DecRef(ptr %t)
  call void @Py_DecRef(ptr %one)
  ret ptr %r"""


def test_calls_into_python_and_back():
    seen: list[object] = []

    def callback(x, k):
        seen.append(x)
        return x.numpy().sum() + k

    spec = EntrySpec("f", (TensorArg("x", "float32", (N,)),), ("n",))
    function = driver(spec, CALL.format(f32=F32), id(callback), (callback,))
    array = np.ones(3, np.float32)
    count = sys.getrefcount(array)
    assert function(array) == 44 and seen[0].numpy() is array
    seen.clear()
    assert sys.getrefcount(array) == count

    def broken(x, k):
        raise ZeroDivisionError(f"{x.shape} {k}")

    failing = driver(spec, CALL.format(f32=F32), id(broken), (broken,))
    with pytest.raises(ZeroDivisionError, match=r"\(3,\) 41") as caught:
        failing(array)
    assert caught.traceback[-1].name == "broken"
    assert sys.getrefcount(array) <= count + 3  # the traceback holds the callback's frame


def test_reading_results_of_python():
    spec = EntrySpec("f", (ScalarArg("which", "int64"),))
    body = """  %out = alloca i64
  %o.p = getelementptr i8, ptr %leaves, i64 8
  %r = call ptr @unity_call(ptr %env, ptr %o.p, i64 1)
  %null = icmp eq ptr %r, null
  br i1 %null, label %fail, label %read
read:
  %s = call i32 @unity_as_int(ptr %r, ptr %out)
  call void @Py_DecRef(ptr %r)
  %bad = icmp ne i32 %s, 0
  br i1 %bad, label %fail, label %good
fail:
  ret ptr null
good:
  %v = load i64, ptr %out
  %w = add i64 %v, 1
  %x = call ptr @PyLong_FromLongLong(i64 %w)
  ret ptr %x"""
    values = {0: 5, 1: -1, 2: "text"}
    lookup = values.__getitem__
    function = driver(spec, body, id(lookup), (lookup,))
    assert function(0) == 6 and function(1) == 0
    with pytest.raises(TypeError):
        function(2)
    with pytest.raises(KeyError):
        function(3)


def test_raising_through_a_reporter():
    def reporter(code, a, b):
        raise VMError("E614", f"{code} {a} {b}")

    spec = EntrySpec("f", ())
    body = "  call void @unity_raise_by(ptr %env, i64 1, i64 -2, i64 3)\n  ret ptr null"
    with pytest.raises(VMError, match="1 -2 3"):
        driver(spec, body, id(reporter), (reporter,))()


def test_null_items_make_no_tuple():
    def bad():
        raise OSError("no")

    spec = EntrySpec("f", ())
    body = """  %items = alloca [2 x ptr]
  %n = call ptr @unity_none()
  %r = call ptr @unity_call(ptr %env, ptr null, i64 0)
  %p1 = getelementptr ptr, ptr %items, i64 1
  store ptr %n, ptr %items
  store ptr %r, ptr %p1
  %t = call ptr @unity_tuple(ptr %items, i64 2)
  ret ptr %t"""
    with pytest.raises(OSError, match="no"):
        driver(spec, body, id(bad), (bad,))()
    good = driver(spec, body, id(list), ())
    assert good() == (None, [])


def test_driver_is_called_from_its_own_callback():
    spec = EntrySpec("f", (TensorArg("x", "float32", (N,)),), ("n",))
    cell: list[object] = []

    def callback(x, k):
        return x.shape[0] if x.shape[0] == 1 else cell[0](x.numpy()[1:]) + x.shape[0]

    function = driver(spec, CALL.format(f32=F32), id(callback), (callback,))
    cell.append(function)
    assert function(np.zeros(30, np.float32)) == 465
