"""Attention written out, compiled: beside numpy's chain, with rows that see no key, infinities and NaN."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import unity
from unity.script import parse

LOWEST = float(np.finfo("float32").min)

ADDED = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("b", 4, "n", 8), "float32"), k: R.Tensor(("b", 4, "m", 8), "float32"),
             v: R.Tensor(("b", 4, "m", 8), "float32"), bias: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            raw = R.matmul(q, R.permute_dims(k, axes=[0, 1, 3, 2]))
            scores = R.add(R.multiply(raw, R.const(0.25, "float32")), bias)
            out = R.matmul(R.nn.softmax(scores), v)
            R.output(out)
        return out
"""
CHOSEN = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((2, "n", 8), "float32"), k: R.Tensor((2, "m", 8), "float32"),
             v: R.Tensor((2, "m", 3), "float32"), seen: R.Tensor((2, "n", "m"), "bool")):
        with R.dataflow():
            raw = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
            scores = R.where(seen, raw, R.const(float("-inf"), "float32"))
            out = R.matmul(R.nn.softmax(scores), v)
            R.output(out)
        return out
"""


def chain(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, bias: np.ndarray) -> np.ndarray:
    """The chain in float64 behind float32 scores, as a softmax without fusion computes it."""
    with np.errstate(all="ignore"):
        scores = (q @ np.swapaxes(k, -1, -2) * np.float32(scale) + bias).astype("float32").astype("float64")
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v


def tensors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def kernels(ex: unity.Executable) -> list[str]:
    """The names of its kernels."""
    return [line.split("(")[0].split()[-1] for line in ex.as_text().splitlines() if line.startswith("kernel ")]


@cache
def compiled(text: str) -> unity.Executable:
    """A program for tensors of any size."""
    return unity.compile(parse(text))


@pytest.mark.parametrize("hidden", [LOWEST, float("-inf")])
@pytest.mark.parametrize(("n", "m"), [(5, 7), (1, 70), (67, 3)])
def test_an_added_mask(n: int, m: int, hidden: float) -> None:
    ex = compiled(ADDED)
    assert kernels(ex) == ["attention"]
    q, k, v = tensors((2, 4, n, 8), (2, 4, m, 8), (2, 4, m, 8))
    bias = np.where(np.arange(m)[None] > np.arange(n)[:, None], hidden, 0).astype("float32")
    bias[0] = hidden  # a row that sees no key: equal weights, or NaN
    found = np.asarray(unity.VirtualMachine(ex)["main"](q, k, v, bias))
    np.testing.assert_allclose(found, chain(q, k, v, 0.25, bias), rtol=1e-4, atol=1e-5)
    assert np.isnan(found[:, :, 0]).all() == (hidden == float("-inf"))


def test_infinities_and_nan_stay_in_their_rows() -> None:
    run = unity.VirtualMachine(compiled(ADDED))["main"]
    q, k, v = tensors((1, 4, 6, 8), (1, 4, 9, 8), (1, 4, 9, 8))
    bias = np.zeros((6, 9), "float32")
    q[0, 1, 2, 3], bias[4, 1], v[0, 3, 5, 2] = np.nan, np.inf, np.inf
    np.testing.assert_allclose(np.asarray(run(q, k, v, bias)), chain(q, k, v, 0.25, bias), rtol=1e-4, atol=1e-5)


def test_scores_chosen_by_a_mask_with_three_axes() -> None:
    ex = unity.compile(parse(CHOSEN))
    assert kernels(ex) == ["attention"]
    q, k, v = tensors((2, 5, 8), (2, 9, 8), (2, 9, 3))
    seen = np.random.default_rng(1).random((2, 5, 9)) < 0.5
    seen[1, 2] = False
    found = np.asarray(unity.VirtualMachine(ex)["main"](q, k, v, seen))
    bias = np.where(seen, 0, -np.inf)
    np.testing.assert_allclose(found, chain(q, k, v, 1.0, bias), rtol=1e-4, atol=1e-5)
