"""The functions of the emulated driver, called by their addresses as machine code calls them."""

import ctypes
import subprocess
import sys
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p

import numpy as np
import pytest
from emulated import HEADER, Arrays

from unity import UnityError
from unity.ffi.cuda.context import context
from unity.ffi.cuda.driver import FUNCTIONS, driver_in_use
from unity.ffi.cuda.module import Module
from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu
COPY = (
    HEADER.format(arch="sm_80")
    + """
.visible .global .align 4 .b32 counter = 7;
.const .align 8 .u64 table[3] = {1, 2, counter};
.visible .entry copy(.param .u64 .ptr .global .align 4 x, .param .u64 y)
.maxntid 64
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d0, %r0, 4;
  ld.param.b64 %d1, [x];
  ld.param.b64 %d2, [y];
  add.s64 %d1, %d1, %d0;
  add.s64 %d2, %d2, %d0;
  ld.global.b32 %r1, [%d1];
  ld.global.b32 %r2, [counter];
  add.s32 %r1, %r1, %r2;
  ld.const.b32 %r2, [table+8];
  add.s32 %r1, %r1, %r2;
  st.global.b32 [%d2], %r1;
  ret;
}
.visible .entry nothing() { ret; }
.visible .entry room(.param .b32 n) { .shared .align 16 .b8 kept[1024]; ret; }
"""
)


class Calls:
    """The driver in force: each function gives its status."""

    def __init__(self) -> None:
        self.driver = driver_in_use()

    def __getattr__(self, name):
        return self.driver.typed(name)

    def get(self, name, *args, kind=c_void_p):
        place = kind()
        assert getattr(self, name)(byref(place), *args) == 0, name
        return place.value


@pytest.fixture
def gpu():
    with emulated_gpu("sm_80", devices=2, memory=1 << 24) as made:
        yield made


@pytest.fixture
def calls(gpu):
    made = Calls()
    handle = made.get("cuDevicePrimaryCtxRetain", 0)
    assert made.cuCtxSetCurrent(handle) == 0
    yield made
    assert made.cuCtxSetCurrent(None) == 0


def load(calls, text: str = COPY) -> int:
    return calls.get("cuModuleLoadDataEx", text.encode() + b"\0", 0, None, None)


def words(calls, status: int) -> str:
    return calls.driver.text(status)


def test_every_function_of_the_table_has_an_address(gpu):
    driver = gpu.driver
    assert all(driver.address(name) for name in FUNCTIONS)
    assert driver.address("cuNothing") == 0 and driver.address("address") == 0


def test_devices_and_their_limits(calls):
    assert calls.get("cuDeviceGetCount", kind=c_int) == 2 and calls.get("cuDriverGetVersion", kind=c_int) == 13000
    assert [calls.get("cuDeviceGetAttribute", which, 1, kind=c_int) for which in (75, 76, 1, 10, 8, 97)] == [
        8,
        0,
        1024,
        32,
        49152,
        166912,
    ]
    assert calls.cuDeviceGetAttribute(byref(c_int()), 75, 2) == 101
    name = ctypes.create_string_buffer(8)
    assert calls.cuDeviceGetName(name, 8, 0) == 0 and name.value == b"Emulate"


