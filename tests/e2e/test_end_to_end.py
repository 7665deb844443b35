"""The main job end to end, in both execution modes."""

import threading

import numpy as np
import pytest
from main_job import CANONICAL

import unity
import unity.script
from unity.ir.interpret import run


@pytest.fixture(scope="module", autouse=True)
def packed():
    def custom_inplace_update(t):
        np.asarray(t)[...] += 1.0

    unity.register_func("custom_inplace_update", custom_inplace_update, override=True)


@pytest.fixture(scope="module")
def executable():
    return unity.compile(unity.script.parse(CANONICAL), target="llvm")


def inputs(n, k, m):
    rng = np.random.default_rng(n * 100 + k * 10 + m)
    return rng.standard_normal((n, k), dtype=np.float32) * 0.2, rng.standard_normal((k, m), dtype=np.float32) * 0.2


def expected(x, w):
    return np.exp(x.astype(np.float64) @ w.astype(np.float64)).reshape(-1) + 1.0


SIZES = [(2, 3, 4), (1, 1, 1), (5, 1, 7), (33, 65, 17), (64, 64, 64), (0, 3, 4), (3, 0, 4), (3, 4, 0)]


@pytest.mark.parametrize("mode", ["native", "bytecode"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_compiled_once_runs_at_any_size(executable, mode, size):
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    x, w = inputs(*size)
    y = vm["main"](x, w)
    assert y.shape == (size[0] * size[2],) and str(y.dtype) == "float32"
    np.testing.assert_allclose(np.asarray(y), expected(x, w), rtol=2e-5, atol=1e-5)


def test_reference_interpreter_agrees():
    x, w = inputs(3, 5, 2)
    y = run(unity.script.parse(CANONICAL), "main", x, w)
    np.testing.assert_allclose(np.asarray(y), expected(x, w), rtol=2e-5, atol=1e-5)


def test_torch_tensors_in_and_out(executable):
    torch = pytest.importorskip("torch")
    x, w = inputs(4, 6, 5)
    y = unity.VirtualMachine(executable)["main"](torch.from_numpy(x), torch.from_numpy(w))
    torch.testing.assert_close(y.torch(), torch.from_numpy(expected(x, w).astype(np.float32)), rtol=2e-5, atol=1e-5)
    torch.testing.assert_close(torch.from_dlpack(y), y.torch())


def test_results_do_not_share_memory(executable):
    vm = unity.VirtualMachine(executable)
    x, w = inputs(8, 8, 8)
    first = vm["main"](x, w)
    kept = np.asarray(first).copy()
    second = vm["main"](x * 2, w)
    np.testing.assert_array_equal(np.asarray(first), kept)
    assert not np.shares_memory(np.asarray(first), np.asarray(second))


def test_threads_share_one_machine(executable):
    vm = unity.VirtualMachine(executable)
    failures = []

    def work(seed):
        try:
            for step in range(40):
                x, w = inputs(seed + 1, step % 7 + 1, seed + 2)
                np.testing.assert_allclose(np.asarray(vm["main"](x, w)), expected(x, w), rtol=2e-5, atol=1e-5)
        except BaseException as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_exported_tensor_program_is_callable(executable):
    x, w = inputs(4, 5, 6)
    y = np.empty((4, 6), np.float32)
    unity.VirtualMachine(executable)["tir_mm"](x, w, y)
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-5)
