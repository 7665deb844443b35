"""Widths of borders and numbers of elements that only a call knows: from the sizes of its inputs, or from their values."""

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402

ANY = torch.export.Dim.AUTO


class Padded(torch.nn.Module):
    """To a multiple of 4 at the end; as wide again as the input is long, less one, at the begin."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        rows, columns = x.shape[-2:]
        behind = 2 if self.mode == "circular" else -columns % 4  # torch holds what its circular borders meet
        return torch.nn.functional.pad(x, (rows - 1, behind), mode=self.mode)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_borders(mode) -> None:
    model, x = Padded(mode), torch.randn(2, 3, 7)
    f = unity.compile(model, example_inputs=(x,), dynamic_shapes=({1: ANY, 2: ANY},))
    assert not f.report.fallbacks
    for shape in ((2, 3, 7), (2, 5, 6), (2, 4, 13), (2, 3, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), model(x), rtol=0, atol=0)


class Shifted(torch.nn.Module):
    """A border of a sign that the data choose, before and behind."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x, by):
        low, high = by.tolist()
        torch._check(low + high + x.shape[1] > 0)
        return torch.nn.functional.pad(x, (low, high), mode=self.mode, value=2.5 if self.mode == "constant" else None)


def test_signs_of_widths() -> None:
    model, x = Shifted("constant"), torch.randn(2, 9)
    f = unity.compile(model, example_inputs=(x, torch.tensor([2, -3])))
    assert not f.report.fallbacks
    for by in ([2, -3], [0, 0], [-4, 6], [-2, -5], [3, 1]):
        torch.testing.assert_close(f(x, torch.tensor(by)), model(x, torch.tensor(by)), rtol=0, atol=0)


class Best(torch.nn.Module):
    def __init__(self, count, largest=True):
        super().__init__()
        self.count, self.largest = count, largest

    def forward(self, x):
        return x.topk(self.count(x), dim=1, largest=self.largest)


COUNTS = {
    "at most": lambda x: min(4, x.shape[1]),
    "half": lambda x: x.shape[1] // 2 + 1,
    "another axis": lambda x: x.shape[0],
}


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("name", COUNTS)
def test_first_elements(name, largest) -> None:
    model, x = Best(COUNTS[name], largest), torch.randn(2, 7, 3)
    f = unity.compile(model, example_inputs=(x,), dynamic_shapes=({0: ANY, 1: ANY},))
    assert not f.report.fallbacks
    for shape in ((2, 7, 3), (3, 4, 3), (5, 9, 3)):
        x = torch.randn(shape)
        for got, wanted in zip(f(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_first_elements_of_a_number_in_the_data() -> None:
    class Some(torch.nn.Module):
        def forward(self, x, mask):
            return x[mask].topk(mask.sum().item() // 2).values

    x, model = torch.randn(12), Some()
    mask = torch.arange(12) % 3 > 0
    f = unity.compile(model, example_inputs=(x, mask))
    for seen in (mask, ~mask, mask | True):
        torch.testing.assert_close(f(x, seen), model(x, seen), rtol=0, atol=0)


class Made(torch.nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        return torch.eye(rows) @ x, torch.eye(rows, columns, dtype=torch.int32), x.kthvalue(columns // 2, dim=1)


def test_tensors_made_of_a_size() -> None:
    model, x = Made(), torch.randn(4, 6)
    f = unity.compile(model, example_inputs=(x,), dynamic_shapes=({0: ANY, 1: ANY},))
    assert [gap.operator for gap in f.report.fallbacks] == ["aten.kthvalue.default"]
    for shape in ((4, 6), (7, 3), (2, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), model(x))
