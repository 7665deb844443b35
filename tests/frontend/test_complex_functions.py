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
        return [torch.view_as_real(m) if m.is_complex() else m for m in made]


def arithmetic(m: Any, z: Any, w: Any, x: Any) -> Any:
    return [
        z + x, z + 2j, 1 - z, torch.add(z, w, alpha=2), torch.sub(x, z, alpha=1 + 1j), z * 1j, x * w, z / w, 2j / z, x / z, z / 3,
        z.reciprocal(), z.square(), z**3, z**0, torch.lerp(z, w, 0.3), z.norm(), z == z + 0 * w,
        z != x, torch.isfinite(z / 0), torch.linalg.norm(z, dim=-1), F.normalize(z, dim=-1), torch.where(x > 0, z, 1),
    ]  # fmt: skip


def elementary(m: Any, z: Any, w: Any, x: Any) -> Any:
    large, endless = torch.tensor([1e30, -1e30, 3e-30, 0.0]), torch.complex(torch.zeros(1), torch.tensor([torch.inf]))
    return [
        z.exp(), z.log(), z.sgn(), (0 * z).sgn(), z.angle(), (z * large).abs(), endless.abs(),
    ]  # fmt: skip


def rare(m: Any, z: Any, w: Any, x: Any) -> Any:
    return [
        z.sqrt(), z.rsqrt(), z.sin(), z.tanh(), torch.sigmoid(z), F.silu(w), z**0.5, z**x, z.prod(-1), z.var(-1), torch.addcmul(z, z, w),
        torch.nan_to_num(z / 0 * 0), torch.baddbmm(z @ w.mT, z, w.mT, alpha=2),
    ]  # fmt: skip


def moves(m: Any, z: Any, w: Any, x: Any) -> Any:
    filled = z.clone()
    filled[:, 0] = 1
    filled[..., 1] += w[..., 0]
    return [
        F.pad(z, (1, 2), value=3.0), F.pad(z, (1, 2), mode="reflect"), z.mT, *z.chunk(2, -1), *torch.tensor_split(z, 3, -1),
        z.unfold(-1, 2, 1), z.tile(2, 1), z.repeat_interleave(2, -1), z[:, None].squeeze(), torch.hstack([z, w]), z.diff(dim=-1),
        z.scatter(-1, torch.zeros(2, 3, 2, dtype=torch.int64), w[..., :2]), torch.diag_embed(z[0]), F.dropout(z, 0.5, False),
        z.rot90(1, (1, 2)), torch.block_diag(z[0], w[0]), *z.unbind(0), x.expand_as(z), filled,
    ]  # fmt: skip


def products(m: Any, z: Any, w: Any, x: Any) -> Any:
    return [
        m.linear(z), m.line(z), m.turned(z), torch.linalg.vecdot(z, w), torch.vdot(z[0, 0], w[0, 0]), torch.outer(z[0, 0], w[0, 1]),
        z @ w.mH, torch.tensordot(z, w, dims=([2], [2])), torch.kron(z[0], w[0]),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::unity.frontend.torch.context.report.FallbackWarning")
@pytest.mark.parametrize("function", [arithmetic, elementary, moves, products, rare])
def test_complex_values(function: Any) -> None:
    torch.manual_seed(0)
    model, inputs = Values(function), (torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    compiled = unity.compile(model, example_inputs=inputs, strict=function is not rare)
    for made, wanted in zip(compiled(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