def test_memory_is_checked_and_poisoned(calls):
    assert calls.cuMemAlloc_v2(byref(c_void_p()), 0) == 1
    place = calls.get("cuMemAlloc_v2", 100)
    back = np.zeros(100, np.uint8)
    assert calls.cuMemcpyDtoH_v2(back.ctypes.data, place, 100) == 0 and (back == 255).all()
    given = np.arange(100, dtype=np.uint8)
    assert calls.cuMemcpyHtoDAsync_v2(place, given.ctypes.data, 100, None) == 0
    assert calls.cuMemsetD8_v2(place + 10, 9, 5) == 0
    assert calls.cuMemcpyDtoH_v2(back.ctypes.data, place, 100) == 0
    assert (back[10:15] == 9).all() and (back[15:] == given[15:]).all()
    assert calls.cuMemcpyDtoH_v2(back.ctypes.data, place + 1, 100) == 1  # one byte too far
    assert calls.cuMemcpyHtoD_v2(place, place, 4) == 1  # a device's address where the host's belongs
    other = calls.get("cuMemAlloc_v2", 100)
    assert calls.cuMemcpyDtoD_v2(other, place, 100) == 0
    free, total = c_size_t(), c_size_t()
    assert calls.cuMemGetInfo_v2(byref(free), byref(total)) == 0 and total.value == 1 << 24 and free.value < 1 << 24
    assert calls.get("cuPointerGetAttribute", 2, place + 7, kind=c_int) == 2
    assert calls.get("cuPointerGetAttribute", 11, place + 7) == place
    assert calls.cuMemFree_v2(place + 8) == 1 and calls.cuMemFree_v2(place) == 0 and calls.cuMemFree_v2(place) == 1
    assert calls.cuMemcpyDtoH_v2(back.ctypes.data, place, 100) == 1
    assert calls.cuMemAlloc_v2(byref(c_void_p()), 1 << 25) == 2


def test_memory_is_found_again_when_there_is_no_other(calls):
    size = 1 << 22
    for _ in range(20):
        places = [calls.get("cuMemAlloc_v2", size) for _ in range(3)]
        assert len(set(places)) == 3
        for place in places:
            assert calls.cuMemFree_v2(place) == 0


def test_the_host_cannot_read_a_device():
    text = (
        "import ctypes\nfrom unity.testing import emulated_gpu\nfrom unity.ffi.cuda.context import context\n"
        "from unity.ffi.cuda.memory import allocate\n"
        "with emulated_gpu(memory=1 << 20):\n    block = allocate(context(0), 64)\n    print('made', flush=True)\n"
        "    ctypes.string_at(block.address, 4)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "made\n" and done.returncode < 0


def test_kernels_and_variables_of_a_module(calls, gpu):
    module = load(calls)
    function = calls.get("cuModuleGetFunction", module, b"copy")
    assert calls.cuModuleGetFunction(byref(c_void_p()), module, b"absent") == 500
    size = c_size_t()
    place = c_void_p()
    assert calls.cuModuleGetGlobal_v2(byref(place), byref(size), module, b"counter") == 0 and size.value == 4
    assert calls.get("cuFuncGetAttribute", 0, function, kind=c_int) == 64
    x, y = calls.get("cuMemAlloc_v2", 256), calls.get("cuMemAlloc_v2", 256)
    given = np.arange(64, dtype=np.int32)
    assert calls.cuMemcpyHtoD_v2(x, given.ctypes.data, 256) == 0
    cells = [c_uint64(x), c_uint64(y)]
    params = (c_void_p * 2)(*[ctypes.addressof(c) for c in cells])
    assert calls.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None) == 0
    back = np.zeros(64, np.int32)
    assert calls.cuMemcpyDtoH_v2(back.ctypes.data, y, 256) == 0 and (back == given + 9).all()
    whole = (c_uint64 * 2)(x, y)
    count = c_size_t(16)
    extra = (c_void_p * 5)(1, ctypes.addressof(whole), 2, ctypes.addressof(count), None)
    assert calls.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, extra) == 0
    assert [launch.block for launch in gpu.launches] == [(64, 1, 1), (32, 1, 1)] and not gpu.findings
    assert calls.cuModuleUnload(module) == 0 and calls.cuModuleUnload(module) == 400
    assert calls.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, params, None) == 400


