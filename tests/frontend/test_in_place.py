"""Tensors written to in place: imported by name where all who see them are known, else rewritten by torch; equal to torch always."""

import random

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.frontend.trace import functional  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)


def read_before(x):
    y = x * 2
    z = y + 1
    y.add_(x)
    return y * z, y


def one_tensor_of_many_names(x):
    y = x.clone()
    a = y.add_(1)
    b = y.mul_(2)
    c = a * y
    b.sub_(x)
    return a + b + y, c, a


def read_between(x):
    y = x.clone()
    y.add_(1)
    r = y.exp()
    torch.relu_(y)
    return r, y, y.view(-1)


def filled(x):
    y = torch.zeros_like(x)
    z = y + x
    y.masked_fill_(x > 0, 3.0)
    y.add_(torch.arange(x.shape[-1]))
    return y, z


def view_before(x):
    y = x.clone()
    v = y[0]
    y.add_(1)
    return v, y


def through_a_view(x):
    y = x.clone()
    y.add_(1)
    y[0].mul_(3)
    return y


def to_an_input(x):
    return x.add_(1) * 2, x


def maybe_the_same(x):
    y = x.exp()
    z = y.contiguous()
    y.add_(1)
    return z, y


BY_NAME = [read_before, one_tensor_of_many_names, read_between, filled, maybe_the_same]
BY_TORCH = [view_before, through_a_view, to_an_input]


@pytest.mark.parametrize("body", [*BY_NAME, *BY_TORCH], ids=lambda body: body.__name__)
def test_against_torch(body):
    x = torch.randn(3, 5)
    program = torch.export.export(Model(body), (x.clone(),))
    assert (functional(program) is program) == (body in BY_NAME)
    torch.testing.assert_close(unity.compile(program)(x.clone()), body(x.clone()))


WRITES = ["add_", "sub_", "mul_", "copy_"]
READS = ["add", "sub", "mul", "maximum"]
VIEWS = [
    lambda v: v.flatten(),
    lambda v: v[:2],
    lambda v: v.t(),
    lambda v: v.contiguous(),
    lambda v: v.clone(),
    lambda v: v.reshape(v.shape),
]


def drawn(seed):
    """A program of values, writes and views drawn at random."""
    rng = random.Random(seed)
    steps = [(rng.choice("wwwrrrv"), rng.random(), rng.random(), rng.randrange(60)) for _ in range(9)]

    def body(x):
        values = [x.clone(), x * 0.5]
        for kind, first, second, choice in steps:
            a, b = [values[int(place * len(values))] for place in (first, second)]
            if kind == "v" or a.shape != b.shape:
                values.append(VIEWS[choice % len(VIEWS)](a) if a.dim() == 2 else a * 2)
            else:
                values.append(getattr(a, (WRITES if kind == "w" else READS)[choice % 4])(b))
        return tuple([value + 0 for value in values])

    return body


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_programs(seed):
    x = torch.randn(4, 4)
    program = torch.export.export(Model(drawn(seed)), (x.clone(),))
    torch.testing.assert_close(unity.compile(program)(x.clone()), drawn(seed)(x.clone()))
