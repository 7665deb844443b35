"""16-bit floats: operators of several steps round once, as torch's do; a second rounding would show in the mean error."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unity  # noqa: E402

CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (F.linear, ((33, 48), (40, 48), (40,))),
    "addmm": (lambda x, a, b: torch.addmm(x, a, b, beta=0.3, alpha=0.7), ((9, 40), (9, 24), (24, 40))),
    "baddbmm": (torch.baddbmm, ((3, 9, 40), (3, 9, 24), (3, 24, 40))),
    "conv2d": (F.conv2d, ((1, 6, 12, 12), (16, 6, 3, 3), (16,))),
    "conv_transpose2d": (F.conv_transpose2d, ((1, 6, 8, 8), (6, 16, 3, 3), (16,))),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), ((40, 40),) * 3),
    "lerp": (torch.lerp, ((40, 40),) * 3),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=0.3), ((40, 40),) * 2),
    "mul number": (lambda x: x * 0.3, ((40, 40),)),
    "number sub": (lambda x: 0.3 - x, ((40, 40),)),
    "deg2rad": (torch.deg2rad, ((40, 40),)),
    "round decimals": (lambda x: torch.round(x * 37, decimals=1), ((40, 40),)),
    "var_mean": (lambda x: torch.var_mean(x, -1), ((300, 40),)),
    "cube": (lambda x: x**3, ((40, 40),)),
    "hardswish": (F.hardswish, ((40, 40),)),
    "glu": (F.glu, ((40, 40),)),
    "cosine_similarity": (F.cosine_similarity, ((300, 40),) * 2),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(300) % 40, reduction="none"), ((300, 40),)),
    "embedding_bag": (
        lambda w: F.embedding_bag(torch.arange(400) % 31, w, torch.arange(20) * 7, mode="sum"),
        ((31, 40),),
    ),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, reduction="none"), ((40, 40),) * 2),
}


class Model(torch.nn.Module):
    """The cases after each other, so that one build serves all."""

    def forward(self, groups: list[list[Any]]) -> list[Any]:
        return [fn(*group) for (fn, _), group in zip(CASES.values(), groups)]


def _errors(made: Any, exact: Any) -> float:
    pairs = zip(made, exact) if isinstance(made, tuple) else [(made, exact)]
    return sum([float((m.double() - e).abs().mean() / e.abs().mean()) for m, e in pairs])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_one_rounding(dtype: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    groups = [[torch.randn(s, generator=generator).to(dtype) for s in shapes] for _, shapes in CASES.values()]
    model = Model().eval()
    made = unity.compile(model, example_inputs=(groups,))(groups)
    expected, exact = model(groups), model([[x.double() for x in group] for group in groups])
    worse = {
        name: (_errors(m, x), _errors(t, x))
        for name, m, t, x in zip(CASES, made, expected, exact)
        if _errors(m, x) > 1.05 * _errors(t, x)
    }
    assert not worse


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_powers_of_a_half_at_the_edges(dtype: Any) -> None:
    """torch takes roots for them, but powers in float16, which differ for -inf and -0."""
    edges = [-float("inf"), -1.0, -0.0, 0.0, 4.0, float("inf"), float("nan")]
    x = torch.tensor(edges * 5, dtype=dtype)

    class Powers(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x**0.5, x**-0.5, torch.pow(0.5, x), torch.pow(x, torch.full_like(x, 0.5))

    made = unity.compile(Powers(), example_inputs=(x,))(x)
    for got, expected in zip(made, Powers()(x), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)
        where = ~expected.isnan()
        assert torch.equal(torch.signbit(got[where]), torch.signbit(expected[where]))
