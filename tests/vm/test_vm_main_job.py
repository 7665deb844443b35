"""The main job from script text: parsed, compiled, run in both modes, saved, loaded, compiled again without trust."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from main_job import CANONICAL

import unity
from unity.script import parse
from unity.support.errors import FFIError, UnityError, VMError

SIZES = [(3, 4, 5), (1, 1, 1), (0, 3, 2), (2, 0, 3), (17, 33, 9), (64, 64, 64)]


def update(t):
    np.asarray(t)[...] += 1.0


@pytest.fixture(scope="module")
def executable():
    unity.register_func("custom_inplace_update", update, override=True)
    return unity.compile(parse(CANONICAL), target="llvm")


def data(n, k, m):
    rng = np.random.default_rng(n + 10 * k + 100 * m)
    return rng.standard_normal((n, k)).astype(np.float32) * 0.3, rng.standard_normal((k, m)).astype(np.float32) * 0.3


def expected(x, w):
    return (np.exp((x.astype(np.float64) @ w).reshape(-1)) + 1.0).astype(np.float32)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_any_sizes(executable, mode):
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    for size in SIZES:
        x, w = data(*size)
        y = vm["main"](x, w)
        assert y.shape == (size[0] * size[2],) and y.dtype == "float32"
        np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=2e-5)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_bad_calls_leave_the_machine_usable(executable, mode):
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    x, w = data(3, 4, 5)
    for args, code in [((x, w[:3]), "E607"), ((x.T, w), "E609"), ((x.astype(np.float64), w), "E604"), ((x,), "E602")]:
        with pytest.raises(VMError) as caught:
            vm["main"](*args)
        assert caught.value.code == code
    unity.remove_global_func("custom_inplace_update")
    try:
        with pytest.raises(UnityError) as caught:
            vm["main"](x, w)
        assert caught.value.code == "E630" and "custom_inplace_update" in str(caught.value)
        assert any("R.call_packed" in note.message for note in caught.value.notes)
    finally:
        unity.register_func("custom_inplace_update", update, override=True)
    np.testing.assert_allclose(vm["main"](x, w).numpy(), expected(x, w), rtol=2e-5)


def test_save_and_load(executable, tmp_path):
    path = tmp_path / "main.unity"
    executable.save(path)
    x, w = data(3, 4, 5)
    for trust in (True, False):
        vm = unity.VirtualMachine(unity.load(path, trust=trust))
        np.testing.assert_allclose(vm["main"](x, w).numpy(), expected(x, w), rtol=2e-5)
    code = f"""
