"""``f.save`` and ``unity.load_model``: a compiled torch model in a file, loaded without the compiler and without the model's code."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import run_program

import unity
from unity.support.errors import ArtifactError, FrontendError

torch = pytest.importorskip("torch")


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(96, 128), torch.nn.Linear(128, 64)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=1.0, *, mask=None):
        self.calls += 1
        y = self.second(torch.relu(self.first(x))) * scale
        return {"y": y, "named": (y.sum(), None, 3), "calls": self.calls.clone()}


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor
    label: str = "pair"


class Pairs(torch.nn.Module):
    def forward(self, pair):
        return Pair(pair.left + pair.right, pair.left - pair.right, "made")


@pytest.fixture
def saved(tmp_path):
    model, x = Net().eval(), torch.randn(5, 96)
    f = unity.compile(model, example_inputs=(x, 2.0), example_kwargs={"mask": None})
    f.save(tmp_path / "net.unity")
    return tmp_path / "net.unity", model, x


def test_a_loaded_model_is_called_as_the_model_and_has_its_own_state(saved) -> None:
    path, model, x = saved
    loaded = unity.load_model(path)
    expected = model(x, 2.0)
    found = loaded(x, 2.0, mask=None)
    assert list(found) == ["y", "named", "calls"] and found["named"][1:] == (None, 3)
    same(found["y"], expected["y"].detach())
    same(loaded(scale=2.0, x=x, mask=None)["calls"], torch.tensor(2.0))
    same(loaded.state["calls"], torch.tensor(2.0))
    same(model.calls, torch.tensor(1.0))
    with pytest.raises(FrontendError) as caught:
        loaded(x)
    assert caught.value.code == "E017"


def test_weights_are_the_mapped_file_and_the_state_of_now_is_saved(saved, tmp_path) -> None:
    path, _, x = saved
    loaded = unity.load_model(path)
    assert not any([c.numpy().flags.owndata for c in loaded.executable.program.constants])
    loaded(x, 2.0, mask=None)
    loaded.save(tmp_path / "later.unity")
    again = unity.load_model(tmp_path / "later.unity")
    same(again(x, 2.0, mask=None)["calls"], torch.tensor(2.0))


def test_without_its_source_the_file_is_smaller_and_cannot_be_compiled_again(tmp_path) -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(200, 100), torch.nn.ReLU()).eval(), torch.randn(3, 200)
    f = unity.compile(model, example_inputs=(x,))
    whole, part = tmp_path / "whole", tmp_path / "part"
    f.save(whole)
    f.save(part, source=False)
    assert os.path.getsize(part) < os.path.getsize(whole) - 200 * 100 * 4
    same(unity.load_model(part)(x), model(x).detach())
    same(unity.load_model(whole, trust=False)(x), model(x).detach())  # compiled again
    with pytest.raises(ArtifactError) as caught:
        unity.load_model(part, trust=False)
    assert caught.value.code == "E804"


def test_damage_in_the_source_is_noticed_when_it_is_needed(tmp_path) -> None:
    model, x = torch.nn.Linear(200, 100).eval(), torch.randn(3, 200)
    path = tmp_path / "model"
    unity.compile(model, example_inputs=(x,)).save(path)
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    same(unity.load_model(path)(x), model(x).detach())
    with pytest.raises(ArtifactError) as caught:
        unity.load_model(path, trust=False)
    assert caught.value.code == "E802"


def test_objects_and_sizes_that_vary(tmp_path) -> None:
    model, pair = Pairs(), Pair(torch.randn(4, 3), torch.randn(4, 3))
    rows = torch.export.Dim("rows", max=50)
    f = unity.compile(model, example_inputs=(pair,), dynamic_shapes=({0: rows},))
    f.save(tmp_path / "pairs")
    given = Pair(torch.randn(7, 3), torch.randn(7, 3))
    found = unity.load_model(tmp_path / "pairs")(given)
    assert type(found) is Pair and found.label == "made"
    same(found.right, given.left - given.right)


class Parts(NamedTuple):
    """A result of a user's own."""

    total: torch.Tensor
    rows: list[torch.Tensor]


class GivesParts(torch.nn.Module):
    def forward(self, x):
        return {"parts": Parts(x.sum(), [x + 1])}


def test_named_tuples_of_a_compiled_model_are_known(tmp_path) -> None:
    x = torch.randn(3)
    unity.compile(GivesParts().eval(), example_inputs=(x,)).save(tmp_path / "m")
    found = unity.load_model(tmp_path / "m")(x)["parts"]
    assert type(found) is Parts
    torch.testing.assert_close(found.rows[0], x + 1)


