"""Every module of torch.nn in evaluation mode: compiled without calls back into torch, with torch's result."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch_models import TOLERANCE  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
torch.manual_seed(3)


def r(*shape: int) -> Any:
    return torch.randn(*shape)


def causal(length: int) -> Any:
    return nn.Transformer.generate_square_subsequent_mask(length)


def u(*shape: int) -> Any:
    return torch.rand(*shape) * 0.9 + 0.05


def k(*shape: int, high: int = 5) -> Any:
    return torch.randint(0, high, shape)


def sign(*shape: int) -> Any:
    return torch.randint(0, 2, shape) * 2.0 - 1


S, P, V = (2, 3, 9), (2, 3, 8, 7), (1, 2, 5, 6, 4)
RANKED = {1: S, 2: P, 3: V}
ELEMENTWISE = """
ELU CELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU ReLU ReLU6 RReLU SELU SiLU Sigmoid
Softplus Softshrink Softsign Tanh Tanhshrink AlphaDropout Dropout FeatureAlphaDropout
"""
CASES: list[tuple[Any, tuple[Any, ...]]] = []
"""(module, inputs); several for one class where its options matter."""
for name in ELEMENTWISE.split():
    CASES.append((getattr(nn, name)(), (r(2, 3, 4),)))
for rank, shape in RANKED.items():
    channels = shape[1]
    x = (r(*shape),)
    for name in (f"BatchNorm{rank}d", f"InstanceNorm{rank}d"):
        CASES.append((getattr(nn, name)(channels, affine=True), x))
    CASES.append((getattr(nn, f"InstanceNorm{rank}d")(channels, track_running_stats=True), x))
    CASES.append((getattr(nn, f"Dropout{rank}d")(), x))
    for name in ("Avg", "Max"):
        CASES.append((getattr(nn, f"Adaptive{name}Pool{rank}d")(3), x))
        CASES.append((getattr(nn, f"{name}Pool{rank}d")(2, 2, 1), x))
        CASES.append((getattr(nn, f"{name}Pool{rank}d")(3, 2, ceil_mode=True), x))
    CASES.append((getattr(nn, f"MaxPool{rank}d")(2, return_indices=True), x))
    CASES.append((getattr(nn, f"AdaptiveMaxPool{rank}d")(2, return_indices=True), x))
    CASES.append((getattr(nn, f"LPPool{rank}d")(2, 2), x))
    CASES.append((getattr(nn, f"Conv{rank}d")(channels, 2 * channels, 3, 2, 1, groups=channels), x))
    CASES.append((getattr(nn, f"Conv{rank}d")(channels, 4, 3, padding="same", padding_mode="circular"), x))
    CASES.append((getattr(nn, f"ConvTranspose{rank}d")(channels, 4, 3, 2, 1, 1), x))
    for name in ("Circular", "Reflection", "Replication", "Zero"):
        CASES.append((getattr(nn, f"{name}Pad{rank}d")(1), x))
    CASES.append((getattr(nn, f"ConstantPad{rank}d")(2, 1.5), x))
    for name, extra in (("Conv", (4, 2)), ("ConvTranspose", (4, 2)), ("BatchNorm", ()), ("InstanceNorm", ())):
        CASES.append((getattr(nn, f"Lazy{name}{rank}d")(*extra), x))
    size = (8, 10, 6)[:rank]
    pooled, places = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(r(1, 2, *size))
    CASES.append((getattr(nn, f"MaxUnpool{rank}d")(2), (pooled, places)))
CASES += [
    (nn.Bilinear(3, 4, 5), (r(2, 3), r(2, 4))),
    (nn.ChannelShuffle(2), (r(1, 4, 2, 3),)),
    (nn.CosineSimilarity(), (r(2, 3), r(2, 3))),
    (nn.Embedding(5, 3, padding_idx=1), (k(2, 4),)),
    (nn.EmbeddingBag(5, 3), (k(2, 4),)),
    (nn.EmbeddingBag(5, 3, mode="max"), (k(6), torch.tensor([0, 2, 2]))),
    (nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True), (k(6), torch.tensor([0, 3, 6]))),
    (nn.Flatten(), (r(2, 3, 4),)),
    (nn.Unflatten(1, (2, 3)), (r(2, 6),)),
    (nn.Fold((4, 5), 2), (r(1, 8, 12),)),
    (nn.Unfold(2, stride=2, padding=1), (r(1, 2, 4, 5),)),
    (nn.FractionalMaxPool2d(2, (3, 4), _random_samples=u(2, 3, 2)), (r(*P),)),
    (nn.FractionalMaxPool3d(2, (2, 3, 2), return_indices=True, _random_samples=u(1, 2, 3)), (r(*V),)),
    (nn.GLU(1), (r(2, 6),)),
    (nn.GroupNorm(2, 4), (r(2, 4, 3),)),
    (nn.LayerNorm((3, 4)), (r(2, 3, 4),)),
    (nn.RMSNorm(4), (r(2, 4),)),
    (nn.LocalResponseNorm(2), (r(1, 4, 3, 3),)),
    (nn.Linear(3, 4), (r(2, 3),)),
    (nn.LazyLinear(4), (r(2, 3),)),
    (nn.LogSoftmax(1), (r(2, 3),)),
    (nn.Softmax(-1), (r(2, 3),)),
    (nn.Softmax2d(), (r(1, 3, 2, 2),)),
    (nn.Softmin(1), (r(2, 3),)),
    (nn.PairwiseDistance(3.0), (r(2, 3), r(2, 3))),
    (nn.PixelShuffle(2), (r(1, 8, 2, 3),)),
    (nn.PixelUnshuffle(2), (r(1, 2, 4, 6),)),
    (nn.Threshold(0.1, 2.0), (torch.tensor([-1.0, 0.1, 0.2, float("nan"), float("inf")]),)),
    (nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (r(2, 3),)),
    (nn.Upsample(scale_factor=2), (r(1, 2, 3, 3),)),
    (nn.Upsample(scale_factor=1.7, mode="linear"), (r(1, 2, 5),)),
    (nn.Upsample(size=(5, 4), mode="bilinear"), (r(1, 2, 3, 3),)),
    (nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True), (r(1, 2, 3, 3),)),
    (nn.Upsample(scale_factor=2, mode="trilinear"), (r(1, 2, 2, 3, 2),)),
    (nn.Upsample(scale_factor=1.5, mode="nearest-exact"), (r(1, 2, 3, 5),)),
    (nn.UpsamplingBilinear2d(scale_factor=2), (r(1, 2, 3, 3),)),
    (nn.UpsamplingNearest2d(scale_factor=2), (r(1, 2, 3, 3),)),
    (nn.SyncBatchNorm(3), (r(*P),)),
    # recurrent layers
    (nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), (r(2, 3, 4),)),
    (nn.LSTM(4, 5), (r(6, 2, 4), (r(1, 2, 5), r(1, 2, 5)))),
    (nn.LSTM(4, 5, bias=False), (r(6, 4),)),
    (nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True, proj_size=3), (r(2, 3, 4),)),
    (nn.LSTM(4, 5, bias=False, proj_size=2), (r(6, 2, 4), (r(1, 2, 2), r(1, 2, 5)))),
    (nn.GRU(4, 5, 2), (r(3, 2, 4),)),
    (nn.GRU(4, 5, bias=False, bidirectional=True), (r(3, 2, 4), r(2, 2, 5))),
    (nn.RNN(4, 5, nonlinearity="relu"), (r(3, 2, 4),)),
    (nn.RNN(4, 5, batch_first=True), (r(3, 2, 4),)),
    (nn.LSTMCell(4, 5), (r(2, 4),)),
    (nn.GRUCell(4, 5), (r(2, 4), r(2, 5))),
    (nn.RNNCell(4, 5), (r(2, 4),)),
    # attention
    (nn.MultiheadAttention(8, 2, batch_first=True), (r(2, 3, 8),) * 3),
    (nn.TransformerEncoderLayer(8, 2, 16), (r(2, 3, 8),)),
    (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (r(2, 3, 8), r(2, 4, 8))),
    (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (r(2, 3, 8),)),
    (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (r(2, 3, 8), causal(3))),
    (nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 1), (r(2, 3, 8), r(2, 3, 8))),
    (nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 1), (r(2, 3, 8), r(2, 3, 8), causal(2))),
    (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (r(2, 3, 8), r(2, 4, 8))),
    (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (r(2, 3, 8), r(2, 4, 8), causal(3), u(4, 4).round() < 1)),
    # losses
    (nn.BCELoss(), (u(3, 2), u(3, 2))),
    (nn.BCEWithLogitsLoss(pos_weight=u(2)), (r(3, 2), u(3, 2))),
    (nn.CosineEmbeddingLoss(0.1), (r(3, 4), r(3, 4), sign(3))),
    (nn.CrossEntropyLoss(label_smoothing=0.1), (r(3, 5), k(3))),
    (nn.CrossEntropyLoss(), (r(3, 5, 2), u(3, 5, 2))),
    (nn.GaussianNLLLoss(), (r(3, 2), r(3, 2), u(3, 2))),
    (nn.GaussianNLLLoss(full=True, reduction="sum"), (r(3, 2), r(3, 2), u(3))),
    (nn.LinearCrossEntropyLoss(4, 5), (r(3, 4), k(3))),
    (nn.HingeEmbeddingLoss(), (r(3), sign(3))),
    (nn.HuberLoss(delta=0.7), (r(3), r(3))),
    (nn.KLDivLoss(), (r(3), u(3))),
    (nn.KLDivLoss(log_target=True, reduction="batchmean"), (r(3), r(3))),
    (nn.L1Loss(), (r(3), r(3))),
    (nn.MSELoss(), (r(3), r(3))),
    (nn.SmoothL1Loss(), (r(3), r(3))),
    (nn.SmoothL1Loss(beta=0.0), (r(3), r(3))),
    (nn.MarginRankingLoss(), (r(3), r(3), sign(3))),
    (nn.MultiLabelSoftMarginLoss(), (r(3, 4), u(3, 4).round())),
    (nn.MultiLabelMarginLoss(), (r(2, 4), torch.tensor([[3, 0, -1, 1], [2, -1, 0, 0]]))),
    (nn.MultiMarginLoss(), (r(3, 4), k(3, high=4))),
    (nn.NLLLoss(ignore_index=2), (r(3, 5), k(3))),
    (nn.NLLLoss2d(), (r(2, 5, 3, 2), k(2, 3, 2))),
    (nn.PoissonNLLLoss(full=True), (r(3), u(3) * 4)),
    (nn.SoftMarginLoss(), (r(3), sign(3))),
    (nn.TripletMarginLoss(), (r(3, 4), r(3, 4), r(3, 4))),
    (nn.TripletMarginWithDistanceLoss(), (r(3, 4), r(3, 4), r(3, 4))),
]  # fmt: skip
NOT_CALLED = {
    "Container": "abstract", "Module": "abstract", "RNNBase": "abstract", "RNNCellBase": "abstract",
    "ModuleDict": "holds modules, has no forward", "ModuleList": "holds modules, has no forward",
    "ParameterDict": "holds parameters, has no forward", "ParameterList": "holds parameters, has no forward",
    "LinearCrossEntropyOptions": "options, no module",
    "CrossMapLRN2d": "sets the storage of a tensor, which torch.export cannot follow",
    "CTCLoss": "torch.export refuses it: the lengths are read from tensors",
    "AdaptiveLogSoftmaxWithLoss": "its forward asserts the range of the targets with item(): torch.export refuses it",
}  # fmt: skip


_NONE = "no graph operator expresses it"
IN_TORCH = {
    "fractional_max_pool2d.default": _NONE, "fractional_max_pool3d.default": _NONE, "multilabel_margin_loss.default": _NONE,
    "lstm.input": "a projection of the hidden state",
    **{f"{kind}{rank}d{way}.default": "the places of the largest elements"
       for kind, way in (("max_pool", "_with_indices"), ("adaptive_max_pool", "")) for rank in (1, 2, 3)},
}  # fmt: skip
"""The operators of rare modules, which run in torch, and why."""
GROUP = 24


class Modules(nn.Module):
    """A model that calls several modules, each on its own inputs."""

    def __init__(self, modules: list[Any]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [part(*given) for part, given in zip(self.parts, inputs)]


def prepared(module: Any, inputs: Any) -> Any:
    """The module in evaluation mode, lazy ones with their sizes found."""
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        with torch.no_grad():
            module(*inputs)
    return module.eval()


def test_a_variance_below_zero_is_refused_when_the_program_runs() -> None:
    inputs = (r(3), r(3), u(3))
    compiled = unity.compile(nn.GaussianNLLLoss().eval(), example_inputs=inputs, strict=True)
    with pytest.raises(unity.UnityError, match="var has negative"):
        compiled(r(3), r(3), -u(3))


def test_all_modules_of_torch_stand_in_the_table() -> None:
    shown = {type(m).__name__ for m, _ in CASES}
    missing = set(nn.modules.__all__) - shown - set(NOT_CALLED)
    assert not missing, sorted(missing)
    assert not set(NOT_CALLED) & shown


@pytest.mark.parametrize("first", range(0, len(CASES), GROUP))
def test_modules(first: int, tmp_path: Any) -> None:
    """Groups of modules in one model; each result against torch, and nothing may run in torch; saved and loaded they are the same."""
    group = CASES[first : first + GROUP]
    names = [type(m).__name__ for m, _ in group]
    model = Modules([prepared(m, inputs) for m, inputs in group]).eval()
    inputs = [given for _, given in group]
    with torch.no_grad():
        expected = model(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = unity.compile(model, example_inputs=(inputs,))
    in_torch = {(f.operator, f.reason) for f in compiled.report.fallbacks}
    assert in_torch <= {(f"aten.{name}", reason) for name, reason in IN_TORCH.items()}, str(compiled.report)
    wrong = []
    for name, made, wanted in zip(names, compiled(inputs), expected):
        try:
            torch.testing.assert_close(made, wanted, equal_nan=True, check_stride=False, **TOLERANCE)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
    compiled.save(tmp_path / "modules")
    loaded = unity.load_model(tmp_path / "modules")
    torch.testing.assert_close(loaded(inputs), compiled(inputs), equal_nan=True, rtol=0, atol=0)
