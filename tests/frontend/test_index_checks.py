"""An input that chooses rows must lie inside the tensor; torch says so, and so does the compiled model."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch_models import Calls  # noqa: E402

import unity  # noqa: E402
from unity.support.errors import VMError  # noqa: E402

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
