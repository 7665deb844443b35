"""The gate of memory traffic: in the code of default schedules a warp touches no more segments of global memory than the bytes that
it moves need, and no two lanes wait for one bank of shared memory.

Shapes are those of models, made small in what only repeats. What cannot be so stands in ``EXCEPTIONS``, each with the reason in the
program itself; an exception that is not needed fails."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from device_programs import graph_module

import unity
from unity.testing import emulated_gpu

Param = tuple[Any, ...]
"""Sizes, and the data type behind them if it is not float32."""
MATRIX, ROW = (64, 1024), (1024,)
CONV, RELU_CONV = "R.nn.conv2d(a, b{})", "R.nn.relu(R.nn.conv2d(a, b{}))"
NHWC = ', data_layout="NHWC", kernel_layout="OHWI", out_dtype="float16"'
POOL = "R.nn.{}_pool2d(a, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))"
TURNED, LEFT_TURNED = "R.matmul(a, R.permute_dims(b))", "R.matmul(R.permute_dims(a), b)"
PROGRAMS: dict[str, tuple[str, tuple[Param, ...]]] = {
    "elementwise": ("R.nn.gelu(R.add(a, b))", (MATRIX, ROW)),
    "where": ("R.where(R.greater(a, R.const(0.0)), a, b)", ((64, 256), (64, 256))),
    "tril": ("R.tril(a)", ((64, 64),)),
    "pad": ("R.nn.pad(a, (0, 0, 0, 0, 1, 1, 1, 1))", ((1, 16, 28, 28),)),
    "concat": ("R.concat([a, b], axis=1)", ((64, 100), (64, 28))),
    "take": ("R.take(a, b, axis=0)", ((100, 256), (64, "int64"))),
    "resize": ('R.image.resize2d(a, size=(28, 28), layout="NCHW", method="linear")', ((1, 16, 14, 14),)),
    "softmax": ("R.nn.softmax(a)", (MATRIX,)),
    "softmax_long": ("R.nn.softmax(a)", ((2, 65536),)),
    "softmax_short": ("R.nn.softmax(a)", ((1024, 8),)),
    "softmax_across": ("R.nn.softmax(a, axis=1)", ((4, 64, 100),)),
    "layer_norm": ("R.nn.layer_norm(a, b, c, axes=[-1])", (MATRIX, ROW, ROW)),
    "rms_norm": ("R.nn.rms_norm(a, b, axes=[-1])", ((64, 768, "float16"), (768, "float16"))),
    "cross_entropy": ("R.nn.cross_entropy_with_logits(a, b)", ((64, 1000), (64, 1000))),
    "argmax": ("R.argmax(a, axis=1)", ((64, 256),)),
    "column_sum": ("R.sum(a, axis=[0])", ((512, 1024),)),
    "middle_sum": ("R.sum(a, axis=[1])", ((16, 32, 10),)),
    "cumsum": ("R.cumsum(a, axis=1)", ((2, 5000),)),
    "cumsum_short": ("R.cumsum(a, axis=1)", ((64, 20),)),
    "transpose": ("R.permute_dims(a, axes=[1, 0])", ((64, 256, "float16"),)),
    "transpose_batch": ("R.permute_dims(a, axes=[2, 1, 0])", ((64, 8, 64),)),
    "transpose_narrow": ("R.permute_dims(a)", ((300, 8),)),
    "transpose_two": ("R.add(R.nn.silu(R.permute_dims(a)), R.permute_dims(b))", ((300, 64), (300, 64))),
    "max_pool": (POOL.format("max"), ((1, 16, 56, 56),)),
    "mean_pool": (POOL.format("avg"), ((1, 16, 28, 28),)),
    "pool_by_two": ("R.nn.max_pool2d(a, pool_size=(2, 2), strides=(2, 2))", ((1, 16, 14, 14),)),
    "global_pool": ("R.nn.adaptive_avg_pool2d(a, output_size=(1, 1))", ((1, 512, 7, 7),)),
    "depthwise": (RELU_CONV.format(", padding=(1, 1), groups=16"), ((1, 16, 56, 56), (16, 1, 3, 3))),
    "depthwise_small": (RELU_CONV.format(", padding=(1, 1), groups=64"), ((2, 64, 7, 7), (64, 1, 3, 3))),
    "grouped": (RELU_CONV.format(", padding=(1, 1), groups=4"), ((1, 64, 14, 14), (64, 16, 3, 3))),
    "convolution": (RELU_CONV.format(", padding=(1, 1)"), ((1, 32, 7, 7), (64, 32, 3, 3))),
    "convolution_by_two": (RELU_CONV.format(", padding=(1, 1), strides=2"), ((1, 32, 28, 28), (64, 32, 3, 3))),
    "one_by_one": (RELU_CONV.format(""), ((1, 64, 7, 7), (64, 64, 1, 1))),
    "one_by_one_tiny": (RELU_CONV.format(""), ((1, 16, 7, 7), (32, 16, 1, 1))),
    "images_float16": (RELU_CONV.format(", padding=(1, 1)"), ((1, 32, 14, 14, "float16"), (64, 32, 3, 3, "float16"))),
    "channels_last": (RELU_CONV.format(", padding=1" + NHWC), ((1, 14, 14, 64, "float16"), (64, 3, 3, 64, "float16"))),
    "first_layer": (
        RELU_CONV.format(", padding=3, strides=2" + NHWC),
        ((1, 32, 32, 3, "float16"), (64, 7, 7, 3, "float16")),
    ),
    "product": ("R.nn.relu(R.matmul(a, b))", ((128, 128), (128, 128))),
    "product_turned": (TURNED, ((64, 128), (64, 128))),
    "product_small": ("R.matmul(a, b)", ((24, 24), (24, 24))),
    "product_of_any_size": ("R.matmul(a, b)", ((129, 64), (64, 131))),
    "convolution_of_any_size": (RELU_CONV.format(", padding=(1, 1)"), ((1, 16, 14, 14), (64, 16, 3, 3))),
    "product_float16": ("R.nn.relu(R.matmul(a, b))", ((64, 128, "float16"), (128, 128, "float16"))),
    "product_bias": (f"R.nn.relu(R.add({TURNED}, c))", ((64, 128, "float16"), (128, 128, "float16"), (128, "float16"))),
    "product_int8": (TURNED[:-1] + ', out_dtype="int32")', ((64, 128, "int8"), (128, 128, "int8"))),
    "one_row": (TURNED, ((1, 1024, "float16"), (128, 1024, "float16"))),
    "one_row_by_columns": ("R.matmul(a, b)", ((1, 1024, "float16"), (1024, 1024, "float16"))),
    "few_rows": (TURNED, ((8, 1024, "float16"), (512, 1024, "float16"))),
    "few_rows_by_columns": ("R.matmul(a, b)", ((8, 1024, "float16"), (1024, 512, "float16"))),
    "sixteen_rows": ("R.matmul(a, b)", ((16, 256, "float16"), (256, 256, "float16"))),
    "few_rows_float32": ("R.matmul(a, b)", ((4, 512), (512, 512))),
    "few_rows_float32_turned": (TURNED, ((4, 512), (512, 512))),
    "few_rows_of_columns": (LEFT_TURNED, ((512, 8, "float16"), (512, 512, "float16"))),
    "few_rows_of_columns_float32": (LEFT_TURNED, ((512, 4), (512, 512))),
    "few_columns": ("R.matmul(a, b)", ((512, 512, "float16"), (512, 8, "float16"))),
    "few_columns_float32": ("R.matmul(a, b)", ((512, 512), (512, 4))),
    "few_columns_turned": (TURNED, ((512, 512), (4, 512))),
    "few_columns_of_columns": (LEFT_TURNED, ((512, 512), (512, 4))),
    "one_column": ("R.matmul(a, b)", ((512, 512, "float16"), (512, 1, "float16"))),
    "sort": ("R.sort(a, axis=1)", ((8, 300),)),
    "sort_across": ("R.argsort(a, axis=0)", ((300, 64),)),
    "topk": ("R.topk(a, k=8, axis=1)", ((8, 1000),)),
    "attention": ("R.nn.attention(a, b, c)", ((1, 64, 2, 64, "float16"),) * 3),
    "attention_step": ("R.nn.attention(a, b, c)", ((1, 1, 2, 64, "float16"), *[(1, 256, 2, 64, "float16")] * 2)),
}  # fmt: skip
ANY_SIZE = {"product_of_any_size": ("nk", "km"), "convolution_of_any_size": ("nchw", "ocrs")}
"""The symbols in the shapes of programs of any size."""
ON_HOPPER = [
    "channels_last", "first_layer", "product_float16", "product_bias", "product_int8", "sixteen_rows", "few_rows", "few_rows_by_columns",
    "few_columns", "attention",
]  # fmt: skip
"""Programs whose kernels are others there."""
ENDS = 1.05
"""What more segments are touched where a run ends with a row, or an image."""


class Spared(NamedTuple):
    """Accesses that touch up to ``most`` times what they would need, and why no schedule changes it."""

    scope: str
    kind: str
    most: float
    reason: str


WINDOWS = Spared("global", "load", 2.3, "neighbouring results are made of every second pixel")
WEIGHTS = Spared("global", "load", 1.6, "results of several channels beside each other take a weight of each")
NARROW = Spared("global", "store", 2.3, "a block has fewer columns than a segment, and writes all of them")
OWN_STEPS = Spared(
    "global",
    "load",
    2.1,
    "a lane has neighbouring steps of the large operand, whose rows of the small one are not neighbours",
)
BY_ELEMENT = Spared("shared", "store", 2, "elements of a tile that are copied one by one lie in half of the banks")
BY_VALUE = Spared("global", "", 4.1, "elements are read and written where their order says")
EXCEPTIONS = {
    "max_pool": WINDOWS,
    "mean_pool": WINDOWS,
    "pool_by_two": Spared("global", "load", 1.2, "a window has two pixels of each of two rows"),
    "convolution_by_two": WINDOWS,
    "depthwise_small": WEIGHTS,
    "first_layer": Spared("global", "load", 1.3, "pixels of three channels: the rows of a window are runs of 42 bytes"),
    "few_rows": NARROW,
    "few_rows_float32_turned": NARROW,
    "few_columns": OWN_STEPS,
    "few_columns_float32": OWN_STEPS,
    "sort": BY_VALUE,
    "sort_across": BY_VALUE,
    "topk": BY_VALUE,
    "product_of_any_size": BY_ELEMENT,
    "convolution_of_any_size": BY_ELEMENT,
    "product_turned": Spared(
        "shared", "store", 4, "lines are read whole, and one column of a tile that is read in vectors of four lies in a quarter of the banks"
    ),
}  # fmt: skip
CASES = [(name, "sm_80") for name in PROGRAMS] + [(name, "sm_90a") for name in ON_HOPPER]


def _traffic(name: str, arch: str) -> list[Any]:
    expression, params = PROGRAMS[name]
    types = [(p[:-1], p[-1]) if isinstance(p[-1], str) else (p, "float32") for p in params]
    shapes = [tuple(symbols) for symbols in ANY_SIZE.get(name, ())] or [shape for shape, _ in types]
    module = graph_module(expression, **{n: f'{s!r}, "{dtype}"' for n, s, (_, dtype) in zip("abc", shapes, types)})
    executable = unity.compile(module, target=f"cuda -arch={arch}")
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-2 if dtype != "int64" else 0, 3, shape).astype(dtype) for shape, dtype in types]
    with emulated_gpu(arch, races=False) as gpu:
        unity.VirtualMachine(executable, unity.cuda(0))["main"](*arguments)
        assert gpu.traffic and not gpu.findings
        return gpu.traffic


@pytest.mark.parametrize("name, arch", CASES)
def test_traffic_is_the_least(name: str, arch: str) -> None:
    allowed = EXCEPTIONS.get(name)
    more = [site for site in _traffic(name, arch) if site.transactions > ENDS * site.ideal]
    rest = [
        site for site in more if allowed is None or site.scope != allowed.scope or allowed.kind not in site.kind
        or site.transactions > allowed.most * site.ideal
    ]  # fmt: skip
    assert not rest, "\n".join(map(str, rest[:5]))
    assert allowed is None or more or arch != "sm_80", "the exception is not needed"
