"""Tensors written to in place: writes are made out of place here, or by torch."""

import copy
import re

import pytest
from fuzz import TIMES

torch = pytest.importorskip("torch")

from views_and_writes import Drawn  # noqa: E402

import unity  # noqa: E402
from unity.frontend.torch.capture.trace import functional  # noqa: E402
from unity.frontend.torch.capture.written_views import functionalize_writes  # noqa: E402
from unity.frontend.torch.translate.in_place import is_mutable  # noqa: E402


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


def rows_in_turn(x):
    y = torch.zeros_like(x)
    for i in range(1, x.shape[0]):
        y[i, :i] = y[: i + 1, :i].sum(0) + x[i, :i]
    return y, y[1]


def views_of_views(x):
    y = x.exp()
    turned, column = y.t(), y[:, 1:].unsqueeze(0).permute(2, 0, 1)[1]
    turned[2:].diagonal().mul_(2)
    column.view(-1).add_(1)
    y.unflatten(1, (1, 5)).squeeze(1).transpose(0, 1)[::2] = 7
    return column, turned + 0, y.flatten()


def of_another_dtype(x):
    y, z = x.half(), torch.zeros(2, *x.shape, dtype=torch.int64)
    y[0].add_(x[1])
    z[1] = x * 3
    z.select(0, 0).masked_fill_(x > 0, 2)
    return y, z


def of_one_tensor_to_itself(x):
    y = x * 1
    y[1:] += y[0]
    y[:, 0].copy_(y[:, 1])
    return y.detach_()


def only_read_through_it(x):
    y = x + 1
    wide, (first, second) = y[0].expand(2, 5), y.split([2, 3], 1)
    y.mul_(x)
    return wide + 0, first * 1, second * 1


def windows(x):
    y = x + 1
    y.view(3, 5).expand(3, 5).mul_(2)
    seen = y.unfold(1, 2, 3)
    y.add_(1)
    return seen + 0


def through_windows(x):
    y = x + 1
    y.unfold(1, 1, 1).mul_(2)
    return y


def through_parts(x):
    y = x + 1
    y.split([2, 3], 1)[1].mul_(2)
    return y


def through_dropout(x):
    y = x + 1
    z = torch.nn.functional.dropout(y[0], 0.5, False)
    y[0].mul_(2)
    return y * z.sum()


HERE = [read_before, one_tensor_of_many_names, read_between, filled, maybe_the_same, view_before, through_a_view, rows_in_turn,
        views_of_views, of_another_dtype, of_one_tensor_to_itself, only_read_through_it, through_dropout, windows]  # fmt: skip
BY_TORCH = [to_an_input, through_parts, through_windows]


