"""What models do with complex numbers, against torch; what they rarely do runs there."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402

F = torch.nn.functional


class Values(torch.nn.Module):
    """A function of two complex tensors and a real one, with layers that have complex weights."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(4, 3, dtype=torch.cfloat)
        self.line = torch.nn.Conv1d(3, 2, 3, padding=1, dtype=torch.cfloat)
        self.turned = torch.nn.ConvTranspose1d(3, 2, 3, dtype=torch.cfloat)

    def forward(self, x: Any, y: Any) -> Any:
        made = self.function(self, torch.complex(x, y), torch.complex(y, 2 * x), x)
        return [torch.view_as_real(m.resolve_conj()) if m.is_complex() else m for m in made]


def arithmetic(m: Any, z: Any, w: Any, x: Any) -> Any:
    large, endless = torch.tensor([1e30, -1e30, 3e-30, 0.0]), torch.complex(torch.zeros(1), torch.tensor([torch.inf]))
    return [
        z + x, z + 2j, torch.add(z, w, alpha=2), torch.sub(x, z, alpha=1 + 1j), z * 1j, x * w, z / w, 2j * z, x / z, z / 3,
        z.conj() * w, torch.where(x > 0, z, 1), z.angle(), z.abs(), (z * large).abs(), endless.abs(), torch.polar(x.abs(), x) * z,
        z * w.to(torch.cdouble), z / x.double(), x.double() * z, w.to(torch.cdouble) - z, torch.cat([z, w.to(torch.cdouble)]),
    ]  # fmt: skip


def in_torch(m: Any, z: Any, w: Any, x: Any) -> Any:
    return [
        1 - z, z.reciprocal(), z.square(), z**3, z**0, z.norm(), z == z + 0 * w, torch.isfinite(z / 0), torch.linalg.norm(z, dim=-1),
        z.exp(), z.log(), z.sgn(), z.sqrt(), z.sin(), torch.sigmoid(z), F.silu(w), z**0.5, z**x, z.prod(-1), z.var(-1),
        torch.addcmul(z, z, w), torch.nan_to_num(z / 0 * 0), torch.baddbmm(z @ w.mT, z, w.mT, alpha=2), m.linear(z), m.line(z),
        m.turned(z), torch.linalg.vecdot(z, w), torch.vdot(z[0, 0], w[0, 0]), z @ w.mH, torch.tensordot(z, w, dims=([2], [2])),
        torch.lerp(z, w, 0.3), F.normalize(z, dim=-1), F.pad(z, (1, 2), value=3.0), F.pad(z, (1, 2), mode="reflect"),
        F.dropout(z, 0.5, False), torch.kron(z[0], w[0]), torch.outer(z[0, 0], w[0, 1]), torch.diag_embed(z[0]),
    ]  # fmt: skip


def fourier(m: Any, z: Any, w: Any, x: Any) -> Any:
    full = torch.fft.fftn(x, dim=(1, 2))
    wave = torch.stft(x.reshape(1, -1), 8, 2, window=torch.hann_window(8), return_complex=True)
    return [
        full.real, full.imag * 2, torch.fft.irfft(torch.fft.rfft(x) * z[..., :3], n=4), torch.fft.ifft(z), torch.fft.rfft2(x).abs(),
        wave.abs(), torch.istft(wave * 1.5, 8, 2, window=torch.hann_window(8)),
    ]  # fmt: skip


def moves(m: Any, z: Any, w: Any, x: Any) -> Any:
    filled = z.clone()
    filled[:, 0] = 1
    filled[..., 1] += w[..., 0]
    return [
        z.mT, z.mH, z[0].H, w.adjoint() + 1, *z.chunk(2, -1), *torch.tensor_split(z, 3, -1),
        z.unfold(-1, 2, 1), z.tile(2, 1), z.repeat_interleave(2, -1), z[:, None].squeeze(), torch.hstack([z, w]), z.diff(dim=-1),
        z.scatter(-1, torch.zeros(2, 3, 2, dtype=torch.int64), w[..., :2]),
        z.rot90(1, (1, 2)), *z.unbind(0), x.expand_as(z), filled,
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::unity.frontend.torch.context.report.FallbackWarning")
@pytest.mark.parametrize("function", [arithmetic, moves, in_torch, fourier])
def test_complex_values(function: Any) -> None:
    torch.manual_seed(0)
    model, inputs = Values(function), (torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    compiled = unity.compile(model, example_inputs=inputs, strict=function in (arithmetic, moves))
    for made, wanted in zip(compiled(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
