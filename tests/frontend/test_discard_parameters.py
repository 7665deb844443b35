"""``discard_parameters=True``: weights the program keeps packed are given up by the model, and by nothing else."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import unity
from unity.ffi.discard import is_discarded
from unity.support.errors import FFIError, FrontendError

torch = pytest.importorskip("torch")


class Tied(torch.nn.Module):
    """One weight as table of a lookup and as matrix of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(500, 64)
        self.head = torch.nn.Linear(64, 500)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.table(ids))


def stack() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).eval()


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_packed_weights_are_freed_and_biases_stay() -> None:
    model, x = stack(), torch.randn(5, 96)
    expected = model(x).detach()
    refs = {name: weakref.ref(p) for name, p in model.named_parameters()}
    bias = model[0].bias
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True)
    gc.collect()
    assert {name for name, ref in refs.items() if ref() is None} == {"0.weight", "2.weight"}
    assert model[0].bias is bias
    same(f(x), expected)
    with pytest.raises(FrontendError, match=r"0\.weight.*was discarded") as caught:
        model(x)
    assert caught.value.code == "E018"
    assert "lv" in f.script() and sum([p.numel() for p in model.parameters()]) == 96 * 128 + 128 + 128 * 64 + 64


def test_without_the_option_the_model_stays() -> None:
    model, x = stack(), torch.randn(5, 96)
    f = unity.compile(model, example_inputs=(x,))
    same(f(x), model(x).detach())
    assert not any([is_discarded(t) for t in f.report.weights.values()])


def test_what_others_hold_stays_theirs() -> None:
    model, other, x = stack(), stack(), torch.randn(5, 96)
    other[0].weight = model[0].weight
    view = model[2].weight.detach()[3:5]
    copy = view.clone()
    expected, others = model(x).detach(), other(x).detach()
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True)
    same(f(x), expected)
    same(other(x).detach(), others)
    assert torch.equal(view, copy)


def test_tied_weights() -> None:
    model, ids = Tied().eval(), torch.randint(0, 500, (3, 7))
    expected = model(ids).detach()
    f = unity.compile(model, example_inputs=(ids,), discard_parameters=True)
    same(f(ids), expected)
    same(f(ids.flip(0)), expected.flip(0))
    held = {c.data_ptr: c.size for c in f.executable.program.constants}
    assert max(held.values()) < 2 * 500 * 64 and sum(held.values()) < 2 * 500 * 64  # one table for both, padded
    with pytest.raises(FrontendError):
        model.table(ids)


def test_two_parameters_in_one_storage() -> None:
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            both = torch.randn(128, 64)
            self.first, self.second = torch.nn.Parameter(both[:64]), torch.nn.Parameter(both[64:])

        def forward(self, x):
            return x @ self.first + x @ self.second.t() + self.second[0]

    model, x = Halves().eval(), torch.randn(4, 64)
    expected = model(x).detach()
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True)
    same(f(x), expected)


def test_batch_norm_state_and_lstm() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32)
            self.rnn = torch.nn.LSTM(32, 16, batch_first=True)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            y = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
            return self.rnn(y)[0] * self.count

    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    expected = model(x).detach()
    model.count.zero_()
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True)
    same(f(x), expected)
    same(f(x), expected * 2)
    assert model.count == 2
    with pytest.raises(FrontendError):
        model(x)


def test_an_exported_program_gives_up_its_own() -> None:
    model, x = stack(), torch.randn(5, 96)
    program = torch.export.export(model, (x,))
    f = unity.compile(program, discard_parameters=True)
    same(f(x), model(x).detach())  # the module it was exported from still holds its parameters
    with pytest.raises(FrontendError):
        program.module()(x)


def test_saved_and_loaded(tmp_path) -> None:
    model, x = stack(), torch.randn(5, 96)
    expected = model(x).detach()
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True)
    f.executable.save(tmp_path / "m.unity")
    loaded = unity.VirtualMachine(unity.load(tmp_path / "m.unity"))
    same(loaded["main"](x)[0].torch(), expected)
    with pytest.raises(unity.UnityError) as caught:
        unity.load(tmp_path / "m.unity", trust=False)
    assert caught.value.code == "E804"


@pytest.mark.parametrize("options", [{"precision": "bf16"}, {"precision": "int8"}, {"choose": "measured"}])
def test_with_reduced_precision_and_chosen_kernels(options) -> None:
    model, x = stack(), torch.randn(5, 96)
    expected, weight = model(x).detach(), weakref.ref(model[0].weight)
    f = unity.compile(model, example_inputs=(x,), discard_parameters=True, **options)
    gc.collect()
    torch.testing.assert_close(f(x), expected, rtol=0.05, atol=0.05)
    assert weight() is None
    str(f.choices)
    assert "precision" not in options or f.accuracy.cosine > 0.99


def test_constants_of_a_module() -> None:
    model, x = stack(), torch.randn(5, 96)
    mod = unity.frontend.from_exported_program(torch.export.export(model, (x,)))
    ex = unity.compile(mod, discard_parameters=True)
    same(ex["main"](x)[0].torch(), model(x).detach())
    with pytest.raises(FFIError) as caught:
        mod.script()
    assert caught.value.code == "E714"


def test_a_discarded_tensor_knows_its_shape() -> None:
    tensor = unity.Tensor(np.ones((3, 4), "float32"))
    unity.ffi.discard.discard(tensor)
    assert tensor.shape == (3, 4) and tensor.dtype == "float32" and "discarded" in repr(tensor)
    for use in (tensor.numpy, tensor.torch, lambda: np.asarray(tensor), lambda: tensor[0]):
        with pytest.raises(FFIError):
            use()


def test_a_deleted_model_gives_the_memory_of_its_weights_back() -> None:
    model, x = stack(), torch.randn(5, 96)
    expected = model(x).detach()
    f = unity.compile(model, example_inputs=(x,))
    memory = {name: weakref.ref(t.numpy().base) for name, t in f.report.weights.items()}
    assert not any([is_discarded(t) for t in f.report.weights.values()])
    del model
    gc.collect()
    assert {name for name, t in f.report.weights.items() if is_discarded(t)} == {"0.weight", "2.weight"}
    assert {name for name, ref in memory.items() if ref() is None} == {"0.weight", "2.weight"}
    same(f(x), expected)
    with pytest.raises(FFIError) as caught:
        unity.compile(f.module)
    assert caught.value.code == "E714"


def test_a_weight_that_is_replaced_goes_and_what_the_export_made_stays() -> None:
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(64, 64)

        def forward(self, x):
            return self.first(x) @ torch.tensor([[float(i + j) for i in range(16)] for j in range(64)])

    model, x = Table().eval(), torch.randn(5, 64)
    f = unity.compile(model, example_inputs=(x,))
    expected = f(x)
    model.first.weight = torch.nn.Parameter(torch.zeros(64, 64))
    gc.collect()
    assert [name for name, t in f.report.weights.items() if is_discarded(t)] == ["first.weight"]
    assert torch.equal(f(x), expected)


def test_a_compiled_model_that_goes_first_leaves_nothing_behind() -> None:
    model, x = stack(), torch.randn(5, 96)
    f = unity.compile(model, example_inputs=(x,))
    data = [weakref.ref(t) for t in f.report.weights.values()]
    del f
    gc.collect()
    assert not any([ref() for ref in data])
    same(unity.compile(model, example_inputs=(x,))(x), model(x).detach())
