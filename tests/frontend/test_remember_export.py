"""``remember_export=True``: an export is found again for an equal model, and for no other one."""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import sys
import time

import pytest

import unity
from unity.frontend.torch import remember_export as remember
from unity.frontend.torch.capture.model_key import Unkeyable, model_key

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remember, "BEGAN", time.time() + 1e6)  # files of this checkout may be new
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", __file__, raising=False
    )  # a worker of pytest-xdist has none


class Config:
    def __init__(self, scale=2.0, kind="a"):
        self.scale, self.kind = scale, kind


class Net(torch.nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.config = config or Config()
        self.register_buffer("calls", torch.zeros(()))
        self.table = torch.arange(8.0)

    def forward(self, x, flag=True):
        self.calls += 1
        y = self.second(torch.relu(self.first(x))) + torch.tensor([float(i) for i in range(8)]) + self.table
        return {"y": y * self.config.scale if flag else y, "n": self.calls.clone()}


def compiled(model, *inputs, **options):
    return unity.compile(model.eval(), example_inputs=inputs, remember_export=True, **options)


def test_an_export_is_found_with_other_weights() -> None:
    x = torch.randn(3, 8)
    first, second = Net().eval(), Net().eval()
    f = compiled(first, x)
    g = compiled(second, torch.randn(3, 8))
    assert (f.report.remembered, g.report.remembered) == (False, True)
    for _ in range(2):
        torch.testing.assert_close(g(x)["y"], second(x)["y"].detach(), rtol=1e-4, atol=1e-5)
    assert second.calls == 4  # the compiled model writes to the model's own buffer
    assert g.script(places=True) == f.script(places=True) and "first" in g.script(places=True)
    assert list(g.report.weights) == list(f.report.weights) and g.report.imported == f.report.imported


def test_weights_are_given_up_on_request() -> None:
    x, models = torch.randn(3, 96), [torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU()) for _ in range(2)]
    expected = models[1](x).detach()
    compiled(models[0], x)
    f = compiled(models[1], x, discard_parameters=True)
    assert f.report.remembered and models[1][0].weight.is_meta
    torch.testing.assert_close(f(x), expected, rtol=1e-4, atol=1e-5)


def test_operators_that_run_in_torch_and_objects() -> None:
    class Hash(torch.nn.Module):
        def forward(self, x):
            return torch.hash_tensor(x)

    x = torch.rand(4)
    with pytest.warns(unity.frontend.FallbackWarning):
        compiled(Hash(), x)
    unity.remove_global_func("torch.ops.aten.hash_tensor.default")
    with pytest.warns(unity.frontend.FallbackWarning):
        f = compiled(Hash(), x)
    assert f.report.remembered
    assert torch.equal(f(x), torch.hash_tensor(x))


def key(model, x=None, dynamic=None, options="", **named):
    x = torch.ones(3, 8) if x is None else x
    return model_key(model, (x,), named, dynamic, options)


def tied(net):
    net.extra = torch.nn.Linear(8, 16)
    net.extra.weight = net.first.weight


def patched(net):
    net.forward = lambda x, flag=True, by=3: x * by


def patched_with(number):
    return lambda net: setattr(net, "forward", functools.partial(lambda by, x: x * by, number))


CHANGES = {
    "a setting": lambda net: setattr(net.config, "kind", "b"),
    "a number": lambda net: setattr(net.config, "scale", 2.5),
    "a hook": lambda net: net.first.register_forward_hook(lambda module, args, result: result + 1),
    "another hook": lambda net: net.first.register_forward_hook(lambda module, args, result: result + 2),
    "training": lambda net: setattr(net.first, "training", False),
    "a buffer": lambda net: net.register_buffer("more", torch.zeros(2)),
    "a tensor that is no buffer": lambda net: net.table.add_(1),
    "a parameter's dtype": lambda net: net.second.double(),
    "strides": lambda net: setattr(net.first, "weight", torch.nn.Parameter(torch.ones(8, 16).T)),
    "no bias": lambda net: setattr(net.first, "bias", None),
    "an own weight": lambda net: setattr(net, "extra", torch.nn.Linear(8, 16)),
    "a tied weight": tied,
    "another forward": patched,
    "a partial": patched_with(1),
    "another partial": patched_with(2),
}


