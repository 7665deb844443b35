"""Two emulated devices at once: whose memory, streams, graphs and faults are whose."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_devices_emulated import FAULT, MODES, THREE, three

import unity
from unity.ffi.cuda.context import context
from unity.testing import emulated_gpu

X = np.arange(50, dtype=np.float32)


@pytest.fixture
def devices() -> Iterator[list[unity.Device]]:
    with emulated_gpu(devices=2, memory=1 << 24, races=False, traffic=False) as gpu:
        yield [unity.cuda(0), unity.cuda(1)]
        assert not gpu.findings


@pytest.fixture(scope="module")
def executable() -> unity.vm.Executable:
    return unity.compile(THREE, target="cuda")


def test_tensors_go_from_one_to_the_other(devices: list[unity.Device]) -> None:
    first, second = devices
    x = unity.tensor(X.reshape(5, 10), device=first)
    there = x[1:4, ::3].to(second)
    assert there.device is second and (there.numpy() == X.reshape(5, 10)[1:4, ::3]).all()
    y = unity.tensor(np.zeros((5, 10), "float32"), device=second)
    y[2:4] = x[:2]
    assert (y.numpy()[2:4] == X.reshape(5, 10)[:2]).all() and y.numpy().sum() == X[:20].sum()
    assert (x.copyto(y).numpy() == x.numpy()).all() and y.device is second
    assert (x[unity.tensor(np.array([3, 0]), device=second)].numpy() == X.reshape(5, 10)[[3, 0]]).all()


@pytest.mark.parametrize("mode, graphs", [("native", False), ("native", True), ("bytecode", False)])
def test_machines_take_turns(
    devices: list[unity.Device], executable: unity.vm.Executable, mode: str, graphs: bool
) -> None:
    machines = [unity.VirtualMachine(executable, d, exec_mode=mode, cuda_graph=graphs) for d in devices]
    for turn in (0, 1, 0, 1, 1, 0, 0, 1):
        y = machines[turn]["main"](X)
        assert y.device is devices[turn] and (y.numpy() == three(X)).all()

    def work(start: int) -> bool:
        x = np.arange(start, start + 40, dtype=np.float32)
        return all([bool((machines[(start + k) % 2]["main"](x).numpy() == three(x)).all()) for k in range(4)])

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(6)))


def test_streams_belong_to_a_device(devices: list[unity.Device], executable: unity.vm.Executable) -> None:
    first, second = devices
    machine = unity.VirtualMachine(executable, second)
    stream, own = first.create_raw_stream(), second.create_raw_stream()
    with first.use_stream(stream), second.use_stream(own):
        assert (machine["main"](X).numpy() == three(X)).all()
    with context(0).current():
        foreign = context(0).driver.get("cuStreamCreate", 1)  # of another library

    def used(handle: int) -> None:
        with second.use_stream(handle):
            pass

    for wrong in (stream, foreign):
        for refused in (second.set_raw_stream, second.sync, second.free_raw_stream, used):
            with pytest.raises(unity.UnityError, match=f"{wrong:#x} is .* cuda:") as caught:
                refused(wrong)
            assert caught.value.code == "E703" and caught.value.help
    with first.use_stream(foreign):
        assert (unity.VirtualMachine(executable, first)["main"](X).numpy() == three(X)).all()
    assert (machine["main"](X).numpy() == three(X)).all()
    for device, one in zip(devices, (stream, own)):
        device.free_raw_stream(one)


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_on_one_leaves_the_other(executable: unity.vm.Executable, mode: str) -> None:
    i = np.zeros(64, np.int32)
    i[3] = 1 << 22
    with emulated_gpu(devices=2, memory=1 << 24, traffic=False):
        second = unity.cuda(1)
        machine = unity.VirtualMachine(executable, second, exec_mode=mode)
        kept = machine["main"](X)
        faulty = unity.VirtualMachine(unity.compile(FAULT, target="cuda"), unity.cuda(0), exec_mode=mode)
        with pytest.raises(unity.UnityError):
            faulty["main"](np.zeros(64, np.float32), i).numpy()
        for lost in (lambda: faulty["main"](X, i), unity.cuda(0).sync, lambda: kept.to(unity.cuda(0))):
            with pytest.raises(unity.UnityError, match="the context of cuda:0 is lost"):
                lost()
            assert (kept.numpy() == three(X)).all() and (machine["main"](X).numpy() == three(X)).all()
