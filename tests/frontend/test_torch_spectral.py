"""Orthogonal factors, eigenvalues and singular values of torch models against torch; nothing but ``IN_TORCH`` may run in torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import Calls  # noqa: E402

import unity  # noqa: E402

LINALG: Any = torch.linalg
CASES = {
    "qr": lambda x: [*LINALG.qr(x), LINALG.qr(x.mT, mode="r")[1], *LINALG.qr(x, mode="complete")],
    "reflections": lambda x: [LINALG.householder_product(*torch.geqrf(x)), torch.ormqr(*torch.geqrf(x), x, True, True)],
    "eigenvalues": lambda x: [LINALG.eigvalsh(x.mT @ x), LINALG.eigh(x.mT @ x)[1].abs()],
    "singular values": lambda x: [
        LINALG.svdvals(x),
        LINALG.svd(x, full_matrices=False)[0].abs(),
        LINALG.svd(x)[2].abs(),
    ],
    "norms": lambda x: [LINALG.matrix_norm(x, p) for p in ("nuc", 2, -2)],
    "inverse": lambda x: [
        LINALG.pinv(x),
        LINALG.pinv(x.mT @ x, hermitian=True),
        LINALG.cond(x),
        LINALG.pinv(x[..., :1] @ x[..., :1, :]),
    ],
    "rank": lambda x: [
        LINALG.matrix_rank(x),
        LINALG.matrix_rank(x[..., :1] @ x[..., :1, :]),
        LINALG.matrix_rank(x, atol=9.0),
    ],
    "exponential": lambda x: [torch.matrix_exp(x.mT @ x)],
    "lu": lambda x: [*LINALG.lu_factor(x), *LINALG.lu_factor(x.mT)],
}
IN_TORCH = ("reflections", "inverse", "lu", "exponential")


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name: str) -> None:
    torch.manual_seed(0)
    model, x = Calls(CASES[name]), torch.randn(2, 5, 3, dtype=torch.float64)
    compiled = unity.compile(model, example_inputs=(x,), strict=name not in IN_TORCH)
    for made, wanted in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-8, atol=1e-8)
