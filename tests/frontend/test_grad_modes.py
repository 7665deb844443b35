"""Parts of a model under no_grad are imported where they stand, without another trace by torch."""

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.frontend.torch.capture.grad_modes import without_grad_modes  # noqa: E402


class Rotary(torch.nn.Module):
    """As in transformers: tables made under no_grad, used outside."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rates", torch.rand(4))

    @torch.no_grad()
    def tables(self, x):
        angles = torch.arange(x.shape[1])[:, None] * self.rates
        with torch.autocast("cpu", enabled=False):
            both = torch.cat((angles, angles), -1)
        return both.cos(), both.sin()

    def forward(self, x):
        cos, sin = self.tables(x)
        with torch.enable_grad():
            y = x * cos
        return y + x.flip(-1) * sin, cos


class Nested(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.exp()
            with torch.enable_grad():
                y = y * 2
            y = y + 1
        return y, x


class Writes(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        with torch.no_grad():
            y[1:] = x[:-1]
            y.add_(1)
        return y * x


class Casts(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x + 1
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = y @ y.transpose(1, 2)
        return z.float(), y


class Branches(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return y * 2


@pytest.mark.parametrize("model", [Rotary(), Nested(), Writes(), Casts(), Branches()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("grad", [True, False])
def test_against_torch(model, grad):
    x = torch.randn(3, 5, 8)
    with torch.set_grad_enabled(grad):
        program = torch.export.export(model, (x,))
    expected = model(x)
    torch.testing.assert_close(unity.compile(program)(x), expected)


def test_nothing_is_traced_again(monkeypatch):
    x = torch.randn(3, 5, 8)
    program = torch.export.export(Rotary(), (x,))
    flat = without_grad_modes(program)
    assert flat is not program
    assert without_grad_modes(flat) is flat
    assert [n.name for n in flat.graph.nodes if n.op == "placeholder"] == [
        n.name for n in program.graph.nodes if n.op == "placeholder"
    ]
    torch.testing.assert_close(flat.module()(x), program.module()(x))
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", lambda *_: pytest.fail("traced again"))
    torch.testing.assert_close(unity.compile(program)(x), program.module()(x))


@pytest.mark.parametrize("model", [Branches(), Casts()])
def test_parts_with_graphs_of_their_own_are_left_to_torch(model):
    program = torch.export.export(model, (torch.randn(3, 5, 8),))
    assert without_grad_modes(program) is program
