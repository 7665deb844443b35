"""Sizes that torch.export alone would fix at those of the example: steps of recurrent layers, lengths of signals, numbers of floats."""

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.support.errors import VMError  # noqa: E402

ANY = torch.export.Dim.AUTO


class Function(torch.nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


class Alike(torch.nn.Module):
    def forward(self, x, y):
        return x.view_as(y) + y


def agrees(model, f, *inputs) -> None:
    found, expected = f(*inputs), model(*inputs)
    pairs = list(zip(*[torch.utils._pytree.tree_leaves(t) for t in (found, expected)], strict=True))
    assert pairs
    for a, b in pairs:
        torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: torch.nn.LSTM(4, 5, 2, bidirectional=True),
        lambda: torch.nn.LSTM(4, 5, proj_size=3),
        lambda: torch.nn.GRU(4, 5),
        lambda: torch.nn.RNN(4, 5, nonlinearity="relu"),
    ],
)
def test_recurrent_layers_of_any_number_of_steps(layer) -> None:
    model = layer().eval()
    strict = not model.proj_size  # torch computes layers with a projection
    f = unity.compile(model, example_inputs=(torch.randn(5, 2, 4),), dynamic_shapes=({0: ANY, 1: ANY},), strict=strict)
    for steps, batch in ((1, 1), (2, 3), (17, 2), (3, 0)):
        agrees(model, f, torch.randn(steps, batch, 4))


def test_recurrent_layers_in_programs_that_are_traced_again() -> None:
    model = Function(lambda s, x: torch.vmap(torch.sin)(s.layer(x)[0]), layer=torch.nn.GRU(4, 5)).eval()
    f = unity.compile(model, example_inputs=(torch.randn(5, 2, 4),), dynamic_shapes=({0: ANY},))
    agrees(model, f, torch.randn(9, 2, 4))
    assert "CompositeImplicitAutograd" in str(list(torch.ops.aten.gru.input.py_kernels))
    assert torch.ops.aten.gru.input.py_kernels[torch._C.DispatchKey.Autograd].__module__.startswith("torch")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("max_pool1d", lambda s, x: (torch.nn.functional.max_pool1d(x, 2), torch.max_pool1d(x, 3, 2, padding=1, dilation=2))),
        ("MaxPool1d", lambda s, x: torch.nn.MaxPool1d(3, stride=1)(x)),
        ("linspace", lambda s, x: x + torch.linspace(-1, 1, x.shape[2]) + torch.linspace(2, 1, steps=x.shape[1])[:, None]),
        ("integers", lambda s, x: torch.linspace(0, 3, x.shape[2] + 1, dtype=torch.float64)),
        ("take_along_dim", lambda s, x: torch.take_along_dim(x, x.argsort(2)[:1], -1)),
        ("method", lambda s, x: x.take_along_dim(x.argmax(1, keepdim=True), 1)),
        ("cdist", lambda s, x: (torch.cdist(x, x), torch.cdist(x.mT, x.mT[:1], p=1))),
        ("mean", lambda s, x: torch.view_as_real(torch.complex(x, x * 2).mean(1, keepdim=True) + torch.complex(x, x).mean())),
        ("frequencies", lambda s, x: (torch.fft.fftfreq(x.shape[2], 0.5), torch.fft.rfftfreq(x.shape[1] + 1))),
        ("affine", lambda s, x: torch.nn.functional.affine_grid(x.sum() * torch.ones(1, 2, 3), [1, 1, x.shape[2], x.shape[1]])),
        ("affine corners", lambda s, x: torch.nn.functional.affine_grid(torch.ones(2, 3, 4), (2, 1, 4, *x.shape[1:]), align_corners=True)),
        ("istft", lambda s, x: torch.istft(spectrum(x), 16, 5, window=torch.hann_window(16))),
        ("istft of a length", lambda s, x: torch.istft(spectrum(x), 16, 8, 14, normalized=True, length=x.shape[2])),
        ("istft uncentred", lambda s, x: torch.istft(spectrum(x), 16, window=torch.hamming_window(16), center=False)),
    ],
)  # fmt: skip
def test_functions_that_ask_for_numbers(name, function) -> None:
    model = Function(function)
    f = unity.compile(model, example_inputs=(torch.randn(3, 4, 20),), dynamic_shapes=({0: ANY, 1: ANY, 2: ANY},))
    for shape in ((3, 4, 20), (1, 1, 7), (2, 5, 33)):
        agrees(model, f, torch.randn(shape))


def spectrum(x):
    """Nine frequencies of as many frames as rows are long."""
    return torch.complex(x.sum(1).unsqueeze(1).expand(-1, 9, -1), torch.arange(9.0)[:, None] * x.mean(1).unsqueeze(1))


