"""Checked entries of kernels: every check, in machine code and in words, against numpy and torch arguments."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

from unity.ffi import Tensor, tensor
from unity.ffi.abi import BufferParam, KernelSignature, ScalarParam, SymbolSource
from unity.ffi.calls.entry_spec import EntrySpec, ObjectArg, ScalarArg, ShapeArg, TensorArg, TupleArg, spec_of_kernel
from unity.ffi.calls.fastcall import kernel_function
from unity.ffi.calls.fastcall_ir import entry_ir
from unity.ffi.calls.object_ir import llvm_scalar
from unity.ffi.device import cuda
from unity.ffi.dtype import DataType, dtype_names
from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.native_helpers import HELPER_DECLARATIONS, helper_symbols
from unity.support.errors import FFIError, VMError

N, M = ("sym", 0), ("sym", 1)


class Recorder:
    """A raw kernel written in Python: keeps what it received and returns a status."""

    def __init__(self, *kinds: type) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.status = 0
        self.function = ctypes.PYFUNCTYPE(ctypes.c_int32, *kinds)(self.run)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def run(self, *args: object) -> int:
        self.calls.append(args)
        return self.status


P, I64 = ctypes.c_void_p, ctypes.c_int64


def refused(function, *args, **kwargs) -> VMError:
    with pytest.raises(VMError) as caught:
        function(*args, **kwargs)
    return caught.value


@pytest.fixture
def pair():
    """A kernel of (n, m), (m, 4) with b written."""
    raw = Recorder(P, P, I64, I64)
    args = (
        TensorArg("a", "float32", (N, M), where="model.py:3:9"),
        TensorArg("b", "float32", (M, 4), written=True),
    )
    return kernel_function(EntrySpec("main", args, ("n", "m")), raw.address, keep=[raw]), raw


def test_every_kind_of_tensor_reaches_the_kernel(pair):
    function, raw = pair
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)
    want = (a.ctypes.data, b.ctypes.data, 2, 3)
    assert function(a, b) is None and function(Tensor(a), Tensor(b)) is None and function(a, b=b) is None
    assert function(b=b, a=a) is None
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    for _ in range(2):
        assert function(ta, tb) is None
    assert function(torch.nn.Parameter(ta), tb) is None
    assert function(ta.clone().requires_grad_(), tb) is None and raw.calls.pop()[1:] == want[1:]
    assert function(memoryview(a), b) is None
    assert function(a.view(np.ma.MaskedArray), b) is None
    assert raw.calls == [want] * 9


def test_offset_views_start_at_their_own_address(pair):
    function, raw = pair
    base = np.zeros((5, 3), np.float32)
    out = np.zeros((3, 4), np.float32)
    function(base[2:4], out)
    function(torch.from_numpy(base)[2:4], out)
    assert [call[0] for call in raw.calls] == [base.ctypes.data + 24] * 2


@pytest.mark.parametrize("wrap", [np.asarray, Tensor, torch.from_numpy])
def test_refusals_name_code_place_and_reason(pair, wrap):
    function, raw = pair
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)

    def check(code, words, x, y):
        error = refused(function, wrap(x), wrap(y))
        assert error.code == code and words in str(error), str(error)

    check("E604", "argument a: expected float32, got float64", a.astype("f8"), b)
    check("E605", "expected 2 dimensions, got 1", a[0], b)
    check("E606", "argument b.shape[1]: expected 4, got 5", a, np.zeros((3, 5), np.float32))
    check("E607", "argument b.shape[0]: expected m = 3 (from a.shape[1]), got 7", a, np.zeros((7, 4), np.float32))
    check("E609", "C-contiguous", np.zeros((3, 2), np.float32).T, b)
    check("E609", "C-contiguous", np.zeros((2, 6), np.float32)[:, ::2], b)
    check("E604", 'declared Tensor((n, m), "float32"), model.py:3:9', a.astype("i4"), b)
    assert raw.calls == []


def test_other_refusals(pair):
    function, raw = pair
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)
    fixed = b.copy()
    fixed.flags.writeable = False
    odd = np.frombuffer(bytearray(25), np.float32, 6, 1).reshape(2, 3)
    swapped = a.astype(">f4")
    for code, args in {
        "E602": (a,), "E610": (a, fixed), "E611": (odd, b), "E603": ([[1.0]], b), "E604": (swapped, b),
        "E612": (torch.zeros(2, 3, device="meta"), b),
    }.items():  # fmt: skip
        assert refused(function, *args).code == code
    assert refused(function, a, b, b).code == "E602"
    assert refused(function, a, b, c=b).code == "E602"
    assert refused(function, a, a=b).code == "E602"
    assert refused(function, None, b).code == "E603"
    assert refused(function, torch.zeros(2, 3).to_sparse(), b).code == "E603"
    assert raw.calls == []
    assert function(np.broadcast_to(a, (1, 2, 3))[0], b) is None


def test_scalars_zero_sizes_and_fortran_order():
    raw = Recorder(P, P, I64)
    args = (TensorArg("s", "float32", ()), TensorArg("z", "int64", (N, 3)))
    function = kernel_function(EntrySpec("f", args, ("n",)), raw.address, keep=[raw])
    s, z = np.ones((), np.float32), np.zeros((0, 3), np.int64)
    function(s, z)
    function(torch.tensor(1.0), torch.zeros((0, 3), dtype=torch.int64))
    function(np.float32(2), np.zeros((1, 3), np.int64, order="F"))
    function(s, np.zeros((4, 3), np.int64, order="F")[:0])
    assert [call[2] for call in raw.calls] == [0, 0, 1, 0]
    assert refused(function, s, np.zeros((4, 3), np.int64, order="F")).code == "E609"
    assert "ascontiguousarray" in refused(function, s, np.zeros((4, 3), np.int64, order="F")).help


def test_a_copy_is_no_help_where_the_function_writes():
    raw = Recorder(P)
    function = kernel_function(
        EntrySpec("f", (TensorArg("out", "float32", (4, 3), written=True),)), raw.address, keep=[raw]
    )
    help = refused(function, np.zeros((4, 3), np.float32, order="F")).help
    assert "in place" in help and "ascontiguousarray" not in help


@pytest.mark.parametrize("name", dtype_names())
def test_every_dtype_is_told_apart(name):
    raw = Recorder(P)
    function = kernel_function(EntrySpec("f", (TensorArg("x", name, (3,)),)), raw.address, keep=[raw])
    good = np.zeros(3, DataType(name).numpy)
    function(good)
    assert raw.calls == [(good.ctypes.data,)]
    if hasattr(torch, name):
        function(torch.zeros(3, dtype=getattr(torch, name)))
        function(torch.zeros(3, dtype=getattr(torch, name)))
        assert len(raw.calls) == 3
    count = len(raw.calls)
    for other in dtype_names():
        if other != name:
            assert refused(function, np.zeros(3, DataType(other).numpy)).code == "E604"
            if hasattr(torch, other):
                assert refused(function, torch.zeros(3, dtype=getattr(torch, other))).code == "E604"
    assert len(raw.calls) == count


def test_equal_dtype_objects_of_another_identity():
    raw = Recorder(P)
    function = kernel_function(EntrySpec("f", (TensorArg("x", "int64", (3,)),)), raw.address, keep=[raw])
    function(np.zeros(3, np.longlong))
    function(np.zeros(3, np.dtype("int64").newbyteorder("=")))
    assert len(raw.calls) == 2


def test_symbolic_strides():
    raw = Recorder(P, I64, I64)
    args = (TensorArg("x", "float32", (N, 3), strides=(M, 1)),)
    function = kernel_function(EntrySpec("f", args, ("n", "s")), raw.address, keep=[raw])
    base = np.zeros((4, 8), np.float32)
    function(base[:, 2:5])
    function(torch.from_numpy(base)[:, 2:5])
    function(Tensor(base[::2, :3]))
    function(base[::-1, :3])
    assert [call[1:] for call in raw.calls] == [(4, 8), (4, 8), (2, 16), (4, -8)]
    assert raw.calls[0][0] == base.ctypes.data + 8
    assert refused(function, base[:, :6:2]).code in ("E606", "E607")
    odd = np.zeros((4, 3), np.dtype([("x", "f4"), ("y", "u1")]))["x"]
    assert refused(function, odd).code in ("E609", "E611")


def test_formulas():
    raw = Recorder(P, P, I64)
    half = ("floordiv", ("add", N, 1), 2)
    args = (TensorArg("y", "int8", (half, ("select", ("gt", N, 3), 2, 5))), TensorArg("x", "int8", (N,)))
    function = kernel_function(EntrySpec("f", args, ("n",)), raw.address, keep=[raw])
    for n in range(8):
        function(np.zeros(((n + 1) // 2, 2 if n > 3 else 5), np.int8), np.zeros(n, np.int8))
    assert [call[2] for call in raw.calls] == list(range(8))
    error = refused(function, np.zeros((3, 2), np.int8), np.zeros(7, np.int8))
    assert error.code == "E608" and "expected (n + 1) // 2 = 4, got 3; n = 7 (from x.shape[0])" in str(error)


OPERATORS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "eq", "ne", "lt", "le",
             "gt", "ge", "and", "or")  # fmt: skip


@pytest.mark.parametrize("kind", OPERATORS)
def test_native_formulas_agree_with_python(kind):
    raw = Recorder(P, P, P, I64, I64)
    args = (
        ShapeArg("shape", ((kind, N, M),)),
        ObjectArg("marker"),
        ShapeArg("given", (N, M)),
    )
    function = kernel_function(EntrySpec("f", args, ("n", "m")), raw.address, keep=[raw])
    exact = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
        "truncdiv": lambda a, b: int(a / b), "truncmod": lambda a, b: a - int(a / b) * b,
        "min": min, "max": max, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
        "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
    }[kind]  # fmt: skip
    for a in (-7, -1, 0, 3, 8):
        for b in (-3, -1, 1, 2, 5):
            expected = int(exact(a, b))
            function((expected,), None, (a, b))
            assert refused(function, (expected + 1,), None, (a, b)).code == "E608"
    if kind in ("floordiv", "truncmod"):
        assert refused(function, (0,), None, (1, 0)).code == "E601"


def test_scalars_of_every_type():
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        width = DataType(name).bits
        low, high = (0, 2**width - 1) if name[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
        raw = Recorder(getattr(ctypes, f"c_{name}"))
        function = kernel_function(EntrySpec("f", (ScalarArg("k", name),)), raw.address, keep=[raw])
        for value in (low, 0, 1, high, np.int8(5), tensor(3)):
            function(value)
        assert [call[0] for call in raw.calls] == [low, 0, 1, high, 5, 3]
        for wrong, code in ((low - 1, "E613"), (high + 1, "E613"), (2**80, "E613"), (1.0, "E603"), ("1", "E603")):
            assert refused(function, wrong).code == code
    raw = Recorder(ctypes.c_double, ctypes.c_float, ctypes.c_int8)
    args = (ScalarArg("d", "float64"), ScalarArg("f", "float32"), ScalarArg("b", "bool"))
    function = kernel_function(EntrySpec("f", args), raw.address, keep=[raw])
    function(0.1, 0.5, True)
    function(3, np.float32(0.25), np.bool_(False))
    assert raw.calls == [(0.1, 0.5, 1), (3.0, 0.25, 0)]
    assert refused(function, "x", 1.0, True).code == "E603" and refused(function, 1.0, 1.0, 1).code == "E603"
    assert refused(function, True, 1.0, True).code == "E603"
    raw = Recorder(ctypes.c_uint16, ctypes.c_uint8)
    args = (ScalarArg("h", "bfloat16", bits=True), ScalarArg("e", "float8_e5m2", bits=True))
    kernel_function(EntrySpec("f", args), raw.address, keep=[raw])(1.5, 2)
    assert raw.calls == [(0x3FC0, 0x40)]
    assert [llvm_scalar(DataType(name)) for name in ("bfloat16", "float16", "float8_e5m2")] == ["i16", "i16", "i8"]


def test_tuples_shapes_objects_and_symbols_of_scalars():
    raw = Recorder(P, P, P, I64, P, I64)
    args = (
        TupleArg("t", (TensorArg("x", "float32", (N,)), TupleArg("u", (ShapeArg("s", (N, 2)),)))),
        ObjectArg("o"),
        ScalarArg("n", "int64", symbol=0),
        ShapeArg("any", None),
    )
    function = kernel_function(EntrySpec("f", args, ("n",)), raw.address, keep=[raw])
    x, marker = np.zeros(3, np.float32), object()
    function((x, ((3, 2),)), marker, 3, (1, 2))
    function([x, ([np.int64(3), 2],)], marker, 3, ())
    assert raw.calls[0][0] == x.ctypes.data and raw.calls[0][2] == id(marker) and raw.calls[0][3::2] == (3, 3)
    assert len(raw.calls) == 2
    assert refused(function, (x, ((3, 2),)), marker, 4, ()).code == "E607"
    assert refused(function, (x, ((3, 3),)), marker, 3, ()).code == "E606"
    assert refused(function, (x, ((3,),)), marker, 3, ()).code == "E605"
    assert refused(function, (x,), marker, 3, ()).code == "E602"
    assert refused(function, x, marker, 3, ()).code == "E603"
    assert refused(function, (x, ((3, 2),)), marker, 3, (1.5,)).code == "E603"
    assert refused(function, (x, ((2**70, 2),)), marker, 3, ()).code == "E613"
    assert "argument t[1][0][1]" in str(refused(function, (x, ((3, 3),)), marker, 3, ()))


def test_specs_are_validated():
    raw = Recorder()
    for args, symbols in (
        ((TensorArg("x", "float32", (("add", N, 1),)),), ("n",)),
        ((TensorArg("x", "float32", (N,)),), ()),
        ((TensorArg("x", "float32", (3,), align=24),), ()),
        ((TensorArg("x", "float32", (3,), strides=(1, 1)),), ()),
        ((ScalarArg("x", "float32x4"),), ()),
        ((ScalarArg("x", "float32", symbol=0),), ("n",)),
        ((), ("n",)),
    ):
        with pytest.raises(FFIError) as caught:
            kernel_function(EntrySpec("f", args, symbols), raw.address)
        assert caught.value.code == "E711"
    with pytest.raises(FFIError):
        kernel_function(EntrySpec("f", (TensorArg("x", "float33", (3,)),)), raw.address)


def test_alignment_on_request():
    raw = Recorder(P)
    function = kernel_function(EntrySpec("f", (TensorArg("x", "uint8", None, align=64),)), raw.address, keep=[raw])
    store = np.zeros(256, np.uint8)
    start = -store.ctypes.data % 64
    function(store[start : start + 8])
    for shift in (1, 8, 32):
        assert refused(function, store[start + shift : start + shift + 8]).code == "E611"


def test_status_messages_and_results():
    signature = KernelSignature(
        "k",
        (BufferParam("x", "float32", (N,), written=False), ScalarParam("c", "int32")),
        (SymbolSource("n", 0, 0),), ("c must be positive",), "float32",
    )  # fmt: skip
    text = """
