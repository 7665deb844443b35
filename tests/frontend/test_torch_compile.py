"""``torch.compile`` with the backend: graph breaks, sizes that vary, state, training with random numbers, torch's fused layers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import FallbackWarning, unity_backend  # noqa: E402
from unity.frontend.torch import dynamo  # noqa: E402
from unity.frontend.torch.dynamo import compile_graph  # noqa: E402
from unity.support.errors import VMError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def compiled(model: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=unity_backend, **options)


class Breaks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        if x.sum() > 0:
            x = x * 2
        return {"y": self.second(x), "n": len(x), "none": None}


def test_graph_breaks() -> None:
    model, x = Breaks().eval(), torch.randn(4, 8)
    run = compiled(model)
    with torch.no_grad():
        for given in (x, -x):
            made, expected = run(given), model(given)
            assert list(made) == list(expected) and made["n"] == 4 and made["none"] is None
            same(made["y"], expected["y"])


def test_every_batch_size() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        for size in (4, 7, 1, 0):
            x = torch.randn(size, 8)
            same(run(x), model(x))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        rows = x
        for layer in self.layers:
            rows = layer(rows)
        return rows, rows.T, x[1:]


def test_plain_arguments_are_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call hands weights and inputs to the program as they lie; only others are made compact, and none shares its memory."""
    model, asked = Scaled().eval(), list[Any]()
    run, convert = compiled(model), dynamo.as_pairs
    monkeypatch.setattr(dynamo, "as_pairs", lambda value: asked.append(value) or convert(value))
    with torch.no_grad():
        pairs = torch.randn(4, 8, dtype=torch.complex64)
        for x in (torch.randn(4, 8), torch.randn(8, 4).T, pairs.conj().imag, torch.randn(4, 16)[:, ::2]):
            made, plain = run(x), x.is_contiguous()
            assert bool(asked) != plain
            for got, expected in zip(made, model(x), strict=True):
                same(got, expected)
                assert got.stride() == expected.stride()
            if plain:
                made[0].zero_()
                same(run(x)[0], model(x)[0])
            asked.clear()
        one = torch.tensor([1 + 2j]).conj().imag  # contiguous, and its sign is not in its memory
        same(compiled(lambda x: x * 2 + 1)(one), torch.tensor([-3.0]))


def test_results_in_another_order_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense result whose axes lie in another order is computed in that order; others are copied into torch's strides."""
    copied = list[Any]()
    with_layout = dynamo._with_layout
    monkeypatch.setattr(dynamo, "_with_layout", lambda *args: copied.append(args) or with_layout(*args))
    x, pairs = torch.randn(2, 3, 4), torch.randn(3, 4, dtype=torch.complex64)
    cases: list[tuple[Any, Any, bool]] = [
        (lambda x: (x * 2).permute(2, 0, 1), x, False),
        (lambda x: torch.relu(x.to(memory_format=torch.channels_last)), torch.randn(2, 3, 4, 5), False),
        (lambda x: (x + 1).T, pairs, False),
        (lambda x: (x + 1)[:, 1:], x, True),
        (lambda x: (x + 1)[:, :1].expand(2, 3, 4), x, True),
        (lambda x: (x * 2)[1:2].permute(2, 1, 0), x, True),
    ]
    for function, given, copies in cases:
        made, expected = compiled(function)(given), function(given)
        same(made, expected)
        assert made.stride() == expected.stride() and bool(copied) == copies
        copied.clear()


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: Any) -> Any:
        self.total.add_(x.sum(0))
        x.mul_(2)
        return self.total + x


def test_written_buffers_and_inputs() -> None:
    model, other = Counter(), Counter()
    run = compiled(other)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 8)
            y = x.clone()
            same(run(y), model(x))
            same(y, x)
    same(other.total, model.total)


