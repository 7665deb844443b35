"""Models whose buffers hold the sizes they work with: these numbers are followed while the model is exported, against torch."""

from __future__ import annotations

import pytest
import torch

import unity
from unity.support.errors import FrontendError


class Framed(torch.nn.Module):
    """A convolution that computes its border from what it keeps in buffers, as audio codecs do."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 3, kernel, stride)
        self.register_buffer("stride", torch.tensor(stride), persistent=False)
        self.register_buffer("kernel", torch.tensor(kernel), persistent=False)
        self.register_buffer("total", torch.tensor(kernel - stride), persistent=False)
        self.right = self.total // 2  # a tensor that is no buffer

    def forward(self, x):
        frames = torch.ceil((x.shape[-1] - self.kernel + self.total) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - self.total - x.shape[-1]
        left, right = self.total - self.right, self.right + extra
        if x.shape[-1] <= max(left, right):
            raise ValueError("too short")
        y = self.conv(torch.nn.functional.pad(x, (left, right)))
        return y if y.shape[-1] > 5 else y * self.stride


@pytest.mark.parametrize(("kernel", "stride", "length"), [(5, 2, 11), (4, 4, 10), (3, 1, 9)])
def test_borders_from_buffers(kernel, stride, length, capsys) -> None:
    model, x = Framed(kernel, stride).eval(), torch.randn(2, 2, length)
    f = unity.compile(model, example_inputs=(x,))
    assert not f.report.fallbacks and "torch.ops" not in capsys.readouterr().err
    torch.testing.assert_close(f(x), model(x))


class Written(torch.nn.Module):
    """The number changes from call to call, in place or as another tensor."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(2))
        self.place = place

    def forward(self, x):
        y = x * 2 if self.n > 3 else x
        if self.place == "in place":
            self.n += 1
        elif self.place == "another":
            self.n = self.n + 1
        else:
            here = self.n + 0
            here.add_(x.long().sum())
            y = y + here
        return y


@pytest.mark.parametrize("place", ["in place", "another", "a copy"])
def test_numbers_that_change_stay_data(place) -> None:
    with pytest.raises(FrontendError, match="data-dependent") as caught:
        unity.compile(Written(place), example_inputs=(torch.ones(3),))
    assert caught.value.code == "E016"


def test_a_branch_on_the_inputs_stays_refused() -> None:
    class Branches(Framed):
        def forward(self, x):
            return x if x.sum() > self.kernel else -x

    with pytest.raises(FrontendError, match="data-dependent"):
        unity.compile(Branches(3, 1), example_inputs=(torch.ones(2, 2, 9),))


class Scheduled(torch.nn.Module):
    """Reads numbers of tensors that are no buffers, which torch's trace knows: it leaves ``item`` without a user behind."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step, self.rates = torch.tensor(step), torch.arange(10.0)

    def forward(self, x):
        later = self.step + 1
        return x * self.rates[int(later)] + float(later * 2) + (1 if bool(later > 3) else 2)


@pytest.mark.parametrize("step", [1, 3.5])
def test_numbers_that_the_trace_knows(step) -> None:
    model, x = Scheduled(step), torch.randn(3)
    torch.testing.assert_close(unity.compile(model, example_inputs=(x,))(x), model(x))