define i32 @k(ptr %x, i32 %c, i64 %n, ptr %out) {
  %bad = icmp sle i32 %c, 0
  br i1 %bad, label %fail, label %fine
fail:
  %s = sub i32 1, %c
  ret i32 %s
fine:
  %p = getelementptr float, ptr %x, i64 1
  %v = load float, ptr %p
  store float %v, ptr %out
  ret i32 0
}
"""
    engine = Engine().add_ir(text)
    function = kernel_function(
        spec_of_kernel(signature), engine.address("k"), messages=signature.messages, result=signature.result, keep=[engine]
    )  # fmt: skip
    x = np.array([1, 2.5], np.float32)
    x.flags.writeable = False
    assert function(x, 1) == 2.5
    error = refused(function, x, 0)
    assert error.code == "E614" and "k: c must be positive" in str(error)
    assert "status 4" in str(refused(function, x, -3))


@pytest.mark.parametrize(
    ("name", "store", "expected"),
    [("bool", "store i8 1", True), ("int8", "store i8 -3", -3), ("uint8", "store i8 -3", 253), ("int64", "store i64 -1", -1),
     ("uint64", "store i64 -1", 2**64 - 1), ("float64", "store double 0.5", 0.5), ("float16", "store half 0.5", 0.5)],
)  # fmt: skip
def test_results_of_every_type(name, store, expected):
    engine = Engine().add_ir(f"define i32 @k(ptr %out) {{\n  {store}, ptr %out\n  ret i32 0\n}}")
    result = kernel_function(EntrySpec("f", ()), engine.address("k"), result=name, keep=[engine])()
    assert result == expected and type(result) is type(expected)


CALLBACK = (
    HELPER_DECLARATIONS
    + """
