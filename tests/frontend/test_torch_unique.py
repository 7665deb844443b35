"""``unique``, and ``unique_consecutive`` and slices, which run in torch: sizes only the data knows, NaN, negative axes, the way back and counts."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import Calls  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
X = torch.tensor([[1.0, 1, 2, 2, 2, 0], [1, 1, 2, 2, 2, 0], [3, 3, 3, 3, 2, 0], [1, 1, 2, 2, 2, 0]])


def check(fn: Any, x: Any, *others: Any, **options: Any) -> None:
    compiled = unity.compile(Calls(fn).eval(), example_inputs=(x,), **options)
    assert {entry.operator for entry in compiled.report.fallbacks} <= {
        "aten.unique_consecutive.default",
        "aten.unique_dim.default",
    }
    for given in (x, *others):
        leaves = torch.utils._pytree.tree_leaves
        torch.testing.assert_close(leaves(compiled(given)), leaves(fn(given)), equal_nan=True)


@pytest.mark.parametrize("dim", [None, 0, 1, -1, -2])
def test_consecutive(dim: int | None) -> None:
    whole = {"return_inverse": True, "return_counts": True, "dim": dim}
    check(
        lambda x: (torch.unique_consecutive(x, dim=dim), x.unique_consecutive(**whole)),
        X,
        X.flip(0),
        X * 0,
        X.to(torch.float32),
    )


@pytest.mark.parametrize("dim", [0, -1])
def test_consecutive_along_a_vector(dim: int) -> None:
    """Torch infers elements of results that nobody asked for, and gives none."""
    asked = [{"return_inverse": i, "return_counts": c, "dim": dim} for i in (False, True) for c in (False, True)]
    check(lambda x: [torch.unique_consecutive(x, **options) for options in asked], X[0], X[1] * 0)


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_unique(dim: int | None) -> None:
    whole = {"return_inverse": True, "return_counts": True, "dim": dim}
    check(
        lambda x: (torch.unique(x, **whole), x.unique(dim=dim), torch.unique(x, dim=dim, return_counts=True)),
        X,
        X.flip(1),
        X * 0,
    )


def test_nan_is_equal_to_nothing() -> None:
    x = torch.tensor([float("nan"), 1, 1, float("nan"), float("nan"), -0.0, 0.0, float("inf"), float("inf")])
    check(
        lambda x: (torch.unique_consecutive(x, return_counts=True), torch.unique(x, return_counts=True)), x, x.flip(0)
    )


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "int32"])
def test_integers_and_symbolic_sizes(dtype: str) -> None:
    x = (X * 1.5).to(getattr(torch, dtype))
    shapes = ({0: torch.export.Dim("n", min=1)},)
    check(
        lambda x: (torch.unique(x, return_inverse=True), torch.unique_consecutive(x, dim=0)),
        x,
        x[:1],
        x[:3],
        dynamic_shapes=shapes,
    )
