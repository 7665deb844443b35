"""Pooling that rounds up, of images whose sizes only a call knows, against torch eager: nothing goes back to torch."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unity  # noqa: E402

AUTO = torch.export.Dim.AUTO


class Pools(torch.nn.Module):
    """For kernel 3 and stride 2 with a border of one, torch never leaves a window away."""

    def forward(self, x: Any) -> Any:
        found = [F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.adaptive_max_pool2d(x, (4, 3))]
        for counted in (False, True):
            found.append(F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=counted))
        found += [F.avg_pool2d(x, 3, 2, 1, ceil_mode=ceil, divisor_override=5) for ceil in (False, True)]
        return [*found, F.lp_pool2d(x, 2, 3, 2, ceil_mode=True), F.adaptive_avg_pool2d(x, (4, 3))]


def test_sizes_only_a_call_knows() -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 3, 17, 20)
    compiled = unity.compile(Pools(), example_inputs=(example,), dynamic_shapes=({2: AUTO, 3: AUTO},), strict=True)
    for height, width in ((17, 20), (18, 21), (9, 9), (40, 11)):
        x = torch.randn(2, 3, height, width)
        torch.testing.assert_close(compiled(x), Pools()(x), rtol=1e-5, atol=1e-6)


class LastWindow(torch.nn.Module):
    """The last window would begin in the border behind the data, or behind that."""

    def forward(self, x: Any) -> Any:
        found = []
        for kernel, stride, border in ((2, 2, 1), (2, 3, 1), (1, 3, 0)):
            given: Any = (x, kernel, stride, border)
            found.append(F.max_pool2d(*given, ceil_mode=True))
            found += [F.avg_pool2d(*given, ceil_mode=True, divisor_override=d) for d in (None, 3)]
        return found


def test_windows_that_torch_leaves_away() -> None:
    example = torch.randn(1, 2, 17, 20)
    compiled = unity.compile(LastWindow(), example_inputs=(example,), strict=True)
    torch.testing.assert_close(compiled(example), LastWindow()(example), rtol=1e-5, atol=1e-6)
    compiled = unity.compile(LastWindow(), example_inputs=(example,), dynamic_shapes=({2: AUTO, 3: AUTO},), strict=True)
    for height in (17, 23):
        x = torch.randn(1, 2, height, 20)
        torch.testing.assert_close(compiled(x), LastWindow()(x), rtol=1e-5, atol=1e-6)


class Places(torch.nn.Module):
    """Largest elements with their places, which run in torch."""

    def forward(self, x: Any) -> Any:
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        return [F.max_unpool2d(pooled, places, 2), *F.adaptive_max_pool2d(x, (4, 3), return_indices=True)]


@pytest.mark.filterwarnings("ignore::unity.frontend.torch.context.report.FallbackWarning")
def test_places_of_the_largest_elements() -> None:
    example = torch.randn(2, 3, 16, 20)
    compiled = unity.compile(Places(), example_inputs=(example,), dynamic_shapes=({0: AUTO},))
    assert len(compiled.report.fallbacks) == 2
    for rows in (2, 5):
        x = torch.randn(rows, 3, 16, 20)
        torch.testing.assert_close(compiled(x), Places()(x))


def test_means_of_integers_are_cut() -> None:
    x = torch.tensor([[[[7, -8, 3], [0, -1, 5], [-9, 2, 2]]]])
    models = [torch.nn.AvgPool2d(2, 1), torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False, ceil_mode=True)]
    models += [torch.nn.AvgPool2d(2, 1, 1, divisor_override=d) for d in (3, -5)]
    models += [torch.nn.AvgPool2d(2, 2, 1, ceil_mode=True, divisor_override=7)]
    for model in models:
        for dynamic in (None, ({2: AUTO, 3: AUTO},)):
            compiled = unity.compile(model, example_inputs=(x,), strict=True, dynamic_shapes=dynamic)
            for y in (x, x * (2**58 + 1)):
                torch.testing.assert_close(compiled(y), model(y), rtol=0, atol=0)


def test_means_of_integers_along_one_and_three_axes() -> None:
    x = torch.arange(-30, 30).reshape(1, 3, 4, 5) * (2**56 + 3)
    models = [torch.nn.AvgPool1d(3, 2, 1), torch.nn.AvgPool3d(2, 1, 1, divisor_override=5)]
    for model in models:
        y = x[0] if model is models[0] else x
        torch.testing.assert_close(unity.compile(model, example_inputs=(y,), strict=True)(y), model(y), rtol=0, atol=0)
