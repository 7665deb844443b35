"""Cross entropy imports as it stands: over a number of rows that only the data knows, and with smoothed targets."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402


class Chosen(torch.nn.Module):
    """The loss of the rows that have a label, scaled in place."""

    def forward(self, x: Any, labels: Any) -> Any:
        mask = labels.ne(-100)
        loss = F.cross_entropy(x[mask], labels[mask])
        loss *= 0.5
        return loss, F.cross_entropy(x[mask], labels[mask], reduction="none")


class Smoothed(torch.nn.Module):
    """Smoothing, with and without weights of the classes, of classes and of probabilities."""

    def forward(self, x: Any, labels: Any, weight: Any) -> Any:
        likely = x.flip(0).softmax(1)
        made = [F.cross_entropy(x[0, :, 0], labels[0, 2], label_smoothing=0.2)]
        for reduction in ("none", "mean", "sum"):
            for given in (None, weight):
                options: dict[str, Any] = {"reduction": reduction, "weight": given, "label_smoothing": 0.1}
                made += [F.cross_entropy(x, labels, **options), F.cross_entropy(x, likely, **options)]
        return made


class Marked(torch.nn.Module):
    """As above, after a write that has the program traced again."""

    def forward(self, x: Any, labels: Any) -> Any:
        labels = labels.clone()
        labels[0] = -100
        mask = labels.ne(-100)
        return F.cross_entropy(x[mask], labels[mask]), F.nll_loss(x[mask], labels[mask], reduction="sum")


@pytest.mark.parametrize("kind", [Chosen, Marked])
def test_rows_chosen_by_the_data(kind: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 5)
    run = unity.compile(kind(), example_inputs=(x, torch.tensor([1, -100, 2, -100, 4, 0])))
    assert not run.report.fallbacks
    for labels in (torch.tensor([1, -100, 2, -100, 4, 0]), torch.tensor([-100, -100, 3, -100, -100, -100])):
        same(run(x, labels), kind()(x, labels))


def test_smoothed_targets() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 4, 3), torch.rand(4)
    labels = torch.tensor([[0, -100, 3], [2, 1, -100]])
    run = unity.compile(Smoothed(), example_inputs=(x, labels, weight))
    assert not run.report.fallbacks
    same(run(x, labels, weight), Smoothed()(x, labels, weight))
