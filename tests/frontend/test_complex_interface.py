"""Models that take and return complex tensors: for the program they are pairs of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_leaves  # noqa: E402

import unity  # noqa: E402


class Turned(torch.nn.Module):
    """A rotation by a table of roots; how often it was called is kept in a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(2, dtype=torch.cfloat))

    def forward(self, x: Any, roots: Any, more: Any) -> Any:
        self.calls += 1j
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return {"turned": z * roots, "sizes": (z * roots).abs(), "roots": [roots, more["real"] + roots]}


def inputs(rows: int) -> Any:
    return torch.randn(rows, 5, 8), torch.randn(5, 4, dtype=torch.cfloat), {"real": torch.randn(5, 4)}


def check(compiled: Any, model: Any, given: Any) -> None:
    made, wanted = compiled(*given), model(*given)
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    made["roots"][0].zero_()
    assert given[1].abs().sum() > 0
    torch.testing.assert_close(compiled(given[0], roots=given[1].conj(), more=given[2])["turned"],
                               model(given[0], given[1].conj(), given[2])["turned"])  # fmt: skip


def test_complex_inputs_and_results(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, given = Turned(), inputs(3)
    rows = {"x": {0: torch.export.Dim("rows")}, "roots": None, "more": {"real": None}}
    compiled = unity.compile(model, example_inputs=given, dynamic_shapes=rows, strict=True)
    check(compiled, model, given)
    check(compiled, model, inputs(1))
    assert model.calls[0] == 8j
    compiled.save(tmp_path / "turned.unity")
    check(unity.load_model(tmp_path / "turned.unity"), model, inputs(4))
    for wrong, text in (
        (given[1].real, "roots is real, the model was compiled for complex"),
        (given[1][:3], r"expected 5, got 3"),
    ):
        with pytest.raises(unity.UnityError, match=text):
            compiled(given[0], wrong, given[2])


def test_one_complex_result() -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x)

    x = torch.randn(3, 12)
    with pytest.warns(unity.frontend.FallbackWarning):
        compiled = unity.compile(Spectrum(), example_inputs=(x,))
    torch.testing.assert_close(compiled(x), torch.fft.rfft(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(unity.UnityError, match="x is complex, the model was compiled for real numbers"):
        compiled(x + 1j)


MATRICES: dict[str, Any] = {
    "one": torch.linalg.inv,
    "complex and real": torch.linalg.slogdet,
    "both complex": torch.linalg.qr,
    "used inside": lambda z: torch.linalg.svd(z)[0].abs() + torch.linalg.eig(z)[0].imag,
    "of a real matrix": lambda z: torch.linalg.eig(z.real),
    "conjugated": lambda z: torch.linalg.inv(z).conj(),
    "transposed": lambda z: torch.linalg.inv(z).mH,
}
"""Functions of a complex matrix that run in torch, by what they give."""


@pytest.mark.parametrize("name", MATRICES)
def test_complex_results_of_operators_that_run_in_torch(name: str) -> None:
    """They keep both parts, the report names the operator, and ``strict`` refuses it."""

    class Matrix(torch.nn.Module):
        def forward(self, z: Any) -> Any:
            return MATRICES[name](z)

    z = torch.randn(3, 3, dtype=torch.complex64)
    with pytest.warns(unity.frontend.FallbackWarning):
        compiled = unity.compile(Matrix().eval(), example_inputs=(z,))
    assert "linalg" in str(compiled.report)
    for found, wanted in zip(tree_leaves(compiled(2 * z)), tree_leaves(Matrix()(2 * z)), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(unity.UnityError, match="E010"):
        unity.compile(Matrix().eval(), example_inputs=(z,), strict=True)


MASKED: list[Any] = [
    lambda z: z[z.real > 0],
    lambda z: torch.masked_select(z, z.imag > 0).abs(),
    lambda z: z[z.abs() > 1].sum(),
]
"""Functions of elements that a mask chooses: their number is known when they are computed."""


@pytest.mark.parametrize("function", MASKED)
def test_elements_chosen_by_a_mask(function: Any) -> None:
    class Chosen(torch.nn.Module):
        def forward(self, z: Any) -> Any:
            return function(z)

    z = torch.randn(3, 4, dtype=torch.complex64)
    compiled = unity.compile(Chosen().eval(), example_inputs=(z,), strict=True)
    for given in (2 * z, -z, 0 * z):
        torch.testing.assert_close(compiled(given), function(given), rtol=1e-4, atol=1e-5)


class Drawn(torch.nn.Module):
    """Random complex numbers that count for nothing, and dropout of evaluation."""

    def forward(self, x: Any) -> Any:
        noise = torch.randn_like(x)
        kept = torch.nn.functional.feature_alpha_dropout(x, 0.5, False)
        return kept + 0 * noise, torch.view_as_real(noise).shape[-1], torch.view_as_real(noise) * 0


@pytest.mark.filterwarnings("ignore")
def test_complex_results_drawn_by_torch_are_computed_with() -> None:
    given = (torch.randn(3, 4, dtype=torch.cfloat),)
    torch.testing.assert_close(unity.compile(Drawn(), example_inputs=given)(*given), Drawn()(*given))


def test_a_complex_number_with_several_users_is_computed_once() -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            z = torch.fft.fft(x)
            for _ in range(20):
                z = torch.fft.ifft(z) * 2 + z
                z = z.sgn() / (1 + z.abs())
            return z.real + z.imag

    x = torch.randn(3, 4)
    with pytest.warns(unity.frontend.FallbackWarning):
        compiled = unity.compile(Chain(), example_inputs=(x,))
    torch.testing.assert_close(compiled(x), Chain()(x), rtol=1e-4, atol=1e-5)
    assert compiled.script().count("aten._fft_c2c") == 20
