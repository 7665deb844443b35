"""Detectors of torchvision ask how many boxes there are, to choose between equal ways to suppress them: nothing is asked while exporting."""

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402


@torch.library.custom_op("unity_tests::nms", mutates_args=())
def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    order, kept = scores.argsort(descending=True).tolist(), []
    while order:
        best, *order = order
        kept.append(best)
        low, high = torch.maximum(boxes[best, :2], boxes[:, :2]), torch.minimum(boxes[best, 2:], boxes[:, 2:])
        inner = (high - low).clamp(min=0).prod(1)
        sizes = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        order = [n for n in order if inner[n] / (sizes[best] + sizes[n] - inner[n]) <= iou_threshold]
    return torch.tensor(kept, dtype=torch.int64)


@nms.register_fake
def _(boxes, scores, iou_threshold):
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def batched_nms(boxes, scores, idxs, iou_threshold):
    """torchvision's, whose branch asks the data."""
    if boxes.numel() > 4:
        kept = [nms(boxes[at], scores[at], iou_threshold) for at in (idxs == 0, idxs == 1)]
        every = torch.cat([torch.where(idxs == n)[0][k] for n, k in enumerate(kept)])
        return every[scores[every].argsort(descending=True)]
    return nms(boxes, scores, iou_threshold)


class Detector(torch.nn.Module):
    def forward(self, boxes, scores, classes):
        sure = scores > 0.3
        boxes, scores, classes = boxes[sure], scores[sure], classes[sure]
        keep = sys.modules["torchvision.ops.boxes"].batched_nms(boxes, scores, classes, 0.5)
        return boxes[keep], scores[keep]


@pytest.mark.filterwarnings("ignore")
def test_boxes_are_suppressed_by_class(monkeypatch) -> None:
    module = SimpleNamespace(batched_nms=batched_nms, nms=nms)
    monkeypatch.setitem(sys.modules, "torchvision.ops.boxes", module)
    torch.manual_seed(1)
    corner = torch.rand(12, 2) * 3
    boxes, classes = torch.cat([corner, corner + 2 + torch.rand(12, 2)], 1), torch.arange(12) % 2
    f = unity.compile(Detector().eval(), example_inputs=(boxes, torch.rand(12), classes))
    assert module.batched_nms is batched_nms
    for scores in (torch.rand(12), torch.rand(12) + 0.3):
        torch.testing.assert_close(f(boxes, scores, classes), Detector()(boxes, scores, classes))
    assert f(boxes, torch.zeros(12), classes)[0].shape == (0, 4)


@torch.library.custom_op("unity_tests::kept", mutates_args=())
def kept(scores: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(scores > 0.5).flatten()


@kept.register_fake
def _(scores):
    """As torchvision's ``nms``: by a function of torch that promises two elements."""
    return scores.new_empty(torch.library.get_ctx().create_unbacked_symint(), dtype=torch.int64)


class Kept(torch.nn.Module):
    def forward(self, x):
        return x[kept(x)][:3] * 2


@pytest.mark.filterwarnings("ignore")
def test_operators_of_others_may_find_one_element_or_none() -> None:
    f = unity.compile(Kept().eval(), example_inputs=(torch.ones(6),))
    for count in (6, 2, 1, 0):
        x = (torch.arange(6) < count) * 0.75
        torch.testing.assert_close(f(x), Kept()(x))
