"""An input that chooses rows must lie inside the tensor; torch says so, and so does the compiled model."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch_models import Calls  # noqa: E402

import unity  # noqa: E402
from unity.support.errors import FrontendError, VMError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
TABLE = torch.arange(40.0).reshape(10, 4)


CASES = {
    "embedding": (lambda w, i: torch.nn.functional.embedding(i.view(-1, 2), w), [-1, 10]),
    "bag": (lambda w, i: torch.nn.functional.embedding_bag(i.reshape(2, 2), w), [-1, 10]),
    "select": (lambda w, i: torch.index_select(w, 0, i), [-1, 10]),
    "index": (lambda w, i: w[i] + w[:, 1:][i].sum(), [-11, 10]),
    "columns": (lambda w, i: w[:, i], [-5, 4]),
    "set": (lambda w, i: w.index_put((i,), w[:1]), [-11, 10]),
    "add": (lambda w, i: w.index_add(0, i, w[:4]), [-1, 10]),
    "scatter": (lambda w, i: w.scatter(1, i.view(4, 1), 7.0), [-1, 4]),
    "scatter_add": (lambda w, i: w.scatter_add(0, i.view(4, 1).expand(4, 4), w), [-1, 10]),
}


@pytest.mark.parametrize("name", CASES)
def test_out_of_range(name: str) -> None:
    fn, wrong = CASES[name]
    model, ids = Calls(fn, TABLE).eval(), torch.tensor([0, 3, 2, 1])
    compiled = unity.compile(model, example_inputs=(ids,), strict=True)
    torch.testing.assert_close(compiled(ids), model(ids))
    edges = torch.tensor([wrong[0] + 1, wrong[1] - 1, 0, 0])
    torch.testing.assert_close(compiled(edges), model(edges))
    for value in wrong:
        given = torch.tensor([0, value, 1, 1])
        with pytest.raises((IndexError, RuntimeError)):
            model(given)
        with pytest.raises(VMError, match="an index in x is out of range") as caught:
            compiled(given)
        assert caught.value.code == "E635"


def test_symbolic_sizes_and_no_index() -> None:
    model = Calls(lambda w, i: torch.nn.functional.embedding(i, w), TABLE).eval()
    ids = torch.tensor([[0, 3], [2, 1]])
    compiled = unity.compile(model, example_inputs=(ids,), dynamic_shapes=({0: torch.export.Dim("n", min=0)},))
    for given in (ids, ids[:1], ids[:0], ids.repeat(40, 1)):
        torch.testing.assert_close(compiled(given), model(given))
    with pytest.raises(VMError):
        compiled(ids + 8)


def test_modules_stay_as_they_are_and_computed_indices_are_not_checked() -> None:
    model, ids = Calls(lambda w, i: w[i % 10], TABLE).eval(), torch.tensor([0, 3, 2, 1])
    assert "assert" not in unity.compile(model, example_inputs=(ids,)).module.script()
    direct = Calls(lambda w, i: w[i], TABLE).eval()
    assert "assert" not in unity.frontend.from_exported_program(torch.export.export(direct, (ids,))).script()


HELD = torch.tensor([5, 1])
CONSTANTS = {
    "list": lambda x: x[:, [5, 1]],
    "from the end": lambda x: x[:, [-6]],
    "two axes": lambda x: x[[0, 1], [5, 1]],
    "select": lambda x: torch.index_select(x, -1, HELD),
    "gather": lambda x: torch.gather(x, 1, HELD.view(1, 2)),
    "take": lambda x: torch.take(x, torch.tensor([11, -3])),
    "embedding": lambda x: torch.nn.functional.embedding(HELD, x.T),
    "fill": lambda x: x.index_fill(1, HELD, 3.0),
    "put": lambda x: x.clone().index_put_((torch.tensor([0]), torch.tensor([5])), x[0, :1]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_indices_the_model_holds(name: str) -> None:
    """They are a condition on the sizes a call brings, said with the input and its dimension, and no cost where these are known."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return CONSTANTS[name](x)

    x = torch.arange(16.0).reshape(2, 8)
    compiled = unity.compile(Model(), example_inputs=(x,), dynamic_shapes=({1: torch.export.Dim("n", min=2)},))
    for given in (x, x[:, :6].contiguous(), torch.cat([x, x], 1)):
        torch.testing.assert_close(compiled(given), Model()(given))
    short = x[:, :5].contiguous()
    with pytest.raises((IndexError, RuntimeError)):
        Model()(short)
    with pytest.raises(VMError, match=r"x.shape\[1\]") as caught:
        compiled(short)
    assert caught.value.code == "E635"
    fixed = unity.compile(Model(), example_inputs=(x,))
    assert "assert" not in fixed.module.script()
    with pytest.raises(FrontendError) as refused:
        unity.compile(Model(), example_inputs=(short,))
    assert refused.value.code == "E655"
