"""The reference interpreter on graph functions, written as script."""

from __future__ import annotations

import numpy as np
import pytest

import unity.op  # noqa: F401 - fills the operator table
from unity.ffi.registry import register_func, remove_global_func
from unity.ir import IRModule
from unity.ir.interpret import Interpreter, run
from unity.script.reader.module import parse
from unity.support.errors import InterpreterError


def module(text: str) -> IRModule:
    mod = parse(text)
    assert isinstance(mod, IRModule)
    return mod


def fails(code: str, mod: IRModule, name: str, *args: object) -> InterpreterError:
    with pytest.raises(InterpreterError) as caught:
        run(mod, name, *args)
    assert caught.value.code == code, str(caught.value)
    return caught.value


X = np.array([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0]], "float32")


def test_operators_tuples_and_shapes():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.permute_dims(a)
            t = (a, b)
            c = t[1]
            s = R.shape([n, n * 2])
            R.output(c, s)
        return (c, s)
""")
    value, shape = run(mod, "main", X)
    np.testing.assert_array_equal(value, np.maximum(X, 0).T)
    assert shape == (3, 6)


def test_conditionals_take_one_side():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
        if c:
            y = R.add(x, x)
        else:
            y = R.negative(x)
        return y
""")
    np.testing.assert_array_equal(run(mod, "main", np.array(True), X), X + X)
    np.testing.assert_array_equal(run(mod, "main", np.array(False), X), -X)


def test_recursion_counts_down_deeply():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        done: R.Tensor((), "bool") = R.equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((), "int64") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            y: R.Tensor((), "int64") = R.add(x, n)
            r: R.Tensor((), "int64") = Module.main(m, y)
        return r
""")
    assert run(mod, "main", np.array(10), np.array(0)) == 55
    assert run(mod, "main", np.array(2000), np.array(0)) == 2001000
    with pytest.raises(InterpreterError, match="recurses too deeply"):
        run(mod, "main", np.array(100_000), np.array(0))


def test_match_cast_binds_and_checks():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.reshape(y, R.shape([m, n]))
        return z

    @R.function
    def square(x: R.Tensor(ndim=2, dtype="float32")):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n, n), "float32"))
        return y
""")
    assert run(mod, "main", X).shape == (2, 3)
    assert "n = 3" in fails("E317", mod, "square", X).message
    fails("E316", mod, "main", X.astype("float64"))
    fails("E316", mod, "main", X[0])


def test_local_functions_capture():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 2), "float32"), w: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
        @R.function
        def inner(y: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
            s: R.Tensor((3, 2), "float32") = R.add(y, w)
            return s
        r: R.Tensor((3, 2), "float32") = inner(x)
        return r
""")
    np.testing.assert_array_equal(run(mod, "main", X, X * 2), X * 3)


def test_registered_functions_see_the_memory():
    seen = []

    def double(x):
        seen.append(x.numpy().copy())
        x.numpy()[:] *= 2

    register_func("test_reference.double", double)
    try:
        mod = module("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3, 2), "float32")):
        y = R.add(x, x)
        R.call_packed("test_reference.double", y)
        return y
""")
        np.testing.assert_array_equal(run(mod, "main", X), X * 4)
        np.testing.assert_array_equal(seen[0], X * 2)
    finally:
        remove_global_func("test_reference.double")
    fails("E318", mod, "main", X)


def test_call_dps_to_a_registered_function():
    register_func("test_reference.add_into", lambda a, b, out: np.add(a.numpy(), b.numpy(), out=out.numpy()) is None)
    try:
        mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        y = R.call_dps("test_reference.add_into", (x, x), R.Tensor((n, 2), "float32"))
        return y
""")
        np.testing.assert_array_equal(run(mod, "main", X), X * 2)
    finally:
        remove_global_func("test_reference.add_into")


MEMORY = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        s = R.memory.alloc_storage(R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        a: R.Tensor((4,), "float32") = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        copy(x, a)
        b: R.Tensor((4,), "float32") = R.memory.alloc_tensor(s, R.prim_value({offset}), R.shape([4]), R.dtype("float32"))
        copy(a, b)
        {kill}
        return b
"""


def memory_module(offset: int, kill: str = "R.memory.kill_tensor(a)") -> IRModule:
    return module(MEMORY.replace("{offset}", str(offset)).replace("{kill}", kill))


def test_planned_memory():
    data = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(run(memory_module(16), "main", data), data + 2)
    fails("E311", memory_module(0), "main", data)  # b takes the place of a, which is still read
    fails("E310", memory_module(20), "main", data)
    fails("E319", memory_module(16, "R.memory.kill_storage(s)"), "main", data)
    fails("E311", memory_module(16, "R.memory.kill_tensor(b)"), "main", data)


def test_print_and_assert(capsys):
    mod = module("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "int32")):
        R.print(x, format="x is {}")
        R.assert_op(c, x, format="refused: {}")
        return x
""")
    data = np.array([1, 2], "int32")
    run(mod, "main", np.array(True), data)
    assert capsys.readouterr().out == "x is [1 2]\n"
    assert fails("E314", mod, "main", np.array(False), data).message == "refused: [1 2]"


def test_results_do_not_share_the_caller_memory():
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "int32")):
        return x
""")
    data = np.array([1, 2], "int32")
    result = run(mod, "main", data)
    result[0] = 9
    assert data[0] == 1


def test_one_interpreter_runs_many_functions():
    interpreter = Interpreter(memory_module(16))
    data = np.arange(4, dtype="float32")
    first = interpreter.run("main", data)
    out = np.zeros(4, "float32")
    interpreter.run("copy", data, out)
    np.testing.assert_array_equal(out, data + 1)
    np.testing.assert_array_equal(interpreter.run("main", data), first)


def test_errors_point_at_the_script():
    mod = module("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(5):
            A[i] = T.float32(0)
""")
    text = str(fails("E310", mod, "main", np.zeros(4, "float32")))
    assert "A[i] = T.float32(0)" in text and "A[4]" in text
