"""Transforms, columns and groups of convolutions whose sizes only a call knows, against torch; of these only the groups run there."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import unity  # noqa: E402

F = torch.nn.functional
ANY = torch.export.Dim.AUTO


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def check(function: Any, *calls: tuple[Any, ...], dynamic: Any = None, strict: bool = True) -> None:
    """Compiled for the first inputs, compared on all of them."""
    model = Function(function)
    compiled = unity.compile(model, example_inputs=calls[0], dynamic_shapes=dynamic, strict=strict)
    for inputs in calls:
        for made, wanted in zip(compiled(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def transforms(x: Any) -> Any:
    z = torch.fft.rfft(x, norm="ortho")
    return torch.view_as_real(z), torch.fft.irfft(z, n=x.shape[-1])


def test_transforms_of_any_length() -> None:
    sizes = [(3, 10), (3, 1), (3, 2), (3, 31), (3, 64), (3, 200)]
    check(transforms, *[(torch.randn(s),) for s in sizes], dynamic=(({1: ANY},),), strict=False)


def signals(x: Any) -> Any:
    one = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
    return one.abs(), torch.view_as_real(torch.stft(x, 12, center=False, onesided=False, return_complex=True))


def test_short_time_transform_of_a_signal_of_any_length() -> None:
    check(signals, *[(torch.randn(2, n),) for n in (40, 17, 63)], dynamic=(({1: ANY},),), strict=False)


def overlapped(x: Any) -> Any:
    length = 3 * (x.shape[-1] - 1)
    return [F.fold(x, (1, length + n), (1, 5), stride=(1, 3)) for n in (5, 6)]


def test_columns_added_up_in_an_image_of_any_size() -> None:
    check(overlapped, *[(torch.randn(b, 10, n),) for b, n in ((3, 7), (1, 4))], dynamic=(({0: ANY, 2: ANY},),))


def images(convolution: Any, **options: Any) -> Any:
    """Each image has weights of its own."""

    def apply(x: Any, w: Any) -> Any:
        one = x.reshape(1, -1, *x.shape[2:])
        return [convolution(one, w.flatten(0, 1), groups=x.shape[0], **options).view(*x.shape[:1], 5, -1)]

    return apply


@pytest.mark.filterwarnings("ignore::unity.frontend.torch.context.report.FallbackWarning")
@pytest.mark.parametrize(
    ("convolution", "options", "image", "weight"),
    [
        (F.conv2d, {"padding": 1, "stride": 2}, (4, 7, 6), (5, 4, 3, 3)),
        (F.conv1d, {"dilation": 2}, (4, 11), (5, 4, 3)),
        (F.conv_transpose2d, {"stride": 2, "padding": 1, "output_padding": 1}, (4, 5, 6), (4, 5, 3, 3)),
    ],
)
def test_as_many_groups_as_images(convolution: Any, options: Any, image: Any, weight: Any) -> None:
    calls = [(torch.randn(n, *image), torch.randn(n, *weight)) for n in (3, 1, 4)]
    check(images(convolution, **options), *calls, dynamic=(({0: ANY}, {0: ANY}),), strict=False)


def test_pooling_of_one_axis() -> None:
    def lines(x: Any) -> Any:
        return (
            F.adaptive_avg_pool2d(x, (None, 1)),
            F.adaptive_avg_pool2d(x, (1, None)),
            F.adaptive_avg_pool2d(x, (None, None)),
        )

    check(lines, *[(torch.randn(2, 3, *s),) for s in ((5, 4), (1, 1), (3, 8))], dynamic=(({2: ANY, 3: ANY},),))
