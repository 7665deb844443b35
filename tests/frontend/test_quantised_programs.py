"""Programs that torch has quantised for export: integers and floats convert by torch's own operators, which are code of ours here."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
IN = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


class Quantised(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (8, 16), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(8) * 0.1 + 0.01)
        self.register_buffer("zeros", torch.randint(-3, 3, (8,)))

    def forward(self, x: Any) -> Any:
        codes = IN.quantize_per_tensor(x, 0.03, 3, *INT8)
        weight = IN.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *INT8)
        y = torch.nn.functional.linear(IN.dequantize_per_tensor(codes, 0.03, 3, *INT8), weight).relu()
        scale, zero = y.amax(1, keepdim=True) / 100, torch.zeros(3, 1, dtype=torch.int64)
        return codes, IN.dequantize_per_token(
            IN.quantize_per_token(y, scale, zero, *INT8), scale, zero, *INT8, torch.float32
        )


def test_conversions_run_without_torch() -> None:
    torch.manual_seed(0)
    model, x = Quantised().eval(), torch.randn(3, 16)
    f = unity.compile(model, example_inputs=(x,), strict=True)
    for given in (x * 3, torch.tensor([0.015, -0.045, 99.0, -99.0] * 12).reshape(3, 16)):
        (codes, back), (want, expected) = f(given), model(given)
        assert codes.dtype == torch.int8 and torch.equal(codes, want)
        torch.testing.assert_close(back, expected, rtol=0, atol=expected.max().item() / 95)  # the next code at a tie


class Dynamic(torch.nn.Module):
    """Ranges are found while the program runs, as in dynamic quantisation for export."""

    def forward(self, x: Any) -> Any:
        scale, zero = IN.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
        codes = IN.quantize_per_tensor.tensor(x, scale, zero, *INT8)
        return scale, zero, codes, IN.dequantize_per_tensor.tensor(codes, scale, zero, *INT8)


def test_ranges_found_while_the_program_runs() -> None:
    model, x = Dynamic(), torch.randn(3, 16)
    f = unity.compile(model, example_inputs=(x,), strict=True)
    for given in (x * 3, x.abs() + 2, -x.abs(), torch.zeros(3, 16)):
        found, wanted = f(given), model(given)
        assert torch.equal(found[1], wanted[1]) and (found[2].int() - wanted[2].int()).abs().max() <= 1  # a tie
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-6, atol=0)
        torch.testing.assert_close(found[3], wanted[3], rtol=0, atol=1.01 * wanted[0].item())
