"""Every kind of parameter of a tensor program, with every kind of argument, in every way to call it: the same result, or one
error in words."""

import ml_dtypes  # noqa: F401 - numpy learns the narrow types
import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType, dtype_names
from unity.ffi.tensor import tensor
from unity.script import from_source
from unity.support.errors import UnityError

WAYS = ("kernel", "graph", "object")
"""The program itself; a graph function that calls it; one whose parameters have no type."""
MODULE = """
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def kernel(s: T.DTYPE, B: T.Buffer((3,), "DTYPE")):
        for i in range(3):
            B[i] = s

    @T.prim_func
    def echo(s: T.DTYPE) -> T.DTYPE:
        return s

    @R.function
    def graph(s: R.Prim("DTYPE")):
        return R.call_tir(M.kernel, (s,), R.Tensor((3,), "DTYPE"))

    @R.function
    def object(s: R.Object):
        return R.call_tir(M.kernel, (s,), R.Tensor((3,), "DTYPE"))

    @R.function
    def literal():
        return R.call_tir(M.kernel, (T.DTYPE(ONE),), R.Tensor((3,), "DTYPE"))

    @R.function
    def handed_on(s: R.Prim("DTYPE")):
        y: R.Prim("DTYPE") = M.echo(s)
        return (s, y)
"""
NUMBERS = {
    "float": (0.0, 1.0, -1.5, 0.1, 1 + 2**-8 + 2**-30, 3e38, 1e-40, float("inf"), float("-inf"), float("nan"), 7),
    "int": (0, True, np.True_, 1, -1, 100, -128, 2**31 - 1, -(2**63), 2**63 - 1), "uint": (0, True, np.True_, 1, 255, 2**32 - 1, 2**63, 2**64 - 1), "bool": (True, False),
}  # fmt: skip
WRONG = (None, "x", (1,), 1.5, True, 2**70, -(2**70), np.ones(2, "float32"), object())


def numbers(dtype):
    """Numbers that a data type holds, as numpy's own and Python's."""
    kind = DataType(dtype)
    name = "bool" if kind.is_bool else "uint" if kind.is_uint else "int" if kind.is_integral else "float"
    low, high = (0, 2**kind.bits - 1) if kind.is_uint else (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)
    return [n for n in NUMBERS[name] if name in ("float", "bool") or low <= int(n) <= high]


def machines(text, tmp_path):
    """Virtual machines of a module: native, bytecode, and loaded from a file."""
    built = unity.build(from_source(text))
    built.save(str(tmp_path / "saved.unity"))
    loaded = unity.load(str(tmp_path / "saved.unity"))
    return [unity.VirtualMachine(e, exec_mode=mode) for e in (built, loaded) for mode in ("native", "bytecode")]


def outcome(call, *args):
    """The code of a call's error."""
    try:
        found = call(*args)
    except UnityError as error:
        return error.code
    return f"gave {type(found).__name__}"


def plain(array):
    return array.astype("float64") if DataType(str(array.dtype)).is_float else array


@pytest.mark.parametrize("dtype", dtype_names())
def test_a_scalar_arrives(dtype, tmp_path):
    text = MODULE.replace("DTYPE", dtype).replace("ONE", "True" if dtype == "bool" else "1")
    for vm in machines(text, tmp_path):
        for number in numbers(dtype):
            expected = tensor([number] * 3, dtype).numpy()
            given = np.zeros(3, expected.dtype)
            vm["kernel"](number, given)
            for found in (given, vm["graph"](number).numpy(), vm["object"](number).numpy()):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(plain(found), plain(expected))
            for found in (vm["echo"](number), vm["handed_on"](number)[1]):
                np.testing.assert_array_equal(plain(tensor([found], dtype).numpy()), plain(expected[:1]))
                assert type(found) is (bool if dtype == "bool" else float if DataType(dtype).is_float else int)
            kept = tensor([vm["handed_on"](number)[0]], dtype).numpy()
            np.testing.assert_array_equal(plain(kept), plain(expected[:1]))
        np.testing.assert_array_equal(vm["literal"]().numpy(), tensor([1] * 3, dtype).numpy())


