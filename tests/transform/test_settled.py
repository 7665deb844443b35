"""What random sequences of passes found, reduced: a second run finds nothing to do, and what changes nothing is the same object."""

from __future__ import annotations

from unity.script import parse
from unity.transform import FusionPattern, Pipeline, fuse_ops_by_pattern
from unity.transform.dpl.pattern import is_op, wildcard


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
