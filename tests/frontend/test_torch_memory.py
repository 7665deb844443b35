"""``as_strided``: its strides count in torch's memory of a tensor, whatever views the tensor has gone through."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import FallbackWarning, unity_backend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

VIEWS = {
    "permuted": lambda x: (x * 2).permute(2, 0, 1).as_strided((3, 4), (1, 2), 1),
    "a_slice": lambda x: (x + 1)[1:, 1].as_strided((2, 2), (3, 5)),
    "before_a_slice": lambda x: (x + 1)[1:, 1].as_strided((2, 2), (3, 5), 0),
    "input": lambda x: x.as_strided((2, 2), (3, 5), 2),
    "copied": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1).as_strided((2, 6), (5, 3)),
    "written": lambda x: torch.as_strided_scatter((x * 2).permute(2, 0, 1), x[0, 0, :2], (2,), (7,), 1),
}


class Viewed(torch.nn.Module):
    def __init__(self, view: Any) -> None:
        super().__init__()
        self.view = view

    def forward(self, x: Any) -> Any:
        return self.view(x)


@pytest.mark.filterwarnings("error::unity.frontend.FallbackWarning")
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_memory(name: str) -> None:
    x, model = torch.randn(3, 4, 5), Viewed(VIEWS[name])
    same(unity.compile(model, example_inputs=(x,))(x), model(x))
    torch._dynamo.reset()
    with torch.no_grad():
        same(torch.compile(model, backend=unity_backend)(x), model(x))


COMPLEX = {
    "turned": lambda z: z.t().as_strided((2, 2), (1, 2), 1),
    "a_slice": lambda z: (z * 2)[1:].as_strided((2, 2), (1, 3)) + 1j,
    "parts": lambda z: torch.view_as_real(z.t()).as_strided((2, 2), (1, 2), 1),
    "in_torch": lambda z: torch.fft.fft(z.t().as_strided((2, 2), (1, 2), 1)),
    "written": lambda z: torch.as_strided_scatter((z * 2).t(), z[0, :2], (2,), (7,), 1),
}


@pytest.mark.filterwarnings("ignore::unity.frontend.FallbackWarning")
@pytest.mark.parametrize("name", COMPLEX)
def test_views_of_memory_of_complex_numbers(name: str) -> None:
    z, model = torch.randn(3, 4, dtype=torch.complex64), Viewed(COMPLEX[name])
    torch.testing.assert_close(unity.compile(model, example_inputs=(z,))(z), model(z))


def test_memory_of_real_numbers_seen_as_complex_ones_is_refused() -> None:
    x, model = (
        torch.randn(3, 4, 2),
        Viewed(lambda x: torch.view_as_complex((x * 2)[:, :3]).as_strided((2, 2), (1, 2), 1)),
    )
    with pytest.raises(unity.UnityError, match=r"E012.*memory"):
        unity.compile(model, example_inputs=(x,))


def test_memory_only_torch_has_is_refused() -> None:
    """The elements between the rows belong to another tensor."""
    x, model = torch.randn(6, 8)[:, :4], Viewed(lambda x: x.as_strided((2, 2), (9, 6), 2))
    with pytest.raises(unity.UnityError, match=r"E012.*beside a tensor"):
        unity.compile(model, example_inputs=(x,))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(FallbackWarning, match="a whole graph runs in torch"):
        same(torch.compile(model, backend=unity_backend)(x), model(x))
