"""convert_layout: which operators follow with channels last, what stays, and that every module computes the same."""

import ml_dtypes
import numpy as np
import pytest

import unity
from unity import relax
from unity.ir.expr import Call
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.transform import DEFAULT_PIPELINE
from unity.transform.relax.algebra.fold_constant import fold_constant
from unity.transform.relax.layout.convert_layout import convert_layout

RNG = np.random.default_rng(0)
ALWAYS = convert_layout.with_options(always=True, lanes=4)


def chain(emit, shape=(2, 3, 9, 7), features=8, groups=1, **attrs):
    """A module: a convolution of constant weight, and what ``emit(builder, y)`` puts behind it."""
    rank = len(shape)
    weight = RNG.standard_normal((features, shape[1] // groups, *[3] * (rank - 2))).astype("float32")
    conv = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}[rank]
    bb = unity.BlockBuilder()
    x = relax.Var("x", shape, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(conv(x, relax.const(weight), groups=groups, **attrs))
            out = bb.emit_output(emit(bb, y))
        bb.emit_func_output(out)
    return bb.get()


def agree(mod, *arrays, step=ALWAYS):
    after = step(mod)
    verify(after)
    for value in (run(after, "main", *arrays), unity.VirtualMachine(unity.compile(after))["main"](*arrays)):
        np.testing.assert_allclose(np.asarray(value), np.asarray(run(mod, "main", *arrays)), rtol=1e-4, atol=1e-5)
    return after


def data(shape=(2, 3, 9, 7)):
    return RNG.standard_normal(shape).astype("float32")


def moves(mod):
    """Transpositions that are left when those of constants are computed."""
    text = fold_constant(mod).script()
    return text.count("R.permute_dims(")


SCALE = RNG.standard_normal((8, 1, 1)).astype("float32")
LINE = RNG.standard_normal((5,)).astype("float32")
FOLLOWING = {
    "relu": lambda bb, y: relax.op.nn.relu(y),
    "clip": lambda bb, y: relax.op.clip(y, -0.5, 0.5),
    "bias": lambda bb, y: relax.op.add(y, relax.const(SCALE)),
    "line": lambda bb, y: relax.op.multiply(y, relax.const(LINE)),
    "scalar": lambda bb, y: relax.op.maximum(relax.const(np.float32(0.1)), y),
    "residual": lambda bb, y: relax.op.add(y, bb.emit(relax.op.nn.relu(y))),
    "where": lambda bb, y: relax.op.where(bb.emit(relax.op.greater(y, relax.const(np.float32(0)))), y, relax.const(SCALE)),
    "max_pool": lambda bb, y: relax.op.nn.max_pool2d(y, (3, 2), (2, 1), (1, 1, 1, 0)),
    "avg_pool": lambda bb, y: relax.op.nn.avg_pool2d(y, 2, 2, 1, ceil_mode=True),
    "adaptive": lambda bb, y: relax.op.nn.adaptive_avg_pool2d(y, (3, 2)),
    "pad": lambda bb, y: relax.op.nn.pad(y, (0, 0, 1, 0, 2, 1, 0, 3)),
    "concat": lambda bb, y: relax.op.concat((y, bb.emit(relax.op.nn.relu(y))), axis=1),
    "concat lines": lambda bb, y: relax.op.concat((y, y), axis=-1),
    "mean": lambda bb, y: relax.op.mean(y, axis=(2, 3)),
    "mean kept": lambda bb, y: relax.op.multiply(y, bb.emit(relax.op.mean(y, axis=(2, 3), keepdims=True))),
    "max of lines": lambda bb, y: relax.op.max(y, axis=3),
    "sum of channels": lambda bb, y: relax.op.sum(y, axis=1),
    "softmax": lambda bb, y: relax.op.nn.softmax(y, axis=1),
    "batch_norm": lambda bb, y: relax.TupleGetItem(
        bb.emit(relax.op.nn.batch_norm(y, *[relax.const(np.full(8, v, "float32")) for v in (1.5, 0.1, 0.2, 2.0)])), 0
    ),
    "instance_norm": lambda bb, y: relax.op.nn.instance_norm(
        y, relax.const(np.ones(8, "float32")), relax.const(np.zeros(8, "float32")), 1, (2, 3)
    ),
    "group_norm": lambda bb, y: relax.op.nn.group_norm(
        y, *[relax.const(np.linspace(low, 2, 8, dtype="float32")) for low in (1, -1)], num_groups=2, channel_axis=1, axes=(2, 3)
    ),
    "resize": lambda bb, y: relax.op.image.resize2d(y, (14, 10), layout="NCHW", method="nearest_neighbor"),
    "split": lambda bb, y: relax.op.add(*[bb.emit(relax.TupleGetItem(t, k)) for t in (bb.emit(relax.op.split(y, 2, axis=1)),) for k in (0, 1)]),
    "flatten": lambda bb, y: relax.op.flatten(y),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_a_convolution(name):
    after = agree(chain(FOLLOWING[name]), data())

    assert moves(after) <= (0 if name == "mean" else 1), after.script()
    assert 'out_layout="NHWC"' in after.script()


@pytest.mark.parametrize(
    ("shape", "features", "groups", "attrs"),
    [
        ((0, 3, 9, 7), 8, 1, {}), ((1, 3, 9, 7), 5, 1, {"strides": (2, 1), "padding": (1, 0, 2, 1)}),
        ((2, 3, 9, 7), 17, 1, {"dilation": (2, 3), "padding": 3}), ((2, 6, 9, 7), 6, 2, {"padding": 1}),
        ((2, 3, 11), 8, 1, {"strides": 2, "padding": 1}), ((1, 3, 5, 4, 6), 8, 1, {"padding": 1}),
    ],
)  # fmt: skip
def test_convolutions(shape, features, groups, attrs):
    agree(chain(lambda bb, y: relax.op.nn.relu(y), shape, features, groups, **attrs), data(shape))


def test_depthwise_between_pointwise():
    def emit(bb, y):
        w = RNG.standard_normal((8, 1, 3, 3)).astype("float32")
        v = RNG.standard_normal((4, 8, 1, 1)).astype("float32")
        z = bb.emit(relax.op.nn.conv2d(y, relax.const(w), padding=1, strides=2, groups=8))
        z = bb.emit(relax.op.clip(z, 0.0, 6.0))
        return relax.op.nn.conv2d(z, relax.const(v))

    after = agree(chain(emit), data())
    assert moves(after) == 1 and after.script().count('data_layout="NHWC"') == 2


def test_symbolic_sizes():
    weight = RNG.standard_normal((8, 3, 3, 3)).astype("float32")
    mod = parse(
        """
@R.function
def main(x: R.Tensor(("n", 3, "h", "w"), "float32")):
    with R.dataflow():
        y = R.nn.conv2d(x, weight, padding=(1, 1))
        z = R.nn.relu(y)
        u = R.nn.max_pool2d(z, pool_size=(2, 2), strides=(2, 2))
        R.output(u)
    return u
""",
        scope={"weight": weight},
    )
    mod = mod if isinstance(mod, unity.IRModule) else unity.IRModule({"main": mod}, {}, {})
    for shape in ((1, 3, 8, 8), (3, 3, 5, 11), (0, 3, 4, 4)):
        agree(mod, data(shape))


def test_left_as_they_are():
    small = chain(lambda bb, y: relax.op.nn.relu(y))
    assert convert_layout(small) is small  # the transposition of the result costs more than it brings
    narrow = chain(lambda bb, y: relax.op.nn.relu(y), features=3)
    assert ALWAYS(narrow) is narrow
    given = parse(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 32, 14, 14), "float32"), w: R.Tensor((32, 32, 3, 3), "float32")):
        y = R.nn.conv2d(x, w)
        z = R.mean(y, axis=[2, 3])
        return z
"""
    )
    assert convert_layout(given) is given
    made = convert_layout.with_options(only_constants=False)(given)
    x, w = data((1, 32, 14, 14)), data((32, 32, 3, 3))
    np.testing.assert_allclose(run(made, "main", x, w), run(given, "main", x, w), rtol=1e-3, atol=1e-4)
    assert moves(made) == 0


def test_pays_for_itself():
    mod = chain(lambda bb, y: relax.op.mean(y, axis=(2, 3)), (1, 16, 14, 14), 32)
    after = convert_layout.with_options(lanes=16)(mod)
    assert after is not mod and moves(after) == 0


TRANSPOSED = [
    ((2, 3, 5, 4), (3, 4), {"strides": (2, 3), "padding": (1, 0, 2, 1)}), ((1, 3, 5, 4), (2, 2), {"strides": 2}),
    ((1, 3, 5, 4), (1, 3), {"strides": (2, 1), "output_padding": (1, 0)}), ((2, 3, 4, 4), (3, 3), {"dilation": 2, "padding": 1}),
    ((1, 3, 4, 4), (2, 3), {"padding": 3, "strides": (3, 2)}), ((0, 3, 4, 4), (4, 4), {"strides": 2, "padding": 1}),
    ((2, 3, 7), (4,), {"strides": 2, "padding": 1}), ((1, 3, 2, 3, 2), (3, 2, 3), {"strides": (2, 1, 2), "padding": 1}),
    ((1, 3, 4, 4), (3, 3), {"dilation": 2, "strides": 2}),
]  # fmt: skip


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("shape", "kernel", "attrs"), TRANSPOSED)
def test_transposed_convolutions(shape, kernel, attrs, groups):
    weight = RNG.standard_normal((3, 4, *kernel)).astype("float32")
    name = f"conv{len(kernel)}d_transpose"
    bb = unity.BlockBuilder()
    x = relax.Var("x", shape, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(getattr(relax.op.nn, name)(x, relax.const(weight), groups=groups, **attrs))
            out = bb.emit_output(relax.op.nn.relu(y))
        bb.emit_func_output(out)
    mod, array = bb.get(), data(shape)
    after = agree(mod, array)
    strides = np.broadcast_to(attrs.get("strides", 1), len(kernel))
    mixed = np.max(strides) > 1 and attrs.get("dilation", 1) > 1
    uneven = any(k % s for k, s in zip(kernel, strides))
    assert (name in after.script()) == (groups > 1 or mixed or uneven or 0 in shape)
    direct = unity.VirtualMachine(unity.compile(mod, pipeline=DEFAULT_PIPELINE.without("convert_layout")))["main"](
        array
    )
    np.testing.assert_allclose(np.asarray(direct), np.asarray(run(mod, "main", array)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kernel", "kept"), [(4, 0), (3, 1)])
def test_a_transposed_convolution_follows_another(kernel, kept):
    weights = [RNG.standard_normal(s).astype("float32") for s in ((32, 3, 3, 3), (32, 16, kernel, kernel))]
    bb = unity.BlockBuilder()
    x = relax.Var("x", (1, 3, 8, 8), "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.relu(bb.emit(relax.op.nn.conv2d(x, relax.const(weights[0]), padding=1))))
            out = bb.emit_output(relax.op.nn.conv2d_transpose(y, relax.const(weights[1]), strides=2, padding=1))
        bb.emit_func_output(out)
    text = agree(bb.get(), data((1, 3, 8, 8))).script()
    assert text.count("conv2d_transpose") == kept and text.count('out_layout="NHWC"') == 2


def test_moving_a_constant_weight_costs_nothing():
    bb = unity.BlockBuilder()
    x = relax.Var("x", (1, 256, 4, 4), "float32")
    weight = relax.const(RNG.standard_normal((256, 64, 4, 4)).astype("float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.conv2d_transpose(x, weight, strides=2, padding=1))
        bb.emit_func_output(out)
    assert "conv2d_transpose" not in convert_layout.with_options(lanes=16)(bb.get()).script()


@pytest.mark.parametrize(
    ("cpu", "channels", "moved"), [("sapphirerapids", 64, 2), ("x86-64-v3", 64, 0), ("cooperlake", 3, 0)]
)
def test_bfloat16_follows_where_instructions_take_pairs_of_channels(cpu, channels, moved):
    weight = RNG.standard_normal((64, channels, 3, 3)).astype(ml_dtypes.bfloat16)
    bb = unity.BlockBuilder()
    x = relax.Var("x", (1, channels, 8, 8), "bfloat16")
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.conv2d(x, relax.const(weight), out_dtype="float32"))
        bb.emit_func_output(out)
    with unity.Target(f"llvm -mcpu={cpu}"):
        assert moves(convert_layout(bb.get())) == moved


@pytest.mark.parametrize("layout", ["OIHW", "OHWI", "IOHW", "HWOI", "HWIO"])
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_weights_of_groups_have_channels_last(layout, groups):
    weight = RNG.standard_normal((32, 16 // groups, 3, 2)).astype("float32")
    weight = np.ascontiguousarray(weight.transpose(["OIHW".index(c) for c in layout]))
    bb = unity.BlockBuilder()
    x = relax.Var("x", (2, 7, 6, 16), "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(
                relax.op.nn.conv2d(x, relax.const(weight), groups=groups, data_layout="NHWC", kernel_layout=layout)
            )
            out = bb.emit_output(relax.op.nn.relu(y))
        bb.emit_func_output(out)
    array = data((2, 7, 6, 16))
    after = agree(bb.get(), array)
    kept = layout if groups == 1 or layout.endswith("O") else "HWIO"
    (call,) = [c for fn in after.graph_functions().values() for c in collect(fn, Call) if c.op_name == "R.nn.conv2d"]
    assert call.attrs.get("kernel_layout", "OIHW") == kept and not moves(after)