@pytest.mark.parametrize("norm_first,mask", [(False, "none"), (True, "causal"), (False, "padding"), (True, "both")])
def test_fused_encoder_layers_run_without_torch(norm_first: bool, mask: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu"
    ).eval()
    x = torch.randn(3, 5, 8)
    options: dict[str, Any] = {}
    if mask in ("causal", "both"):
        options["src_mask"] = torch.ones(5, 5).triu(1).bool()
    if mask in ("padding", "both"):
        options["src_key_padding_mask"] = torch.tensor([[False] * 4 + [True]] * 3)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(compiled(layer)(x, **options), layer(x, **options))


def test_training_draws_its_random_numbers_in_torch() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Dropout(0.5))
    made = compiled(model)(torch.randn(4, 8))
    dropped = (made == 0).float().mean().item()
    assert 0.2 < dropped < 0.8
    made.sum().backward()
    assert model[0].weight.grad is not None


VIEWS = {
    "expand": lambda x: x.expand(2, *x.shape),
    "tail": lambda x: x[1:],
    "columns": lambda x: x.T[1:, None],
    "bits": lambda x: x.view(torch.int32)[1:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_inputs_with_strides_and_an_offset(view: str) -> None:
    """Sizes and strides are symbols from the second call on; an offset may be another in every call, and nothing is compiled anew."""
    forward = VIEWS[view]
    run = compiled(forward)
    wide, long = torch.randn(8, 12), torch.randn(90)
    strided = [wide[::2, 1::3], wide[::2, 2::3], wide[1::2, 2::3], long[5:29].view(4, 6), long[47:71].view(4, 6)]
    with torch.no_grad():
        for x in (torch.randn(6, 4).T, *strided, torch.randn(1, 6).expand(4, 6), torch.randn(5, 4)):
            made, expected = run(x), forward(x)
            same(made, expected)
            assert made.stride() == expected.stride() and made.data_ptr() == expected.data_ptr()


def test_views_of_inputs_in_another_data_type() -> None:
    def forward(x: Any, y: Any) -> Any:
        return torch.view_as_real(x)[1:], x.real[2:], x.imag[:2], x.conj()[1:], y.view(torch.int16)[1:], x * 2

    run = compiled(forward)
    x, y = torch.randn(9, dtype=torch.complex64), torch.randn(9)
    with torch.no_grad():
        for start in (3, 1):
            same(run(x[start:], y[start:]), forward(x[start:], y[start:]))


def test_results_have_the_strides_torch_traced() -> None:
    run = compiled(lambda x: (torch.relu(x).transpose(0, 1) * 2, x.new_ones(3).expand(2, 3), x[:0].T))
    x = torch.randn(5, 4)
    made = run(x)
    same(made, (torch.relu(x).T * 2, torch.ones(2, 3), x[:0].T))
    assert [t.stride() for t in made[:2]] == [(1, 4), (0, 1)]


class Spectrum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x: Any) -> Any:
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * self.turn
        torch._dynamo.graph_break()
        y = torch.fft.fft(z) * torch.ones(4, dtype=torch.cfloat)
        torch._dynamo.graph_break()
        return y.T, torch.view_as_real(y), (z.conj() * 2).resolve_conj()


def test_complex_tensors_cross_graph_breaks() -> None:
    model = Spectrum().eval()
    run = compiled(model)
    with torch.no_grad():
        for rows in (2, 3):
            x = torch.randn(rows, 8)
            for made, expected in zip(run(x), model(x)):
                assert made.dtype is expected.dtype and made.stride() == expected.stride()
                torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)


def test_constants_made_while_the_model_runs() -> None:
    def forward(x: Any) -> Any:
        cache = torch.tensor([])
        return torch.cat([cache, x]), torch.fft.rfft(x).abs() * torch.tensor([1.0, 2.0, 3.0])

    x = torch.randn(4)
    with torch.no_grad():
        same(compiled(forward)(x), forward(x))


def test_a_branch_on_data() -> None:
    def forward(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))

    run = compiled(forward)
    with torch.no_grad():
        for x in (torch.ones(3), -torch.ones(3)):
            same(run(x), forward(x))


def test_attention_with_functions_of_scores() -> None:
    q, run = torch.randn(1, 2, 16, 8), compiled(flex_attention)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(run(q, q, q), flex_attention(q, q, q))


