"""Names of TVM's te, tir and topi that stand for something of another name here, judged by numpy and torch."""

import numpy as np
import pytest
import torch

import unity
from unity import relax, te, tir, topi
from unity.ir.interpret import run

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def computed(make, *arrays):
    """What ``make(te.Tensors)`` computes, compiled."""
    bb = relax.BlockBuilder()
    params = [relax.Var(f"p{k}", a.shape, str(a.dtype)) for k, a in enumerate(arrays)]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit_te(make, *params))
    return np.asarray(unity.VirtualMachine(unity.compile(bb.get()))["main"](*arrays))


def torched(function, *arrays):
    return function(*[torch.from_numpy(a) for a in arrays]).numpy()


A, B = random(2, 3, 4), random(2, 5, 4)
IMAGES, WEIGHT, DEEP = random(2, 4, 6, 5), random(3, 4, 3, 3), random(4, 2, 3, 3)
F = torch.nn.functional
PLACES = np.array([[2, 0], [1, 1]])
TABLE = random(2, 3)


@pytest.mark.parametrize(
    "make, reference, arrays",
    [
        (topi.nn.batch_matmul, lambda a, b: a @ b.mT, (A, B)),
        (lambda a, b: topi.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False), lambda a, b: a.mT @ b, (A, A)),
        (
            lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 1, 1),
            lambda x, w: F.conv2d(x, w, stride=2, padding=1),
            (IMAGES, WEIGHT),
        ),
        (
            lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, (1, 0), 1),
            lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=(1, 0)).permute(0, 2, 3, 1),
            (random(2, 6, 5, 4), random(3, 3, 4, 7)),
        ),
        (
            lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1),
            lambda x, w: F.conv2d(x, w.reshape(8, 1, 3, 3), padding=1, groups=4),
            (IMAGES, DEEP),
        ),
        (
            lambda x: topi.nn.pool2d(x, (2, 2), (1, 2), (1, 1), (0, 0), "max"),
            lambda x: F.max_pool2d(x, 2, (1, 2)),
            (IMAGES,),
        ),
        (
            lambda x: topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (1, 1), "avg"),
            lambda x: F.avg_pool2d(x, 3, 1, 1),
            (IMAGES,),
        ),
        (lambda x: topi.nn.global_pool(x, "avg"), lambda x: x.mean((2, 3), keepdim=True), (IMAGES,)),
        (lambda x: topi.nn.global_pool(x, "max"), lambda x: x.amax((2, 3), keepdim=True), (IMAGES,)),
        (lambda x: topi.nn.leaky_relu(x, 0.3), lambda x: F.leaky_relu(x, 0.3), (A,)),
        (topi.nn.flatten, lambda x: x.flatten(1), (A,)),
        (lambda x: topi.cast(x, "int32"), lambda x: x.int(), (A,)),
        (lambda x, y: topi.concatenate((x, y), axis=1), lambda x, y: torch.cat([x, y], 1), (A, B)),
        (lambda x, i: topi.gather(x, 1, i), lambda x, i: torch.gather(x, 1, i), (TABLE, PLACES)),
        (lambda x: topi.trilu(x, 1, True), lambda x: x.triu(1), (A,)),
        (lambda x: topi.trilu(x, 0, False), lambda x: x.tril(), (A,)),
    ],
)
def test_topi(make, reference, arrays) -> None:
    np.testing.assert_allclose(computed(make, *arrays), torched(reference, *arrays), rtol=1e-4, atol=1e-5)


def test_the_argmax_of_tvms_tutorial() -> None:
    def combine(x, y):
        return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax")
    m, n = te.size_var("m"), te.size_var("n")
    val = te.placeholder((m, n), "float32", "val")
    k = te.reduce_axis((0, n), "k")
    where, best = te.compute((m,), lambda i: argmax((k, val[i, k]), axis=k), name="T")
    x, places, values = random(4, 7), np.zeros(4, "int64"), np.zeros(4, "float32")
    unity.build(unity.IRModule.from_expr(te.create_prim_func([val, where, best]).with_attr("global_symbol", "f")))["f"](
        x, places, values
    )
    np.testing.assert_array_equal(places, x.argmax(1))
    np.testing.assert_array_equal(values, x.max(1))


def test_a_registered_function_in_an_extern() -> None:
    unity.register_func("tests.topi.triple", lambda a, b: np.copyto(np.asarray(b), np.asarray(a) * 3), override=True)

    def tripled(a):
        return te.extern(
            a.shape, [a], lambda ins, outs: tir.call_packed("tests.topi.triple", ins[0], outs[0]), name="C"
        )

    np.testing.assert_array_equal(computed(tripled, A), A * 3)


def test_scalars_of_tir_in_a_compute() -> None:
    def shifted(x):
        columns = x.shape[1]
        inside = lambda i, j: tir.all(i >= 1, tir.any(j < columns - 1, i < 0))  # noqa: E731
        return te.compute(
            x.shape, lambda i, j: tir.if_then_else(inside(i, j), tir.exp(x[i - 1, j + 1]), tir.max(0.0, -1.0))
        )

    x = random(4, 5)
    wanted = np.zeros((4, 5), "float32")
    wanted[1:, :-1] = np.exp(x[:-1, 1:])
    np.testing.assert_allclose(computed(shifted, x), wanted, rtol=1e-5)
    n = tir.Var("n", "int64")
    assert str(tir.floordiv(n, 2)) == "n // 2" and str(tir.max(n, 3)) == "T.max(n, 3)"  # no te.Value for IR expressions
    ints = np.arange(-6, 6, dtype="int32")
    for function, reference in (
        (te.floordiv, lambda v: v // 4), (te.floormod, lambda v: v % 4), (te.indexdiv, lambda v: v // 4),
        (te.indexmod, lambda v: v % 4), (te.div, lambda v: np.trunc(v / 4)), (te.truncmod, lambda v: np.fmod(v, 4)),
    ):  # fmt: skip
        found = computed(lambda x, f=function: te.compute(x.shape, lambda i: f(x[i], 4)), ints)
        np.testing.assert_array_equal(found, reference(ints))
    np.testing.assert_allclose(
        computed(lambda x: te.compute(x.shape, lambda i, j, k: te.fmod(x[i, j, k], 0.5)), A), np.fmod(A, 0.5), atol=1e-6
    )


def test_what_is_not_there_says_what_is() -> None:
    for name, words in (("create_schedule", "unity.tir.Schedule"), ("scan", "topi.cumsum"), ("thread_axis", "bind")):
        with pytest.raises(AttributeError, match=words):
            getattr(te, name)
    with pytest.raises(AttributeError, match=r"did you mean topi\.concatenate"):
        _ = topi.concatenat
    with pytest.raises(unity.UnityError, match="pool_type must be avg or max, got 'sum'"):
        topi.nn.pool2d(te.placeholder((1, 1, 4, 4)), (2, 2), (1, 1), (1, 1), (0, 0), "sum")
    with pytest.raises(unity.UnityError, match=r"te\.compute gives scalars, this one a str"):
        te.compute((4,), lambda i: "a")


def test_bindings_outside_a_function() -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", (te.var("n"), 4))
    with bb.testing_scope(def_vars=[]):
        y = bb.emit(relax.op.exp(x))
        assert bb.lookup_binding(y).op.name == "R.exp" and unity.ir.structural_equal(y.ty, x.ty)
    with pytest.raises(unity.UnityError, match="no function is open"):
        bb.emit(relax.op.exp(x))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    np.testing.assert_allclose(np.asarray(run(bb.get(), "main", A[0])), np.exp(A[0]), rtol=1e-6)
