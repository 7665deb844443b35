"""Architectures compiled with a dynamic batch, and with a dynamic sequence where they have one: small ones by hand, and those of
torchvision, timm and transformers that can be made from a small configuration. Not here: the tests (``test_dynamic_twins.py``).
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves
from torch_models import CNN, MLP, Encoder, same

import unity

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from models.sequence import SequenceLSTM, TransformerEncoder
from models.vision import mobilenet_v2, resnet18, resnet50, unet

Inputs = dict[str, torch.Tensor]
EXAMPLE, RUNS = (2, 7), ((3, 4), (5, 11))
"""(batch, length) of the example, and of the calls: no size of a call is the example's."""
LIMIT = 40_000_000
"""Parameters above which a model of a library is left out."""


class TorchRefuses(Exception):
    """torch itself does not run a model for some sizes, the model draws random numbers, or its exported program has others than it."""


@dataclass
class Twin:
    """A model and its inputs for (batch, length); which axis of each input is the length, if one is."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], Inputs]
    length: dict[str, int]

    def check(self) -> None:
        """Compile for open sizes and compare two calls with torch; where torch exports no open length, for an open batch. Raises
        TorchRefuses where torch itself does not run the sizes, UnityError E016 where it does not export them."""
        try:
            self.check_open()
        except unity.UnityError as error:
            if error.code != "E016" or not self.length:
                raise
            Twin(self.make, lambda batch, _: self.inputs(batch, EXAMPLE[1]), {}).check_open()

    def check_open(self) -> None:
        """Check with the axes as they are."""
        torch.manual_seed(0)
        model, calls = self.make(), [self.inputs(*size) for size in RUNS]
        with torch.no_grad():
            try:
                model = settled(model, self.inputs(6, EXAMPLE[1]))
                wanted = [model(**call) for call in calls]
            except Exception as error:
                raise TorchRefuses(f"torch: {type(error).__name__}: {str(error)[:200]}") from error
        batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=30)
        example = self.inputs(*EXAMPLE)
        axes = {k: {0: batch, **({self.length[k]: length} if k in self.length else {})} for k in example}
        compiled = unity.compile(model, example_inputs=(), example_kwargs=example, dynamic_shapes=axes)
        for call, expected in zip(calls, wanted):
            found = compiled(**call)
            try:
                same(tree_leaves(found), tree_leaves(expected))
            except AssertionError:
                if as_near(model, call, tree_leaves(found), tree_leaves(expected)):
                    continue
                with torch.no_grad():  # some models draw numbers, some compute others while they are traced
                    again = tree_leaves(model(**call))
                    if not all([torch.equal(a, e) for a, e in zip(again, tree_leaves(expected))]):
                        raise TorchRefuses("torch: the model draws random numbers") from None
                    traced = torch.export.export(model, (), example, dynamic_shapes=axes).module()(**call)
                same(tree_leaves(found), tree_leaves(traced))
                raise TorchRefuses("torch: its exported program has other numbers than the model") from None


def as_near(model: nn.Module, call: Inputs, found: list[Any], expected: list[Any]) -> bool:
    """Are results that differ from torch's by more than the tolerance no further from float64's than twice torch's own?

    Random weights let some deep models magnify rounding.
    """
    wide = copy.deepcopy(model).double()
    try:
        with torch.no_grad():
            exact = tree_leaves(wide(**{k: v.double() if v.is_floating_point() else v for k, v in call.items()}))
    except RuntimeError:  # an operator that torch does not have in float64
        return False
    return all([
        f.shape == e.shape and f.dtype == e.dtype and distance(f, x) <= 2 * distance(e, x)
        for f, e, x in zip(found, expected, exact, strict=True)
    ])  # fmt: skip


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Of two tensors, the root of the mean square of what they differ by."""
    return (found.double() - exact.double()).square().mean().sqrt().item()