@pytest.mark.parametrize("grid, block, shared, status", [
    ((0, 1, 1), (32, 1, 1), 0, 1), ((1, 1, 1), (0, 1, 1), 0, 1), ((1, 65536, 1), (1, 1, 1), 0, 1), ((1, 1, 1), (1025, 1, 1), 0, 1),
    ((1, 1, 1), (1, 1, 65), 0, 1), ((1, 1, 1), (1, 1, 1), 48 << 10, 1), ((1, 1, 1), (1, 1, 1), 47 << 10, 0),
])  # fmt: skip
def test_launches_that_cannot_be(calls, grid, block, shared, status):
    function = calls.get("cuModuleGetFunction", load(calls), b"room")
    cell = c_int(1)
    params = (c_void_p * 1)(ctypes.addressof(cell))
    assert calls.cuLaunchKernel(function, *grid, *block, shared, None, params, None) == status
    if shared == 48 << 10:
        assert (
            calls.cuFuncSetAttribute(function, 8, 163 << 10) == 1
            and calls.cuFuncSetAttribute(function, 8, 64 << 10) == 0
        )
        assert calls.cuLaunchKernel(function, *grid, *block, shared, None, params, None) == 0


def test_clusters_are_refused():
    text = HEADER.format(arch="sm_90") + ".visible .entry two() .reqnctapercluster 2, 1, 1 { ret; }"
    with emulated_gpu("sm_90"), pytest.raises(UnityError, match=r"\.reqnctapercluster is not modelled"):
        Module(context(0), text.encode())


def test_more_threads_than_a_kernel_promises(calls):
    function = calls.get("cuModuleGetFunction", load(calls), b"copy")
    cells = (c_uint64 * 2)()
    params = (c_void_p * 2)(ctypes.addressof(cells), ctypes.addressof(cells) + 8)
    assert calls.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, None, params, None) == 701


def test_streams_and_events(calls):
    stream = calls.get("cuStreamCreate", 1)
    first, second, untimed = [calls.get("cuEventCreate", flags) for flags in (0, 0, 2)]
    for event in (first, second, untimed):
        assert calls.cuEventRecord(event, stream) == 0 and calls.cuEventQuery(event) == 0
    assert calls.cuStreamWaitEvent(stream, first, 0) == 0 and calls.cuStreamSynchronize(stream) == 0
    assert calls.get("cuEventElapsedTime", first, second, kind=c_float) >= 0
    assert calls.cuEventElapsedTime(byref(c_float()), first, untimed) == 400
    assert calls.cuStreamDestroy_v2(stream) == 0 and calls.cuStreamSynchronize(stream) == 400
    assert calls.cuEventDestroy_v2(first) == 0 and calls.cuEventQuery(first) == 400
    pinned = calls.get("cuMemHostAlloc", 4096, 0)
    ctypes.memset(pinned, 3, 4096)
    assert calls.cuMemFreeHost(pinned) == 0 and calls.cuMemFreeHost(pinned) == 1


def test_a_thread_has_a_context_of_its_own(gpu):
    calls = Calls()
    assert calls.cuCtxSynchronize() == 201
    one, two = [calls.get("cuDevicePrimaryCtxRetain", k) for k in (0, 1)]
    assert one != two and calls.cuCtxSetCurrent(12345) == 201
    assert calls.cuCtxSetCurrent(two) == 0 and calls.get("cuCtxGetCurrent") == two
    place = calls.get("cuMemAlloc_v2", 64)
    assert calls.get("cuPointerGetAttribute", 9, place, kind=c_int) == 1
    assert calls.cuCtxSetCurrent(None) == 0 and calls.get("cuCtxGetCurrent") is None
    assert calls.cuDevicePrimaryCtxRelease_v2(1) == 0 and calls.cuDevicePrimaryCtxRelease_v2(1) == 201


