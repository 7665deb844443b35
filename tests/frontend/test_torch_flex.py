"""``flex_attention`` against torch: functions that add, that choose pairs, and others; nothing may run in torch."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SLOPES = torch.tensor([0.5, 0.25, 0.1, 0.7])
DOCUMENTS = torch.tensor([0] * 5 + [1] * 7 + [2] * 5)
SCORES = {
    "alibi": lambda s, b, h, i, j: s + SLOPES[h] * (j - i),
    "relative": lambda s, b, h, i, j: s + (i - j),
    "causal by score": lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")),
    "soft cap": lambda s, b, h, i, j: 2.0 * torch.tanh(s / 2.0),
    "both": lambda s, b, h, i, j: torch.where(i >= j, 3.0 * s, -1.0) + b,
}
MASKS = {
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i - j).abs() <= 3,
    "documents": lambda b, h, i, j: DOCUMENTS[i] == DOCUMENTS[j],
    "nothing": lambda b, h, i, j: (i < 3) & (j < h),
}


class Flex(torch.nn.Module):
    """Attention with a function of each kind, or none."""

    def __init__(self, score: Any, mask: Any, length: int = 17) -> None:
        super().__init__()
        self.score = score
        self.mask = None if mask is None else create_block_mask(mask, None, None, length, length, device="cpu")

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=self.score, block_mask=self.mask, enable_gqa=True, scale=0.4)


def inputs(dtype: Any = torch.float32, batch: int = 2) -> Any:
    torch.manual_seed(1)
    return [torch.randn(batch, heads, 17, 8).to(dtype) for heads in (4, 2, 2)]


def eager(model: Any, given: Any) -> Any:
    """The model as Python runs it; else ``flex_attention`` compiles itself for every function."""
    with (
        mock.patch.object(torch.nn.attention.flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True),
        torch.no_grad(),
    ):
        return model(*given)


def check(model: Any, given: Any, **options: Any) -> Any:
    compiled = unity.compile(model.eval(), example_inputs=tuple(given), strict=True, **options)
    for x in (given, [t.flip(2).contiguous() for t in given]):
        close = {"rtol": 1e-4, "atol": 1e-5} if given[0].dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(compiled(*x), eager(model, x), **close)
    return compiled


@pytest.mark.parametrize(
    "score,mask",
    [
        ("alibi", "causal"), ("relative", None), ("causal by score", "window"), ("soft cap", "nothing"), ("both", None),
        (None, "documents"), (None, "nothing"),
    ],
)  # fmt: skip
def test_functions_of_scores_and_pairs(score: Any, mask: Any) -> None:
    compiled = check(Flex(SCORES.get(score), MASKS.get(mask)), inputs())
    assert ("R.nn.attention" in compiled.script()) == (score is None)


def test_a_mask_that_is_causal_needs_no_tensor() -> None:
    assert 'causal_mask="TopLeft"' in check(Flex(None, MASKS["causal"]), inputs()).script()


def test_small_floats_keep_exact_scores() -> None:
    check(Flex(SCORES["alibi"], MASKS["causal"]), inputs(torch.bfloat16))


def test_batches_of_any_size() -> None:
    batch = torch.export.Dim("batch", max=64)
    model, shapes = Flex(SCORES["both"], MASKS["window"]).eval(), {n: {0: batch} for n in "qkv"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = unity.compile(model, example_inputs=tuple(inputs()), dynamic_shapes=shapes, strict=True)
    for size in (1, 5):
        x = inputs(batch=size)
        torch.testing.assert_close(compiled(*x), eager(model, x), rtol=1e-4, atol=1e-5)


class Statistics(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=SCORES["alibi"], enable_gqa=True, return_lse=True)


def test_the_logarithm_of_the_sum() -> None:
    check(Statistics(), inputs())