def test_operators_that_run_in_torch_are_registered(tmp_path) -> None:
    class Factored(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.ldl_factor(x @ x.T)[0]

    x = torch.rand(4, 4)
    with pytest.warns(unity.frontend.FallbackWarning):
        f = unity.compile(Factored(), example_inputs=(x,))
    f.save(tmp_path / "factored")
    unity.remove_global_func("torch.ops.aten.linalg_ldl_factor.default")
    same(unity.load_model(tmp_path / "factored")(x), Factored()(x))


class Labelled(torch.nn.Module):
    def __init__(self, label) -> None:
        super().__init__()
        self.label = label

    def forward(self, x):
        return Pair(x, x + 1, self.label)


class Kind(Enum):
    FIRST = 1


@pytest.mark.parametrize(
    "label", [torch.float64, torch.device("cpu"), torch.Size([2, 3]), Kind.FIRST, Pair, (1, [2.5, None]), 1 + 2j]
)
def test_values_that_objects_hold_are_written_down(tmp_path, label) -> None:
    f = unity.compile(Labelled(label), example_inputs=(torch.ones(2),))
    f.save(tmp_path / "labelled")
    found = unity.load_model(tmp_path / "labelled")(torch.ones(2))
    assert type(found) is Pair and found.label == label and type(found.label) is type(label)
    same(found.right, torch.full((2,), 2.0))


def test_what_cannot_be_written_down_is_refused(tmp_path) -> None:
    f = unity.compile(Labelled(b"label"), example_inputs=(torch.ones(2),))
    assert f(torch.ones(2)).label == b"label"
    with pytest.raises(FrontendError) as caught:
        f.save(tmp_path / "labelled")
    assert caught.value.code == "E019" and not (tmp_path / "labelled").exists()


class Cache:
    """Built as the caches of transformers are: layers that hold tensors, a dtype, a device, and a class."""

    def __init__(self, count: int = 2) -> None:
        self.layers = [Layer() for _ in range(count)]
        self.layer_class, self.offloading = Layer, False


class Layer:
    def __init__(self) -> None:
        self.keys, self.values = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
        self.dtype, self.device = torch.float32, torch.device("cpu")


class Step(torch.nn.Module):
    def forward(self, x, cache):
        for layer in cache.layers:
            layer.keys = torch.cat([layer.keys, x], 2)
            layer.values = torch.cat([layer.values, x + 1], 2)
        return {"score": sum([(layer.keys * layer.values).sum() for layer in cache.layers]), "cache": cache}


def step():
    past = torch.export.Dim("past", max=50)
    shapes = {"x": None, "cache": {2: past}}
    return unity.compile(Step(), example_kwargs={"x": torch.randn(1, 2, 1, 4), "cache": Cache()}, dynamic_shapes=shapes)


def test_a_cache_of_symbolic_length_is_saved_and_goes_on_in_the_loaded_model(tmp_path) -> None:
    step().save(tmp_path / "step")
    g, cache, mine = unity.load_model(tmp_path / "step"), Cache(), Cache()
    for a, b in zip(cache.layers, mine.layers):
        b.keys, b.values = a.keys, a.values
    for _ in range(3):
        x = torch.randn(1, 2, 1, 4)
        found, expected = g(x=x, cache=cache), Step()(x, mine)
        cache, mine = found["cache"], expected["cache"]
        same(found["score"], expected["score"])
    assert type(cache) is Cache and cache.layer_class is Layer and cache.layers[0].keys.shape[2] == 8
    assert cache.layers[1].device == torch.device("cpu")


OTHER_PROCESS = """
import sys
sys.path[:0] = {folders!r}
import torch, unity
x = torch.ones(1, 2, 1, 4)
try:
    unity.load_model({path!r})
except unity.UnityError as error:
    assert error.code == "E807" and "test_saved_models" in error.message, error
else:
    raise SystemExit("classes were built unasked")
assert "test_saved_models" not in sys.modules
import test_saved_models as t
g = unity.load_model({path!r}, allow=(t.Cache, t.Layer))
assert g(x=x, cache=t.Cache())["cache"].layers[0].keys.shape[2] == 6
"""


def test_another_process_vouches_for_classes_by_naming_them(tmp_path) -> None:
    step().save(tmp_path / "step")
    folders = [str(folder) for folder in Path(__file__).parents[:2]]
    (tmp_path / "program.py").write_text(OTHER_PROCESS.format(folders=folders, path=str(tmp_path / "step")))
    done = run_program(tmp_path / "program.py", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_program_is_no_model(tmp_path) -> None:
    f = unity.compile(torch.nn.ReLU(), example_inputs=(torch.ones(2),))
    f.executable.save(tmp_path / "program")
    with pytest.raises(ArtifactError) as caught:
        unity.load_model(tmp_path / "program")
    assert caught.value.code == "E806"


def test_loading_imports_no_compiler(saved) -> None:
    path, _, _ = saved
    code = f"""
import sys, torch, unity
found = unity.load_model({str(path)!r})(torch.ones(5, 96), 2.0, mask=None)
assert found["named"][2] == 3 and found["calls"] == 1
rooms = ("unity.ir", "unity.op", "unity.transform", "unity.target", "unity.frontend.")
ran = ("unity.frontend.torch", "unity.frontend.torch.runtime")
wrong = [m for m in sys.modules if m.startswith(rooms) and m not in ran and not m.startswith("unity.frontend.torch.runtime.")]
assert not wrong, wrong
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(unity.__file__).parents[1], timeout=120
    )
    assert done.returncode == 0, done.stderr
