"""Forms of operators that run in torch, and of complex numbers that used to, against torch eager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch_models import Calls  # noqa: E402

pieces = pytest.importorskip("torch.nn.modules.linear_cross_entropy")

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
torch.manual_seed(0)
IDS = torch.tensor([[1, 2], [2, 5]])
DATA, LENGTHS = torch.randn(2, 3, 4), torch.tensor([[1, 0, 2], [3, 0, 0]])
EMPTY = torch.zeros(0, 2)


def _segments(data: Any, lengths: Any) -> list[Any]:
    found = []
    for how in ("sum", "mean", "max", "min", "prod"):
        found += [torch.segment_reduce(data, how, lengths=lengths, axis=1, initial=value) for value in (None, 2.0)]
    offsets = torch.cat([torch.zeros(2, 1, dtype=torch.int64), lengths.cumsum(1)], 1)
    return [
        *found,
        torch.segment_reduce(data, "mean", offsets=offsets, axis=1),
        torch.segment_reduce(data[0], "sum", lengths=lengths[0]),
    ]


def _renormalised(weight: Any, ids: Any) -> list[Any]:
    kinds = (1.0, 2.0, 3.0, float("inf"))
    return [F.embedding(ids, weight.clone(), max_norm=1.0, norm_type=kind) for kind in kinds]


def _losses(x: Any, weight: Any, target: Any) -> list[Any]:
    each = pieces._linear_cross_entropy_batch_chunked_no_reduction
    whole = pieces._linear_cross_entropy_batch_chunked
    options: Any = (2, "balanced", torch.float32)
    found = [each(x, weight, target, None, None, -100, *options)]
    return found + [
        whole(x, weight, target, weight[:, 0], None, how, 1, 0.0, *options, True, False, False, False)[0]
        for how in ("mean", "sum")
    ]


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "segments along an axis": (_segments, (DATA, LENGTHS)),
    "rows of a largest norm": (_renormalised, (torch.randn(7, 4), IDS)),
    "losses of a linear layer": (_losses, (torch.randn(5, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 3, 0]))),
    "places of nothing": (
        lambda x, y: [torch.nonzero_static(x, size=3, fill_value=-7), torch.nonzero_static(y[0, 0], size=2)], (EMPTY, DATA[0])
    ),
    "size of a large complex number": (lambda x: torch.view_as_complex(x).abs(), (torch.tensor([[3e30, 4e30], [0, 0], [-1, 2]]),)),
    "real types of complex numbers": (
        lambda x: [torch.view_as_complex(x).to(kind) for kind in (torch.float64, torch.bool, torch.int32)]
        + [torch.zeros_like(torch.view_as_complex(x), dtype=torch.float64)],
        (torch.tensor([[3.7, 4.0], [0, 0], [0, 2.0]]),),
    ),
}  # fmt: skip


IN_TORCH = ("segments along an axis", "rows of a largest norm", "losses of a linear layer", "places of nothing")


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    fn, given = CASES[name]

    class Model(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return fn(*inputs)

    compiled = unity.compile(Model(), example_inputs=given, strict=name not in IN_TORCH)
    assert bool(compiled.report.fallbacks) == (name in IN_TORCH)
    torch.testing.assert_close(compiled(*given), Model()(*given), rtol=1e-5, atol=1e-6, equal_nan=True)


def test_complex_numbers_among_the_arguments_of_a_call() -> None:
    """Operators that still run in torch take them, and operands without elements have torch's strides there."""
    model = Calls(
        lambda w, x: torch.view_as_real(torch.addmv(torch.view_as_complex(x), w, w[0], beta=1 + 2j)),
        torch.ones(2, 2) + 0j,
    )
    x = torch.randn(2, 2)
    compiled = unity.compile(model.eval(), example_inputs=(x,))
    assert compiled.report.fallbacks
    torch.testing.assert_close(compiled(x), model(x))
    acos = Calls(lambda w, x: torch.view_as_real(torch.acos(torch.view_as_complex(x))), torch.ones(1))
    nothing = torch.zeros(1, 0, 3, 2)
    torch.testing.assert_close(unity.compile(acos.eval(), example_inputs=(nothing,))(nothing), acos(nothing))


def test_weights_of_a_file_are_read_in_torch(tmp_path: Path) -> None:
    """Constants of a file lie in memory that nobody may write to."""
    model, x = Calls(lambda w, x: [torch.igamma(w, x), torch.mode(w)[0]], torch.rand(3, 4)), torch.rand(3, 4)
    unity.compile(model, example_inputs=(x,)).save(tmp_path / "model.unity")
    torch.testing.assert_close(unity.load_model(tmp_path / "model.unity")(x), model(x))
