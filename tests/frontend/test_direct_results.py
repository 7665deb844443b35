"""Results of compiled torch models of every data type, flat and in tuples, are torch tensors of their own."""

from __future__ import annotations

import pytest
import torch

import unity

TYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


class Double(torch.nn.Module):
    """One result."""

    def forward(self, x):
        return x | x if x.dtype is torch.bool else x + x


class Both(torch.nn.Module):
    """Two results of different types."""

    def forward(self, x):
        return x.to(torch.float32) + 1, x.to(torch.bfloat16)


@pytest.mark.parametrize("dtype", TYPES)
def test_single_results_and_tuples(dtype):
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    f = unity.compile(Double(), example_inputs=(x,))
    first, second = f(x), f(x)
    assert type(first) is torch.Tensor and first.dtype is x.dtype
    torch.testing.assert_close(first, Double()(x), rtol=0, atol=0)
    second.zero_()  # memory of its own, to be written
    torch.testing.assert_close(first, Double()(x), rtol=0, atol=0)
    g = unity.compile(Both(), example_inputs=(x,))
    found = g(x)
    assert type(found) is tuple
    for got, wanted in zip(found, Both()(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
