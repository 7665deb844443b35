"""Conditionals, numbers read out of tensors, complex intermediates: what a graph of tensor operators alone cannot say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import from_exported_program  # noqa: E402
from unity.ir.expr import If  # noqa: E402
from unity.ir.interpret import run  # noqa: E402
from unity.ir.walk import collect  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        def positive(x: Any) -> Any:
            return self.linear(x) + 1, x * 2

        def negative(x: Any) -> Any:
            return torch.relu(x) * 3, x - 1

        return torch.cond(x.sum() > 0, positive, negative, (x,))


def test_cond_becomes_a_conditional() -> None:
    model = Branches().eval()
    compiled = unity.compile(model, example_inputs=(torch.ones(2, 3),), strict=True)
    assert len(collect(compiled.module["main"], If)) == 1
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        expected = [v.detach() for v in model(x)]
        same(list(compiled(x)), expected)
        same([torch.tensor(np.asarray(v)) for v in run(compiled.module, "main", x.numpy())], expected)


def test_cond_on_a_size() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))

    shapes = ({0: torch.export.Dim("n")},)
    compiled = unity.compile(Sizes(), example_inputs=(torch.ones(2, 3),), dynamic_shapes=shapes, strict=True)
    for size in (4, 5):
        x = torch.ones(size, 3)
        same(compiled(x), Sizes()(x))


def test_sizes_read_from_a_tensor() -> None:
    class Item(torch.nn.Module):
        def forward(self, x: Any, count: Any) -> Any:
            k = count.item()
            torch._check(k >= 1)
            torch._check(k <= x.shape[0])
            return x[:k].sum(0) * 2, torch.zeros(k) + 1

    x = torch.randn(8, 3)
    compiled = unity.compile(Item(), example_inputs=(x, torch.tensor(4)), strict=True)
    for count in (1, 4, 8):
        same(compiled(x, torch.tensor(count)), Item()(x, torch.tensor(count)))
    with pytest.raises(unity.UnityError):
        compiled(x, torch.tensor(9))


class Padded(torch.nn.Module):
    """A mask as wide as the longest row, a number that Python's ``int`` reads."""

    def forward(self, x: Any, lengths: Any) -> Any:
        longest = int(lengths.max())
        mask = torch.arange(longest).expand(len(x), longest) >= lengths[:, None]
        return x[:, :longest].masked_fill(mask, 0.0)


