"""The rule for windows over channels-last images: what it takes and refuses, and that it computes the same."""

import numpy as np
import pytest

import unity
from unity import relax
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.stmt import For
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.target.cpu.backend import CPU
from unity.transform import DEFAULT_PIPELINE
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.base import Scheduled
from unity.transform.default_schedule.windows import schedule_windows
from unity.transform.infra.backend import Machine
from unity.transform.infra.passes import Pipeline

RNG = np.random.default_rng(0)
SMALL = Machine(16, 16)
BEFORE = Pipeline(DEFAULT_PIPELINE.passes[: [p.name for p in DEFAULT_PIPELINE].index("schedule_default")])


def depthwise(shape, kernel, epilogue=True, **attrs):
    """A module of a depthwise convolution, its bias and ReLU6, and what it computes."""
    channels = shape[-1]
    weight = RNG.standard_normal((*kernel, channels, 1)).astype("float32")
    bias = RNG.standard_normal(channels).astype("float32")
    attrs = {"groups": channels, "data_layout": "NHWC", "kernel_layout": "HWOI", **attrs}
    bb = unity.BlockBuilder()
    x = relax.Var("x", shape, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **attrs))
            if epilogue:
                y = bb.emit(relax.op.clip(bb.emit(relax.op.add(y, relax.const(bias))), 0.0, 6.0))
            out = bb.emit_output(y)
        bb.emit_func_output(out)

    def expected(array):
        made = OPS["R.nn.conv2d"].ref(array, weight, **attrs)
        return np.clip(made + bias, 0, 6) if epilogue else made

    return bb.get(), expected


def pooled(shape, name, *args, **attrs):
    """A module of one pooling, and what it computes."""
    bb = unity.BlockBuilder()
    x = relax.Var("x", shape, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(getattr(relax.op.nn, name)(x, *args, layout="NHWC", **attrs))
        bb.emit_func_output(out)
    return bb.get(), lambda array: OPS[f"R.nn.{name}"].ref(array, *args, layout="NHWC", **attrs)


CASES = {
    "same": lambda: depthwise((2, 14, 14, 8), (3, 3), padding=1),
    "strided": lambda: depthwise((1, 9, 11, 12), (3, 5), strides=(2, 3), padding=(1, 0, 2, 1)),
    "dilated": lambda: depthwise((1, 13, 9, 4), (3, 3), dilation=(2, 1), padding=2),
    "no border": lambda: depthwise((1, 7, 17, 16), (2, 3), epilogue=False),
    "channels that fill no vector": lambda: depthwise((1, 6, 5, 10), (3, 3), padding=1),
    "one place": lambda: depthwise((3, 3, 3, 8), (3, 3)),
    "prime sizes": lambda: depthwise((1, 19, 23, 32), (3, 3), padding=1),
    "max": lambda: pooled((2, 13, 12, 8), "max_pool2d", 3, 2, 1),
    "max, ceil": lambda: pooled((1, 10, 9, 16), "max_pool2d", 3, 2, 0, ceil_mode=True),
    "mean": lambda: pooled((1, 9, 9, 8), "avg_pool2d", 3, 1, 1),
    "mean with the border": lambda: pooled((1, 9, 9, 20), "avg_pool2d", (2, 3), 2, (1, 1), count_include_pad=True),
    "no images": lambda: pooled((0, 9, 9, 8), "max_pool2d", 3, 2, 1),
}


def program(mod):
    (fn,) = [f for f in BEFORE(mod).functions.values() if type(f) is PrimFunc]
    return fn


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name):
    mod, expected = CASES[name]()
    shape = tuple([n.value for n in mod["main"].params[0].ty.shape.values])
    array = RNG.standard_normal(shape).astype("float32")
    want = expected(array)
    got = unity.VirtualMachine(unity.compile(mod))["main"](array).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    found = schedule_windows(program(mod), set(), SMALL)
    assert isinstance(found, Scheduled), found
    verify(unity.IRModule({"main": found.func}, {}, {}))


