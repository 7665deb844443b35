"""Batch normalisation with the statistics of the batch: without stored ones (standardised weights), and in training by torch.compile."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import unity_backend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Standardised(torch.nn.Conv2d):
    """A convolution with standardised weights, as in NFNet."""

    def forward(self, x: Any) -> Any:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = torch.nn.functional.batch_norm(flat, None, None, training=True, momentum=0.0, eps=1e-6)
        return torch.nn.functional.conv2d(x, weight.reshape_as(self.weight), self.bias)


def test_standardised_weights() -> None:
    model, x = Standardised(3, 4, 3).eval(), torch.randn(2, 3, 6, 6)
    same(unity.compile(model, example_inputs=(x,), strict=True)(x), model(x).detach())


class Step(torch.nn.Module):
    def forward(self, x: Any, mean: Any, var: Any) -> Any:
        return torch.ops.aten._native_batch_norm_legit_functional(x, None, None, mean, var, True, 0.1, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_running_statistics_move(dtype: Any) -> None:
    x, mean, var = torch.randn(4, 3, 5).to(dtype), torch.randn(3), torch.rand(3) + 0.5
    compiled = unity.compile(Step(), example_inputs=(x, mean, var), strict=True)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    for made, expected in zip(compiled(x, mean, var), Step()(x, mean, var)):
        torch.testing.assert_close(made.float(), expected.float(), rtol=tolerance, atol=tolerance)


def test_training_by_torch_compile() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    other, x = copy.deepcopy(model), torch.randn(2, 3, 6, 6)
    compiled = torch.compile(other, backend=unity_backend)
    for _ in range(2):
        expected, made = model(x), compiled(x)
        same(made.detach(), expected.detach())
        expected.square().sum().backward()
        made.square().sum().backward()
    same(other[1].running_mean, model[1].running_mean)
    same(other[1].running_var, model[1].running_var)
    torch.testing.assert_close(other[0].weight.grad, model[0].weight.grad, rtol=1e-3, atol=1e-4)


class Wrong(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.ops.unity_dtype.halved(x) + 1


LIBRARY = torch.library.Library("unity_dtype", "DEF")
LIBRARY.define("halved(Tensor x) -> Tensor")
LIBRARY.impl("halved", lambda x: (x / 2).double(), "CPU")
torch.library.register_fake("unity_dtype::halved", lambda x: torch.empty_like(x))


def test_results_of_calls_into_torch_have_the_promised_dtype() -> None:
    x = torch.ones(3)
    made = unity.compile(Wrong(), example_inputs=(x,))(x)
    assert made.dtype == torch.float32
    same(made, torch.full((3,), 1.5))
