"""Pieces of tensors whose sizes vary: sizes that torch.export left out (zero, one) are refused where a piece would lie outside."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

CUTS: dict[str, tuple[Any, int]] = {
    "first_two": (lambda x: x[:2], 2),
    "last": (lambda x: x[-1:], 1),
    "last_two": (lambda x: x[-2:], 2),
    "between": (lambda x: x[-2:-1], 2),
    "one": (lambda x: x[1] + x[-1], 2),
    "narrow": (lambda x: x.narrow(0, 1, 1), 2),
    "split": (lambda x: x.split([2, x.shape[0] - 2])[0] * 2, 2),
    "but_the_last": (lambda x: x[:-1] * 2, 1),
    "every_second": (lambda x: x[::2], 0),
    "half": (lambda x: x[: x.shape[0] // 2], 0),
    "turned": (lambda x: torch.cat([x[1:], x[:1]]), 1),
}
"""A function and the least size it takes in its compiled form."""


class Cut(torch.nn.Module):
    def __init__(self, cut: Any) -> None:
        super().__init__()
        self.cut = cut

    def forward(self, x: Any) -> Any:
        return self.cut(x)


@pytest.mark.parametrize("name", CUTS)
def test_pieces_lie_inside(name: str) -> None:
    cut, least = CUTS[name]
    shapes = ({0: torch.export.Dim.AUTO},)
    compiled = unity.compile(Cut(cut), example_inputs=(torch.randn(6, 3),), dynamic_shapes=shapes)
    for size in (0, 1, 2, 3, 7):
        x = torch.randn(size, 3)
        if size >= least:
            assert torch.equal(compiled(x), cut(x))
        else:
            with pytest.raises(unity.UnityError, match=r"E635.*x\.shape\[0\] >= [12]"):
                compiled(x)


def test_sizes_of_pieces_counted_from_the_end_stay_short() -> None:
    """As many of the last elements as another tensor has, as skips of dilated convolutions take: sizes must not grow layer by layer."""

    def skips(x: Any) -> Any:
        kept = x
        for gap in (1, 2, 4, 8):
            x = torch.tanh(x[gap:] + x[:-gap])
            kept = kept[-x.shape[0] :] + x
        return kept

    rows = torch.export.Dim("rows", min=20, max=100)
    compiled = unity.compile(Cut(skips), example_inputs=(torch.randn(30, 3),), dynamic_shapes=({0: rows},))
    assert "Select" not in compiled.script() and "max(" not in compiled.script()
    for size in (20, 100):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x), skips(x))


def test_pieces_counted_from_the_end_by_a_size_of_any_sign() -> None:
    compiled = unity.compile(
        Cut(lambda x: x[2 - x.shape[0] :]),
        example_inputs=(torch.randn(6, 3),),
        dynamic_shapes=({0: torch.export.Dim.AUTO},),
    )
    for size in (1, 2, 3, 7):
        x = torch.randn(size, 3)
        try:
            assert torch.equal(compiled(x), x[2 - size :])
        except unity.UnityError as error:
            assert size <= 2 and error.code == "E635"
