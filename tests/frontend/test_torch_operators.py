"""Every family of the torch table against torch eager: many operators in one model, strict, static and dynamic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch_models import TOLERANCE, same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import supported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

Case = Callable[[Any], Any]
UNARY_NAMES = """abs acosh angle asin asinh atan ceil cos cosh erf exp floor frac isfinite isinf isnan
log log2 neg reciprocal relu round rsqrt
sigmoid sign sin sinh sqrt square tan tanh trunc nan_to_num"""
UNARY: dict[str, Case] = {name: getattr(torch, name) for name in UNARY_NAMES.split()}
UNARY["histc"] = lambda x: torch.histc(x, 5, -2.5, 1.5)
SPECIAL = torch.tensor([[0.0, -0.0, 1.5, -2.5, 0.5], [float("nan"), float("inf"), -float("inf"), 3e38, -1e-3]])
ACTIVATIONS: dict[str, Case] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "selu": F.selu,
    "elu": F.elu,
    "elu2": lambda x: F.elu(x, 0.3),
    "celu": lambda x: F.celu(x, 1.7),
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0, 1.0),
    "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "softmax": lambda x: F.softmax(x, 1),
    "softmax64": lambda x: F.softmax(x, -1, dtype=torch.float64),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "glu": lambda x: F.glu(x, 1),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3])),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "rms_norm": lambda x: F.rms_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 3),
    "dropout": lambda x: F.dropout(x, 0.4, False),
}
ARITHMETIC: dict[str, Case] = {
    "scalar": lambda x: 2 * x + 1 - 3 / (x * x + 1),
    "alpha": lambda x: torch.add(x, x, alpha=0.5),
    "rsub": lambda x: 1 - x,
    "promote_int": lambda x: x + torch.arange(6),
    "int_div": lambda x: torch.arange(6) / 4,
    "int_plus_float": lambda x: torch.arange(6) + 1.5,
    "floor_div": lambda x: x // 0.3,
    "int_floor": lambda x: (torch.arange(6) - 3) // 2,
    "trunc_div": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "int_trunc": lambda x: torch.div(torch.arange(6) - 3, 2, rounding_mode="trunc"),
    "int_remainder": lambda x: (torch.arange(6) - 3) % 2,
    "remainder": lambda x: x % 0.7,
    "fmod": lambda x: torch.fmod(x, 0.7),
    "bool_sum": lambda x: (x > 0).sum(),
    "bool_add": lambda x: (x > 0) + (x < 1),
    "bool_mul": lambda x: (x > 0) * x,
    "cumsum_bool": lambda x: torch.cumsum(x > 0, 1),
    "cumsum": lambda x: torch.cumsum(x, 0),
    "cumprod": lambda x: torch.cumprod(x, 1),
    "pow2": lambda x: x**2,
    "pow3": lambda x: x**3,
    "pow_half": lambda x: x.abs() ** 0.5,
    "pow_real": lambda x: x.abs() ** 1.7,
    "pow_scalar": lambda x: 2**x,
    "pow_tensor": lambda x: x.abs() ** x,
    "compare": lambda x: (x < 0.5) & (x >= -1) | (x == 0) ^ (x != x),
    "compare_mixed": lambda x: torch.arange(6) > x,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "where_int": lambda x: torch.where(x > 0, 1, 0),
    "masked_fill": lambda x: x.masked_fill(x > 0, float("-inf")),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_int": lambda x: torch.arange(6).clamp(max=3),
    "maximum": lambda x: torch.maximum(x, -x),
    "min_other": lambda x: torch.min(x, x * x),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * x + 1),
    "shift": lambda x: (torch.arange(6) << 2) >> 1,
    "bits": lambda x: ~(torch.arange(6) & 3 | 8),
    "atan2": lambda x: torch.atan2(x, x + 2),
    "to": lambda x: x.to(torch.int32),
    "double": lambda x: x.double() * 2,
    "half": lambda x: x.half().float(),
    "logical": lambda x: torch.logical_xor(x, x > 0),
    "mse": lambda x: F.mse_loss(x, x * 2),
    "l1": lambda x: F.l1_loss(x, x * 2, reduction="sum"),
    "smooth": lambda x: F.smooth_l1_loss(x, x * 2, reduction="none"),
}
REDUCTIONS: dict[str, Case] = {
    "sum": torch.sum,
    "sum_dim": lambda x: x.sum(1),
    "sum_keep": lambda x: x.sum((0, 1), keepdim=True),
    "sum_int": lambda x: torch.arange(6, dtype=torch.int32).sum(),
    "mean": torch.mean,
    "mean_dim": lambda x: x.mean(-1, keepdim=True),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin((0, 1)),
    "max": lambda x: tuple(x.max(1)),
    "min": lambda x: tuple(x.min(0, keepdim=True)),
    "max_all": torch.max,
    "argmax": lambda x: x.argmax(1),
    "argmax_all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(0, keepdim=True),
    "any": lambda x: (x > 1).any(1),
    "all": lambda x: (x > -9).all(),
    "all_true": lambda x: torch._is_all_true(x > 0),
    "any_true": lambda x: torch._is_any_true(x > 0),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(),
    "var0": lambda x: x.var(0, unbiased=False),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, dim=0),
    "sort": lambda x: tuple(torch.sort(x, dim=1, stable=True)),
    "sort_down": lambda x: tuple(torch.sort(x, 0, descending=True)),
    "argsort": lambda x: torch.argsort(x, 1),
    "topk": lambda x: tuple(x.topk(3, 1)),
    "sign_int": lambda x: (torch.arange(6) - 3).sign(),
    "logsumexp_inf": lambda x: torch.logsumexp(x * 0 - float("inf"), 1, keepdim=True),
}
SHAPES: dict[str, Case] = {
    "view": lambda x: x.reshape(-1),
    "flatten": lambda x: x[None].flatten(1),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "expand": lambda x: x[:, None].expand(-1, 2, -1),
    "slices": lambda x: (x[1:, ::2, None], x[None, :, 1:, None, None][..., -1]),
    "negative": lambda x: x[-2:, :-1],
    "far": lambda x: x[:99, 5:],
    "select": lambda x: x[1] + x[-1],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "permute": lambda x: x[None].permute(2, 0, 1),
    "t": lambda x: x.t(),
    "mT": lambda x: x.mT,
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "movedim": lambda x: x[None].movedim(0, 2),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "cat_mixed": lambda x: torch.cat([x, torch.ones(1, 6, dtype=torch.int64)]),
    "stack": lambda x: torch.stack([x, -x], -1),
    "split": lambda x: x.split(4, 1),
    "split_sizes": lambda x: x.split([1, 2, 3], 1),
    "chunk": lambda x: x.chunk(4, 1),
    "unbind": lambda x: x.unbind(1),
    "diff": lambda x: x.diff(),
    "roll": lambda x: x.roll(2, 1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "tile": lambda x: x.tile(2),
    "interleave": lambda x: x.repeat_interleave(2, 1),
    "flip": lambda x: x.flip(1),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(-1),
    "triu_bool": lambda x: (x > 0).triu(1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "crop": lambda x: F.pad(x, (-1, 2, 0, 1), value=3.0),
    "reflect": lambda x: F.pad(x[None], (2, 1), mode="reflect"),
    "shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x.reshape(1, 1, 4, 6), 2),
    "mesh": lambda x: torch.meshgrid(x[:, 0], x[0], indexing="ij"),
    "arange": lambda x: torch.arange(1, 9, 3),
    "arange_float": lambda x: torch.arange(0, 1, 0.3),
    "full": lambda x: torch.full((2, 3), 7),
    "like": lambda x: torch.ones_like(x) + torch.zeros_like(x),
    "new": lambda x: x.new_full((2,), 3),
    "eye": lambda x: torch.eye(3, 4),
    "linspace": lambda x: torch.linspace(0, 1, 5),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "outer": lambda x: torch.outer(x[0], x[1]),
}
INDEX = torch.tensor([[0, 2, 5, 1, 3, 0], [1, 1, 4, 5, 0, 2], [3, 3, 3, 0, 1, 2], [5, 4, 3, 2, 1, 0]])
INDEXING: dict[str, Case] = {
    "index": lambda x: x[torch.tensor([2, 0, -1])],
    "index_axis": lambda x: x[:, torch.tensor([[1, 0], [5, 2]])],
    "index_two": lambda x: x[torch.tensor([0, 3]), torch.tensor([5, 1])],
    "index_inner": lambda x: x[None][:, torch.tensor([0, 3]), torch.tensor([5, 1])],
    "index_apart": lambda x: x[:, :, None][torch.tensor([0, 3]), :, torch.tensor([0, 0])],
    "select": lambda x: x.index_select(1, torch.tensor([4, 0])),
    "gather": lambda x: x.gather(1, INDEX),
    "take_along": lambda x: x.take_along_dim(INDEX, 1),
    "embedding": lambda x: F.embedding(INDEX % 4, x),
    "one_hot": lambda x: F.one_hot(INDEX, 7),
    "scatter": lambda x: x.scatter(1, INDEX.argsort(dim=1, stable=True), x),
    "scatter_add": lambda x: x.scatter_add(1, INDEX, x),
    "scatter_value": lambda x: x.scatter(1, INDEX[:, :2], 3.0),
    "index_put": lambda x: x.index_put((torch.tensor([0, 2]), torch.tensor([1, 1])), torch.tensor([5.0, 6.0])),
}
IMAGE = torch.randn(2, 4, 9, 8)
KERNEL, KERNEL1, KERNEL3 = torch.randn(6, 4, 3, 3), torch.randn(5, 9, 3), torch.randn(3, 2, 2, 3, 3)
WINDOWS: dict[str, Case] = {
    "conv2d": lambda x: F.conv2d(IMAGE * x.mean(), KERNEL, torch.arange(6.0), 2, 1, 2),
    "groups": lambda x: F.conv2d(IMAGE, KERNEL[:, :2], groups=2, padding=(1, 0)),
    "same": lambda x: F.conv2d(IMAGE, KERNEL[..., :2], padding="same"),
    "unbatched": lambda x: F.conv2d(IMAGE[0], KERNEL),
    "conv1d": lambda x: F.conv1d(IMAGE[0], KERNEL1, padding=1),
    "conv3d": lambda x: F.conv3d(IMAGE[None], KERNEL3, padding=1),
    "max": lambda x: F.max_pool2d(IMAGE, 3, 2, 1),
    "max_ceil": lambda x: F.max_pool2d(IMAGE, 2, ceil_mode=True),
    "max1d": lambda x: F.max_pool1d(IMAGE[0], 3, 2),
    "avg": lambda x: F.avg_pool2d(IMAGE, 3, 2, 1),
    "avg_inside": lambda x: F.avg_pool2d(IMAGE, 3, 2, 1, count_include_pad=False),
    "avg1d": lambda x: F.avg_pool1d(IMAGE[0], 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(IMAGE, (3, 5)),
    "adaptive1d": lambda x: F.adaptive_avg_pool1d(IMAGE[0], 3),
    "adaptive_one": lambda x: F.adaptive_avg_pool2d(IMAGE[0], 1),
    "batch_norm": lambda x: F.batch_norm(IMAGE, torch.arange(4.0), torch.arange(4.0) + 1),
    "instance_norm": lambda x: F.instance_norm(IMAGE, weight=torch.arange(4.0), bias=torch.ones(4)),
    "group_norm": lambda x: F.group_norm(IMAGE, 2, torch.arange(4.0), torch.ones(4)),
}
QUERY = torch.randn(2, 4, 5, 8)
SHARED = torch.randn(2, 2, 7, 8)
PRODUCTS: dict[str, Case] = {
    "einsum": lambda x: torch.einsum("bhid,bhjd->bhij", QUERY, QUERY),
    "cosine": lambda x: F.cosine_similarity(x, x * x),
    "matmul": lambda x: x @ x.t(),
    "vector": lambda x: x @ x[0],
    "dot": lambda x: torch.dot(x[0], x[1]),
    "bmm": lambda x: torch.bmm(QUERY[0], QUERY[1].mT),
    "addmm": lambda x: torch.addmm(x[:, :4], x, x.t(), beta=0.5, alpha=2),
    "baddbmm": lambda x: torch.baddbmm(torch.ones(1), QUERY[0], QUERY[1].mT),
    "linear": lambda x: F.linear(QUERY, torch.ones(3, 8), torch.arange(3.0)),
    "linear_vector": lambda x: F.linear(x, x[0]),
    "attention": lambda x: F.scaled_dot_product_attention(QUERY, QUERY, QUERY * x.mean()),
    "causal": lambda x: F.scaled_dot_product_attention(QUERY, QUERY, QUERY, is_causal=True, scale=0.3),
    "grouped": lambda x: F.scaled_dot_product_attention(QUERY, SHARED, SHARED, enable_gqa=True),
    "bias": lambda x: F.scaled_dot_product_attention(QUERY, QUERY, QUERY, attn_mask=torch.ones(5, 5).tril().log()),
    "all_masked": lambda x: F.scaled_dot_product_attention(
        QUERY, QUERY, QUERY, attn_mask=torch.ones(5, 5, dtype=torch.bool).tril(-1)
    ),
}
FAMILIES = {
    "unary": UNARY, "special": UNARY, "activations": ACTIVATIONS, "arithmetic": ARITHMETIC, "reductions": REDUCTIONS,
    "shapes": SHAPES, "indexing": INDEXING, "windows": WINDOWS, "products": PRODUCTS,
}  # fmt: skip


class Family(torch.nn.Module):
    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, x: Any) -> dict[str, Any]:
        return {name: case(x) for name, case in self.cases.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    cases = FAMILIES[name]
    x = SPECIAL if name == "special" else torch.randn(4, 6)
    expected = Family(cases)(x)
    compiled = unity.compile(Family(cases), example_inputs=(x,), strict=True)
    found = compiled(x)
    wrong = []
    for case, value in expected.items():
        try:
            torch.testing.assert_close(found[case], value, equal_nan=True, **TOLERANCE)
        except AssertionError as error:
            wrong.append(f"{case}: {error}")
    assert not wrong, "\n".join(wrong)


SYMBOLIC = ("activations", "arithmetic", "reductions", "shapes")
FIXED = {
    "shuffle",
    "unshuffle",
    "group_norm",
    "var0",
    "std",
    "select",
    "unbind0",
    "far",
    "negative",
    "slices",
    "outer",
    "crop",
}  # these need a known size of the first axis
LEADING = {name: {k: f for k, f in FAMILIES[name].items() if k not in FIXED} for name in SYMBOLIC}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_family_with_a_symbolic_axis(name: str) -> None:
    cases = LEADING[name]
    shapes = ({0: torch.export.Dim("n")},)
    compiled = unity.compile(Family(cases), example_inputs=(torch.randn(4, 6),), dynamic_shapes=shapes, strict=True)
    for size in (1, 7):
        x = torch.randn(size, 6)
        torch.testing.assert_close(compiled(x), Family(cases)(x), equal_nan=True, **TOLERANCE)


class Repeats(torch.nn.Module):
    """Repetitions as often as an input is long."""

    def forward(self, x: Any, y: Any) -> Any:
        n, k = x.shape[0], y.shape[0]
        rows = [x.repeat(k, 1), x.repeat(n, 2, 1), y.repeat(2, n, 3), x[0, 0].repeat(n), torch.tile(y, (n,))]
        return rows, x.repeat_interleave(k, 1), y.repeat_interleave(n, 0), y.repeat_interleave(k), x.repeat(2, 0)


def test_as_many_repetitions_as_an_input_is_long() -> None:
    shapes = ({0: torch.export.Dim("n")}, {0: torch.export.Dim("k")})
    compiled = unity.compile(
        Repeats(), example_inputs=(torch.ones(4, 3), torch.ones(5)), dynamic_shapes=shapes, strict=True
    )
    for n, k in ((1, 1), (3, 2), (2, 7)):
        inputs = (torch.randn(n, 3), torch.randn(k))
        same(compiled(*inputs), Repeats()(*inputs))


WITHDRAWN = {"aten.cholesky.default", "aten.qr.default"}
"""Operators that the newest torch has no more and older ones have."""


def test_table_names_are_operators_of_torch() -> None:
    missing = set()
    for name in supported():
        namespace, packet, overload = name.split(".")
        if namespace == "aten" and not hasattr(getattr(torch.ops.aten, packet, None), overload):
            missing.add(name)
    assert missing <= WITHDRAWN, missing - WITHDRAWN
