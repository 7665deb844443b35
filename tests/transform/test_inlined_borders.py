"""Borders of images in the cells of short windows: they compute the same as a copy, and the copy is gone or stays in cache."""

import numpy as np
import pytest
from levels import Level

import unity
from unity import relax
from unity.ir.build import dtype_of
from unity.ir.function import PrimFunc
from unity.ir.op import OPS
from unity.ir.scalar import Div, FloorDiv, FloorMod, Mod
from unity.ir.walk import collect, used_vars
from unity.transform import DEFAULT_PIPELINE
from unity.transform.infra.passes import Pipeline
from unity.transform.tir.pipeline import CPU_PIPELINE

BEFORE = Pipeline(DEFAULT_PIPELINE.passes[: [p.name for p in DEFAULT_PIPELINE].index("plan_memory")])
WIDE, NARROW = "x86-64-v4", "x86-64-v3"


def depthwise(channels, lines, length, window, dtype="float32", **attrs):
    """A module of a depthwise convolution, its image with NaN and infinities, and its result."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((channels, 1, *window)).astype(dtype)
    x = relax.Var("x", (1, channels, lines, length), dtype)
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.conv2d(x, relax.const(weight), groups=channels, **attrs))
        bb.emit_func_output(out)
    image = rng.standard_normal((1, channels, lines, length)).astype(dtype)
    image.reshape(-1)[[0, image.size // 2, -1]] = np.nan, np.inf, -np.inf
    return bb.get(), image, OPS["R.nn.conv2d"].ref(image, weight, groups=channels, **attrs)


@pytest.mark.parametrize("target", [WIDE, NARROW])
@pytest.mark.parametrize(
    ("lines", "length", "window", "attrs"),
    [
        (9, 17, (3, 3), {"padding": 1}),
        (13, 33, (3, 3), {"padding": 2, "strides": 2, "dilation": 2}),
        (1, 1, (3, 3), {"padding": 1}),
        (6, 40, (1, 5), {"padding": (0, 4, 0, 1)}),
        (11, 7, (5, 5), {"padding": 2}),
    ],
)
def test_border_in_cells(target, lines, length, window, attrs) -> None:
    """Odd sizes, borders wider than the window needs, one cell: the results are numpy's, NaN and infinities where they belong."""
    mod, image, expected = depthwise(3, lines, length, window, **attrs)
    found = Level(target).run(unity.build(mod, Level(target).target), image)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def lowered(mod, target) -> str:
    """The tensor programs before their buffers are flat."""
    with unity.Target(Level(target).target):
        programs = {n: f for n, f in BEFORE(mod).functions.items() if type(f) is PrimFunc}
        passes = CPU_PIPELINE.passes
        before = Pipeline(passes[: [p.name for p in passes].index("flatten_buffer")])
        return before(unity.IRModule(programs, {}, {})).script()


def test_copy_of_border() -> None:
    """Where vectors have masks there is none; else each channel copies its own, which stays in cache; long sums copy all."""
    mod, *_ = depthwise(3, 20, 30, (3, 3), padding=1)
    assert "padded = T.alloc_buffer" not in lowered(mod, WIDE)
    assert "padded = T.alloc_buffer((1, 1, 22, 32)" in lowered(mod, NARROW)
    mod, *_ = depthwise(3, 20, 30, (5, 5), padding=2)
    assert "padded = T.alloc_buffer" in lowered(mod, WIDE)


def pool(name, shape, dtype="float32", **attrs):
    """A module of a pool, an image, and its result."""
    x = relax.Var("x", shape, dtype)
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(getattr(relax.op.nn, name)(x, **attrs))
        bb.emit_func_output(out)
    image = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return bb.get(), image, OPS[f"R.nn.{name}"].ref(image, **attrs)


@pytest.mark.parametrize("target", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["avg_pool1d", "max_pool1d", "avg_pool2d", "max_pool2d"])
@pytest.mark.parametrize("length", [3, 5, 7, 10, 16, 19, 33, 56])
def test_which_lanes_meet_a_border_is_constant(target, name, length) -> None:
    """Lines that are taken together would else compute the place of each lane by a division, which no processor does in vectors."""
    shape = (1, 64, length) if name.endswith("1d") else (1, 3, 4, length)
    mod, image, expected = pool(name, shape, pool_size=3, padding=1)
    found = Level(target).run(unity.build(mod, Level(target).target), image)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    with unity.Target(Level(target).target):
        programs = {n: f for n, f in BEFORE(mod).functions.items() if type(f) is PrimFunc}
        for made in CPU_PIPELINE(unity.IRModule(programs, {}, {})).prim_funcs().values():
            divisions = [one for one in collect(made.body, (FloorDiv, FloorMod, Div, Mod)) if used_vars(one)]
            assert not [one for one in divisions if not dtype_of(one).is_float]
