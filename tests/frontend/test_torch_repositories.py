"""Models as repositories write them: what only shows where several operators meet; each compared with torch, nothing left to torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def check(model: torch.nn.Module, *inputs: Any, strict: bool = True, **options: Any) -> unity.frontend.CompiledModel:
    compiled = unity.compile(model.eval(), example_inputs=inputs, strict=strict, **options)
    again(compiled, model, *inputs)
    return compiled


def again(compiled: Any, model: torch.nn.Module, *inputs: Any) -> None:
    with torch.no_grad():
        wanted = model(*copy.deepcopy(inputs))
    torch.testing.assert_close(compiled(*inputs), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


class Spectral(torch.nn.Module):
    """The layer of Fourier neural operators: low frequencies times complex weights, written into zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 2, 4, 4, dtype=torch.cfloat))

    def forward(self, x: Any) -> Any:
        spectrum = torch.fft.rfft2(x)
        kept = torch.zeros(x.shape[0], 2, *spectrum.shape[2:], dtype=torch.cfloat)
        kept[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :4, :4], self.weight)
        kept[:, :, -1] = spectrum[:, :2, 0]
        return torch.fft.irfft2(kept, s=x.shape[-2:])


def test_spectral_layer() -> None:
    check(Spectral(), torch.randn(2, 3, 8, 10), strict=False)


class ComplexValues(torch.nn.Module):
    def forward(self, x: Any, real: Any, mask: Any) -> Any:
        z = torch.fft.rfft(x)
        o = torch.full_like(z, 1 + 2j)
        made = [torch.cat([o, z, real[None].expand(3, 5, 5)], 1), torch.where(mask, z, real), z.masked_fill(mask, 2.0)]
        made += [torch.mm(z[0], z[1]), z[0].mv(z.new_ones(5)), torch.stack([z, o]).cumsum(0)[1], z.mean(), z.tril()]
        added = torch.index_add(o, 0, torch.tensor([0, 2]), z[:2])
        added[torch.tensor([1])] = z[2:]
        return [torch.view_as_real(m) for m in [*made, added]]


def test_complex_values_meet_real_ones() -> None:
    check(ComplexValues(), torch.randn(3, 5, 8), torch.randn(5, 5), torch.rand(5, 5) > 0.5, strict=False)


class Vocoder(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        window = torch.hann_window(16)
        z = torch.stft(x, 16, 4, window=window, return_complex=True)
        return torch.istft(z * 1.5, 16, 4, window=window, length=x.shape[-1]), torch.istft(z, 16, 4, window=window)


def test_signal_from_its_short_time_transform() -> None:
    check(Vocoder(), torch.randn(2, 40), strict=False)


class Places(torch.nn.Module):
    """Slices for the places of a mask, as embeddings of special tokens are written."""

    def forward(self, x: Any, mask: Any, row: Any) -> Any:
        one, each, first, elements = x.clone(), x.clone(), x.clone(), x.clone()
        one[mask] = row
        each[mask] = x[mask] * 2
        first[mask[:, 0]] = row
        places = mask[:, :, None] & (x > 0)
        elements[places] = x[places] * 3
        return one, each, first, elements


def test_slices_for_the_places_of_a_mask() -> None:
    x, mask, row = torch.randn(3, 5, 6), torch.rand(3, 5) > 0.5, torch.randn(6)
    compiled = check(Places(), x, mask, row)
    for other in (mask & False, mask | True):
        again(compiled, Places(), x, other, row)


class Regions(torch.nn.Module):
    """Composite operators in graphs of their own."""

    def forward(self, x: Any, y: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            a = torch.einsum("bid,bjd->bij", x, y)
        with torch.enable_grad():
            return a, torch.einsum("bid,bjd->ij", x, y)


def test_composite_operators_under_autocast_and_gradients() -> None:
    check(Regions(), torch.randn(2, 3, 4), torch.randn(2, 3, 4))


class Experts(torch.nn.Module):
    """Tokens sorted by expert, in pieces whose sizes are read out of a tensor, and joined again."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(count, 16, 16))

    def forward(self, x: Any, expert: Any) -> Any:
        pieces, begin = [], 0
        for number, weight in enumerate(self.weight):
            count = torch.sum(expert == number).item()
            torch._check(count >= 0)
            pieces.append(x[begin : begin + count] @ weight)
            begin = begin + count
        return torch.cat(pieces, 0)


def test_pieces_of_many_symbolic_sizes_are_joined() -> None:
    model, x = Experts(8), torch.randn(9, 16)
    compiled = check(model, x, torch.randint(0, 8, (9,)).sort()[0])
    for other in (torch.zeros(9, dtype=torch.int64), torch.randint(0, 8, (9,)).sort()[0]):
        again(compiled, model, x, other)


class Upsampled(torch.nn.Module):
    """A flow field upsampled by convex combinations of its neighbours."""

    def forward(self, flow: Any, mask: Any) -> Any:
        n, _, h, w = flow.shape
        weights = mask.view(n, 1, 9, 4, 4, h, w).softmax(2)
        windows = torch.nn.functional.unfold(4 * flow, [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        made = (weights * windows).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 4 * h, 4 * w)
        return made, torch.nn.functional.unfold(flow, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 3))


def test_windows_of_images_of_symbolic_sizes() -> None:
    sizes = {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=3), 3: torch.export.Dim("w", min=6)}
    compiled = check(Upsampled(), torch.randn(2, 2, 5, 6), torch.randn(2, 144, 5, 6), dynamic_shapes=(sizes, sizes))
    again(compiled, Upsampled(), torch.randn(1, 2, 4, 8), torch.randn(1, 144, 4, 8))