import sys, numpy as np, unity
unity.register_func("custom_inplace_update", lambda t: np.asarray(t).__iadd__(1.0))
vm = unity.VirtualMachine(unity.load({str(path)!r}))
y = vm["main"](np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
assert np.allclose(y.numpy(), np.exp(3.0) + 1), y
assert not [m for m in sys.modules if m.startswith(("lark", "torch", "unity.ir", "unity.script", "unity.target"))]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert done.returncode == 0, done.stderr


def test_torch_in_torch_out(executable):
    torch = pytest.importorskip("torch")
    vm = unity.VirtualMachine(executable)
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    torch.testing.assert_close(vm["main"](x, w).torch(), torch.exp((x @ w).flatten()) + 1)


def test_untrusted_file_of_another_processor_is_compiled_again(executable, tmp_path):
    path = tmp_path / "other.unity"
    before = executable.features
    try:
        executable.features = "+a-feature-of-another-machine"
        executable.save(path)
    finally:
        executable.features = before
    x, w = data(2, 3, 4)
    np.testing.assert_allclose(unity.VirtualMachine(unity.load(path))["main"](x, w).numpy(), expected(x, w), rtol=2e-5)


def test_large_constants_survive_recompilation(tmp_path):
    weights = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    text = """
@R.function
def main(x: R.Tensor((40, 40), "float32")):
    with R.dataflow():
        y = R.add(x, weights)
        R.output(y)
    return y
"""
    made = unity.compile(parse(text, scope={"weights": weights}))
    path = tmp_path / "weights.unity"
    made.save(path)
    assert path.stat().st_size < 100_000
    for trust in (True, False):
        vm = unity.VirtualMachine(unity.load(path, trust=trust))
        np.testing.assert_array_equal(vm["main"](weights).numpy(), weights + weights)


def test_conditionals_loops_and_local_symbols_from_script():
    text = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), flag: R.Tensor((), "bool")):
        n = T.int64()
        if flag:
            y = R.add(x, x)
            z = R.exp(y)
        else:
            z = R.nn.relu(x)
        return z

    @R.function
    def shapes(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        y = R.reshape(x, (m, n))
        return y, R.shape([n + m, n * 2])
"""
    made = unity.compile(parse(text))
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    for mode in ("native", "bytecode"):
        vm = unity.VirtualMachine(made, exec_mode=mode)
        np.testing.assert_allclose(vm["main"](x, np.array(True)).numpy(), np.exp(x + x), rtol=1e-5)
        np.testing.assert_array_equal(vm["main"](x, np.array(False)).numpy(), np.maximum(x, 0))
        y, shape = vm["shapes"](x.reshape(7, 1))
        assert shape == (8, 14) and y.shape == (1, 7)


def test_not_a_module():
    with pytest.raises(VMError) as caught:
        unity.compile(3)
    assert caught.value.code == "E625"
    with pytest.raises(FFIError):
        unity.get_global_func("nobody.knows.this")


VM_OPERATORS = """
@I.ir_module
class M:
    @R.function(pure=False)
    def main(x: R.Tensor(dtype="float32"), y: R.Tensor(("n", "m"), "int32")):
        a = R.inspect.tensor_ndim(x)
        b = R.inspect.tensor_shape_i(x, 0)
        c = R.inspect.tensor_dtype_bits(y)
        d = R.size(y)
        s = R.shape_of(y)
        t = R.shape_to_tensor(s)
        u = R.tensor_to_shape(t)
        _ = R.print(x, format="{}")
        _1 = R.assert_op(R.const(True, "bool"), x, format="never")
        return (a, b, c, d, s, t, u)

    @R.function
    def loop(i: R.Prim("int64"), x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        if i > 0:
            y = R.add(x, x)
            z = M.loop(i - 1, y)
        else:
            z = x
        return z

    @R.function
    def local(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        @R.function
        def inner(y: R.Tensor((n,), "float32")):
            return R.add(x, y)
        return inner(x)
"""


def test_operators_of_the_vm_recursion_and_local_functions(capsys):
    made = unity.compile(parse(VM_OPERATORS))
    x, ones = np.zeros((3, 4), np.float32), np.ones(3, np.float32)
    for mode in ("native", "bytecode"):
        vm = unity.VirtualMachine(made, exec_mode=mode)
        ndim, extent, bits, size, shape, tensor, back = vm["main"](x, np.zeros((2, 5), np.int32))
        assert (ndim, extent, bits, size.item(), shape, back) == (2, 3, 32, 10, (2, 5), (2, 5))
        np.testing.assert_array_equal(tensor.numpy(), [2, 5])
        assert capsys.readouterr().out.startswith("tensor([[0.")
        np.testing.assert_array_equal(vm["loop"](10, ones).numpy(), ones * 1024)
        np.testing.assert_array_equal(vm["local"](ones).numpy(), ones * 2)
        with pytest.raises(VMError) as caught:
            vm["main"](np.array(1, np.float32), np.zeros((2, 5), np.int32))
        assert caught.value.code == "E605"


PARALLEL_AND_CALLBACK = """
@I.ir_module
class M:
    @T.prim_func
    def par(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in T.parallel(n):
            with T.block("s"):
                vi = T.axis.spatial(n, i)
                Y[vi] = X[vi] * T.float32(2)

    @T.prim_func
    def back(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        T.evaluate(T.call_packed("vm.seen", n, dtype="int32"))
        for i in range(n):
            with T.block("s"):
                vi = T.axis.spatial(n, i)
                Y[vi] = X[vi] + T.float32(1)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.call_dps(par, (x,), R.Tensor((n,), "float32"))
            z = R.call_dps(back, (y,), R.Tensor((n,), "float32"))
            R.output(z)
        return z
"""


def test_parallel_loops_and_calls_out_of_tensor_programs():
    seen = []

    def look(n):
        if n == 7:
            raise KeyError("seven")
        seen.append(n)
        return 0

    unity.register_func("vm.seen", look, override=True)
    made = unity.compile(parse(PARALLEL_AND_CALLBACK))
    wrong = []
    for mode in ("native", "bytecode"):
        vm = unity.VirtualMachine(made, exec_mode=mode)
        for n in (3, 0, 300_000):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(vm["main"](x).numpy(), x * 2 + 1)
        with pytest.raises(KeyError) as caught:
            vm["main"](np.zeros(7, np.float32))
        assert "kernel back" in caught.value.__notes__[0] and caught.traceback[-1].name == "look"

        def work(vm=vm, x=x):
            for _ in range(5):
                if not np.array_equal(vm["main"](x).numpy(), x * 2 + 1):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong and seen[:3] == [3, 0, 300_000] and len(seen) == 36


def test_pipeline_as_text():
    made = unity.compile(
        parse(PARALLEL_AND_CALLBACK), exec_mode="bytecode",
        pipeline="normalize,legalize_ops,to_non_dataflow,lower_call_dps,attach_global_symbol",
    )  # fmt: skip
    assert "driver" not in made.objects
    unity.register_func("vm.seen", lambda n: 0, override=True)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(unity.VirtualMachine(made)["main"](x).numpy(), x * 2 + 1)


def test_an_executable_is_called_by_name() -> None:
    executable = unity.compile(parse(SCALE))
    x = np.arange(6, dtype="float32")
    np.testing.assert_array_equal(np.asarray(executable["main"](x)), 2 * x)
    assert executable["main"] is executable["main"]
    out = np.zeros(6, "float32")
    executable["scale"](x, out)
    np.testing.assert_array_equal(out, 2 * x)
    assert len(executable.time_evaluator("main", unity.cpu(), number=2, repeat=3)(x).results) == 3
    with pytest.raises(unity.UnityError, match="no function 'absent'"):
        executable["absent"]
    with pytest.raises(unity.UnityError, match="runs on cpu"):
        executable.time_evaluator("main", "cuda")


SCALE = """
@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
        for i in range(6):
            B[i] = A[i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((6,), "float32")):
        y = R.call_dps(scale, (x,), R.Tensor((6,), "float32"))
        return y
"""
