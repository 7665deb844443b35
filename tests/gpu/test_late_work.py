"""Programs on an emulated device that does its work as late as it may, with the pool of memory that real devices have."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from emulated import Arrays
from test_devices_emulated import FAULT, MODES, THREE, three

import unity
from unity.ffi.cuda.context import context
from unity.script import parse
from unity.testing import emulated_gpu
from unity.testing.gpu_emulator import EmulatedGPU


@pytest.fixture
def gpu() -> Iterator[EmulatedGPU]:
    with emulated_gpu(memory=1 << 27, late=True, races=False, traffic=False) as made:
        yield made
        assert not made.findings


@pytest.fixture(scope="module")
def executable() -> unity.vm.Executable:
    return unity.compile(THREE, target="cuda")


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_arguments_may_change_after_the_call(
    gpu: EmulatedGPU, executable: unity.vm.Executable, mode: str, graphs: bool
) -> None:
    """Small ones and such as do not pass through pinned memory; more calls than that has places, and nobody waits between them."""
    machine = unity.VirtualMachine(executable, unity.cuda(0), exec_mode=mode, cuda_graph=graphs)
    for count in (3, 40, 70_000):
        x = np.zeros(count, np.float32)
        made = []
        for turn in range(12):
            x[:] = turn
            made.append(machine["main"](x))
        x[:] = -1
        assert all([(y.numpy() == three(np.float32(turn))).all() for turn, y in enumerate(made)])


def test_memory_is_used_again_after_the_work_of_its_streams(gpu: EmulatedGPU, executable: unity.vm.Executable) -> None:
    """What one stream drops is given to another one while the first has not begun its work."""
    machine, device = unity.VirtualMachine(executable, unity.cuda(0)), unity.cuda(0)
    streams = [device.create_raw_stream() for _ in range(3)]
    x = np.arange(300, dtype=np.float32)
    kept = []
    gc.freeze()  # the collections below need not look at what is there
    for turn in range(12):
        with device.use_stream(streams[turn % 3]):
            y = machine["main"](x + turn)
            kept.append((turn, machine["main"](y)))
        with device.use_stream(streams[(turn + 1) % 3]):
            del y  # its stream is another one
            gc.collect()
    for turn, y in kept[::-1]:
        with device.use_stream(streams[turn % 3]):
            assert (y.numpy() == three(three(x + turn))).all()
    for stream in streams:
        device.free_raw_stream(stream)


def test_work_waits_for_whoever_waits(gpu: EmulatedGPU) -> None:
    """Nothing has run that nobody waited for: a stream without an event reads what was there before."""
    here = context(0)
    driver, arrays = here.driver, Arrays()
    start, end = (arrays.put(np.full(8, k, np.uint32)) for k in (1, 2))
    first, second = here.new_stream(), here.new_stream()
    found = np.zeros(8, np.uint32)
    with here.current():
        event = driver.get("cuEventCreate", 2)
        for waits, expected in ((False, 2), (True, 0x07070707)):
            driver.call("cuMemsetD8Async", start, 7, 32, first)
            driver.call("cuMemcpyDtoDAsync_v2", end, start, 32, first)
            driver.call("cuEventRecord", event, first)
            if waits:
                driver.call("cuStreamWaitEvent", second, event, 0)
            driver.call("cuMemcpyDtoHAsync_v2", found.ctypes.data, end, 32, second)
            assert (found == expected).all()
        driver.call("cuEventDestroy_v2", event)
    for stream in (first, second):
        here.free_stream(stream)


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_is_told_by_whoever_waits(executable: unity.vm.Executable, mode: str) -> None:
    with emulated_gpu(memory=1 << 24, late=True, traffic=False) as gpu:
        i = np.zeros(64, np.int32)
        i[3] = 1 << 22
        machine = unity.VirtualMachine(unity.compile(FAULT, target="cuda"), unity.cuda(0), exec_mode=mode)
        y = machine["main"](np.zeros(64, np.float32), i)
        for wait in (y.numpy, unity.cuda(0).sync, lambda: machine["main"](np.zeros(64, np.float32), i)):
            with pytest.raises(unity.UnityError, match="the context of cuda:0 is lost"):
                wait()
        assert [one.kind for one in gpu.findings] == ["bounds"]


CHAIN = parse("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def double(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
        for t in T.thread_binding(64, "threadIdx.x"):
            Y[t] = X[t] * T.float32(2)

    @T.prim_func(private=True)
    def pick(X: T.Buffer((64,), "float32"), I: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "float32")):
        for t in T.thread_binding(64, "threadIdx.x"):
            Y[t] = X[I[t]]

    @R.function
    def main(x: R.Tensor((64,), "float32"), i: R.Tensor((64,), "int32")):
        y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((64,), "float32"))
        z = R.call_tir(cls.pick, (y, i), out_sinfo=R.Tensor((64,), "float32"))
        w = R.call_tir(cls.double, (z,), out_sinfo=R.Tensor((64,), "float32"))
        return w
""")


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_names_the_kernels_that_were_launched(mode: str) -> None:
    """A launch says nothing of its kernel; with CUDA_LAUNCH_BLOCKING=1, as with ``blocking`` here, it does."""
    executable = unity.compile(CHAIN, target="cuda")
    x, i = np.zeros(64, np.float32), np.zeros(64, np.int32)
    for blocking, launched in ((False, ["double", "pick", "double"]), (True, ["double", "pick"])):
        with emulated_gpu(memory=1 << 24, late=not blocking, blocking=blocking, traffic=False):
            machine = unity.VirtualMachine(executable, unity.cuda(0), exec_mode=mode)
            for _ in range(4):
                machine["main"](x, i).numpy()
            i[3] = 1 << 22
            with pytest.raises(unity.UnityError, match="CUDA_LAUNCH_BLOCKING=1") as caught:
                machine["main"](x, i).numpy()
            i[3] = 0
        assert blocking == caught.value.message.startswith("the kernel pick"), caught.value.message
        said = caught.value.notes[0].message.partition(": ")[2].split(", ")
        assert len(said) == 8 and said[-len(launched) :] == [f"{name}_kernel" for name in launched]