@target = external global ptr
define i32 @k(ptr %x) {
  %lock = call i32 @PyGILState_Ensure()
  %f = load ptr, ptr @target
  %r = call i32 @unity_call_status(ptr %f, ptr null, i64 0)
  call void @PyGILState_Release(i32 %lock)
  ret i32 %r
}
"""
)


def test_exceptions_keep_their_traceback_through_native_code():
    def innermost():
        raise KeyError("lost")

    def callback():
        innermost()

    cell = ctypes.c_uint64(id(callback))
    engine = Engine(helper_symbols() | {"target": ctypes.addressof(cell)}).add_ir(CALLBACK)
    spec = EntrySpec("f", (TensorArg("x", "float32", (2,)),))
    function = kernel_function(spec, engine.address("k"), keep=[engine])
    with pytest.raises(KeyError) as caught:
        function(np.zeros(2, np.float32))
    assert [entry.name for entry in caught.traceback][-2:] == ["callback", "innermost"]


def test_many_threads_call_one_function():
    text = """
define i32 @k(ptr %x, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %p = getelementptr i64, ptr %x, i64 %i
  %q = getelementptr i64, ptr %y, i64 %i
  %v = load i64, ptr %p
  %w = mul i64 %v, 3
  store i64 %w, ptr %q
  %j = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""
    engine = Engine().add_ir(text)
    args = (TensorArg("x", "int64", (N,)), TensorArg("y", "int64", (N,), written=True))
    function = kernel_function(EntrySpec("f", args, ("n",)), engine.address("k"), keep=[engine])
    wrong: list[int] = []

    def work(number: int) -> None:
        for size in range(200):
            x = np.arange(size) + number
            y = np.empty_like(x)
            function(x, y if size % 2 else torch.from_numpy(y))
            if not np.array_equal(y, 3 * x):
                wrong.append(number)
            if size % 50 == 0:
                refused(function, x, x.astype("f4"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_references_and_lifetimes(pair):
    function, raw = pair
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)
    gc.collect()
    counts = [sys.getrefcount(value) for value in (a, b, None)]
    for _ in range(1000):
        function(a, b)
        function(memoryview(a), b)
        refused(function, b, a)
    raw.calls.clear()
    gc.collect()
    after = [sys.getrefcount(value) for value in (a, b, None)]
    assert after[:2] == counts[:2] and abs(after[2] - counts[2]) < 300
    engine = Engine().add_ir("define i32 @k() {\n  ret i32 0\n}")
    alive = weakref.ref(engine)
    other = kernel_function(EntrySpec("f", ()), engine.address("k"), keep=[engine])
    del engine
    gc.collect()
    assert alive() is not None and other() is None
    del other
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("gated", [False, True])
def test_an_entry_is_the_same_for_all_devices_of_a_kind(gated: bool) -> None:
    """What a saved program brings for the first device serves the others."""
    specs = [EntrySpec("f", (TensorArg("x", "float32", (4,), device=cuda(index)),)) for index in (0, 3)]
    first, last = [entry_ir(spec, driver=True, gated=gated) for spec in specs]
    assert first == last
