"""A compiled torch model as the ``torch.nn.Module`` it is: tables, hooks, what is refused; and its weights taken anew."""

import copy
import gc
import io
import logging
import pickle
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.support.errors import ArtifactError, FrontendError  # noqa: E402


def network() -> torch.nn.Module:
    """Folded batch normalisation, a packed matrix, small biases."""
    convolutions = [torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*convolutions, torch.nn.Linear(16 * 36, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5))


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-4)


def step(model: torch.nn.Module, x: torch.Tensor) -> None:
    """One step of training: statistics and every parameter change."""
    model.train()
    model(x).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.5).step()
    model.eval()


@pytest.fixture(scope="module")
def compiled():
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    return model, x, unity.compile(model, example_inputs=(x,))


def test_tables_are_those_of_the_model(compiled) -> None:
    model, x, f = compiled
    assert isinstance(f, torch.nn.Module)
    for given, own in ((f.parameters(), model.parameters()), (f.buffers(), model.buffers())):
        assert [id(t) for t in given] == [id(t) for t in own]
    assert list(f.state_dict()) == list(model.state_dict())
    assert [name for name, _ in f.named_modules()] == [name for name, _ in model.named_modules()]
    assert f.get_parameter("0.weight") is model[0].weight
    assert f.eval() is f and f.to("cpu", torch.float32) is f and f.float() is f and not f.training
    outer = torch.nn.Sequential(f, torch.nn.ReLU())
    assert list(outer.state_dict()) == [f"0.{name}" for name in model.state_dict()]
    same(outer(x), model(x).relu())


@pytest.mark.parametrize(
    "ask, error, code",
    [
        (lambda f: f.train(), FrontendError, "E663.*torch.compile"),
        (lambda f: f.register_full_backward_hook(print), FrontendError, "E663"),
        (lambda f: f.half(), FrontendError, "E664"),
        (lambda f: f.to("meta"), FrontendError, "E664"),
        (lambda f: f.double(), FrontendError, "E664"),
        (lambda f: f.register_buffer("more", torch.zeros(1)), FrontendError, "E664"),
        (lambda f: f.register_parameter("more", None), FrontendError, "E664"),
        (lambda f: f.add_module("more", torch.nn.ReLU()), FrontendError, "E664"),
        (lambda f: setattr(f, "more", torch.nn.ReLU()), FrontendError, "E664"),
        (lambda f: setattr(f, "more", torch.nn.Parameter(torch.zeros(1))), FrontendError, "E664"),
        (lambda f: setattr(f, "0", None), FrontendError, "E664"),
        (lambda f: delattr(f, "0"), FrontendError, "E664"),
        (lambda f: pickle.dumps(f), ArtifactError, "E661"),
        (lambda f: torch.jit.script(f), ArtifactError, "E661"),
        (lambda f: torch.jit.script(torch.nn.Sequential(f)), ArtifactError, "E661"),
        (lambda f: torch.save(f, io.BytesIO()), ArtifactError, "E661"),
        (lambda f: unity.compile(f, example_inputs=(torch.zeros(1),)), FrontendError, "E013"),
    ],
)  # fmt: skip
def test_what_would_change_the_program_is_refused(compiled, ask, error, code) -> None:
    with pytest.raises(error, match=f"(?s){code}"):
        ask(compiled[2])


def test_hooks_are_called_until_they_are_removed(compiled) -> None:
    model, x, f = compiled
    first, twin = f(x), copy.deepcopy(f)
    handles = [
        f.register_forward_pre_hook(lambda f, given: (given[0] * 2,)),
        f.register_forward_hook(lambda f, a, y: y + 1),
    ]
    same(f(x), model(x * 2) + 1)
    same(twin(x), first)  # a copy has hooks of its own
    for handle in handles:
        handle.remove()
    same(f(x), first)


def test_hooks_stay_when_weights_are_taken_anew() -> None:
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    f = unity.compile(model, example_inputs=(x,))
    handle = f.register_forward_hook(lambda f, a, y: y + 1)
    step(model, x)
    same(f.refresh()(x), model(x) + 1)
    handle.remove()
    for _ in range(2):
        same(f(x), model(x))