def test_a_graph_with_an_unknown_function_of_functions_runs_in_torch() -> None:
    def forward(x: Any) -> Any:
        return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)

    x, run = torch.ones(3, 3, dtype=torch.int8), compiled(forward)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="a whole graph runs in torch: .*out_dtype"):
        same(run(x), forward(x))


def test_assertions_stay_in_the_program() -> None:
    """Those of a model and of torch's solvers: AOT autograd hands them over with tokens that order them."""

    def forward(x: Any, y: Any) -> Any:
        torch._assert_async((x > 0).all(), "x is not positive")
        torch._assert_async((y > 0).all(), "y is not positive")
        return torch.linalg.inv(x + y), x.sum()

    for grad in (False, True):
        x, run = (torch.eye(3) + 1).requires_grad_(grad), compiled(forward)
        with pytest.warns(FallbackWarning, match=r"1 calls run in torch:\n.*linalg_inv_ex"):
            same(run(x, x * 2), forward(x, x * 2))
        with pytest.raises(VMError, match="y is not positive"):
            run(x, -x)


def test_a_size_handed_over_twice() -> None:
    """Generation with a cache does so: the same symbol as two numbers and as an axis."""
    make = make_fx(lambda x: (x.view(-1, x.shape[0]).sum(0) * x.shape[0],), tracing_mode="symbolic")
    graph = make(torch.randn(5, 3))
    first = next(iter(graph.graph.nodes))
    with graph.graph.inserting_before(first):
        for name in ("length", "again"):
            graph.graph.placeholder(name).meta["val"] = first.meta["val"].shape[0]
    graph.recompile()
    x = torch.randn(7, 3)
    torch.testing.assert_close(compile_graph(graph, [])([7, 7, x])[0], x.view(-1, 7).sum(0) * 7)


@pytest.mark.parametrize(
    "cut",
    [
        lambda x, n: x[1 - n :] * 1,
        lambda x, n: x[n - 6 : n] * 1,
        lambda x, n: x[n - 6 :: 2] * 1,
        lambda x, n: torch.slice_scatter(x, torch.zeros_like(x[1 - n :]), 0, 1 - n),
    ],
    ids=["window", "both_ends", "step", "scatter"],
)
def test_a_slice_from_a_number_of_either_sign(cut: Any) -> None:
    """A cache with a sliding window begins so: from the end, and from the front while it is shorter than the window."""
    run = compiled(cut, dynamic=True)
    with torch.no_grad():
        for size, number in ((9, 4), (5, 4), (3, 4), (2, 5), (9, 7), (4, 8), (12, 10)):
            x = torch.randn(size, 2)
            torch.testing.assert_close(run(x, number), cut(x, number), rtol=0, atol=0)


@pytest.mark.parametrize("keys", [1, 2])
def test_attention_of_groups_stays_inside(keys: int) -> None:
    def run(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    torch.manual_seed(0)
    inputs = [torch.randn(2, heads, 5, 8) for heads in (4, keys, keys)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(compiled(run)(*inputs), run(*inputs))


def test_operators_torch_decomposes_run_without_torch() -> None:
    """``torch.compile`` hands out other operators than ``torch.export``: those of paddings, of losses, of masked softmax."""
    nn, F = torch.nn, torch.nn.functional
    parts = [nn.ReflectionPad2d(1), nn.ReplicationPad2d(2), nn.PReLU(), nn.LogSigmoid(), nn.ChannelShuffle(2)]

    def forward(x: Any, mask: Any) -> Any:
        q = x.flatten(0, 1)
        loss = F.soft_margin_loss(x, x.sign())
        return [p(x) for p in parts], F.scaled_dot_product_attention(q, q, q, attn_mask=mask), loss

    x, mask = torch.randn(1, 4, 5, 6), torch.tensor([[True] * 5, [False] * 5] + [[True, False] * 2 + [True]] * 3)
    for grad in (False, True):
        with torch.set_grad_enabled(grad), warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            same(compiled(forward)(x, mask), forward(x, mask))


def test_of_overlapping_frames_only_the_transform_runs_in_torch() -> None:
    def forward(x: Any) -> Any:
        return torch.istft(torch.view_as_complex(x), 8, 4, window=torch.ones(8))

    x, run = torch.randn(5, 6, 2), compiled(forward)
    with torch.no_grad(), pytest.warns(FallbackWarning, match=r"1 calls run in torch:\n.*_fft_c2r"):
        same(run(x), forward(x))


def test_modes_and_options() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(), torch.randn(2, 4)
    with torch.no_grad():
        for options in ({"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"options": {"exec_mode": "bytecode"}}):
            same(compiled(model, **options)(x), model(x))
        for options in ({"mode": "fastest"}, {"options": {"epilogue_fusion": True}}):
            with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="E733"):
                compiled(model, **options)(x)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="E010"):
            compiled(torch.hash_tensor, options={"strict": True})(x)


def test_a_graph_that_gives_a_quantised_tensor_runs_in_torch() -> None:
    def forward(x: Any) -> Any:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)

    x = torch.randn(3)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="a whole graph runs in torch: .*quantised"):
        same(compiled(forward)(x).int_repr(), forward(x).int_repr())