def settled(model: nn.Module, inputs: Inputs) -> nn.Module:
    """The model for inference; the statistics of its batches are those of some inputs, so that no value fades away, and parameters
    that are zero are not, so that no branch is without effect and no two scores are equal."""
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.1)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None
    if norms:
        with torch.no_grad():
            model.train()(**inputs)
    return model.eval()


def block(
    channels: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> Any:
    """Convolution, normalisation of a batch, activation."""
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), act or nn.ReLU())


class Dense(nn.Module):
    """DenseNet: each layer reads all before it; a transition halves."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(block(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(8 + 4 * i), nn.ReLU(), nn.Conv2d(8 + 4 * i, 4, 3, 1, 1))
                                     for i in range(3)])  # fmt: skip
        self.last = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.last(x).mean((2, 3))


class Fire(nn.Module):
    """SqueezeNet: narrow, then two widths joined; pooling that rounds up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.squeeze, self.one, self.three = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.squeeze(self.first(x)))
        return F.adaptive_avg_pool2d(F.relu(torch.cat([self.one(x), self.three(x)], 1)), 1).flatten(1)


class Excited(nn.Module):
    """EfficientNet: a depthwise convolution whose channels are weighed by their means."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = block(3, 16, 3, 2, act=nn.SiLU()), block(16, 16, 5, 2, groups=16, act=nn.SiLU())
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid()
        )
        self.last = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.deep(self.first(x))
        return x + self.last(x * self.weigh(x))


class Mobile(nn.Module):
    """MobileViT: patches of a picture through attention and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = (
            block(3, 32, 3, 2, act=nn.SiLU()),
            nn.TransformerEncoderLayer(32, 2, 48, batch_first=True),
        )
        self.last = block(64, 32, 3, act=nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        n, c, h, w = x.shape
        y = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(n * 4, h * w // 4, c)
        y = self.layer(y).reshape(n, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2).reshape(n, c, h, w)
        return self.last(torch.cat([x, y], 1))


class Shuffled(nn.Module):
    """ShuffleNet: half of the channels goes by, then they mix."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(block(3, 16, 3, 2), nn.MaxPool2d(3, 2, 1))
        self.right = nn.Sequential(block(8, 8), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), block(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        left, right = x.chunk(2, 1)
        x = torch.cat([left, self.right(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w).mean((2, 3))


class Windows(nn.Module):
    """Swin: attention in windows of a picture that is rolled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x).permute(0, 2, 3, 1)).roll((-2, -2), (1, 2))
        n, h, w, c = x.shape
        y = x.view(n, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
        y = self.layer(y).view(n, h // 4, w // 4, 4, 4, c).transpose(2, 3).reshape(n, h, w, c)
        return y.roll((2, 2), (1, 2)).mean((1, 2))


class Permuted(nn.Module):
    """ConvNeXt: a wide depthwise convolution, then layers over channels that come last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = nn.Conv2d(3, 16, 4, 4), nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.inner = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x + self.inner(self.deep(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def picture(make: Callable[[], nn.Module], size: int = 32, name: str = "x") -> Twin:
    """A model of pictures."""
    return Twin(make, lambda batch, _: {name: torch.randn(batch, 3, size, size)}, {})


def text(make: Callable[[], nn.Module], *names: str) -> Twin:
    """A model of tokens, whose number varies too."""
    return Twin(
        make, lambda batch, length: {n: torch.randint(1, 45, (batch, length)) for n in names}, dict.fromkeys(names, 1)
    )


def stem() -> nn.Module:
    """The beginning of ResNet as it is."""
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))


BY_HAND: dict[str, Twin] = {
    "mlp": Twin(MLP, lambda batch, _: {"x": torch.randn(batch, 8)}, {}),
    "cnn": picture(CNN),
    "encoder": text(Encoder, "ids"),
    "stem": picture(stem, 64, "input"),
    "dense": picture(Dense, 64),
    "fire": picture(Fire, 64),
    "excited": picture(Excited),
    "mobile": picture(Mobile),
    "shuffled": picture(Shuffled, 64),
    "windows": picture(Windows),
    "permuted": picture(Permuted),
    "resnet18": picture(lambda: resnet18(10, 8), 64),
    "resnet50": picture(lambda: resnet50(10, 8), 64),
    "mobilenet_v2": picture(lambda: mobilenet_v2(10, 0.5), 64),
    "unet": picture(lambda: unet(2, 8)),
    "lstm": text(lambda: SequenceLSTM(50, 16), "ids"),
    "transformer": text(lambda: TransformerEncoder(50, 32), "ids"),
}


def torchvision_twins(only: str = "") -> Iterator[tuple[str, Twin]]:
    """The smallest model of each module of torchvision's classifiers."""
    models = importlib.import_module("torchvision.models")
    smallest: dict[str, tuple[int, str]] = {}
    for name in models.list_models(module=models):
        size = next(iter(models.get_model_weights(name))).meta["num_params"]
        module = models.get_model_builder(name).__module__
        smallest[module] = min((size, name), smallest.get(module, (LIMIT, "")))
    for _, name in smallest.values():
        if name and only in ("", name):
            side = 224 if name.startswith(("vit", "maxvit")) else 160 if name.startswith("inception") else 64
            yield name, picture(lambda name=name: models.get_model(name, weights=None), side)


SMALL_TIMM = [
    "atto",
    "femto",
    "pico",
    "nano",
    "xxs",
    "xx_small",
    "tiny",
    "_050",
    "_s0",
    "_b0",
    "_002",
    "18",
    "small",
    "s12",
]
"""What the names of the small models of timm say."""
FEWER: tuple[dict[str, Any], ...] = (
    {"side": 64}, {"num_classes": 10}, {"img_size": 64}, {"depth": 2}, {"depths": (1, 1, 1, 1)}, {"depths": (1, 1, 1)},
    {"layers": (1, 1, 1, 1)}, {"layers": (1, 1, 1)}, {"num_heads": 2, "embed_dim": 64},
)  # fmt: skip
"""What makes a model of timm small, where it takes it and still runs; ``side`` is that of the pictures alone."""


def timm_twins(only: str = "") -> Iterator[tuple[str, Twin]]:
    """One model of each module of timm, chosen by what its name says of its size."""
    timm = importlib.import_module("timm")
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        name = min(names, key=lambda n: (next((i for i, s in enumerate(SMALL_TIMM) if s in n), 99), len(n)), default="")
        if not name or only not in ("", name):
            continue
        entry, kept = timm.get_pretrained_cfg(name), dict[str, Any]()
        side = 224 if entry is None else entry.input_size[-1]
        for fewer in FEWER:
            size, more = fewer.get("side", fewer.get("img_size", side)), {k: v for k, v in fewer.items() if k != "side"}
            try:
                with torch.device("meta"):
                    timm.create_model(name, **kept, **more).eval()(torch.zeros(1, 3, size, size))
            except Exception:  # what the model does not take, or does not run with
                continue
            kept, side = kept | more, size

        def make(name: str = name, kept: dict[str, Any] = kept) -> nn.Module:
            model: nn.Module = timm.create_model(name, **kept)
            return model

        with torch.device("meta"):
            model = make()
        if sum([p.numel() for p in model.parameters()]) <= LIMIT:
            yield name, picture(make, side)


SMALL: dict[str, Any] = {
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_encoder_layers": 2, "depth": 2, "depths": [1, 1, 1, 1], "num_blocks": 2, "vocab_size": 100,
    "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "n_group": 1, "topk_group": 1, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32,
    "embed_dim": 32, "embedding_size": 32, "out_hidden_size": 32, "intermediate_size": 48, "d_ff": 48, "d_kv": 8,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "ffn_dim": 48, "hidden_dim": 48, "moe_intermediate_size": 16, "head_dim": 8,
    "rotary_dim": 8, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "hidden_sizes": [8, 16, 24, 32], "max_position_embeddings": 64, "n_positions": 64, "image_size": 32, "patch_size": 8,
    "projection_dim": 32, "context_length": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "use_cache": False, "rope_parameters": {"mrope_section": [1, 1, 2]}, "expand": 1, "mamba_expand": 1, "mamba_n_heads": 4,
    "mamba_d_head": 8, "vocab_size_per_layer_input": 100, "entity_vocab_size": 100, "d_latents": 32, "num_latents": 8,
    "width_coefficient": 0.5, "prediction_length": 8, "encoder_hidden_size": 16, "decoder_hidden_size": 48,
}  # fmt: skip
"""What makes a configuration of transformers small, where it has a field of this name and kind."""
OTHER: dict[str, Any] = SMALL | {
    "num_key_value_heads": 4, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
}  # fmt: skip
"""The same for models that want as many heads everywhere, or whose rotations have parts."""


FILLED = ("head_dim", "num_key_value_heads", "prediction_length")
"""Fields that are set also where the configuration leaves them to the model."""


def like(given: Any, small: Any) -> Any:
    """A small value of the kind that is given, for a list one of its length; None where there is none."""
    if isinstance(given, dict) and isinstance(small, dict):
        inner = {k: value for k, v in small.items() if (value := like(given.get(k), v)) is not None}
        return {**given, **inner} if inner else None
    if isinstance(given, (list, tuple)):
        few = small if isinstance(small, list) else [small]
        return type(given)((few + few[-1:] * len(given))[: len(given)]) if given and type(given[0]) is int else None
    return small if type(given) is type(small) else None


def small_fields(given: Any, names: Iterable[str], small: dict[str, Any] = SMALL) -> dict[str, Any]:
    """The small values of some fields of a configuration and of those it consists of."""
    filled = FILLED if small is SMALL else (*FILLED, "rope_parameters")
    held = {k: vars(given).get(own) for k in names if (own := given.attribute_map.get(k, k)) in vars(given)}
    fields = {k: small[k] if was is None and k in filled else like(was, small[k]) for k, was in held.items()}
    for part in given.sub_configs:
        inner = getattr(given, part, None)
        if inner is not None:
            fields[part] = {"model_type": inner.model_type, **small_fields(inner, names, small)}
    return {k: value for k, value in fields.items() if value is not None}


def named(fields: dict[str, Any]) -> set[str]:
    """The names of small fields, with those of the configurations inside."""
    return set(fields).union(*[named(value) for value in fields.values() if isinstance(value, dict)])


def candidates(config: Any, name: str) -> list[tuple[Any, ...]]:
    """The shapes an input of a model may have after the batch; ``length`` is that of a text."""
    parts = [config, *[getattr(config, part) for part in config.sub_configs]]

    def first(*names: str, default: int) -> int:
        found = [getattr(part, n, None) for n in names for part in parts]
        return next((max(f) if isinstance(f, (list, tuple)) else f for f in found if f), default)

    side, bins, context = (
        first("image_size", default=32),
        first("num_mel_bins", "feature_size", default=80),
        first("context_length", default=32),
    )
    shapes: dict[str, list[tuple[Any, ...]]] = {
        "input_ids": [("length",)],
        "decoder_input_ids": [("length",)],
        "pixel_values": [
            (first("num_channels", "in_channels", default=3), side, side),
            (first("num_frames", "frames_per_clip", default=2), 3, side, side),
        ],
        "bbox": [("length", 4)],
        "query_embeds": [(8, first("hidden_size", default=32))],
        "pixel_values_videos": [(first("num_frames", "frames_per_clip", default=2), 3, side, side)],
        "input_values": [(4000,), (first("max_length", default=64), bins), (1, 4000)],
        "input_features": [
            (bins, 2 * first("max_source_positions", default=64)),
            (64, bins),
            (bins, 64),
            (64, first("feature_projection_input_dim", default=bins)),
        ],
        "past_values": [(context, first("num_input_channels", default=1)), (context,)],
    }
    return shapes.get(name, [])


def reading(make: Callable[[], nn.Module]) -> Twin | None:
    """A model of transformers with inputs it runs with: its main one, with those it asks for, tokens, a picture or boxes."""
    model: Any = make().eval()
    main = [model.main_input_name] if isinstance(model.main_input_name, str) else model.main_input_name
    taken = inspect.signature(model.forward).parameters
    asked = [
        n for n, p in taken.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and n not in main
    ]
    more = [[n] for n in ("decoder_input_ids", "pixel_values", "input_ids", "bbox") if n in taken and n not in main]
    for names in [[*main, *n] for n in ([], asked, *more)]:
        for shape in itertools.product(*[candidates(model.config, name) for name in names]):
            form = dict(zip(names, shape))

            def inputs(batch: int, length: int, form: dict[str, tuple[Any, ...]] = form) -> Inputs:
                sizes = {n: [batch, *[length if d == "length" else d for d in s]] for n, s in form.items()}
                return {
                    n: torch.randint(1, 45, s) if n.endswith(("ids", "bbox")) else torch.randn(s)
                    for n, s in sizes.items()
                }

            try:
                with torch.no_grad():
                    model(**inputs(*EXAMPLE))
            except Exception:  # what it does not run with
                continue
            return Twin(make, inputs, {n: s.index("length") + 1 for n, s in form.items() if "length" in s})
    return None


def transformers_twin(kind: str) -> Twin | None:
    """The bare model of a kind of transformers with the small fields that it takes and runs with; None where there is none."""
    transformers = importlib.import_module("transformers")
    default = transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind]

    def making(names: Iterable[str], small: dict[str, Any]) -> Callable[[], nn.Module]:
        config = default(**small_fields(default(), names, small))
        config.architectures = []
        return lambda: transformers.AutoModel.from_config(config)

    def parameters(names: Iterable[str], small: dict[str, Any]) -> float:
        try:
            with torch.device("meta"):
                return sum([p.numel() for p in making(names, small)().parameters()])
        except Exception:  # what the configuration does not take, or the model cannot be made of
            return math.inf

    for small in (SMALL, OTHER):
        every = [name for name in small if name in named(small_fields(default(), small, small))]
        kept = every if parameters(every, small) < math.inf else list[str]()
        for name in every if not kept else ():
            kept = [*kept, name] if parameters([*kept, name], small) < math.inf else kept
        fewer = [[k for k in kept if k != name] for name in kept] + [kept[:n] for n in range(len(kept) - 1, 0, -1)]
        for names in [kept, *fewer]:
            twin = reading(making(names, small)) if parameters(names, small) <= LIMIT else None
            if twin is not None:
                return twin
    return None


def transformers_twins(only: str = "") -> Iterator[tuple[str, Twin]]:
    """The models of the kinds of transformers that run with texts, pictures, sounds or series."""
    transformers = importlib.import_module("transformers")
    for kind in [only] if only else sorted(transformers.models.auto.modeling_auto.MODEL_MAPPING_NAMES):
        twin = transformers_twin(kind)
        if twin is not None:
            yield kind, twin


LIBRARIES = {"torchvision": torchvision_twins, "timm": timm_twins, "transformers": transformers_twins}


def chosen(text: str) -> dict[str, Twin]:
    """The twins that ``TWINS`` names: ``all``, libraries, ``library/model``, names of those by hand."""
    found: dict[str, Twin] = {}
    for item in text.split(","):
        library, _, name = item.partition("/")
        if library in (*LIBRARIES, "all"):
            for each in LIBRARIES if library == "all" else (library,):
                if importlib.util.find_spec(each) is not None:
                    found |= {f"{each}/{n}": twin for n, twin in LIBRARIES[each](name)}
        if library not in LIBRARIES:
            found |= {n: twin for n, twin in BY_HAND.items() if item in ("all", n)}
    return found