class Factored(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.ldl_factor(x @ x.T)[0]


def test_what_fails_inside_a_call_ran_once() -> None:
    calls = []

    def fails(*args):
        calls.append(args)
        raise AttributeError("of the function's own")

    with pytest.warns(unity.frontend.FallbackWarning):
        f = unity.compile(Factored(), example_inputs=(torch.eye(3),))
    name = "torch.ops.aten.linalg_ldl_factor.default"
    own = unity.get_global_func(name)
    unity.register_func(name, fails, override=True)
    try:
        with pytest.raises(AttributeError, match="of the function's own"):
            f(torch.eye(3))
    finally:
        unity.register_func(name, own, override=True)
    assert len(calls) == 1
    same(torch.as_tensor(f(torch.eye(3).numpy())), Factored()(torch.eye(3)))  # arrays are tensors too


def test_backward_says_what_to_do(compiled) -> None:
    _, x, f = compiled
    wanting = x.clone().requires_grad_()
    for call in (lambda: f(wanting), lambda: f(wanting.transpose(2, 3))):
        with pytest.raises(FrontendError, match=r"(?s)E663.*torch.compile"):
            call().sum().backward()
    with torch.no_grad():
        assert not f(wanting).requires_grad
    assert not f(x).requires_grad and f(x).numpy().shape == (2, 5)


def test_backward_in_training_mode_says_so_too() -> None:
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    f = unity.compile(model, example_inputs=(x,))
    assert f.training
    with pytest.raises(FrontendError, match="E663"):
        torch.nn.functional.mse_loss(f(x), torch.zeros(2, 3)).backward()
    f(x).add_(1)  # results may be written to
    assert not f.eval()(x).requires_grad and model.training


def test_a_model_that_is_gone_has_no_parameters(tmp_path) -> None:
    x = torch.randn(2, 3, 8, 8)
    f = unity.compile(network().eval(), example_inputs=(x,))
    f.save(tmp_path / "f.unity")
    gc.collect()  # torch's export leaves cycles that hold the model
    for made in (f, unity.load_model(tmp_path / "f.unity")):
        assert isinstance(made, torch.nn.Module) and made.eval() is made
        for ask in (made.state_dict, lambda made=made: list(made.parameters())):
            with pytest.raises(FrontendError, match="E664"):
                ask()
        with pytest.raises(FrontendError, match="E662"):
            made.refresh()
        same(made(x), f(x))


def test_weights_are_taken_anew(compiled, tmp_path) -> None:
    _, x, _ = compiled
    model = network().eval()
    for _ in range(2):  # built, and remembered
        f = unity.compile(model, example_inputs=(x,))
        old, before = copy.deepcopy(f), f(x)
        step(model, x)
        with pytest.raises(FrontendError, match=r"(?s)E660.*refresh"):
            f(x)
        same(f.refresh()(x), model(x))
        assert (f(x) - before).abs().max() > 1e-3
        with pytest.raises(FrontendError, match="E660"):
            old(x)
    f.load_state_dict(
        {name: value.clone() + 0.01 for name, value in model.state_dict().items() if "num" not in name}, False, True
    )
    same(f.refresh()(x), model(x))  # other tensors in their places
    f.save(tmp_path / "f.unity")
    for trust in (True, False):  # what is compiled again has them too
        same(unity.load_model(tmp_path / "f.unity", trust=trust)(x), model(x))
    step(model, x)
    same(f.refresh()(x), model(x))
    model[4].weight.data = torch.zeros(32, 16 * 36 + 1)
    with pytest.raises(FrontendError, match=r"E662.*4.weight"):
        f.refresh()


def test_weights_of_an_exported_program() -> None:
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    program = torch.export.export(model, (x,))
    f = unity.compile(program)
    step(model, x)
    same(f.refresh()(x), model(x))
    with pytest.raises(FrontendError, match="E664"):
        f.state_dict()


class Tied(torch.nn.Module):
    """One tensor under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = torch.nn.Embedding(50, 32), torch.nn.Linear(32, 50, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids):
        return self.out(self.table(ids))


def test_tied_weights_stay_tied() -> None:
    model, ids = Tied().eval(), torch.tensor([[1, 2, 3]])
    f = unity.compile(model, example_inputs=(ids,))
    with torch.no_grad():
        model.table.weight.mul_(3)
    same(f.refresh()(ids), model(ids))
    model.out.weight = torch.nn.Parameter(torch.zeros(50, 32))
    with pytest.raises(FrontendError, match=r"E662.*were one tensor"):
        f.refresh()


def test_equal_weights_need_not_stay_equal() -> None:
    class Twins(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(8))

        def forward(self, x):
            return torch.cat([(x * self.a).exp(), (x * self.b).exp()])

    model, x = Twins().eval(), torch.randn(8)
    f = unity.compile(model, example_inputs=(x,))
    with torch.no_grad():
        model.b.mul_(2)
    same(f.refresh()(x), model(x))


@pytest.mark.parametrize("options", [{"precision": "int8"}, {"precision": "bf16"}, {"discard_parameters": True}])
def test_what_cannot_be_taken_anew_is_refused(options) -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 64)).eval(), torch.randn(2, 64)
    f = unity.compile(model, example_inputs=(x,), **options)
    with pytest.raises(FrontendError, match="E662"):
        f.refresh()


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.LSTM(4, 4, num_layers=2, batch_first=True)

    def forward(self, x):
        y, _ = self.layers(x)
        return y if y.sum() > 0 else -y


@pytest.mark.parametrize("verbose", [False, True])
def test_torch_is_quiet_before_a_clear_message(verbose, monkeypatch, capsys) -> None:
    monkeypatch.setenv("UNITY_VERBOSE", str(int(verbose)))
    seen = logging.Handler()
    records: list[logging.LogRecord] = []
    seen.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    logger.addHandler(seen)
    try:
        with warnings.catch_warnings(record=True) as warned, pytest.raises(FrontendError, match="E016"):
            warnings.simplefilter("always")
            unity.compile(Branches().eval(), example_inputs=(torch.zeros(2, 3, 4),))
    finally:
        logger.removeHandler(seen)
    assert ("def forward" in capsys.readouterr().err) is verbose
    assert bool(records) is verbose
    assert any(["flat_weights" in str(w.message) for w in warned]) is verbose


class Chatty(torch.nn.Module):
    def forward(self, x):
        print("tracing", file=sys.stderr)
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return x + 1


def test_what_a_model_says_when_it_compiles_is_said(capsys) -> None:
    with pytest.warns(UserWarning, match="mind the gap"):
        unity.compile(Chatty().eval(), example_inputs=(torch.zeros(2),))
    assert "tracing" in capsys.readouterr().err


class NamedAsOurs(torch.nn.Module):
    """Parts with the names of attributes of compiled models."""

    NAMES = ("executable", "interface", "report", "quantization", "weights")

    def __init__(self):
        super().__init__()
        for name in self.NAMES:
            self.add_module(name, torch.nn.Linear(4, 4))
        for name in ("state", "file", "copied", "accuracy", "shared"):
            self.register_buffer(name, torch.zeros(4))

    def forward(self, x):
        for name in self.NAMES:
            x = getattr(self, name)(x)
        self.state.add_(1)
        self.file.add_(2)
        return x + self.state + self.file + self.copied + self.accuracy + self.shared


def test_parts_may_have_the_names_of_attributes(tmp_path):
    x, models = torch.randn(2, 4), [NamedAsOurs().eval() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    f = unity.compile(models[0], example_inputs=(x,))
    torch.testing.assert_close(f(x), models[1](x))
    f.refresh()
    torch.testing.assert_close(f(x), models[1](x))
    f.save(tmp_path / "model.unity")
    torch.testing.assert_close(unity.load_model(tmp_path / "model.unity")(x), models[1](x))