def test_ranges_of_floats_with_sizes() -> None:
    def forward(x: Any) -> Any:
        n = x.shape[0]
        integers = torch.arange(n, -n, -1.0, dtype=torch.int64)
        return torch.arange(n, -1, -1.0), torch.arange(n * 0.3, n + 1), torch.arange(0, 2 * n, n // 2 + 0.5), integers

    run = compiled(forward, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for size in (4, 7, 33):
            same(run(torch.randn(size)), forward(torch.randn(size)))


def test_nested_tensors_of_uneven_length() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    run = compiled(model)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for lengths in ((3, 5), (4, 1, 6), (2, 2)):
            x = torch.nested.nested_tensor([torch.randn(n, 8) for n in lengths], layout=torch.jagged)
            made = run(x)
            same(made.values(), model(x.values()))
            same(made.offsets(), x.offsets())


def test_tensors_without_elements_run_in_torch() -> None:
    run = compiled(torch.nn.Linear(8, 4, device="meta"))
    with torch.no_grad(), pytest.warns(FallbackWarning, match="is a tensor on meta"):
        assert run(torch.zeros(2, 8, device="meta")).shape == (2, 4)


class InBytes(torch.Tensor):
    """Weights in eight bits that a call of any operator widens."""

    @staticmethod
    def __new__(cls, codes: Any, scale: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)

    def __init__(self, codes: Any, scale: Any) -> None:
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self) -> Any:
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(parts["codes"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if fn is torch.ops.aten.detach.default:
            return cls(args[0].codes, args[0].scale)
        wide = [a.codes.to(a.scale.dtype) * a.scale if isinstance(a, cls) else a for a in args]
        return fn(*wide, **(kwargs or {}))


def test_weights_of_another_class_are_read_as_they_are_at_each_call() -> None:
    model, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
    codes, scale = torch.randint(-9, 9, (4, 8), dtype=torch.int8), torch.rand(4, 1)
    model.weight = torch.nn.Parameter(InBytes(codes, scale), requires_grad=False)
    run = compiled(model)
    with torch.no_grad():
        for _ in range(3):
            same(run(x), x @ (codes * scale).T + model.bias)
            codes.neg_()
        model.weight = torch.nn.Parameter(InBytes(codes + 1, scale), requires_grad=False)
        same(run(x), x @ ((codes + 1) * scale).T + model.bias)


def test_weights_of_another_class_are_compiled_as_their_parts(tmp_path) -> None:
    model, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
    model.weight = torch.nn.Parameter(InBytes(torch.randint(-9, 9, (4, 8), dtype=torch.int8), torch.rand(4, 1)), False)
    made = unity.compile(model, example_inputs=(x,), strict=True)
    with torch.no_grad():
        same(made(x), model(x))
        made.save(tmp_path / "bytes")
        same(unity.load_model(tmp_path / "bytes")(x), model(x))
        model.weight.codes.neg_()
        with pytest.raises(unity.UnityError, match=r"E660.*weight"):
            made(x)
