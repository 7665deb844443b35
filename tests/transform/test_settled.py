"""What random sequences of passes found, reduced: a second run finds nothing to do, and what changes nothing is the same object."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import LOOPS

import unity
from unity.ir import Call, Var, collect, prim_type, structural_equal, structural_hash
from unity.ir.build import add, const, mul
from unity.ir.interpret import run
from unity.ir.scalar import Let
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import DEFAULT_PIPELINE, FusionPattern, Pipeline, bind_params, fuse_ops_by_pattern
from unity.transform.dpl import is_op, wildcard


def test_a_match_that_nothing_uses_stays_for_dead_code() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(x)
            R.output(b)
        return b
""")
    pattern = FusionPattern("some.exp", is_op("R.exp")(wildcard()))
    assert fuse_ops_by_pattern.with_options(patterns=(pattern,))(mod) is mod


def test_instrument_bounds_leaves_what_has_nothing_to_check() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if i < 3:
                T.evaluate(0)
            else:
                T.evaluate(1)
""")
    assert Pipeline.parse("instrument_bounds")(mod) is mod


def test_sorting_from_the_outputs_settles() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sin(x)
            c = R.cos(x)
            d = R.add(c, b)
            e = R.negative(x)
            R.output(a, d, e)
        return (a, d, e)
""")
    for order in ("depth_first", "breadth_first"):
        sort = Pipeline.parse(f"topological_sort{{direction='from_outputs',order='{order}'}}")
        once = sort(mod)
        assert sort(once) is once


def test_calls_keep_their_places() -> None:
    """Whatever a pass makes of a call stands where the call stood in the source; ends of life have no place."""
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), k: R.Tensor((4, 1, 2, 2), "float32"), g: R.Tensor((4,), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.nn.conv2d(R.reshape(x, (n, 1, 2, 2)), k)
            b = R.nn.batch_norm(a, g, g, g, g, axis=1)
            c = R.permute_dims(R.permute_dims(R.reshape(b[0], (n, 4))))
            d = R.nn.dropout(c, rate=0.5)
            e = R.nn.layer_norm(d[0], g, g, axes=[1])
            R.output(e)
        return e
""")
    texts = (
        "fold_batch_norm_to_conv2d{only_constants=False}", "decompose_ops_for_inference", "to_mixed_precision",
        "remove_redundant_reshape", str(DEFAULT_PIPELINE),
    )  # fmt: skip
    for text in texts:
        after = Pipeline.parse(text)(mod)
        calls = [c for fn in after.graph_functions().values() for c in collect(fn, Call)]
        bare = [str(c) for c in calls if c.span is None and not c.op_name.startswith(("R.memory", "R.vm", "T."))]
        assert after is not mod and not bare, f"{text}: {bare}"


def test_an_expression_that_stands_twice_binds_its_variable_twice() -> None:
    """Two places may hold one ``T.Let``: as text they are two, and equal to it."""
    v, x = Var("v", prim_type("float64")), Var("x", prim_type("float64"))
    shared = Let(v, add(x, const(1.0, "float64")), mul(v, v))
    w = Var("w", prim_type("float64"))
    other = Let(w, add(x, const(1.0, "float64")), mul(w, w))
    assert structural_equal(add(shared, shared), add(shared, other))
    assert structural_hash(add(shared, shared), True) == structural_hash(add(shared, other), True)
    assert not structural_equal(add(shared, v), add(other, w))


def test_copies_of_public_programs_are_private() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(a, a)
            c = R.negative(b)
            R.output(c)
        return c
""")
    made = Pipeline.parse("legalize_ops,attach_global_symbol,dataflow_use_inplace_calls")(mod)
    assert "R.call_inplace" in made.script()
    verify(made)
    unity.compile(made)


def test_local_functions_are_lowered_with_the_rest() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            a = R.exp(z)
            return a
        return inner(x)
""")
    made = Pipeline.parse("legalize_ops,lower_call_dps")(mod)
    verify(made)
    assert Pipeline.parse("lower_call_dps")(made) is made
    np.testing.assert_allclose(run(made, "main", np.ones(4, "float32")), np.exp(np.ones(4, "float32")), rtol=1e-6)


def test_a_constant_condition_reads_as_it_prints() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        if c:
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y
""")
    made = bind_params.with_options(params={"c": np.array(True)})(mod)
    assert "if R.const(True" in made.script() and structural_equal(parse(made.script()), made)
    machine = unity.VirtualMachine(unity.compile(made))
    np.testing.assert_allclose(machine["main"](np.zeros(4, "float32")), np.ones(4), rtol=1e-6)


def test_lowered_programs_may_be_lowered_again() -> None:
    """Vectors in a program are no obstacle to passes that come before them in the pipeline."""
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float64")):
        return R.sum(x)
""")
    lowered = Pipeline.parse(f"legalize_ops,{LOOPS}")(mod)
    Pipeline.parse(str(LOOPS))(lowered)
    assert float(np.asarray(unity.VirtualMachine(unity.compile(lowered))["main"](np.arange(4.0)))) == 6


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("convert_blocks_to_opaque", "still has an initialisation"),
        ("lower_init_block,flatten_buffer", "declares regions"),
        ("lower_init_block,convert_blocks_to_opaque,compact_buffer_allocation", "declares regions"),
    ],
)
def test_lowering_in_a_wrong_order_is_refused(steps: str, words: str) -> None:
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((4, 9), "float32")
        for i, j in T.grid(4, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + C[vi, vj]
""")
    with pytest.raises(PassError, match=words) as found:
        Pipeline.parse(steps)(mod)
    assert found.value.code == "E504"
    unity.compile(mod)
