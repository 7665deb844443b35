"""torch operators on truth values and integers, and writes to the places of masks, against torch eager: nothing goes back to torch."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unity  # noqa: E402
from unity.support.errors import VMError  # noqa: E402

TRUTH = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
BYTES = torch.tensor([[0, 3, 250], [7, 255, 1]], dtype=torch.uint8)
INTS = torch.tensor([[4, -3, 100], [7, 0, -1]])
MATRICES = torch.eye(3).expand(2, 4, 3, 3) * 3 + torch.arange(72).reshape(2, 4, 3, 3).sin()

CASES: dict[str, Callable[[], Any]] = {
    "amax of truth": lambda: [TRUTH.amax(1), TRUTH.amin((0,), keepdim=True), TRUTH.max(), TRUTH.min()],
    "aminmax of truth": lambda: [*torch.aminmax(TRUTH, dim=1)],
    "outer of truth": lambda: torch.outer(TRUTH[0], TRUTH[2]),
    "square and sign of truth": lambda: [TRUTH.square(), torch.sign(TRUTH), torch.sgn(TRUTH)],
    "unique rows of truth": lambda: torch.unique(TRUTH, dim=0),
    "isclose of integers": lambda: torch.isclose(INTS, INTS + torch.tensor([0, 1, -1]), rtol=0.02, atol=0.5),
    "isclose of truth": lambda: torch.isclose(TRUTH, TRUTH.T),
    "distance of bytes wraps": lambda: F.pairwise_distance(BYTES, BYTES.flip(1)),
    "stacked vectors": lambda: torch.linalg.solve(MATRICES, torch.arange(24.0).reshape(2, 4, 3)),
}


class Computes(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *given: Any) -> Any:
        return self.fn(*given)


def test_other_types() -> None:
    compiled = unity.compile(Computes(lambda: [fn() for fn in CASES.values()]), example_inputs=())
    assert [gap.operator for gap in compiled.report.fallbacks] == [
        "aten.unique_dim.default",
        "aten.linalg_solve.default",
    ]
    for name, made, fn in zip(CASES, compiled(), CASES.values()):
        torch.testing.assert_close(made, fn(), msg=lambda text, name=name: f"{name}: {text}")


NUMBERS = torch.tensor([0.0, -0.0, 1, -3, 0.1, 448, 464, -480, 500, 57344, 61440, 1e-3, 1e-45, 2.0**-127, 3e38, -3e38,
                        torch.inf, -torch.inf, torch.nan])  # fmt: skip
SMALL = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
SMALL += [torch.float8_e8m0fnu] if hasattr(torch, "float8_e8m0fnu") else []


@pytest.mark.parametrize(
    "source", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, *SMALL], ids=str
)
def test_floats_of_eight_bits(source: Any) -> None:
    """Numbers that are too large, too small, negative or none."""
    given = (NUMBERS[:12].long() if source is torch.int64 else NUMBERS).to(source)
    convert = Computes(lambda x: [x.to(dtype) for dtype in SMALL])
    for made, wanted in zip(unity.compile(convert, example_inputs=(given,))(given), convert(given)):
        torch.testing.assert_close(made.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)


X = torch.arange(60.0).reshape(5, 4, 3)
LINES, COLUMNS = torch.tensor([True, False, True, True, False]), torch.tensor([True, False, True, True])
BOTH = X[..., 0].remainder(7) > 2
PLACES = torch.tensor([0, 2, 1])
ALL = slice(None)
WRITES: list[tuple[tuple[Any, ...], tuple[int, ...]]] = [
    ((LINES,), (3, 4, 3)), ((ALL, COLUMNS), (5, 3, 3)), ((ALL, COLUMNS), (3, 1)), ((ALL, COLUMNS, PLACES), (5, 3)),
    ((LINES, PLACES), (3, 3)), ((LINES, ALL, PLACES), (3, 4)), ((LINES, torch.tensor(1)), (3,)), ((LINES, 1), (3, 3)),
    ((BOTH,), (int(BOTH.sum()), 3)), ((BOTH, torch.tensor([2])), ()), ((Ellipsis, COLUMNS[:3]), (5, 4, 2)),
]  # fmt: skip


def _written(x: Any, values: list[Any]) -> list[Any]:
    made = []
    for (places, _), value in zip(WRITES, values):
        copied = x.clone()
        copied[places] = value
        made.append(copied)
    return [*made, torch.index_put(x, (LINES,), values[0], True), torch.index_put(x, (BOTH,), values[8], True)]


def test_writes_to_masked_places() -> None:
    values = [torch.randn(shape) for _, shape in WRITES]
    compiled = unity.compile(Computes(_written), example_inputs=(X, values))
    assert not compiled.report.fallbacks
    for made, expected in zip(compiled(X, values), _written(X, values)):
        torch.testing.assert_close(made, expected, rtol=0, atol=0)


def test_values_for_another_number_of_places() -> None:
    model = Computes(lambda x, mask, values: torch.index_put(x, (mask,), values, True))
    compiled = unity.compile(model, example_inputs=(X, LINES, torch.ones(3, 4, 3)))
    with pytest.raises(VMError, match="E606"):
        compiled(X, torch.ones(5, dtype=torch.bool), torch.ones(3, 4, 3))
