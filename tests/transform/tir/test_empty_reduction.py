"""A reduction over nothing gives its initial value: in the interpreter, and compiled in every mode, scheduled or not."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse

MODULE = """
@I.ir_module
class M:
    @T.prim_func
    def f({params}):
        {attrs}
{body}
    @R.function
    def main({graph}):
        return R.call_dps(f, ({given}), R.Tensor((3,), "float32"))
"""
SUM = """
        n = T.int64()
        A = T.match_buffer(x, (3, n), "float32")
        B = T.match_buffer(y, (3,), "float32")
        for i, k in T.grid(3, n):
            with T.block("s"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(5)
                B[vi] = B[vi] + A[vi, vk]
"""
OUTSIDE = SUM.replace("for i, k in T.grid(3, n):", "for k, i in T.grid(n, 3):")
SPLIT = """
        n = T.int64()
        A = T.match_buffer(x, (3, n), "float32")
        B = T.match_buffer(y, (3,), "float32")
        for i, k0, k1 in T.grid(3, (n + 3) // 4, 4):
            with T.block("s"):
                vi = T.axis.spatial(3, i)
                vk = T.axis.reduce(n, k0 * 4 + k1)
                T.where(k0 * 4 + k1 < n)
                with T.init():
                    B[vi] = T.float32(5)
                B[vi] = B[vi] + A[vi, vk]
"""
PLAIN, SCHEDULED = "pass", 'T.func_attr({"tir.is_scheduled": True})'


def module(body, attrs):
    text = MODULE.format(
        params="x: T.handle, y: T.handle", attrs=attrs, body=body, graph='x: R.Tensor((3, "n"), "float32")', given="x,"
    )
    return parse(text.replace("        pass\n", ""))


@pytest.mark.parametrize("attrs", [PLAIN, SCHEDULED])
@pytest.mark.parametrize("body", [SUM, OUTSIDE, SPLIT], ids=["inside", "outside", "split"])
def test_nothing_to_reduce_gives_the_initial_value(body, attrs):
    mod = module(body, attrs)
    executable = unity.compile(mod)
    machines = [unity.VirtualMachine(executable, exec_mode=mode) for mode in ("bytecode", "native")]
    for n in (0, 1, 6):
        given = np.random.default_rng(n).standard_normal((3, n)).astype("float32")
        want = given.sum(1) + 5
        for found in [run(mod, "main", given), *[vm["main"](given) for vm in machines]]:
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)
