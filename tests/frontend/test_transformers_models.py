"""Models of the ``transformers`` library with small configurations and random weights, against torch eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import unity_backend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, **TOKENS}
LENGTHS = (1, 17, 64, 128, 255)


def ids(*shape: int) -> Any:
    return torch.randint(1, 90, shape)


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**SMALL, max_position_embeddings=256))


def gpt2(cache: bool = False) -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2, use_cache=cache))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False))


def vit() -> Any:
    config = {k: v for k, v in SMALL.items() if k != "vocab_size"}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**config, image_size=32, patch_size=8))


def t5() -> Any:
    config = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**config, use_cache=False))


def whisper() -> Any:
    config = {
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "num_mel_bins": 8,
    }
    made = transformers.WhisperConfig(vocab_size=100, max_source_positions=20, **config, **TOKENS)
    return transformers.models.whisper.modeling_whisper.WhisperEncoder(made)


def mamba() -> Any:
    config = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "use_cache": False}
    return transformers.MambaForCausalLM(transformers.MambaConfig(**config))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]] = {
    "bert": (bert, lambda: {"input_ids": ids(2, 7), "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}),
    "gpt2": (gpt2, lambda: {"input_ids": ids(2, 7)}),
    "llama": (llama, lambda: {"input_ids": ids(2, 7)}),
    "vit": (vit, lambda: {"pixel_values": torch.randn(2, 3, 32, 32)}),
    "t5": (t5, lambda: {"input_ids": ids(2, 7), "decoder_input_ids": ids(2, 5)}),
    "whisper": (whisper, lambda: {"input_features": torch.randn(1, 8, 40)}),
    "mamba": (mamba, lambda: {"input_ids": ids(2, 7)}),
}  # fmt: skip


def agree(compiled: Any, model: Any, inputs: dict[str, Any]) -> Any:
    """Same class, structure and values; gives the compiled model's result."""
    found = compiled(**inputs)
    with torch.no_grad():
        expected = model(**inputs)
    assert type(found) is type(expected)
    same(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_compile(name: str) -> None:
    make, sample = MODELS[name]
    torch.manual_seed(0)
    model, inputs = make().eval(), sample()
    agree(unity.compile(model, example_kwargs=inputs, strict=True), model, inputs)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_torch_compile(name: str) -> None:
    torch._dynamo.reset()
    make, sample = MODELS[name]
    model, inputs = make().eval(), sample()
    agree(torch.compile(model, backend=unity_backend), model, inputs)


@pytest.mark.parametrize("make", [bert, gpt2])
def test_symbolic_batch_and_length(make: Callable[[], Any]) -> None:
    model = make().eval()
    shapes = {"input_ids": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=256)}}
    inputs = {"input_ids": ids(2, 7)}
    compiled = unity.compile(model, example_inputs=(), example_kwargs=inputs, dynamic_shapes=shapes, strict=True)
    for batch, length in zip((1, 2, 3, 1, 2), LENGTHS):
        agree(compiled, model, {"input_ids": ids(batch, length)})
    with pytest.raises(unity.UnityError, match=r"input_ids.shape\[1\] must be at most 256, got 257"):
        compiled(input_ids=ids(1, 257))


def test_gpt2_token_by_token_with_a_cache_of_symbolic_length() -> None:
    model = gpt2(cache=True).eval()
    tokens = ids(1, 9)
    with torch.no_grad():
        whole = model(tokens).logits
        cache = model(tokens[:, :3]).past_key_values
        inputs = {"input_ids": tokens[:, :1], "past_key_values": model(ids(1, 5)).past_key_values}
    shapes = {"input_ids": None, "past_key_values": {2: torch.export.Dim("past", max=200)}}
    compiled = unity.compile(model, example_inputs=(), example_kwargs=inputs, dynamic_shapes=shapes, strict=True)
    for i in range(3, 9):
        found = compiled(input_ids=tokens[:, i : i + 1], past_key_values=cache)
        same(found.logits[:, 0], whole[:, i])
        cache = found.past_key_values
    assert type(cache) is transformers.DynamicCache and cache.get_seq_length() == 9
