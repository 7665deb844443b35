"""Calls that enter the program of a device without Python: they launch where calls through Python would, and give way to those where
anything has changed."""

from __future__ import annotations

import gc
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from test_devices_emulated import SCALE, THREE, three

import unity
from unity import UnityError, VirtualMachine
from unity.ffi.cuda import context as contexts
from unity.ffi.cuda.context import Launching, context
from unity.script import parse
from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu
X = np.arange(40, dtype=np.float32)


@pytest.fixture
def gpu() -> Iterator[Any]:
    """None on a device of this machine."""
    with device_or_emulated(races=False, traffic=False) as made:
        yield made


@pytest.fixture
def emulated() -> Iterator[Any]:
    with emulated_gpu(devices=2, memory=1 << 24, races=False, traffic=False) as made:
        yield made


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The streams of calls that went through Python."""
    seen: list[int] = []
    enter = Launching.__enter__

    def noted(self: Launching) -> int:
        seen.append(enter(self))
        return seen[-1]

    monkeypatch.setattr(Launching, "__enter__", noted)
    return seen


@pytest.fixture
def torch_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A torch that uses CUDA, with the current streams of its two devices."""
    streams = [0, 0]
    cuda: Any = types.ModuleType("torch.cuda")
    cuda._initialized, cuda.is_initialized = True, lambda: cuda._initialized
    torch: Any = types.ModuleType("torch")
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: streams[index])
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    yield streams


def test_python_is_asked_once(gpu: Any, entered: list[int]) -> None:
    vm = VirtualMachine(unity.compile(THREE, target="cuda"), unity.cuda(0))
    x = unity.tensor(X, device=unity.cuda(0))
    vm["main"](x)
    entered.clear()
    for _ in range(3):
        assert (vm["main"](x).numpy() == three(X)).all()
    assert entered == []
    vm["main"](X)
    assert entered == [0], "an array of the host is copied by Python"
    with pytest.raises(UnityError, match="takes 1 arguments"):
        vm["main"](x, x)


def test_launches_follow_every_change_of_streams(emulated: Any, torch_streams: list[int], entered: list[int]) -> None:
    """Every order of: nothing chosen, a stream chosen, another one of torch, the other device's context current."""
    vm = VirtualMachine(unity.compile(THREE, target="cuda"), unity.cuda(0))
    device, x = unity.cuda(0), unity.tensor(X, device=unity.cuda(0))
    own, theirs = device.create_raw_stream(), device.create_raw_stream()
    states = [(None, 0), (own, 0), (own, theirs), (None, theirs)]
    other = context(1)
    for first, second in itertools.permutations([*states, None], 2):
        for state in (first, second):
            chosen, torch_streams[0] = state or (None, 0)
            device.set_raw_stream(chosen)
            if state is None:
                other.driver.call("cuCtxSetCurrent", other.handle)
            entered.clear()
            for _ in range(2):
                y = vm["main"](x)
                assert emulated.launches[-1].stream == (torch_streams[0] if chosen is None else chosen)
                assert (y.numpy() == three(X)).all()
            waits = chosen not in (None, torch_streams[0])
            assert len(entered) <= 1 or waits or state is None
            if state is None:
                assert other.driver.get("cuCtxGetCurrent") == other.handle
                other.driver.call("cuCtxSetCurrent", context(0).handle)
    device.set_raw_stream(None)


def test_a_call_inside_a_call_has_its_own_stream(gpu: Any) -> None:
    inner = VirtualMachine(unity.compile(THREE, target="cuda"), unity.cuda(0))
    device, x = unity.cuda(0), unity.tensor(X, device=unity.cuda(0))
    stream = device.create_raw_stream()

    @unity.register_func("test.gate.inner", override=True, on_device=True)
    def call_inner(y: Any) -> Any:
        ordered = context(0)
        ordered.order(0, stream)  # a stream of its own waits for nothing by itself
        with device.use_stream(stream):
            made = inner["main"](y)
        ordered.order(stream, 0)
        return made

    text = f"""
@I.ir_module
class M:
{SCALE}
    @R.function
    def main(x: R.Tensor((40,), "float32")):
        y = R.call_tir(cls.scale, (x,), out_sinfo=R.Tensor((40,), "float32"))
        z = R.call_packed("test.gate.inner", y, sinfo_args=R.Tensor((40,), "float32"))
        w = R.call_tir(cls.scale, (z,), out_sinfo=R.Tensor((40,), "float32"))
        return w
"""
    outer = VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0))
    for _ in range(3):
        before = len(gpu.launches) if gpu is not None else 0
        assert (outer["main"](x).numpy() == three(X * 2 + 1) * 2 + 1).all()
        assert gpu is None or [launch.stream for launch in gpu.launches[before:]] == [0, stream, stream, stream, 0]


def test_the_gate_closes_with_its_driver() -> None:
    with emulated_gpu(races=False, traffic=False):
        vm = VirtualMachine(unity.compile(THREE, target="cuda"), unity.cuda(0))
        x = unity.tensor(X, device=unity.cuda(0))
        vm["main"](x)
        driver = context(0).driver
        assert driver.ready.value == 1
        driver.error("a kernel", 999)
        assert driver.ready.value == 1
        with emulated_gpu(races=False, traffic=False):
            assert driver.ready.value == 0
        assert (vm["main"](x).numpy() == three(X)).all() and driver.ready.value == 1
        driver.error("a kernel", 700)
        assert driver.ready.value == 0
        with pytest.raises(UnityError) as lost:
            vm["main"](x)
        assert lost.value.code == "E737"
    assert driver.ready.value == 0
    del vm, x
    gc.collect()


def test_a_thread_without_a_record_asks_python(gpu: Any, entered: list[int]) -> None:
    """The record is the thread's of the system, and says nothing once Python has forgotten the thread."""
    kernel = parse(f"@I.ir_module\nclass M:\n{SCALE.replace('(private=True)', '')}")
    vm = VirtualMachine(unity.compile(kernel, target="cuda"), unity.cuda(0))
    x, y = [unity.tensor(X, device=unity.cuda(0)) for _ in range(2)]
    vm["scale"](x, y)
    entered.clear()
    vm["scale"](x, y)
    assert entered == []
    contexts._THREADS.state = contexts._Thread()
    vm["scale"](x, y)
    vm["scale"](x, y)
    assert entered == [0] and (y.numpy() == X * 2 + 1).all()
