"""Weights that programs pack for themselves: packed once, outside of the model."""

from __future__ import annotations

import numpy as np

import unity
from unity import tir
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax import transform
from unity.script import parse
from unity.transform import Pipeline

MOD = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 32), "float32")):
        R.func_attr({"num_input": 1})
        n = T.int64()
        with R.dataflow():
            y = R.call_dps(mm, (x, w), R.Tensor((n, 32), "float32"))
            R.output(y)
        return y

    @T.prim_func(private=True)
    def mm(x: T.handle, w: T.Buffer((16, 32), "float32"), y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n, 16), "float32")
        Y = T.match_buffer(y, (n, 32), "float32")
        for i, j, k in T.grid(n, 32, 16):
            with T.block("mm"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * w[vk, vj]
""")


def scheduled() -> unity.IRModule:
    """The product with its weight in tiles of eight columns."""
    sch = tir.Schedule(MOD)
    block = sch.get_block("mm", func_name="mm")
    copy = sch.cache_read(block, 1, "global")
    sch.transform_layout(copy, ("write", 0), lambda k, j: (j // 8, k, j % 8))
    sch.annotate(copy, "meta_schedule.layout_rewrite_preproc", True)
    return sch.mod


def test_the_weight_is_packed_once() -> None:
    mod = scheduled()
    split = transform.SplitLayoutRewritePreproc()(mod)
    verify(split)
    lifted = Pipeline.parse("dead_code,lift_transform_params")(split)
    x, w = np.random.default_rng(0).standard_normal((3, 16), "float32"), np.eye(16, 32, dtype="float32") * 2
    for make in (lambda name, *args: run(lifted, name, *args), lambda name, *args: machine[name](*args)):
        machine = unity.VirtualMachine(unity.compile(lifted))
        packed = make("main_transform_params", (w,))
        assert np.asarray(packed[0]).shape == (4, 16, 8)
        np.testing.assert_allclose(np.asarray(make("main", x, *packed)), x @ w, rtol=1e-5, atol=1e-6)


def test_programs_without_such_steps_stay() -> None:
    assert transform.SplitLayoutRewritePreproc()(MOD) is MOD
    done = Pipeline.parse("split_layout_rewrite_preproc,dead_code")(scheduled())
    assert transform.SplitLayoutRewritePreproc()(done) is done
