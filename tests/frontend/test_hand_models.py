"""The models of ``examples/models`` through every importer, against torch eager; narrow and shallow versions: every stage, and a block
that repeats where one does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from models.sequence import MLP, SequenceLSTM, TransformerEncoder  # noqa: E402
from models.vision import BasicBlock, Bottleneck, ResNet, mobilenet_v2, randomised, unet  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import from_exported_program, from_fx, unity_backend  # noqa: E402
from unity.frontend.torch.capture.trace import export  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "resnet18": (lambda: randomised(ResNet(BasicBlock, (1, 2, 1, 1), 10, 8)), lambda: torch.randn(1, 3, 64, 64)),
    "resnet50": (lambda: randomised(ResNet(Bottleneck, (1, 2, 1, 1), 10, 8)), lambda: torch.randn(1, 3, 64, 64)),
    "mobilenet_v2": (lambda: mobilenet_v2(10, 0.5), lambda: torch.randn(1, 3, 64, 64)),
    "unet": (lambda: unet(2, 8, 2), lambda: torch.randn(1, 3, 32, 48)),
    "mlp": (lambda: MLP(64, 32).eval(), lambda: torch.randn(3, 8, 8)),
    "lstm": (lambda: SequenceLSTM(50, 16).eval(), lambda: torch.randint(0, 50, (2, 7))),
    "encoder": (lambda: TransformerEncoder(50, 32).eval(), lambda: torch.randint(0, 50, (2, 9))),
}


def eager(model: Any, x: Any) -> Any:
    with torch.no_grad():
        return model(x)


@pytest.mark.parametrize("name", MODELS)
def test_compile(name: str) -> None:
    torch.manual_seed(0)
    make, sample = MODELS[name]
    model, x = make(), sample()
    compiled = unity.compile(model, example_inputs=(x,))
    assert not [f for f in compiled.report.fallbacks if "lstm" not in f.operator]
    same(compiled(x), eager(model, x))


@pytest.mark.parametrize("name", ["resnet18", "mlp", "unet"])
def test_both_importers(name: str) -> None:
    torch.manual_seed(0)
    make, sample = MODELS[name]
    model, x = make(), sample()
    traced = from_fx(torch.fx.symbolic_trace(model), [(tuple(x.shape), "float32")], unwrap_unit_return_tuple=True)
    exported = from_exported_program(export(model, (x,)), unwrap_unit_return_tuple=True)
    for mod in (traced, exported):
        same(unity.VirtualMachine(unity.build(mod))["main"](x).torch(), eager(model, x))


def test_torch_compile() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, sample = MODELS["resnet18"]
    model, x = make(), sample()
    same(eager(torch.compile(model, backend=unity_backend), x), eager(model, x))


def test_resnet_with_symbolic_batch_and_image_size() -> None:
    torch.manual_seed(0)
    dim = torch.export.Dim
    model = randomised(ResNet(BasicBlock, (1, 1, 1, 1), 5, 4))
    shapes = ({0: dim("batch"), 2: dim("height", min=33, max=512), 3: dim("width", min=33, max=512)},)
    compiled = unity.compile(model, example_inputs=(torch.randn(2, 3, 64, 64),), dynamic_shapes=shapes, strict=True)
    for batch, height, width in ((1, 64, 64), (3, 65, 97), (2, 40, 101), (1, 224, 33)):
        x = torch.randn(batch, 3, height, width)
        same(compiled(x), eager(model, x))
    with pytest.raises(unity.UnityError, match=r"x.shape\[2\] must be at least 33 and at most 512, got 32"):
        compiled(torch.randn(1, 3, 32, 64))


class Facts(torch.nn.Module):
    """Results that no element changes, beside one that is computed."""

    def __init__(self, fact):
        super().__init__()
        self.fact = fact

    def forward(self, x):
        return self.fact(x)


@pytest.mark.parametrize("fact", [
    lambda x: x.size(), lambda x: x.size(0), lambda x: x.numel(), lambda x: (x + 1, x.shape), lambda x: (x.dim(), x * 2),
    lambda x: x.shape[-1] + 1, lambda x: (x.is_floating_point(), x + 1, 0.5),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 3), ("n", 3)])
def test_constant_results_are_kept(fact, shape):
    x = torch.ones(2, 3)
    mod = unity.frontend.from_fx(torch.fx.symbolic_trace(Facts(fact)), [(shape, "float32")])
    made = unity.VirtualMachine(unity.compile(mod))["main"](x)
    expected = torch.utils._pytree.tree_leaves(tuple(Facts(fact)(x)) if isinstance(fact(x), torch.Size) else fact(x))
    assert len(made) == len(expected)
    for a, b in zip(made, expected):
        torch.testing.assert_close(torch.from_numpy(a.numpy()) if hasattr(a, "numpy") else a, b)
