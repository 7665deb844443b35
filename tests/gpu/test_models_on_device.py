"""Torch models built for a device with open sizes, on this machine's or the emulated one, against torch at sizes that are not the example's.
``UNITY_GPU_SWEEP=1`` runs every model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.testing import emulated_gpu

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parent.parent / "frontend"))

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch_twins import BY_HAND, EXAMPLE, RUNS, Twin, settled  # noqa: E402

from unity.frontend.torch.capture.inputs import device_target  # noqa: E402
from unity.frontend.torch.dynamo import BackendOptions, compile_graph  # noqa: E402
from unity.frontend.torch.runtime.arguments import PLACES, refuse_tensor  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
SAMPLE = ("mlp", "cnn", "excited", "lstm", "encoder")
MODELS = BY_HAND if os.environ.get("UNITY_GPU_SWEEP") == "1" else {name: BY_HAND[name] for name in SAMPLE}


def leaves(value: object) -> list[np.ndarray]:
    """The arrays of a result."""
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in leaves(part)]
    return [value.detach().numpy() if isinstance(value, torch.Tensor) else value.numpy()]


@pytest.mark.parametrize("twin", MODELS.values(), ids=MODELS)
def test_open_sizes(twin: Twin) -> None:
    torch.manual_seed(0)
    model = settled(twin.make(), twin.inputs(6, EXAMPLE[1]))
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=30)
    example = twin.inputs(*EXAMPLE)
    axes = {k: {0: batch, **({twin.length[k]: length} if k in twin.length else {})} for k in example}
    with device_or_emulated(traffic=False), torch.no_grad():
        compiled = unity.compile(model, example_inputs=(), example_kwargs=example, dynamic_shapes=axes, target="cuda")
        for size in RUNS:
            call = twin.inputs(*size)
            found = leaves(compiled.vm["main"](*[value.numpy() for value in call.values()]))
            for made, expected in zip(found, leaves(model(**call)), strict=True):
                np.testing.assert_allclose(made, expected, rtol=2e-4, atol=2e-5)


class Counting(torch.nn.Module):
    """A model with weights and a tensor that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return self.linear(x) + self.count


def test_tensors_of_the_host_go_there_and_back(tmp_path: Path) -> None:
    """A model is compiled, saved and loaded without a device; results are where the arguments are, whatever these are of."""
    model, x = Counting().eval(), torch.randn(2, 4)
    with torch.no_grad():
        compiled = unity.compile(model, example_inputs=(x,), target="cuda")
        compiled.save(tmp_path / "counting.unity")
        loaded = unity.load_model(tmp_path / "counting.unity")
        if not unity.cuda(0).exist:
            for f in (compiled, loaded):
                with pytest.raises(unity.UnityError) as missing:
                    f(x)
                assert missing.value.code == "E734"
        with device_or_emulated(traffic=False):
            for f in (compiled, loaded):
                model.count.zero_()
                out, plain = torch.empty(2, 3), model.linear(x)
                for given, options in ((x, {}), (x.numpy(), {}), (x, {"out": out})):
                    found = f(given, **options)
                    expected = plain + f.state["count"]
                    assert found.device.type == "cpu" and (found is out or not options)
                    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
                assert f.state["count"].tolist() == [3, 3, 3]
            model.linear.weight.mul_(2)  # the device has a copy
            with pytest.raises(unity.UnityError) as changed:
                compiled(x)
            assert changed.value.code == "E660"
            torch.testing.assert_close(
                compiled.refresh()(x), model.linear(x) + compiled.state["count"], rtol=1e-4, atol=1e-5
            )


def test_graphs_that_torch_captures() -> None:
    x = torch.randn(2, 4)
    graph = make_fx(lambda a: [torch.relu(a) * 2, a], tracing_mode="fake")(x)
    with device_or_emulated(traffic=False):
        relu, same = compile_graph(graph, [x], BackendOptions(target="cuda"))([x])
    assert relu.device.type == "cpu" and same is x
    torch.testing.assert_close(relu, torch.relu(x) * 2)


def test_the_device_of_the_inputs_is_the_target() -> None:
    """Torch tensors of a device that has no code here: only their device is looked at."""

    class There(torch.Tensor):
        device = property(lambda self: torch.device("cuda:0"))  # type: ignore[assignment]

    value = torch.zeros(3).as_subclass(There)
    expected = {"sm_75": ("sm_75", 40), "sm_86": ("sm_86", 84), "sm_90": ("sm_90a", 132)}
    for arch, (named, count) in expected.items():
        with emulated_gpu(arch):
            assert device_target([torch.zeros(3), value]) == f"cuda -arch={named} -multi_processor_count={count}"
    with emulated_gpu(), unity.Target("llvm"):
        assert device_target([value]) is None
    assert device_target([torch.zeros(3)]) is None
    refuse_tensor(torch, "x", value, PLACES)
    with pytest.raises(unity.UnityError, match='target="cuda"'):
        refuse_tensor(torch, "x", value)


def test_heads_of_one_product_are_read_in_place() -> None:
    """Query, key and value of an encoder are parts of one tensor: nothing is sliced or transposed for attention."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 96, batch_first=True, norm_first=True, dropout=0.0)
    model, x = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval(), torch.randn(3, 17, 64)
    hidden = torch.zeros(3, 17, dtype=torch.bool)
    hidden[1, 10:] = True
    with torch.no_grad(), device_or_emulated(traffic=False):
        compiled = unity.compile(
            model, example_inputs=(x,), example_kwargs={"src_key_padding_mask": hidden}, target="cuda"
        )
        torch.testing.assert_close(
            compiled(x, src_key_padding_mask=hidden), model(x, src_key_padding_mask=hidden), rtol=1e-4, atol=1e-5
        )
    assert "strided_slice" not in compiled.executable.as_text()
