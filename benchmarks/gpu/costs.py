"""What a launch costs the host, and what copies carry."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import unity
from benchmarks.gpu.clock import Clock, interleaved
from unity.ffi.cuda.context import Context
from unity.ffi.cuda.memory import allocate
from unity.script import parse

LAUNCHES = 20
MODES = {"machine code": "native", "bytecode": "bytecode"}


def chain_of_launches() -> unity.IRModule:
    """A function of ``LAUNCHES`` kernels, one behind the other, on 1024 elements."""
    steps = [
        f"        y{k + 1} = R.call_tir(cls.add_one, (y{k},), out_sinfo=R.Tensor((1024,), 'float32'))"
        for k in range(LAUNCHES)
    ]
    made = parse(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add_one(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1024,), "float32")):
        for b in T.thread_binding(8, "blockIdx.x"):
            for t in T.thread_binding(128, "threadIdx.x"):
                with T.block("Y"):
                    v = T.axis.spatial(1024, b * 128 + t)
                    Y[v] = X[v] + T.float32(1)

    @R.function
    def main(y0: R.Tensor((1024,), "float32")):
{chr(10).join(steps)}
        return y{LAUNCHES}
""")
    assert isinstance(made, unity.IRModule)
    return made


def _host_seconds(run: Callable[[], Any], context: Context, calls: int, rounds: int) -> float:
    """Seconds of the host for a call, the device not waited for: the least of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        context.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - start) / calls)
    context.synchronize()
    return best


def launch_costs(context: Context, target: str, torch: Any, tiny: bool) -> dict[str, Any]:
    """Microseconds of the host for a launch, by way, and for a whole call of one launch's program."""
    x = unity.tensor(np.zeros(1024, "float32"), device=unity.cuda(0))
    executable = unity.compile(chain_of_launches(), target=target)
    calls, rounds = (1, 1) if tiny else (20, 9)  # fewer launches than the queue of a device holds
    found: dict[str, Any] = {}
    for name, mode in MODES.items():
        run = unity.VirtualMachine(executable, unity.cuda(0), exec_mode=mode)["main"]
        assert (run(x).numpy() == LAUNCHES).all()
        found[f"{name}, us a launch"] = 1e6 * _host_seconds(lambda run=run: run(x), context, calls, rounds) / LAUNCHES
    captured = unity.VirtualMachine(executable, unity.cuda(0), cuda_graph=True)["main"]
    for _ in range(3):  # as ever, captured, launched again
        assert (captured(x).numpy() == LAUNCHES).all()
    found["CUDA graph, us a launch"] = 1e6 * _host_seconds(lambda: captured(x), context, calls, rounds) / LAUNCHES
    one = unity.compile(
        parse('@R.function\ndef main(x: R.Tensor((1024,), "float32")):\n    return R.nn.relu(x)\n'), target=target
    )
    call = unity.VirtualMachine(one, unity.cuda(0))["main"]
    found["whole call of one kernel, us"] = 1e6 * _host_seconds(lambda: call(x), context, calls, rounds)
    if torch is None:
        return {**found, "torch, us a launch": "not there"}
    t = torch.zeros(1024, device="cuda")
    found["torch, us a launch"] = 1e6 * _host_seconds(lambda: torch.relu(t), context, calls, rounds)
    return found


def copies(context: Context, clock: Clock, tiny: bool, quick: bool) -> dict[str, float]:
    """GB/s of copies by direction, kind of the host's memory and size; bytes on the device count once read and once written."""
    sizes = (1 << 12,) if tiny else (1 << 28,) if quick else (1 << 16, 1 << 20, 1 << 24, 1 << 28)
    driver, found = context.driver, {}
    for size in sizes:
        here, there = [allocate(context, size) for _ in range(2)]
        plain = np.zeros(size, "uint8").ctypes
        with context.current("copies"):
            pinned = driver.get("cuMemHostAlloc", size, 0)
        ctypes.memset(pinned, 0, size)

        def copy(function: str, to: int, source: int, size: int = size) -> Callable[[], None]:
            return lambda: driver.call(function, to, source, size, context.stream())

        runs = {
            "host to device": copy("cuMemcpyHtoDAsync_v2", here.address, plain.data),
            "device to host": copy("cuMemcpyDtoHAsync_v2", plain.data, here.address),
            "locked host to device": copy("cuMemcpyHtoDAsync_v2", here.address, pinned),
            "device to locked host": copy("cuMemcpyDtoHAsync_v2", pinned, here.address),
            "on the device": copy("cuMemcpyDtoDAsync_v2", there.address, here.address),
        }
        with context.current("copies"):
            clock.seconds(runs["host to device"], 1)
            clock.seconds(runs["on the device"], 1)
            for name, taken in interleaved(clock, runs, 1e-3 if tiny else 1.0, 3 if tiny else 11).items():
                moved = size * (2 if name == "on the device" else 1)
                found[f"{name}, {size >> 10} KiB, GB/s"] = moved / max(taken, 1e-9) / 1e9
            driver.call("cuMemFreeHost", pinned)
    return found