@pytest.mark.parametrize("blocking", [False, True])
def test_a_fault_loses_the_context_of_its_device_alone(blocking):
    with emulated_gpu(devices=2, memory=1 << 22, blocking=blocking) as gpu:
        calls = Calls()
        handles = [calls.get("cuDevicePrimaryCtxRetain", k) for k in (0, 1)]
        assert calls.cuCtxSetCurrent(handles[0]) == 0
        function = calls.get("cuModuleGetFunction", load(calls), b"copy")
        x = calls.get("cuMemAlloc_v2", 100)
        cells = [c_uint64(x), c_uint64(calls.get("cuMemAlloc_v2", 256))]
        params = (c_void_p * 2)(*[ctypes.addressof(c) for c in cells])
        assert calls.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None) == (700 if blocking else 0)
        assert calls.cuCtxSynchronize() == 700 and calls.cuMemAlloc_v2(byref(c_void_p()), 8) == 700
        text = words(calls, 700)
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text and "thread (25, 0, 0) of block (0, 0, 0)" in text
        assert "x (100 bytes)" in text and "ld.global.b32" in text
        bounds = [one for one in gpu.findings if one.kind == "bounds"]
        assert bounds[0].code == "E363" and gpu.launches[0].fault == 700
        assert calls.cuCtxSetCurrent(handles[1]) == 0 and calls.cuCtxSynchronize() == 0
        assert calls.cuCtxSetCurrent(None) == 0


@pytest.mark.parametrize("image, status", [
    (b"\x7fELF and more", 209), (b".version 99.0\n.target sm_80\n.address_size 64\n", 218), (b"no ptx at all", 218),
    (COPY.replace("sm_80", "sm_90").encode(), 218), (COPY.replace("ret;", "tex.1d.v4.f32.s32 x, y;").encode(), 218),
    (COPY.replace("st.global.b32", "st.texture.b32").encode(), 218), (COPY.encode()[:500], 218), (b"\xff\xfe\xfa", 200),
])  # fmt: skip
def test_images_that_are_refused_say_why(calls, image, status):
    log = ctypes.create_string_buffer(4096)
    options, values = (c_int * 2)(5, 6), (c_void_p * 2)(ctypes.addressof(log), 4096)
    assert calls.cuModuleLoadDataEx(byref(c_void_p()), image + b"\0", 2, options, values) == status
    assert log.value


def test_a_fat_binary_is_searched_for_its_ptx(calls):
    text = COPY.encode() + b"\0"
    entry = (1).to_bytes(2, "little") + bytes(2) + (64).to_bytes(4, "little") + len(text).to_bytes(8, "little")
    body = entry.ljust(64, b"\0") + text
    machine = (2).to_bytes(2, "little") + bytes(2) + (64).to_bytes(4, "little") + (8).to_bytes(8, "little")
    body = machine.ljust(64, b"\0") + b"\x7fELFxxxx" + body
    header = (
        b"\x50\xed\x55\xba" + (1).to_bytes(2, "little") + (16).to_bytes(2, "little") + len(body).to_bytes(8, "little")
    )
    image = ctypes.create_string_buffer(header + body)
    wrapped = b"\xb1\x43\x62\x46" + (1).to_bytes(4, "little") + ctypes.addressof(image).to_bytes(8, "little") + bytes(8)
    for one in (image, wrapped):
        module = calls.get("cuModuleLoadDataEx", one, 0, None, None)
        assert calls.get("cuModuleGetFunction", module, b"nothing")


def test_errors_have_names(calls):
    place = c_char_p()
    assert calls.cuGetErrorName(719, byref(place)) == 0 and place.value == b"CUDA_ERROR_LAUNCH_FAILED"
    assert calls.cuGetErrorName(12345, byref(place)) == 1


def test_an_architecture_that_is_not_modelled():
    with pytest.raises(UnityError) as caught, emulated_gpu("sm_52"):
        pass
    assert caught.value.code == "E393"


def test_an_error_of_the_emulation_is_no_silence(monkeypatch):
    with pytest.raises(UnityError) as caught, emulated_gpu(memory=1 << 20) as gpu:
        monkeypatch.setattr(gpu._driver.devices[0].memory, "allocate", lambda size: 1 // 0)
        with pytest.raises(UnityError, match=r"999.*zero"):
            Arrays().room(8)
    assert caught.value.code == "E907"