def test_a_number_of_the_data_that_int_reads() -> None:
    x, lengths = torch.randn(3, 7), torch.tensor([7, 2, 5])
    batch, length = torch.export.Dim("batch", max=9), torch.export.Dim("length", max=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = unity.compile(
            Padded(), example_inputs=(x, lengths), dynamic_shapes=({0: batch, 1: length}, {0: batch}), strict=True
        )
    for rows, ends in ((x, lengths), (torch.randn(2, 9), torch.tensor([4, 3]))):
        same(compiled(rows, ends), Padded()(rows, ends))
    with pytest.raises(unity.UnityError, match="E607"):
        compiled(x, lengths[:2])


class Fourier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("phases", torch.randn(4, 8, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        y = torch.fft.fft(x, dim=-1) * self.phases
        return y.real + y.imag, torch.fft.irfft(torch.fft.rfft(x))


@pytest.mark.filterwarnings("ignore")
class Floats(torch.nn.Module):
    def forward(self, x: Any, whole: Any) -> Any:
        top = x.max().item()
        half = x.half() * top
        return x * top, whole * top, half, torch.full((2,), 2 * top - 1), x.clamp(max=top / 2), torch.tensor(top), -top


def test_floats_read_from_a_tensor_are_numbers() -> None:
    compiled = unity.compile(Floats(), example_inputs=(torch.rand(3), torch.arange(3)), strict=True)
    for seed in range(2):
        x, whole = torch.rand(3, generator=torch.Generator().manual_seed(seed)), torch.arange(3)
        made, expected = compiled(x, whole), Floats()(x, whole)
        assert [getattr(v, "dtype", float) for v in made] == [getattr(v, "dtype", float) for v in expected]
        assert type(made[-1]) is float and made[-1] == expected[-1]
        for m, e in zip(made[:-1], expected[:-1]):
            torch.testing.assert_close(m, e, rtol=1e-3 if m.dtype == torch.float16 else 1e-5, atol=1e-6)


class Flags(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        found = (x > 0).any().item()
        return x * found, found, torch.add(x > 0, x < 1, alpha=False)


def test_bools_read_from_a_tensor() -> None:
    compiled = unity.compile(Flags(), example_inputs=(torch.ones(3),), strict=True)
    for x in (torch.randn(3), -torch.ones(3)):
        made, expected = compiled(x), Flags()(x)
        same([made[0], made[2]], [expected[0], expected[2]])
        assert made[1] is expected[1] or (type(made[1]) is bool and made[1] == expected[1])


class Numbered(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.threshold(x, x.mean().item(), 0.0), torch.histc(x, 4, 0.0, x.mean().item())


@pytest.mark.filterwarnings("ignore::unity.frontend.FallbackWarning")
def test_numbers_of_the_data_reach_operators_that_run_in_torch() -> None:
    compiled = unity.compile(Numbered(), example_inputs=(torch.rand(5),))
    assert [f.operator for f in compiled.report.fallbacks] == ["aten.histc.default"]
    x = torch.rand(5)
    same(compiled(x), Numbered()(x))


def test_complex_values_inside_a_model() -> None:
    model, x = Fourier().eval(), torch.randn(4, 8)
    same(unity.compile(model, example_inputs=(x,))(x), model(x))


def test_complex_results_of_a_module_are_pairs() -> None:
    class Complex(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.fft(x)

    x = torch.randn(4)
    program = torch.export.export(Complex(), (x,))
    found = unity.VirtualMachine(unity.compile(from_exported_program(program)))["main"](x.numpy())
    same(torch.from_numpy(np.asarray(found[0])), torch.view_as_real(Complex()(x)))


@pytest.mark.filterwarnings("ignore")
def test_sizes_of_the_data_that_cannot_be_proven_equal() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            x = x.clone()
            chosen = x[mask] * 2
            x[mask] += chosen
            return x

    for seed in (0, 1):
        torch.manual_seed(seed)
        x, mask = torch.randn(4, 3), torch.rand(4) > 0.5
        compiled = unity.compile(Masked(), example_inputs=(x, mask))
        same(compiled(x, mask), Masked()(x, mask))


def test_regions_without_gradients_are_inlined() -> None:
    class Region(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                y = x * 2
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
                return y + 1

    x = torch.randn(3)
    same(unity.compile(Region(), example_inputs=(x,), strict=True)(x), Region()(x))


def test_masks_that_choose_nothing() -> None:
    class Moved(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return x.masked_scatter(mask[:, None], x[mask] * 2)

    x = torch.randn(4, 3)
    masks = [torch.tensor([False] * 4), torch.tensor([True, False, True, False])]
    compiled = unity.compile(Moved(), example_inputs=(x, masks[1]), strict=True)
    for mask in masks:
        same(compiled(x, mask), Moved()(x, mask))


class Mapped(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.vmap(lambda row: row.sum() * row)(x)


class Force(torch.nn.Module):
    """The gradient of an energy, as models of molecules return it."""

    def forward(self, x: Any) -> Any:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad((x**3).sum(), x)[0]


class Transformed(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.func.grad(lambda v: (v**2).sum())(x)


def test_functions_of_functions() -> None:
    x = torch.randn(3, 4)
    same(unity.compile(Mapped(), example_inputs=(x,), strict=True)(x), Mapped()(x))
    same(unity.compile(Force(), example_inputs=(x,), strict=True)(x), 3 * x**2)
    with pytest.raises(unity.UnityError, match="in forward does"):
        unity.compile(Transformed(), example_inputs=(x,))


class Parts(torch.nn.Module):
    """Slices with bounds that only the data knows."""

    def forward(self, x: Any, bounds: Any) -> Any:
        low, high = bounds[0].item(), bounds[1].item()
        return x[:low].mean(0), x[high:].sum(0), x[low:high].exp(), x[1:low:3], x[:, :high]


def test_slices_with_bounds_from_the_data() -> None:
    x = torch.randn(6, 7)
    run = unity.compile(Parts(), example_inputs=(x, torch.tensor([3, 4])), strict=True)
    for bounds in ((3, 4), (0, 0), (9, 2), (-2, -1), (-9, -9), (1, -9), (4, 20)):
        given = torch.tensor(bounds)
        torch.testing.assert_close(run(x, given), Parts()(x, given), equal_nan=True)


class Chosen(torch.nn.Module):
    """Rows and columns whose number only the data knows, as samplers step through their schedules."""

    def forward(self, x: Any, at: Any) -> Any:
        row, column = at[0].item(), at[1].item()
        written = torch.select_scatter(x, x[0] * 2, 0, row), torch.select_scatter(x, x[:, 0] * 2, 1, column)
        return x[at[0]], x[:, at[1]], x[at[0], at[1]], *written


def test_elements_at_a_place_from_the_data() -> None:
    x = torch.randn(6, 7)
    sizes = [{0: torch.export.Dim("rows", min=2), 1: torch.export.Dim("columns", min=2)}, {}]
    for shapes in (None, sizes):
        run = unity.compile(Chosen(), example_inputs=(x, torch.tensor([3, 4])), strict=True, dynamic_shapes=shapes)
        for places in ((3, 4), (0, 0), (-6, -1), (5, -7)):
            given = torch.tensor(places)
            torch.testing.assert_close(run(x, given), Chosen()(x, given))
