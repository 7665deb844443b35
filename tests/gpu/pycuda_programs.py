"""Programs with the real pycuda, run in a process of their own: the driver is chosen when pycuda is loaded.

Where there is no device, `tools/gpu_tools.py` has installed a libcuda whose entries call the emulated driver.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import unity
from unity.ffi.cuda.driver import driver_in_use
from unity.script import tir as T


@T.prim_func
def double(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.sblock("double"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)


def point_to_the_emulated_driver() -> None:
    """Load the libcuda of the emulation, so that pycuda finds it under the name of the real one."""
    library = ctypes.CDLL(str(Path(sysconfig.get_path("platlib"), "libcuda_emulated.so")), mode=ctypes.RTLD_GLOBAL)
    names = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "unity_names"))).decode().split()
    slots = (ctypes.c_void_p * len(names)).in_dll(library, "unity_slots")
    for place, name in enumerate(names):
        slots[place] = driver_in_use().address(name) or None


def loaded(cuda: Any) -> tuple[Any, int]:
    """The kernel of a build, loaded by pycuda from its text, and the threads of a block."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNITY_KEEP"] = folder
        unity.build(double, target="cuda")
        del os.environ["UNITY_KEEP"]
        (text,) = Path(folder).rglob("kernels.ptx")
        source = text.read_text()
    (name,), (threads,) = re.findall(r"\.entry (\w+)", source), re.findall(r"\.(?:req|max)ntid (\d+)", source)
    return cuda.module_from_buffer(source.encode() + b"\0").get_function(name), int(threads)


def arrays(cuda: Any, gpuarray: Any) -> None:
    """GPUArrays are arguments of a compiled function, which writes into them; a result becomes a GPUArray, without copies."""
    run = unity.build(double, target="cuda")
    for n in (1, 7, 1000):
        x = np.arange(n, dtype="float32")
        given, result = gpuarray.to_gpu(x), gpuarray.to_gpu(np.zeros(n, "float32"))
        shared = unity.tensor(given)
        assert shared.data_ptr == given.ptr
        run["double"](shared, unity.tensor(result))
        assert np.array_equal(result.get(), 2 * x), n
    made = unity.tensor(x, device=unity.cuda(0))
    pointer = made.__cuda_array_interface__["data"][0]
    seen = gpuarray.GPUArray(made.shape, made.numpy().dtype, base=made, gpudata=pointer)
    assert np.array_equal(seen.get(), x)


def streams(cuda: Any, gpuarray: Any) -> None:
    """A stream of pycuda orders the work of compiled functions; its events time them."""
    run = unity.build(double, target="cuda")
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    x = np.arange(64, dtype="float32")
    given, result = gpuarray.to_gpu_async(x, stream=stream), gpuarray.to_gpu(np.zeros(64, "float32"))
    begin.record(stream)
    with unity.cuda(0).use_stream(stream):
        run["double"](unity.tensor(given), unity.tensor(result))
    end.record(stream)
    end.synchronize()
    assert begin.time_till(end) >= 0
    assert np.array_equal(result.get_async(stream=stream), 2 * x)


def kernels(cuda: Any, gpuarray: Any) -> None:
    """pycuda loads the text that a build made, and launches its kernel: what the mission calls pycuda code."""
    kernel, threads = loaded(cuda)
    x = np.arange(300, dtype="float32")
    given, result = gpuarray.to_gpu(x), gpuarray.to_gpu(np.zeros(300, "float32"))
    assert kernel.num_regs >= 0
    blocks = (-(-300 // threads), 1, 1)
    kernel(given, result, np.int64(300), grid=blocks, block=(threads, 1, 1), stream=cuda.Stream())
    assert np.array_equal(result.get(), 2 * x)


def overrun(cuda: Any, gpuarray: Any) -> None:
    """An access behind an array is an error of CUDA in pycuda, as on a device."""
    kernel, threads = loaded(cuda)
    short = gpuarray.to_gpu(np.zeros(8, "float32"))
    try:
        kernel(short, short, np.int64(4096), grid=(40, 1, 1), block=(threads, 1, 1))
        cuda.Context.synchronize()
    except cuda.Error as error:
        assert "illegal memory access" in str(error), error
        print("done overrun", flush=True)
        os._exit(0)  # the context is lost: nothing of it can be freed
    raise AssertionError("nobody saw the overrun")


def main(name: str, emulated: bool) -> None:
    """Run a program of this module."""
    if emulated:
        scope = unity.testing.emulated_gpu()
        scope.__enter__()  # for the whole process: pycuda frees its objects at exit
        point_to_the_emulated_driver()
    import pycuda.driver as cuda  # noqa: PLC0415  (after the driver is chosen)

    cuda.init()
    context = cuda.Device(0).retain_primary_context()
    context.push()
    from pycuda import gpuarray  # noqa: PLC0415

    try:
        globals()[name](cuda, gpuarray)
    finally:
        context.pop()
        context.detach()
    print("done", name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "emulated")