@pytest.mark.parametrize("body", [*HERE, *BY_TORCH], ids=lambda body: body.__name__)
def test_against_torch(body, monkeypatch):
    x = torch.randn(3, 5)
    program = torch.export.export(Model(body), (x.clone(),))
    assert (functionalize_writes(program) is None) == (body in BY_TORCH)
    traced = []
    own = type(program).run_decompositions
    monkeypatch.setattr(type(program), "run_decompositions", lambda *args: traced.append(1) or own(*args))
    assert not any([is_mutable(node.target) for node in functional(program).graph.nodes])
    assert bool(traced) == (body in BY_TORCH)
    torch.testing.assert_close(unity.compile(program)(x.clone()), program.module()(x.clone()), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error::FutureWarning")  # of torch, where a program is copied with its modules
def test_inputs_keep_names_that_python_has():
    class Named(torch.nn.Module):
        def forward(self, input, sum):
            y = input.exp()
            y[0].mul_(2)
            return y.relu_() + sum

    x = torch.randn(3, 5)
    program = torch.export.export(Named(), (x, x))
    given = [node.name for node in functional(program).graph.nodes if node.op == "placeholder"]
    assert given == ["input", "sum"]
    torch.testing.assert_close(unity.compile(program)(x, x), program.module()(x, x), rtol=1e-5, atol=1e-6)


def test_sizes_as_symbols_are_no_reason_to_trace_again(monkeypatch):
    def body(x):
        y = torch.zeros(x.shape[0] + 1, torch.sym_max(x.shape[0], 3))
        y[1:, 0] = x.sum(1)
        return y

    n = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(Model(body), (torch.randn(4, 5),), dynamic_shapes=(({0: n}),))
    monkeypatch.setattr(type(program), "run_decompositions", lambda *args: pytest.fail("traced again"))
    compiled = unity.compile(program)
    for rows in (2, 7):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(compiled(x), body(x))


def compare(model, run):
    """A drawn model against torch: results, and what it wrote to its input and its buffer."""
    expected, x, y = copy.deepcopy(model), model.x.clone(), model.x.clone()
    right = expected(y)
    torch.testing.assert_close((run(x), x, model.state), (right, y, expected.state), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("own", [True, False], ids=["own", "given"])
@pytest.mark.parametrize("seed", range(8 * TIMES))
def test_random_programs(seed, own):
    model = Drawn(seed, own=own)
    compare(model, unity.compile(model, example_inputs=(model.x.clone(),)))


@pytest.mark.parametrize("seed", range(100, 100 + 16 * TIMES))
def test_writes_of_random_programs_are_made_out_of_place(seed):
    model = Drawn(seed, own=True, length=16)
    try:
        program = functional(torch.export.export(model, (model.x.clone(),)))
    except unity.UnityError as error:
        if "Cannot view a tensor" in str(error):  # see turned_behind_a_view
            pytest.skip("torch's own limit")
        raise
    assert not any([is_mutable(node.target) for node in program.graph.nodes])
    compare(model, program.module())


class Copies(torch.nn.Module):
    """Copies to buffers and a weight what extends or converts to them, and reads them afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("wide", torch.ones(3, 5))
        self.register_buffer("whole", torch.ones(3, 5, dtype=torch.int64))
        self.register_buffer("small", torch.ones(3, 5, dtype=torch.float16))
        self.weight = torch.nn.Parameter(torch.ones(3, 5), requires_grad=False)

    def forward(self, x):
        self.wide.copy_(torch.arange(5))
        self.whole.copy_(x * 10)
        self.small.copy_(x[:, :1])
        self.weight.copy_(x.mean(0, keepdim=True))
        return self.wide / 2, self.whole // 2, self.small.float() * 3, self.weight[0], self.small


def test_a_copy_in_another_order_of_memory_is_no_call_into_torch():
    def body(x):
        filled = x.t().index_fill(0, torch.tensor([1]), 2.0)
        return filled, x.t().lerp(filled, 0.5), x.new_empty_strided((3, 5), (1, 3)).copy_(x)

    x = torch.randn(3, 5)
    torch.testing.assert_close(unity.compile(Model(body), example_inputs=(x,), strict=True)(x), body(x))


def test_a_copied_buffer_keeps_its_shape_and_dtype():
    model, x = Copies(), torch.randn(3, 5)
    expected = copy.deepcopy(model)
    compiled = unity.compile(model, example_inputs=(x,), strict=True)
    torch.testing.assert_close(compiled(x), expected(x))
    torch.testing.assert_close(model.state_dict(), expected.state_dict())


class Changed(torch.nn.Module):
    """Changes its buffers, an attribute and what it is given."""

    def __init__(self, how):
        super().__init__()
        self.how, self.calls = how, 0
        self.register_buffer("kept", torch.ones(2, 1))
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))

    def forward(self, x, *more, given=None, **named):
        self.how(self, x, given)
        return x + sum(more) - named.get("last", 0)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda m, x, d: setattr(m, "count", m.count + 0.5), r"count from int64\[2\] to float32\[2\]"),
        (lambda m, x, d: setattr(m, "kept", m.kept.sum()), r"kept from float32\[2, 1\] to float32\[\]"),
        (lambda m, x, d: setattr(m, "kept", torch.cat([m.kept, m.kept])), r"kept from float32\[2, 1\] to float32\[4, 1\]"),
        (lambda m, x, d: m.kept.add_(1).squeeze_(), r"kept from float32\[2, 1\] to float32\[2\]"),
        (lambda m, x, d: x.mul_(2).t_(), r"x from float32\[2, 3\] to float32\[3, 2\]"),
        (lambda m, x, d: (x.unsqueeze_(0), m.kept.add_(1)), r"the number of axes of x"),
        (lambda m, x, d: (d.t_(), m.kept.add_(1)), r"given from float32\[2, 2\] of strides \[2, 1\] to .* \[1, 2\]"),
        (lambda m, x, d: (d.unsqueeze_(2).squeeze_(2), d.swapaxes_(0, 1)), "given from|the number of axes"),
    ],
)  # fmt: skip
def test_other_kinds_are_refused(how, text):
    with pytest.raises(unity.UnityError, match=rf"E012.*{text}"):
        unity.compile(Changed(how), example_inputs=(torch.ones(2, 3),), example_kwargs={"given": torch.ones(2, 2)})


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda m, x, d: setattr(m, "calls", m.calls + 1), "self.calls"),
        (lambda m, x, d: d.update(a=x + d["a"]), "given"),
        (lambda m, x, d: d["b"].append(x), "given['b']"),
        (lambda m, x, d: (m.kept.copy_(torch.tensor(2.0)), m.count.copy_(torch.tensor([1.5, 2.5]))), None),
    ],
)  # fmt: skip
def test_changes_that_are_lost_are_told(how, text, recwarn):
    model, x = Changed(how), torch.ones(2, 3)
    made = unity.compile(
        model, example_inputs=(x, x, x), example_kwargs={"given": {"a": x, "b": [x]}, "last": torch.tensor(0.5)}
    )
    told = [str(w.message) for w in recwarn if "forward changes" in str(w.message)]
    assert [re.search(r"changes (.*?);", t)[1] for t in told] == ([] if text is None else [text])
    # arguments by name in another order, behind those of ``*more``
    assert torch.equal(made(x, x, 3 * x, last=torch.tensor(0.5), given={"a": x, "b": [x]}), 4.5 * x)
    if text is None:
        assert model.kept.eq(2).all() and model.count.tolist() == [1, 2]


def turned_behind_a_view(y):
    flat = y.view(-1)
    y.split([2, 3], 1)[1].mul_(2)
    y.t().masked_fill_(y.t() > 0, 0.0)
    return flat + 0


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda x: x.unfold(1, 2, 3).add_(1), "E012.*leave out elements"),  # torch takes zeros for them
        (lambda x: x.unfold(1, 2, 2).split(1, 0)[1].transpose(0, 1).mul_(2), "E012.*leave out elements"),
        (lambda x: x.unfold(1, 3, 1).add_(1), "E016.*internal overlap.*write to a clone"),
        (lambda x: turned_behind_a_view(x.clone()), "E016.*Cannot view.*slices in place of split parts"),
        (lambda x: x.as_strided((3,), (1,)).as_strided((2,), (1,), 1).squeeze(0).mul_(2), "E016.*write through slices"),
    ],
)
def test_writes_that_torch_cannot_follow_are_refused_where_they_stand(write, text, capfd):
    with pytest.raises(unity.UnityError, match=f"(?s){text}") as told:
        unity.compile(Model(write), example_inputs=(torch.randn(3, 5),))
    assert told.value.span is not None and "self.body(x)" in str(told.value)
    assert capfd.readouterr().err == ""
