"""Programs swapped for others with other layouts, by the names they carry."""

import numpy as np
import pytest

import unity
from unity import relax, te
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax import transform
from unity.support.errors import PassError


def program(shape, **attrs):
    """``(2 a, a + b)`` of tensors of a shape."""
    a, b = [te.placeholder(shape, "float32", n) for n in "ab"]
    results = [te.compute(shape, lambda *i: a[i] * 2.0, "twice"), te.compute(shape, lambda *i: a[i] + b[i], "total")]
    return te.create_prim_func([a, b, *results], attrs=attrs)


def module(rows):
    bb = relax.BlockBuilder()
    ty = relax.TensorType((rows, 6))
    x, y = relax.Var("x", ty), relax.Var("y", ty)
    named = bb.add_func(program((rows, 6), operator_name="my.both"), "both")
    with bb.function("main", [x, y]):
        with bb.dataflow():
            made = bb.emit(relax.call_tir(named, [x, y], [ty, ty]))
            out = bb.emit_output(relax.op.subtract(relax.TupleGetItem(made, 0), relax.TupleGetItem(made, 1)))
        bb.emit_func_output(out)
    return bb.get()


DATA = [np.random.default_rng(k).standard_normal((8, 6), dtype=np.float32) for k in (0, 1)]
SPLIT = lambda i, j: (i // 4, j, i % 4)  # noqa: E731


@pytest.mark.parametrize("rows", [8, 7], ids=["exact", "padded"])
def test_layouts_are_moved_around_the_call(rows):
    mod = module(rows)
    made = transform.AlterOpImpl({"my.both": program((2, 6, 4))}, {"my.both": [SPLIT] * 4})(mod)
    verify(made)
    assert made.script().count("R.layout_transform") == 4
    clean = transform.DeadCodeElimination()(made)
    assert len(clean.prim_funcs()) == 1 and "my.both" not in clean.script()
    args = [d[:rows] for d in DATA]
    wanted = args[0] * 2 - (args[0] + args[1])
    for found in (run(clean, "main", *args), unity.VirtualMachine(unity.compile(made))["main"](*args)):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


def test_some_layouts_stay_and_mistakes_are_named():
    mod = module(8)
    same = transform.AlterOpImpl({"my.both": program((8, 6))}, {"my.both": [None] * 4})(mod)
    assert "R.layout_transform" not in same.script()
    np.testing.assert_allclose(np.asarray(run(same, "main", *DATA)), DATA[0] - DATA[1], rtol=1e-5, atol=1e-6)
    assert transform.AlterOpImpl({"other": program((8, 6))}, {})(mod) is mod
    with pytest.raises(PassError, match=r"my\.both has 4 buffers, 3 layouts are given"):
        transform.AlterOpImpl({"my.both": program((2, 6, 4))}, {"my.both": [SPLIT] * 3})(mod)


def test_results_of_unknown_sizes_are_refused():
    bb = relax.BlockBuilder()
    x, y = [relax.Var(n, relax.TensorType((8, 6), "float32")) for n in "xy"]
    named = bb.add_func(program((8, 6), operator_name="my.both"), "both")
    shape = relax.Var("s", relax.ShapeType(ndim=2))
    unknown = relax.TensorType(shape, "float32")
    with bb.function("main", [x, y, shape]):
        bb.emit_func_output(bb.emit(relax.call_tir(named, [x, y], [unknown, unknown])))
    with pytest.raises(PassError, match="has no sizes that a layout could move"):
        transform.AlterOpImpl({"my.both": program((2, 6, 4))}, {"my.both": [SPLIT] * 4})(bb.get())


def test_layouts_between_two_programs_cancel():
    """Behind two replaced programs in a row, one layout in and one out is left where nothing is padded."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8, 6), "float32"))
    a = te.placeholder((8, 6), "float32", "a")
    named = bb.add_func(
        te.create_prim_func([a, te.compute((8, 6), lambda *i: a[i] + 1.0, "b")]).with_attr("operator_name", "my.one"),
        "one",
    )
    with bb.function("main", [x]):
        with bb.dataflow():
            first = bb.emit(relax.call_tir(named, [x], x.ty))
            out = bb.emit_output(relax.call_tir(named, [first], x.ty))
        bb.emit_func_output(out)
    p = te.placeholder((2, 6, 4), "float32", "p")
    program_of_tiles = te.create_prim_func([p, te.compute((2, 6, 4), lambda *i: p[i] + 1.0, "q")])
    made = transform.AlterOpImpl({"my.one": program_of_tiles}, {"my.one": [SPLIT, SPLIT]})(bb.get())
    assert made.script().count("R.layout_transform") == 4
    clean = unity.transform.Pipeline.parse("optimize_layout_transform,canonicalize,dead_code")(made)
    verify(clean)
    assert clean.script().count("R.layout_transform") == 2
    np.testing.assert_allclose(np.asarray(run(clean, "main", DATA[0])), DATA[0] + 2, rtol=1e-6)
