"""Several targets in one module, and what register_target and the build refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_toy_target import DEVICE, MODULE, RUNS, TOY, WANTED, X, generate, link

import unity
from unity.ffi.dtype import DataType
from unity.ffi.runtime import runtime
from unity.ffi.targets.processor import host_processor
from unity.ffi.targets.target import Target, processor_in_use, target
from unity.script import parse
from unity.target import Backend, Runtime, TargetKind, register_target
from unity.transform import Pipeline, annotate_tir_op_pattern, fuse_ops, fuse_tir, legalize_ops
from unity.transform.infra.backend import BACKENDS
from unity.transform.tir.blocks.lower_opaque_block import convert_blocks_to_opaque

MIXED = """
@I.ir_module
class M:
    @T.prim_func
    def double(X: T.Buffer((3, 4), "float32"), Y: T.Buffer((3, 4), "float32")):
        T.func_attr({"target": T.target("toy/first")})
        for i, j in T.grid(3, 4):
            with T.block("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            y = R.call_tir(M.double, (R.exp(x),), R.Tensor((3, 4), "float32"))
            s = R.sum(R.abs(y), axis=[1])
            R.output(s)
        return s
"""


def test_two_targets_in_one_module():
    made = unity.compile(parse(MIXED))
    RUNS.clear()
    np.testing.assert_allclose(made["main"](X).numpy(), WANTED, rtol=1e-6)
    assert set(made.objects) == {"kernels", "toy", "driver"} and RUNS == ["double"]


def test_names_that_are_taken_and_devices_that_are_not_the_program_s():
    with pytest.raises(unity.UnityError, match="E533"):
        register_target(Backend(TargetKind("llvm"), Runtime(DEVICE, "toy", link), generate, pipeline=Pipeline(())))
    with pytest.raises(unity.UnityError, match="E533"):
        register_target(Backend(TOY, Runtime(DEVICE, "kernels", link), generate, pipeline=Pipeline(())))
    made = unity.compile(parse(MODULE), target="llvm")
    with pytest.raises(unity.UnityError, match=r"E612.*runs on cpu:0, not on toy:0"):
        unity.VirtualMachine(made, unity.device("toy"))


def test_what_a_target_without_checks_or_without_its_package_says(monkeypatch, tmp_path):
    made = unity.compile(parse(MODULE), target="toy")
    made.save(tmp_path / "m.unity")
    monkeypatch.setenv("UNITY_BOUNDS", "1")
    with pytest.raises(unity.UnityError, match="E530"):
        unity.compile(parse(MODULE), target="toy")
    monkeypatch.delenv("UNITY_BOUNDS")
    monkeypatch.delitem(runtime.RUNTIMES, "toy")
    with pytest.raises(unity.UnityError, match="E810"):
        unity.VirtualMachine(unity.load(tmp_path / "m.unity"))


def test_programs_of_different_targets_are_not_merged():
    mod = parse(MIXED)
    fused = fuse_tir(fuse_ops(annotate_tir_op_pattern(legalize_ops(mod))))
    assert [fn.attrs.get("target") for fn in fused.prim_funcs().values()].count("toy/first") == 1
    assert "target" in fused["double"].attrs


def test_code_with_a_key_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    made = []

    def counted(functions, target, suffix):
        made.extend(functions)
        return generate(functions, target, suffix)

    backend = replace(BACKENDS["toy"], pipeline=Pipeline((convert_blocks_to_opaque,)), generate=counted)
    for key, count in ((None, 2), (lambda target: "version 1", 1), (lambda target: "version 2", 1)):
        made.clear()
        monkeypatch.setitem(BACKENDS, "toy", replace(backend, cache_key=key))
        for _ in range(2):
            program = unity.compile(parse(MIXED))
            np.testing.assert_allclose(program["main"](X).numpy(), WANTED, rtol=1e-6)
        assert made == ["double"] * count


def test_the_option_names_any_target_with_code(monkeypatch):
    monkeypatch.setenv("UNITY_TARGET", "toy -seed=2")
    assert target() == Target("toy -seed=2") and processor_in_use() == host_processor()
    made = unity.compile(parse(MODULE))
    assert made.options["target"] == "toy -seed=2" and "toy" in made.objects
    with pytest.raises(unity.UnityError, match="E531"):
        Target("toy -seed=many")


def test_tensors_of_a_device_without_memory_lie_on_the_host():
    given = unity.Tensor(X, unity.device("toy"))
    assert given.device == unity.cpu() and unity.device("toy").exist and not unity.device("toy:1").exist
    made = unity.compile(parse(MODULE), target="toy")
    np.testing.assert_allclose(made["main"](given, 0).numpy(), WANTED, rtol=1e-6)


SCALARS = ["bool", "int8", "uint16", "int32", "uint64", "float32", "float64"]


@pytest.mark.parametrize("dtype", SCALARS)
def test_arguments_and_results_of_python_kernels(dtype):
    """Each type of scalar goes in and out; a buffer with strides is the view that was given."""
    text = f"""
@T.prim_func
def f(a: T.handle, s: T.{dtype}, b: T.handle) -> T.{dtype}:
    n, step = T.int64(), T.int64()
    A = T.match_buffer(a, (n,), "{dtype}", strides=(step,))
    B = T.match_buffer(b, (n,), "{dtype}")
    for i in range(n):
        B[i] = A[i]
    T.ret(s)
"""
    whole = np.array([0, 1, 1, 0, 1, 0], DataType(dtype).numpy)
    given = whole.dtype.type(1)
    for mode in ("native", "bytecode"):
        out = np.zeros(3, whole.dtype)
        vm = unity.VirtualMachine(unity.compile(parse(text), target="toy", exec_mode=mode), exec_mode=mode)
        assert vm["f"](whole[::2], given.item(), out) == 1
        np.testing.assert_array_equal(out, whole[::2])
