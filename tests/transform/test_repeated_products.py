"""Default schedules of products inside loops: recurrent layers with constant weights."""

import numpy as np
import pytest

import unity
from unity.ffi.native.pool import default_threads
from unity.ir.interpret import run
from unity.ir.stmt import BACKWARDS, AttrStmt
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule import schedule_default
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.infra.backend import Machine
from unity.transform.relax.lowering.legalize_ops import legalize_ops

LSTM = """
@I.ir_module
class Module:
    @R.function
    def main(g: R.Tensor((5, {b}, {n}), "float32"), h: R.Tensor(({b}, {h}), "float32"), c: R.Tensor(({b}, {h}), "float32")):
        with R.dataflow():
            y = R.nn.lstm(g, h, c, w, reverse={reverse})
            R.output(y)
        return y
"""
REPEATED = """
@T.prim_func
def main(x: T.Buffer((7, 4, 24), "float32"), w: T.Buffer((24, 40), "float32"), y: T.Buffer((7, 4, 40), "float32")):
    out = T.alloc_buffer((4, 40), "float32")
    for t in range(7):
        for i, j, k in T.grid(4, 40, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    out[vi, vj] = T.float32(0)
                out[vi, vj] = out[vi, vj] + x[t, vi, vk] * w[vk, vj]
        for i in range(4):
            for j in range(40):
                y[t, i, j] = {value}
"""


@pytest.fixture
def pool():
    yield unity.set_num_threads
    unity.set_num_threads(default_threads())


def lstm(batch, hidden, reverse=False):
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((hidden, 4 * hidden)) / np.sqrt(hidden)).astype("float32")
    mod = parse(LSTM.format(b=batch, n=4 * hidden, h=hidden, reverse=reverse), scope={"w": w})
    shapes = [(5, 3 if batch == '"b"' else batch, 4 * hidden), *[(3 if batch == '"b"' else batch, hidden)] * 2]
    return mod, [rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize(
    ("batch", "hidden", "reverse"), [(1, 16, False), (1, 21, True), (4, 16, False), (7, 24, True), ('"b"', 16, False)]
)
def test_recurrent_layers_compute_the_same(batch, hidden, reverse, pool):
    mod, inputs = lstm(batch, hidden, reverse)
    expected = run(mod, "main", *inputs)
    scheduled = schedule_default(legalize_ops(mod))
    verify(scheduled)
    shapes = [param.shape for param in scheduled["lstm"].buffer_map.values()]
    assert len(shapes[3]) == 3, "the weights are packed"
    results = [run(scheduled, "main", *inputs)]
    for threads in (1, 2):
        pool(threads)
        results.append(unity.compile(mod)["main"](*inputs))
    for made in results:
        for a, b in zip(made, expected):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_backwards_visits_every_iteration_once(kind):
    """A loop inside the attribute runs from its end where the value holds, also in chunks of threads."""
    text = f"""
@T.prim_func
def main(y: T.Buffer((3, 301), "int32")):
    for t in range(3):
        with T.attr(0, "backwards", t % 2 != 0):
            for i in T.{kind}(301):
                y[t, i] = y[t, i] + T.Cast("int32", i) + t
"""
    y = np.zeros((3, 301), "int32")
    unity.compile(parse(text))["main"](y)
    np.testing.assert_array_equal(y, np.arange(301) + np.arange(3)[:, None])


def test_backwards_is_the_order():
    text = """
@T.prim_func
def main(y: T.Buffer((2, 9), "int64")):
    for t in range(2):
        with T.attr(0, "backwards", t == 1):
            for i in range(2, 8):
                y[t, 8] = y[t, 8] + 1
                y[t, i] = y[t, 8]
"""
    y = np.zeros((2, 9), "int64")
    unity.compile(parse(text))["main"](y)
    np.testing.assert_array_equal(y[:, 2:8], [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])


def scheduled(value, constants):
    return schedule_function("main", parse(REPEATED.format(value=value)), constants, Machine(64, 32), CPU.rules)


def test_a_product_that_reads_its_loop():
    found = scheduled("out[i, j]", {1})
    assert found.packed[1].block == 48
    assert [attr.key for attr in collect(found.func.body, AttrStmt)] == [BACKWARDS]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((7, 4, 24)).astype("float32"), rng.standard_normal((24, 40)).astype("float32")
    y = np.zeros((7, 4, 40), "float32")
    unity.compile(found.func)["main"](x, found.packed[1].pack(w), y)
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("constants", "value"), [(set(), "out[i, j]"), ({1}, "out[i, j] + w[0, j]")])
def test_weights_that_are_not_packed(constants, value):
    assert scheduled(value, constants) is None