def test_scheduled_for_a_small_machine_in_the_interpreter():
    mod, expected = pooled((1, 7, 6, 8), "max_pool2d", 3, 2, 1)
    found = schedule_windows(program(mod), set(), SMALL)
    assert isinstance(found, Scheduled) and "x 4 channels" in found.reason
    array = RNG.standard_normal((1, 7, 6, 8)).astype("float32")
    array[0, 2, 3, 1] = np.nan
    out = np.zeros((1, 4, 3, 8), "float32")
    run(unity.IRModule({"main": found.func}, {}, {}), "main", array, out)
    np.testing.assert_array_equal(out, expected(array))


def test_symbolic_sizes():
    weight = RNG.standard_normal((3, 3, 16, 1)).astype("float32")
    mod = unity.script.parse(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "h", "w", 16), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, weight, padding=(1, 1), groups=16, data_layout="NHWC", kernel_layout="HWOI")
            z = R.nn.relu(y)
            u = R.nn.max_pool2d(z, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout="NHWC")
            R.output(u)
        return u
""",
        scope={"weight": weight},
    )
    f = unity.VirtualMachine(unity.compile(mod))["main"]
    for shape in ((1, 5, 9, 16), (2, 8, 8, 16), (1, 1, 33, 16), (0, 4, 4, 16)):
        array = RNG.standard_normal(shape).astype("float32")
        np.testing.assert_allclose(f(array).numpy(), run(mod, "main", array), rtol=1e-4, atol=1e-5)


def test_not_a_number_and_infinity_stay_where_windows_see_them():
    mod, expected = depthwise((1, 9, 9, 16), (3, 3), epilogue=False, padding=1)
    array = RNG.standard_normal((1, 9, 9, 16)).astype("float32")
    array[0, 0, 0, 3], array[0, 4, 5, 7] = np.nan, np.inf
    got = unity.VirtualMachine(unity.compile(mod))["main"](array).numpy()
    np.testing.assert_allclose(got, expected(array), rtol=1e-4, atol=1e-5)
    assert np.isnan(got).sum() == 4 and np.isinf(got).sum() == 9


def test_reasons():
    wide, _ = depthwise((1, 5, 5, 18), (3, 3))
    assert "do not divide into vectors" in schedule_windows(program(wide), set(), SMALL)
    mod = unity.BlockBuilder()
    x = relax.Var("x", (4, 8), "float32")
    with mod.function("main", [x]):
        with mod.dataflow():
            out = mod.emit_output(relax.op.sum(x, axis=1))
        mod.emit_func_output(out)
    assert schedule_windows(program(mod.get()), set(), SMALL) == "no places and channels"
    weight = relax.const(np.ones((8, 8, 1, 1), "float32"))
    bb = unity.BlockBuilder()
    x = relax.Var("x", (1, 8, 6, 8), "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.conv2d(x, weight))
        bb.emit_func_output(out)
    assert schedule_windows(program(bb.get()), set(), SMALL) == "a sum over more than a window"
    first, _ = pooled((1, 5, 5, 8), "max_pool2d", 3)
    found = schedule_windows(program(first), set(), SMALL)
    assert isinstance(found, Scheduled) and schedule_windows(found.func, set(), SMALL) == "not one reduction"


def test_the_border_of_a_convolution_is_shared_between_threads():
    weight = RNG.standard_normal((3, 3, 32, 32)).astype("float32")
    bb = unity.BlockBuilder()
    x = relax.Var("x", (1, 48, 48, 32), "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(
                relax.op.nn.conv2d(x, relax.const(weight), padding=1, data_layout="NHWC", kernel_layout="HWIO")
            )
        bb.emit_func_output(out)
    found = schedule_function("main", program(bb.get()), {1}, SMALL, CPU.rules)
    assert found is not None
    border = next(b for b in collect(found.func.body, For) if b.kind == "parallel" and "padded" in str(b))
    assert any([loop.kind == "vectorized" for loop in collect(border, For)])
    array = RNG.standard_normal((1, 48, 48, 32)).astype("float32")
    want = OPS["R.nn.conv2d"].ref(array, weight, padding=1, data_layout="NHWC", kernel_layout="HWIO")
    got = unity.VirtualMachine(unity.compile(bb.get()))["main"](array).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