def test_what_export_can_see_is_part_of_the_key() -> None:
    keys = {"nothing": key(Net())}
    for name, change in CHANGES.items():
        net = Net()
        change(net)
        keys[name] = key(net)
    keys["the shape"] = key(Net(), torch.ones(4, 8))
    keys["the dtype"] = key(Net(), torch.ones(3, 8).double())
    keys["a value"] = key(Net(), flag=False)
    keys["sizes that vary"] = key(Net(), dynamic={"x": {0: torch.export.Dim("n", max=9)}})
    keys["another range"] = key(Net(), dynamic={"x": {0: torch.export.Dim("n", max=8)}})
    keys["an option"] = key(Net(), options="strict")
    torch.set_default_dtype(torch.float64)
    try:
        double = Net().float()
        double.table = double.table.float()
        keys["the default dtype"] = key(double, torch.ones(3, 8, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)
    same = [(a, b) for a in keys for b in keys if a < b and keys[a] == keys[b]]
    assert not same
    assert key(Net(), torch.randn(3, 8)) == keys["nothing"]


def test_code_that_is_replaced_is_part_of_the_key(monkeypatch) -> None:
    before = key(Net())
    monkeypatch.setattr(Net, "forward", lambda self, x: x)
    assert key(Net()) != before
    monkeypatch.undo()
    assert key(Net()) == before
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: x)
    assert key(Net()) != before


FLAG = 1


class Flagged(torch.nn.Module):
    def forward(self, x):
        return x * helper(x) if FLAG else x


def helper(x):
    return x + 1


def test_plain_globals_and_functions_of_the_models_module_are_part_of_the_key(monkeypatch) -> None:
    before = key(Flagged())
    monkeypatch.setattr(sys.modules[__name__], "FLAG", 0)
    assert key(Flagged()) != before
    monkeypatch.undo()
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda x: x + 2)
    assert key(Flagged()) != before


@pytest.mark.parametrize(
    "value", [(i for i in range(3)), io.StringIO(), memoryview(b"x")], ids=["generator", "file", "memory"]
)
def test_what_has_no_key_is_exported_and_said(value) -> None:
    net = Net()
    net.strange = value
    with pytest.raises(Unkeyable, match=r"the model\.strange"):
        key(net)
    with pytest.warns(remember.ExportNotRemembered, match=r"the model\.strange"):
        f = compiled(net, torch.ones(3, 8))
    assert not f.report.remembered


def test_modes_and_global_hooks_are_exported() -> None:
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, result: None)
    try:
        with pytest.raises(Unkeyable, match="hooks on all modules"):
            key(Net())
    finally:
        handle.remove()
    with torch.device("cpu"), pytest.raises(Unkeyable, match="mode"):
        key(Net())


def test_a_changed_file_is_exported_again(tmp_path, monkeypatch) -> None:
    path = tmp_path / "changing_model.py"
    path.write_text("import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n")

    def load():
        spec = importlib.util.spec_from_file_location("changing_model", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "changing_model", module)
        spec.loader.exec_module(module)
        return module.M()

    x = torch.ones(3)
    assert not compiled(load(), x).report.remembered
    assert compiled(load(), x).report.remembered
    os.utime(path, (1, 1))  # written again, with the same text
    assert not compiled(load(), x).report.remembered
    assert compiled(load(), x).report.remembered
    monkeypatch.setattr(remember, "BEGAN", 0)  # everything changed after the process began
    with pytest.warns(remember.ExportNotRemembered, match="changed after this process began"):
        assert not compiled(load(), x).report.remembered