def written(x, *places):
    """A copy with some slices along its last axis written."""
    x = x.clone()
    for n, place in enumerate(places):
        x[..., place] = x[..., place] * 2 + n
    return x


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("block_diag", lambda s, x: torch.block_diag(x[0], x[:, 0], x[0, 0], x.sum(), x[1].int())),
        ("steps", lambda s, x: written(x, slice(None, None, 2), slice(-5, None, 2), slice(2, -1, 4))),
        ("lines", lambda s, x: written(x.flatten(), slice(None, None, 5), slice(x.shape[1], None, 3))),
        ("arange", lambda s, x: x.sum() + torch.arange(0, x.shape[1] * x.shape[2], x.shape[2])),
        ("bags", lambda s, x: torch.nn.functional.embedding_bag(x.argsort(2)[0] % 5, s.rows, mode="mean")),
    ],
)  # fmt: skip
def test_code_of_ours_for_open_sizes(name, function) -> None:
    model = Function(function, rows=torch.nn.Parameter(torch.randn(5, 2)))
    f = unity.compile(
        model, example_inputs=(torch.randn(3, 4, 20),), dynamic_shapes=({0: ANY, 1: ANY, 2: ANY},), strict=True
    )
    for shape in ((3, 4, 20), (2, 2, 9), (5, 3, 33), (2, 7, 8)):
        agrees(model, f, torch.randn(shape))


def changes(ids):
    """True where an identifier is not that before it."""
    return ids != torch.cat([ids[:, :1], ids[:, :-1]], 1)


def attended(layer, x):
    mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
    return layer(x, x, x, key_padding_mask=mask)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("slices", lambda s, x: changes(x.flatten(1).round())),
        ("orders", lambda s, x: (x.permute(1, 0, 2).flatten(1).t() + x.flatten(1).reshape(x.shape[0] * 8, -1)) * 2),
        ("fourier", lambda s, x: torch.fft.fft(x[..., 0], dim=0).abs()),
        ("merged axes", lambda s, x: attended(s.layer, x)),
        ("halves", lambda s, x: torch.cat([x, x.exp()]).chunk(2)[1] + x.repeat(1, 3, 1).chunk(3, 1)[2]),
    ],
)  # fmt: skip
def test_named_sizes_that_torch_refuses_without_need(name, function) -> None:
    layer = torch.nn.MultiheadAttention(8, 4, add_bias_kv=True, batch_first=True)
    model = Function(function, layer=layer).eval()
    rows, columns = torch.export.Dim("rows", min=1, max=40), torch.export.Dim("columns", min=1, max=20) * 2
    f = unity.compile(model, example_inputs=(torch.randn(3, 6, 8),), dynamic_shapes=({0: rows, 1: columns},))
    for size in (1, 3, 8, 20):
        agrees(model, f, torch.randn(size, 2 * size, 8))
    with pytest.raises(VMError, match="at most 40"):
        f(torch.randn(41, 2, 8))


@pytest.mark.parametrize(
    ("decides", "text"), [(lambda n: n > 4, r"E016.*\n.*range.*<= 4"), (lambda n: n * n == 9, r"(?s)E016.*speciali")]
)
def test_a_named_size_that_decides_a_branch_stays_refused(decides, text) -> None:
    model = Function(lambda s, x: changes(x) if decides(x.shape[0]) else x)
    with pytest.raises(unity.UnityError, match=text):
        unity.compile(
            model, example_inputs=(torch.randn(3, 9),), dynamic_shapes=({0: torch.export.Dim("rows", min=1)},)
        )


def test_a_product_of_sizes_that_a_later_input_has() -> None:
    model = Alike()
    both = ({0: ANY}, {0: ANY, 1: ANY})
    f = unity.compile(model, example_inputs=(torch.randn(20), torch.randn(4, 5)), dynamic_shapes=both)
    for rows, columns in ((3, 7), (1, 1), (0, 2)):
        agrees(model, f, torch.randn(rows * columns), torch.randn(rows, columns))
    with pytest.raises(VMError, match=r"x\.shape\[0\]"):
        f(torch.randn(5), torch.randn(2, 3))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_resized_axis_that_keeps_its_size(mode) -> None:
    """1.3 times 3 rounds down to 3: torch copies such an axis in its linear modes."""
    model = Function(lambda s, x: torch.nn.functional.interpolate(x, scale_factor=1.3, mode=mode))
    open_sizes = unity.compile(model, example_inputs=(torch.randn(1, 2, 8, 9),), dynamic_shapes=({2: ANY, 3: ANY},))
    x = torch.randn(1, 2, 3, 5)
    agrees(model, open_sizes, x)
    agrees(model, unity.compile(model, example_inputs=(x,)), x)


def test_tensors_of_numbers_computed_from_sizes() -> None:
    """As torchaudio's Resample cuts its result, and detectors write down the sizes of their feature maps."""

    def numbers(_, x):
        rows, columns = x.shape
        made = [torch.as_tensor(columns / 3), torch.as_tensor(columns, dtype=torch.float32), torch.tensor([rows, columns, 1]),
                torch.tensor([rows / 2, columns / 3]), torch.as_tensor([[columns, 2], [rows, columns]]), x.new_tensor(columns / 3),
                x.new_tensor([columns, 2.5]), torch.asarray(columns)]  # fmt: skip
        return x[:, : torch.ceil(torch.as_tensor(8 * columns / 16)).long()], *[m * 2 for m in made]

    model, n = Function(numbers), torch.export.Dim("n", max=500)
    f = unity.compile(model, example_inputs=(torch.randn(2, 16),), dynamic_shapes=({1: n},), strict=True)
    for columns in (16, 7, 1, 500):
        agrees(model, f, torch.randn(2, columns))
