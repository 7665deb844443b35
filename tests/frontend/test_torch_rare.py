"""Operators that are rare in models: factors taken apart, transposed systems, special functions, places by counts; one build for all."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Factors(torch.nn.Module):
    def forward(self, a: Any, b: Any, t: Any) -> Any:
        lu, pivots = torch.linalg.lu_factor(a)
        found = [*torch.linalg.lu(a), *torch.lu_unpack(lu, pivots)]
        found += [torch.linalg.lu_solve(lu, pivots, b, adjoint=adjoint) for adjoint in (False, True)]
        found += [torch.linalg.lu_solve(lu, pivots, b.mT, left=False, adjoint=adjoint) for adjoint in (False, True)]
        for upper in (False, True):
            for transpose in (False, True):
                found.append(torch.triangular_solve(b, a + 4 * torch.eye(4), upper, transpose)[0])
        found += [torch.linalg.tensorinv(t, ind=2), torch.linalg.tensorsolve(t, b[0, :2, :2])]
        s, even = torch.linalg, a.mT @ a + torch.eye(4)
        found += [
            s.inv(even),
            s.det(a),
            *s.slogdet(a),
            s.solve(even, b),
            s.solve(even, b.mT, left=False),
            s.cholesky(even),
        ]
        found += [
            s.cholesky(even, upper=True),
            s.solve_triangular(even.triu(), b, upper=True),
            *s.inv_ex(even),
            s.matrix_power(a, 3),
        ]
        found += [
            s.eigvalsh(even),
            s.eigh(even)[1].abs(),
            s.svdvals(a),
            s.svd(b, full_matrices=False)[0].abs(),
            s.pinv(b),
            s.cond(a),
        ]
        found += [
            *s.qr(b),
            s.qr(b, mode="r")[1],
            *s.qr(b, mode="complete"),
            s.matrix_rank(a),
            *[s.matrix_norm(a, p) for p in ("nuc", 2, -2)],
        ]
        return [
            *found,
            s.householder_product(*torch.geqrf(b)),
            torch.ormqr(*torch.geqrf(b), b, True, True),
            torch.matrix_exp(even),
        ]


class Elements(torch.nn.Module):
    def forward(self, x: Any, counts: Any, start: Any) -> Any:
        s = torch.special
        found = [torch.i0(x), s.i0e(x), s.i1(x), s.i1e(x), s.erfcx(x), s.modified_bessel_i0(x), s.modified_bessel_i1(x)]
        found += [torch.polygamma(n, x.abs() + 0.1) for n in (0, 1, 2, 5)] + [torch._neg_view(x)]
        found += [torch.nansum(x), torch.nanmean(x), torch.nansum(x, 0, keepdim=True), torch.nansum(counts)]
        found += [torch.repeat_interleave(counts), torch.repeat_interleave(x[:3], counts, dim=0)]
        found += [torch.linspace(start, 3.5, 7), torch.linspace(-1, start, 4), torch.linspace(start, start * 2, 1)]
        empty = torch.zeros(0, dtype=torch.int64)
        found += [
            torch.nn.functional.embedding_bag(empty, x[:, None], offsets, mode="mean")
            for offsets in (empty, counts[:2] * 0)
        ]
        return found


def check(model: torch.nn.Module, *inputs: Any, strict: bool = True) -> unity.frontend.CompiledModel:
    compiled = unity.compile(model.eval(), example_inputs=inputs, strict=strict)
    torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)
    return compiled


def test_factors_and_systems() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = [torch.randn(2, 4, n, generator=generator) for n in (4, 3)]
    check(Factors(), a, b, torch.randn(2, 2, 4, 1, generator=generator).reshape(2, 2, 4), strict=False)


def test_a_singular_matrix_is_an_error_as_in_torch() -> None:
    class Inverse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.inv(x)

    rows = {0: torch.export.Dim("n", min=1, max=9), 1: torch.export.Dim("n", min=1, max=9)}
    compiled = unity.compile(Inverse(), example_inputs=(torch.eye(3),), dynamic_shapes=(rows,))
    torch.testing.assert_close(compiled(torch.eye(5) * 2), torch.eye(5) / 2)
    with pytest.raises((unity.UnityError, torch.linalg.LinAlgError), match="singular"):
        compiled(torch.zeros(2, 2))


def test_elements_and_places() -> None:
    x = torch.tensor([0.0, -0.5, 3.0, float("nan"), 8.5, -20.0, 60.0])
    counts, start = torch.tensor([2, 0, 3]), torch.tensor(0.25)
    compiled = check(Elements(), x, counts, start, strict=False)
    other = torch.tensor([0, 1, 0])
    torch.testing.assert_close(
        compiled(x, other, start), Elements()(x, other, start), rtol=1e-4, atol=1e-4, equal_nan=True
    )


class Points(torch.nn.Module):
    """Points between tensors, of several data types."""

    def forward(self, a: Any, b: Any) -> Any:
        kinds = (torch.float32, torch.bfloat16, torch.int32)
        points = [
            torch.linspace(one, other, 5, dtype=kind) for kind in kinds for one, other in ((a, b), (a, 3), (1.3, b))
        ]
        return points, [torch.logspace(a, b, 5, 2, dtype=kind) for kind in kinds]


def test_points_between_tensors_are_those_of_torch() -> None:
    for ends in ((14.33, 3.1), (0.777, -5.013)):
        given = tuple(torch.tensor(end) for end in ends)
        compiled = unity.compile(Points(), example_inputs=given)
        torch.testing.assert_close(compiled(*given), Points()(*given), rtol=1e-5, atol=1e-5)


class Composed(torch.nn.Module):
    """Operators that torch expresses by others: composite ones, some of which write inside, and ones it decomposes in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.slopes = torch.nn.GRUCell(6, 5), torch.nn.PReLU(3)

    def forward(self, x: Any) -> Any:
        functional = torch.nn.functional
        image = x.reshape(-1, 1, 2, 3)
        found = [
            functional.pixel_unshuffle(functional.unfold(image, 2, padding=1).reshape(-1, 4, 2, 6), 2),
            self.cell(x),
        ]
        found += [self.slopes(image.movedim(-1, 1)), functional.huber_loss(x, 2 * x), torch.lerp(x, x.square(), 0.3)]
        return [
            *found,
            *torch.tensor_split(x, (2, 3), 1),
            torch.nansum((2 * x).relu_()),
            torch.repeat_interleave(x.sum(1).abs().long()),
        ]


def test_what_torch_expresses_by_others_is_traced_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where sizes are symbols, or only the data knows them."""
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", lambda *_: pytest.fail("traced again"))
    model, shapes = Composed().eval(), ({0: torch.export.Dim("n", min=2)},)
    compiled = unity.compile(model, example_inputs=(torch.rand(4, 6),), dynamic_shapes=shapes, strict=True)
    for rows in (2, 5):
        x = torch.rand(rows, 6)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