@pytest.mark.parametrize("dtype", dtype_names())
def test_what_is_no_such_scalar(dtype, tmp_path):
    text = MODULE.replace("DTYPE", dtype).replace("ONE", "True" if dtype == "bool" else "1")
    found = machines(text, tmp_path)
    for value in WRONG:
        kind = DataType(dtype)
        if type(value) in (float, int) if kind.is_float else type(value) is bool:
            continue
        for way in WAYS:
            args = (value, np.zeros(3, DataType(dtype).numpy)) if way == "kernel" else (value,)
            codes = {outcome(vm[way], *args) for vm in found}
            assert len(codes) == 1 and codes <= {"E603", "E613"}, (value, way, codes)


LITERAL = """
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def kernel(x: T.Buffer((1,), "float32"), s: T.DTYPE, B: T.Buffer((3,), "DTYPE")):
        for i in range(3):
            B[i] = s

    @T.prim_func
    def echo(s: T.DTYPE) -> T.DTYPE:
        return s

    @R.function
    def main(x: R.Tensor((1,), "float32")):
        y = R.call_tir(M.kernel, (x, VALUE), R.Tensor((3,), "DTYPE"))
        z: R.Prim("DTYPE") = M.echo(VALUE)
        return y, z
"""


@pytest.mark.parametrize("value", ["0.1", "1.5", "2", "300", "-1", "True", "R.prim_value(0.1)"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int8", "uint8", "int64", "bool"])
def test_a_plain_number_has_the_type_of_its_parameter(dtype, value):
    """With all digits; one that the type does not have is refused, in either way to call."""
    text, number = LITERAL.replace("DTYPE", dtype).replace("VALUE", value), eval(value.removeprefix("R.prim_value"))
    kind = DataType(dtype)
    if not kind.is_float and (number % 1 or (not kind.is_bool and np.array(number).astype(kind.numpy) != number)):
        with pytest.raises(UnityError) as caught:
            from_source(text)
        assert caught.value.code == "E201"
        return
    mod = from_source(text)
    assert str(from_source(str(mod))) == str(mod)
    found, returned = unity.VirtualMachine(unity.build(mod))["main"](np.ones(1, "float32"))
    expected = np.full(3, number, kind.numpy)
    np.testing.assert_array_equal(plain(found.numpy()), plain(expected))
    np.testing.assert_array_equal(plain(np.array([returned], kind.numpy)), plain(expected[:1]))


@pytest.mark.parametrize("given", ['R.Prim("float32")', 'R.Prim("float64")', 'R.Tensor((), "int8")'])
@pytest.mark.parametrize("dtype", ["int8", "bool", "int64"])
def test_what_never_fits_is_refused_before_the_build(dtype, given):
    text = LITERAL.replace("DTYPE", dtype).replace("VALUE", "s").replace("main(", f"main(s: {given}, ")
    with pytest.raises(UnityError) as caught:
        unity.build(from_source(text))
    assert [caught.value.code, str(caught.value).count("E346")] == ["E346", 2]


POINTER = """
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def kernel(a: KIND, n: T.int32):
        A = T.decl_buffer((4,), "float32", data=a)
        for i in range(n):
            A[i] = A[i] + T.float32(1)

    @R.function(pure=False)
    def graph(a: R.Tensor((4,), "float32"), n: R.Prim("int32")):
        _ = M.kernel(a, n)
        return a

    @R.function(pure=False)
    def object(a: R.Object, n: R.Object):
        _ = M.kernel(a, n)
        return a
"""


@pytest.mark.parametrize("kind", ["T.handle", 'T.handle("float32")'])
def test_a_pointer_takes_a_tensor(kind, tmp_path):
    torch = pytest.importorskip("torch")
    for vm in machines(POINTER.replace("KIND", kind), tmp_path):
        for way in WAYS:
            array = np.ones(4, "float32")
            alike = [array, tensor(array), torch.from_numpy(array)]
            addresses = [] if way == "graph" else [array.ctypes.data]
            for value in [*alike, *addresses]:
                vm[way](value, 3)
            np.testing.assert_array_equal(array, [1.0 + len(alike) + len(addresses)] * 3 + [1.0])
            if way != "graph":
                assert outcome(vm[way], None, 0) == "E614"  # a null pointer, which the program checks


@pytest.mark.parametrize("kind", ["T.handle", 'T.handle("float32")'])
def test_what_is_no_pointer(kind, tmp_path):
    fixed = np.ones(4, "float32")
    fixed.flags.writeable = False
    found = machines(POINTER.replace("KIND", kind), tmp_path)
    for value in ("x", (1,), 1.5, True, 2**70, -1, object(), np.ones(8, "float32")[::2], fixed, np.float32(1)):
        for way in ("kernel", "graph"):
            codes = {outcome(vm[way], value, 1) for vm in found}
            assert len(codes) == 1 and codes <= {"E603", "E605", "E609", "E610", "E613"}, (value, way, codes)


BOUNDS = """
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def kernel(a: T.handle, k: T.int32, f: T.DTYPE, u: T.uint64, b: T.bool, B: T.Buffer((1,), "DTYPE")):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(1):
            B[i] = T.if_then_else(b, T.Cast("DTYPE", A[k]), f)

    @R.function
    def graph(a: R.Tensor(("n",), "float32"), k: R.Prim("int32"), f: R.Prim("DTYPE"), u: R.Prim("uint64"), b: R.Prim("bool")):
        return R.call_tir(M.kernel, (a, k, f, u, b), R.Tensor((1,), "DTYPE"))

    @R.function
    def object(a: R.Object, k: R.Object, f: R.Object, u: R.Object, b: R.Object):
        return R.call_tir(M.kernel, (a, k, f, u, b), R.Tensor((1,), "DTYPE"))
"""


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_failed_check_shows_symbols_and_scalars(dtype, tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_BOUNDS", "1")
    array, given = np.ones(3, "float32"), (7, 0.5, 2**63, True)
    for vm in machines(BOUNDS.replace("DTYPE", dtype), tmp_path):
        for way, out in (("kernel", [np.zeros(1, DataType(dtype).numpy)]), ("graph", []), ("object", [])):
            with pytest.raises(
                UnityError, match=r"\(called with n = 3, k = 7, f = 0.5, u = 9223372036854775808, b = True\)"
            ) as caught:
                vm[way](array, *given, *out)
            assert caught.value.code == "E614"


def test_a_scalar_gives_a_size_that_no_shape_gives_alone() -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int64):
    A, B = T.match_buffer(a, (n * 3, 2), "float32"), T.match_buffer(b, (n * 3, 2), "float32")
    for i, j in T.grid(n * 3, 2):
        B[i, j] = A[i, j] + T.float32(1)
"""
    run = unity.build(from_source(text))["main"]
    a, b = np.ones((6, 2), "float32"), np.zeros((6, 2), "float32")
    run(a, b, 2)
    assert (b == 2).all()
    with pytest.raises(UnityError, match=r"E608.*expected n \* 3 = 9, got 6"):
        run(a, b, 3)


ORDERS = ("s", "k, s", "s, k", "s, k, t", "p, k")
SHAPES = {"R.Tensor((\"k\", 4), \"float32\")": lambda k: np.zeros((k, 4), "float32"), "R.Shape([\"k\"])": lambda k: (k,),
          "R.Tensor((\"k\", \"k + 1\"), \"float32\")": lambda k: np.zeros((k, k + 1), "float32")}  # fmt: skip


@pytest.mark.parametrize("names", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_size_that_is_a_parameter_as_well(names, shape, tmp_path):
    """In any order it is compared with the shapes that name it."""
    types = {"k": 'R.Prim("int64")', "s": shape, "t": shape, "p": f"R.Tuple({shape}, R.Object)"}
    known = "" if "k" in names else "    k = T.int64()\n"
    params = ", ".join([f"{name}: {types[name]}" for name in names.split(", ")])
    text = f"from unity.script import relax as R, tir as T\n@R.function\ndef main({params}):\n{known}    return R.shape([k, k + 1])\n"

    def arguments(k, size):
        one = SHAPES[shape](size)
        return [{"k": k, "p": (one, 0)}.get(name, one) for name in names.split(", ")]

    for vm in machines(text, tmp_path):
        assert tuple(vm["main"](*arguments(3, 3))) == (3, 4)
        assert "k" not in names or outcome(vm["main"], *arguments(4, 3)) in ("E607", "E608")
