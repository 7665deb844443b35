"""A target from outside of the package: the reference interpreter as a device, through the documented calls alone."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import unity
from unity.ir import interpret
from unity.script import parse
from unity.target import (
    Backend,
    DeviceKind,
    KernelCode,
    Runtime,
    TargetKind,
    kernel_signature,
    python_kernels,
    register_target,
)  # fmt: skip
from unity.transform import Pipeline


def generate(functions, target, suffix):
    symbols = {name: f"toy.{name}{suffix}" for name in functions}
    signatures = {name: kernel_signature(name, fn) for name, fn in functions.items()}
    data = json.dumps([unity.IRModule(functions).script(), symbols]).encode()
    return lambda: KernelCode(data, signatures, symbols)


RUNS = []


def link(engine, objects, kernels):
    def run(mod, name, *args):
        RUNS.append(name)
        return interpret.run(mod, name, *args)

    entries = {}
    for text, symbols in map(json.loads, objects):
        entries |= {symbol: partial(run, parse(text), name) for name, symbol in symbols.items()}
    python_kernels(engine, entries, kernels)


TOY = TargetKind("toy", {"seed": int}, {"toy/first": {"seed": 1}})
DEVICE = DeviceKind("toy", 12, True, "The reference interpreter.")
register_target(Backend(TOY, Runtime(DEVICE, "toy", link), generate, pipeline=Pipeline(())))
MODULE = """
@I.ir_module
class M:
    @T.prim_func
    def scale(x: T.handle, k: T.float32, at: T.int64, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            with T.block("scale"):
                vi = T.axis.spatial(n, i)
                Y[vi] = X[at + vi] * k
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), at: R.Prim("int64")):
        n = T.int64()
        a = R.flatten(R.exp(x))
        y = R.call_tir(M.scale, (a, R.prim_value(T.float32(2)), at), R.Tensor((n * 4,), "float32"))
        return R.sum(R.reshape(y, (n, 4)), axis=[1])
"""
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
WANTED = (2 * np.exp(X)).sum(1)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_compiled_run_saved_and_loaded(mode, tmp_path):
    made = unity.compile(parse(MODULE), target="toy -seed=3", exec_mode=mode)
    made.save(tmp_path / "m.unity")
    for program in (made, unity.load(tmp_path / "m.unity"), unity.load(tmp_path / "m.unity", trust=False)):
        RUNS.clear()
        vm = unity.VirtualMachine(program, unity.device("toy"), exec_mode=mode)
        np.testing.assert_allclose(vm["main"](X, 0).numpy(), WANTED, rtol=1e-6)
        assert set(program.objects) <= {"toy", "driver"} and "scale" in RUNS and len(RUNS) >= 2
        with pytest.raises(unity.UnityError, match="E314"):
            vm["main"](X, 5)
