"""Bad input: a clear error with what was expected and what came, never a crash; the machine stays usable."""

import inspect

import numpy as np
import pytest
from main_job import CANONICAL

import unity
import unity.script


def good():
    return np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)


@pytest.fixture(scope="module")
def machine():
    unity.register_func("custom_inplace_update", lambda t: None, override=True)
    return unity.compile(unity.script.parse(CANONICAL))


READ_ONLY = np.ones((2, 4), np.float32)
READ_ONLY.setflags(write=False)

CALLS = {
    "dtype": (lambda: (np.ones((2, 3), np.float64), good()[1]), ["x", "float32", "float64"]),
    "rank": (lambda: (np.ones((2, 3, 1), np.float32), good()[1]), ["x", "2", "3"]),
    "symbol used twice": (lambda: (good()[0], np.ones((5, 4), np.float32)), ["k", "3", "5"]),
    "not contiguous": (lambda: (np.ones((3, 2), np.float32).T, good()[1]), ["x", "contiguous"]),
    "too few": (lambda: (good()[0],), ["2", "1"]),
    "too many": (lambda: (*good(), good()[0]), ["2", "3"]),
    "not a tensor": (lambda: ("text", good()[1]), ["x", "str"]),
    "none": (lambda: (None, good()[1]), ["x"]),
    "list": (lambda: ([[1.0]], good()[1]), ["x", "list"]),
    "object array": (lambda: (np.ones((2, 3), object), good()[1]), ["x"]),
    "big endian": (lambda: (np.ones((2, 3), ">f4"), good()[1]), ["x"]),
    "complex": (lambda: (np.ones((2, 3), np.complex64), good()[1]), ["x"]),
}


@pytest.mark.parametrize("mode", ["native", "bytecode"])
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(machine, mode, name):
    vm = unity.VirtualMachine(machine, exec_mode=mode)
    arguments, words = CALLS[name]
    with pytest.raises(unity.UnityError) as caught:
        vm["main"](*arguments())
    text = str(caught.value)
    for word in words:
        assert word in text, text
    np.testing.assert_allclose(np.asarray(vm["main"](*good())), np.exp(np.full(8, 3.0)), rtol=1e-5)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_read_only_output(machine, mode):
    vm = unity.VirtualMachine(machine, exec_mode=mode)
    with pytest.raises(unity.UnityError, match=r"read-only|writ"):
        vm["tir_mm"](*good(), READ_ONLY)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_missing_packed_function(mode):
    text = CANONICAL.replace("custom_inplace_update", "e2e.nobody_registered_this")
    with pytest.raises(unity.UnityError, match="nobody_registered_this"):
        vm = unity.VirtualMachine(unity.compile(unity.script.parse(text)), exec_mode=mode)
        vm["main"](*good())


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_exception_of_a_packed_function_reaches_the_caller(mode):
    def fails(t):
        raise KeyError("from the callback")

    unity.register_func("e2e.fails", fails, override=True)
    ex = unity.compile(unity.script.parse(CANONICAL.replace("custom_inplace_update", "e2e.fails")))
    vm = unity.VirtualMachine(ex, exec_mode=mode)
    with pytest.raises(KeyError) as caught:
        vm["main"](*good())
    assert any(entry.name == "fails" for entry in caught.traceback)
    unity.register_func("e2e.fails", lambda t: None, override=True)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_unknown_function(machine, mode):
    with pytest.raises(unity.UnityError, match="nothing_here"):
        unity.VirtualMachine(machine, exec_mode=mode)["nothing_here"]


SCRIPTS = {
    "unknown name": ("@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    return y\n", "y"),
    "unknown operator": ("@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    y = R.expp(x)\n    return y\n", "exp"),
    "unterminated block": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    for i in range(2):\n", ""),
    "unterminated bracket": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    A[0] = (1.0\n", ""),
    "unterminated string": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32)):\n    A[0] = 1.0\n", ""),
    "tab": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n\tA[0] = T.float32(1)\n        A[1] = T.float32(1)\n", "tab"),
    "deep brackets": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    A[0] = " + "(" * 10_000 + "1" + ")" * 10_000 + "\n", ""),
    "deep blocks": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n" + "".join(
        "    " * (d + 1) + "if A[0] > T.float32(0):\n" for d in range(3_000)) + "    " * 3_001 + "A[0] = T.float32(1)\n", ""),
    "one megabyte line": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    A[0] = " + "$" * 1_000_000 + "\n", ""),
    "empty": ("", ""),
    "null byte": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    A[0] = \0\n", ""),
    "evaluation": ("@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n    A[0] = __import__('os').getpid()\n", "__import__"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_bad_script(name):
    text, word = SCRIPTS[name]
    with pytest.raises(unity.UnityError) as caught:
        unity.script.parse(text)
    assert caught.value.code.startswith("E")
    assert word in str(caught.value)
    assert len(str(caught.value)) < 5_000


def test_several_errors_are_reported_at_once():
    text = "@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    a = R.expp(x)\n    b = R.logg(x)\n    return c\n"
    with pytest.raises(unity.UnityError) as caught:
        unity.script.parse(text)
    assert len(caught.value.errors) >= 2


def test_thousands_of_terms_work():
    text = "@T.prim_func\ndef f(A: T.Buffer((1,), 'int64')):\n    A[0] = A[0]" + " + A[0]" * 2_999 + "\n"
    func = unity.script.parse(text)
    assert unity.ir.structural_equal(func, unity.script.parse(str(func)))


ODD = {
    "negative": -1, "fraction": 1.5, "text": "x", "bytes": b"x", "list": [1], "dict": {}, "object": object(), "function": repr,
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", [p for p in inspect.signature(unity.compile).parameters if p != "mod"])
def test_any_argument_of_compile_is_taken_or_refused(name, odd):
    """No argument ends in an error of Python."""
    mod = unity.script.parse("@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    return R.exp(x)\n")
    more = {"precision": "int8"} if name == "calibration" else {}
    try:
        unity.compile(mod, **{name: ODD[odd], **more})
    except unity.UnityError as error:
        assert error.code
