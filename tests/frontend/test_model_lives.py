"""A compiled model among what else happens in a process: weights that change, copies, threads, inputs laid out in odd ways."""

import copy
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.support.errors import ArtifactError, FFIError, FrontendError  # noqa: E402


def linear():
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).eval()


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
        lambda m: torch.nn.init.ones_(m[2].weight),
        lambda m: torch.optim.SGD([m[0].weight], 1.0).step() or m[0].weight.grad,
    ],
)  # fmt: skip
def test_weights_that_change_later_are_not_half_seen(change) -> None:
    model, x = linear(), torch.randn(2, 4)
    f = unity.compile(model, example_inputs=(x,))
    model[0].weight.grad = torch.ones_like(model[0].weight)
    same(f(x), model(x))
    change(model)
    with pytest.raises(FrontendError, match="E660"):
        f(x)
    same(unity.compile(model, example_inputs=(x,))(x), model(x))


class ReadTwice(torch.nn.Module):
    """A weight that the program reads packed and as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight), x + self.weight


def test_a_weight_that_is_packed_and_read_as_it_is_is_not_half_seen() -> None:
    model, x = ReadTwice(), torch.randn(64, 64)
    f = unity.compile(model, example_inputs=(x,))
    with torch.no_grad():
        model.weight.mul_(3)
        with pytest.raises(FrontendError, match="E660"):
            f(x)
        for found, expected in zip(f.refresh()(x), model(x), strict=True):
            same(found, expected)


def test_what_leaves_the_weights_alone_says_nothing() -> None:
    model, x = linear(), torch.randn(2, 4)
    f = unity.compile(model, example_inputs=(x,))
    expected = model(x)
    model.requires_grad_(False)
    model.train().eval()
    same(f(x), expected)
    del model
    same(f(x), expected)


class Ignored(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))

    def forward(self, x):
        return torch.nn.functional.instance_norm(x, self.mean, self.variance, use_input_stats=True)


def test_a_weight_that_no_kernel_reads_may_change() -> None:
    model, x = Ignored().eval(), torch.randn(2, 4, 5)
    f = unity.compile(model, example_inputs=(x,))
    model.mean.add_(1)
    same(f(x), Ignored()(x))


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count += 1
        return x + self.count


def test_a_copy_has_a_state_of_its_own() -> None:
    x = torch.zeros(3)
    f = unity.compile(Counter().eval(), example_inputs=(x,))
    f(x)
    other = copy.deepcopy({"model": f})["model"]
    assert [f(x)[0].item(), f(x)[0].item(), other(x)[0].item(), copy.copy(f)(x)[0].item()] == [2, 3, 2, 4]
    assert other.state["count"][0] == 2


def test_a_comparison_with_float32_leaves_the_state_alone() -> None:
    model = Counter().eval()
    f = unity.compile(model, example_inputs=(torch.zeros(3),), precision="int8")
    assert f.accuracy is not None and model.count[0] == 0


def test_machine_code_is_not_pickled() -> None:
    x = torch.zeros(3)
    f = unity.compile(Counter().eval(), example_inputs=(x,))
    for made in (f, f.executable):
        with pytest.raises(ArtifactError, match="E661"):
            pickle.dumps(made)
    assert unity.VirtualMachine(copy.copy(f.executable))["main"](x, x)


def test_models_are_compiled_in_threads() -> None:
    failures = []

    def work(width) -> None:
        try:
            model, x = torch.nn.Linear(width, 3).eval(), torch.randn(2, width)
            same(unity.compile(model, example_inputs=(x,))(x), model(x))
        except Exception as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(width,)) for width in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Negated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch._neg_view(torch.ones(3)))
        self.register_buffer("i", torch.tensor([1 + 2j]).conj().imag)

    def forward(self, x):
        return x * self.b + self.i


def test_weights_that_are_negated_views() -> None:
    x = torch.randn(3)
    same(unity.compile(Negated().eval(), example_inputs=(x,))(x), Negated()(x))


def test_inputs_between_addresses_and_of_many_dimensions() -> None:
    f = unity.compile(linear(), example_inputs=(torch.zeros(2, 4),))
    memory = torch.zeros(33, dtype=torch.uint8)
    odd = torch.frombuffer(memory.numpy(), dtype=torch.float32, offset=1, count=8).view(2, 4)
    same(f(odd), f(torch.zeros(2, 4)))
    with pytest.raises(FrontendError, match="nested"):
        f(torch.nested.nested_tensor([torch.zeros(4)] * 2))
    with pytest.raises(FFIError, match="70 dimensions"):
        unity.Tensor.from_torch(torch.zeros([1] * 70))


class Scaled(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale


def test_a_tensor_in_the_place_of_a_constant() -> None:
    x = torch.randn(2, 4)
    f = unity.compile(Scaled(), example_inputs=(x, 2.0))
    with pytest.raises(FrontendError, match="E017"):
        f(x, x)


class Pieces(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.arange(6.0))
        self.register_buffer("piece", self.whole[2:4])

    def forward(self, x):
        self.piece.mul_(x)
        return self.whole * 1


def test_buffers_that_share_memory_in_part_are_named() -> None:
    with pytest.raises(FrontendError, match="whole and piece share memory"):
        unity.compile(Pieces().eval(), example_inputs=(torch.tensor(2.0),))


def test_inputs_torch_cannot_make() -> None:
    for entry, code in ((((2, 4), "qint8"), "E015"), ((("two words", 4), "float32"), "E013")):
        with pytest.raises(FrontendError, match=code):
            unity.frontend.from_fx(torch.fx.symbolic_trace(linear()), [entry])


def test_parts_nested_too_deep_say_what_to_do() -> None:
    model = torch.nn.Linear(4, 3)
    for _ in range(300):
        model = torch.nn.Sequential(model)
    with pytest.raises(FrontendError, match="setrecursionlimit"):
        unity.compile(model.eval(), example_inputs=(torch.zeros(2, 4),))


class Unordered(torch.nn.Module):
    def forward(self, x):
        return {x}


def test_results_that_are_no_data_say_what_is() -> None:
    with pytest.raises(FrontendError, match="lists, tuples, dicts and dataclasses"):
        unity.compile(Unordered(), example_inputs=(torch.zeros(2),))
