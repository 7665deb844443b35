"""The driver's functions, contexts, memory and launches, over a driver whose statuses the test gives."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
from ctypes import c_uint64

import pytest
from scripted_driver import LIBC, ScriptedDriver

import unity
from unity import UnityError
from unity.ffi.cuda import memory
from unity.ffi.cuda.context import THREAD_KEY, Launching, context, thread_key
from unity.ffi.cuda.driver import FUNCTIONS, Driver, device_count, driver_in_use, use_driver
from unity.ffi.cuda.launch import launch, launch_failed, launch_symbols
from unity.ffi.cuda.memory import (
    allocate,
    copy_on_device,
    copy_to_device,
    copy_to_host,
    fill,
    memory_info,
    release_pool,
    rounded,
)
from unity.ffi.cuda.module import Module


@pytest.fixture
def scripted():
    made = ScriptedDriver(devices=2)
    with use_driver(made.driver):
        yield made


def code_of(call, *args):
    with pytest.raises(UnityError) as caught:
        call(*args)
    return caught.value.code


def test_a_driver_is_started_once_and_counts(scripted):
    assert device_count() == 2
    assert context(1) is context(1)
    assert scripted.calls.count("cuInit") == 1 and scripted.calls.count("cuDevicePrimaryCtxRetain") == 1
    assert context(0).arch == "sm_90" and context(1).name == "Scripted 1" and driver_in_use().version() == (13, 0)
    assert code_of(context, 2) == "E734"


LOADED = """
import ctypes
asked, load = [], ctypes.CDLL
def look(name, *args, **kwargs):
    asked.append(name)
    if "libcuda" in str(name):
        raise OSError(f"{name}: not there")
    return load(name, *args, **kwargs)
ctypes.CDLL = look
import sys, unity, unity.ffi.cuda.launch, unity.ffi.cuda.memory
assert "libcuda.so.1" not in asked
from unity.ffi.cuda.context import context
from unity.ffi.cuda.driver import device_count
assert device_count() == 0 and asked.count("libcuda.so.1") == 1
for _ in range(2):
    try:
        context(0)
    except unity.UnityError as error:
        assert error.code == "E734" and "not there" in error.message
    else:
        raise AssertionError
assert asked.count("libcuda.so.1") == 1
"""


def test_importing_loads_no_driver_and_without_one_there_are_no_devices():
    subprocess.run([sys.executable, "-c", LOADED], check=True)


def test_a_driver_that_does_not_start():
    made = ScriptedDriver()
    made.fail["cuInit"] = 803
    with pytest.raises(UnityError, match="803") as caught, use_driver(made.driver):
        pass
    assert caught.value.code == "E734" and "restart the machine" in caught.value.help


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_every_status_of_every_function_is_looked_at(function):
    """A call whose function fails raises, whatever the function is."""
    ours = ctypes.CFUNCTYPE(ctypes.c_int, *FUNCTIONS[function])(lambda *args: 999)
    started = Driver("failing", lambda name: ctypes.cast(ours, ctypes.c_void_p).value if name == function else 0)
    started.process = os.getpid()
    with pytest.raises(UnityError, match="999") as caught:
        started.call(function, *[0 if kind is not ctypes.c_char_p else b"" for kind in FUNCTIONS[function]])
    assert caught.value.code == "E735"


def test_a_function_that_the_driver_lacks(scripted):
    assert code_of(scripted.driver.call, "cuEventElapsedTime", None, 0, 0) == "E735"


def test_bytes_go_there_and_back(scripted):
    here = context(0)
    a, b = allocate(here, 100), allocate(here, 100)
    source, back = ctypes.create_string_buffer(bytes(range(100)), 100), ctypes.create_string_buffer(100)
    copy_to_device(here, a.address, ctypes.addressof(source), 100)
    fill(here, b.address, 7, 100)
    copy_on_device(here, b.address + 10, a.address, 50)
    copy_to_host(here, ctypes.addressof(back), b.address, 100)
    assert back.raw == bytes([7] * 10 + list(range(50)) + [7] * 40)
    assert scripted.calls.index("cuMemcpyDtoHAsync_v2") < len(scripted.calls) - 1 - scripted.calls[::-1].index(
        "cuStreamSynchronize"
    )
    copy_to_host(here, 0, 0, 0)


def test_dropped_memory_is_used_again(scripted):
    here = context(0)
    first = allocate(here, 1000)
    address = first.address
    assert allocate(here, 1000).address != address
    del first
    assert allocate(here, 900).address == address, "the same size of the pool"
    assert here.held == 0 and here.pooled == 2048
    release_pool(here)
    assert here.pooled == 0 and not scripted.blocks
    block = allocate(here, 1000)
    assert here.held == 1024 and block.nbytes == 1000


def test_a_few_large_blocks_go_back_at_once(scripted):
    """Of each size that is small beside the pool two wait whoever holds the lock; a third one and larger sizes are counted."""
    here = context(0)
    size = rounded(2 * memory.SMALL)
    here.most = memory.SHARE * size
    allocate(here, size)  # the first one makes the place
    blocks = [allocate(here, size) for _ in range(3)]
    with memory._LOCK:
        thread = threading.Thread(target=blocks.clear)
        thread.start()
        thread.join()
        assert here.held == size, "the third one waits for the lock"
    allocate(here, size)
    assert here.held == 0 and here.pooled == 3 * size


def test_a_driver_may_forbid_the_pool():
    made = ScriptedDriver()
    made.driver.recycles = False
    with use_driver(made.driver):
        allocate(context(0), 1000)
        assert not made.blocks and rounded(1000) == 1024
        block = allocate(context(0), 1000)
        assert list(made.blocks.values()) == [1000] and block.address in made.blocks


@pytest.mark.parametrize(
    "nbytes", [0, 1, 511, 512, 513, 1 << 20, (1 << 20) + 1, (1 << 21) - 1, 1 << 21, 3 << 30, (1 << 40) + 1]
)
def test_blocks_are_a_little_larger(nbytes):
    size = rounded(nbytes)
    assert max(nbytes, 1) <= size <= max(512, nbytes * 9 / 8 + 512) and rounded(size) == size


def test_memory_of_another_stream_waits_for_this_one(scripted):
    here = context(0)
    stream = here.new_stream()
    block = allocate(here, 64)
    with here.use_stream(stream):
        scripted.calls.clear()
        del block
        assert "cuEventRecord" in scripted.calls and "cuStreamWaitEvent" not in scripted.calls
        assert allocate(here, 64).stream == stream and "cuStreamWaitEvent" not in scripted.calls
    taken = here.taken
    assert allocate(here, 64).stream == 0 and here.taken == taken
    assert scripted.calls.count("cuStreamWaitEvent") == 1 and not here.behind
    with here.use_stream(stream):
        block = allocate(here, 64)
    del block
    here.free_stream(stream)
    assert scripted.calls.count("cuStreamWaitEvent") == 2 and not here.behind, "before all of its work is waited for"
    taken = here.taken
    assert here.pooled and {of for of, _ in here.waiting} == {0}, "what waited for a stream waits for the default one"
    assert allocate(here, 64).stream == 0 and here.taken == taken


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_that_its_owner_has_destroyed_is_left_alone(scripted, again):
    """As those of pycuda, cupy and torch: their handles are all that is known, and a driver crashes on one that has ended."""
    here = context(0)
    stream = here.driver.get("cuStreamCreate", 1)
    with here.use_stream(stream):
        blocks = [allocate(here, 64) for _ in range(3)]
        if again:
            del blocks[0]
    here.driver.call("cuStreamDestroy_v2", stream)
    del blocks
    fill(here, allocate(here, 64).address, 0, 64)
    here.synchronize()
    assert scripted.destroyed == {stream} and not scripted.crashes
    release_pool(here)
    assert not scripted.blocks and not scripted.crashes


def test_a_handle_may_come_again(scripted):
    """Of a stream that was ended here, for one that somebody else makes: its work is waited for as that of any other."""
    here = context(0)
    stream = here.new_stream()
    here.free_stream(stream)
    scripted.destroyed.clear()
    with here.use_stream(stream):
        block = allocate(here, 64)
        address = block.address
    del block
    assert "cuEventRecord" in scripted.calls and address not in here.waiting.get((0, 512), [])
    scripted.calls.clear()
    here.order(stream, 0)
    assert "cuStreamWaitEvent" in scripted.calls


def test_streams_are_ended_by_whoever_made_them(scripted):
    """A driver crashes on a handle that is none."""
    device, here = unity.cuda(0), context(0)
    stream, foreign = device.create_raw_stream(), here.driver.get("cuStreamCreate", 1)
    device.free_raw_stream(stream)
    for wrong in (stream, foreign, 0, 12345, -1, "a", None):
        with pytest.raises(UnityError) as caught:
            device.free_raw_stream(wrong)
        assert caught.value.code == "E703"
    assert scripted.destroyed == {stream} and not scripted.crashes


def test_memory_dropped_while_its_stream_is_captured_by_others_stays_theirs(scripted):
    here = context(0)
    block = allocate(here, 64)
    address = block.address
    with here.use_stream(0x77):
        scripted.captured.add(0x77)
        del block
    scripted.captured.clear()
    assert allocate(here, 64).address != address and "cuEventRecord" not in scripted.calls


def test_memory_that_cannot_be_asks_nobody(scripted):
    """A size of more than 64 bits would wrap around and be given."""
    for nbytes in (1 << 63, (1 << 64) + 64):
        with pytest.raises(UnityError, match=f"{nbytes} bytes are more than cuda:0") as caught:
            allocate(context(0), nbytes)
        assert caught.value.code == "E736" and "cuMemAlloc_v2" not in scripted.calls


def test_out_of_memory_names_sizes_and_gives_the_pool_back_first(scripted):
    here = context(0)
    total = memory_info(here)[1]
    allocate(here, total // 5)
    assert here.pooled > 0
    big = allocate(here, total * 9 // 10)
    assert here.pooled == 0
    with pytest.raises(UnityError, match=f"{total // 2} bytes are more than cuda:0") as caught:
        allocate(here, total // 2)
    assert caught.value.code == "E736" and f"of {total} bytes are free" in caught.value.message
    assert f"{rounded(big.nbytes)} belong to" in caught.value.message


def test_a_lost_context_says_so_from_then_on(scripted):
    here, other = context(0), context(1)
    block = allocate(here, 64)
    scripted.fail["cuCtxSynchronize"] = 700
    with pytest.raises(UnityError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        here.synchronize()
    assert caught.value.code == "E737"
    scripted.fail.clear()
    scripted.calls.clear()
    for call in (
        here.synchronize,
        lambda: allocate(here, 8),
        lambda: fill(here, block.address, 0, 4),
        lambda: Module(here, b""),
    ):
        with pytest.raises(UnityError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
            call()
        assert caught.value.code == "E737"
    del block
    gc.collect()
    assert scripted.calls == [], "nothing asks the driver any more"
    other.synchronize()


def test_a_forked_process_is_told(scripted):
    here = context(0)
    block = allocate(here, 64)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:  # no assertion here: the answer goes to the parent
        codes = []
        for call in (driver_in_use, here.synchronize, lambda: allocate(here, 8)):
            try:
                call()
                codes.append("none")
            except UnityError as error:
                codes.append(error.code)
        del block
        os.write(writes, f"{' '.join(codes)} {device_count()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reads, 100) == b"E738 E738 E738 0"
    here.synchronize()


def test_a_thread_gets_its_context_back(scripted):
    seen = []

    def run():
        first, second = context(0), context(1)
        with first.current():
            with second.current():
                seen.append(scripted.contexts[threading.get_native_id()] == second.handle)
            seen.append(scripted.contexts[threading.get_native_id()] == first.handle)
        seen.append(scripted.contexts[threading.get_native_id()] == first.handle)
        scripted.contexts[threading.get_native_id()] = 0
        with second.current():
            seen.append(scripted.contexts[threading.get_native_id()] == second.handle)
        seen.append(scripted.contexts[threading.get_native_id()] == 0)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [True] * 5


def test_machine_code_sees_the_stream_of_its_thread(scripted):
    here = context(0)
    find = LIBC.pthread_getspecific
    find.restype = ctypes.c_uint64
    seen = []

    def read(key):
        return ctypes.c_uint64.from_address(find(key)).value

    def run(stream):
        with here.use_stream(stream), Launching(here):
            seen.append(read(THREAD_KEY))
            with here.use_stream(stream + 1), Launching(here):
                seen.append(read(THREAD_KEY))
            seen.append(read(THREAD_KEY))
        seen.append(read(THREAD_KEY))

    symbols = launch_symbols(scripted.driver)
    assert symbols["unity_cuda_thread_key"] == ctypes.addressof(thread_key())
    assert not symbols["cuFuncSetAttribute"] and symbols["cuLaunchKernel"] == scripted.driver.address("cuLaunchKernel")
    for start in (0x100, 0x200):
        thread = threading.Thread(target=run, args=(start,))
        thread.start()
        thread.join()
    assert seen == [0x100, 0x101, 0x100, 0, 0x200, 0x201, 0x200, 0]


def double(driver, params):
    address, count = [
        ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(params + 8 * k).value).value for k in (0, 1)
    ]
    data = driver.bytes_of(address, count)
    data[:] = bytes([2 * b for b in data[:]])


def test_a_kernel_is_launched(scripted):
    here = context(0)
    scripted.kernels["double"] = double
    module = Module(here, b".version 8.0")
    function = module.function("double")
    assert code_of(module.function, "triple") == "E739"
    block = allocate(here, 4)
    fill(here, block.address, 21, 4)
    with here.use_stream(0x500):
        launch(here, function, (2, 3), (32,), [c_uint64(block.address), c_uint64(4)], shared=16)
    assert bytes(scripted.bytes_of(block.address, 4)) == bytes([42] * 4)
    assert scripted.launches == [("double", (2, 3, 1), (32, 1, 1), 16, 0x500)]
    scripted.calls.clear()
    del module
    gc.collect()
    assert "cuModuleUnload" in scripted.calls


def test_machine_code_asks_for_memory_and_learns_why_there_is_none(scripted):
    symbols = launch_symbols(scripted.driver)
    get = ctypes.CFUNCTYPE(c_uint64, ctypes.c_size_t)(symbols["unity_cuda_allocate"])
    give = ctypes.CFUNCTYPE(None, c_uint64)(symbols["unity_cuda_release"])
    assert get(16) == 0 and code_of(launch_failed, 2, "k") == "E735", "no context: nobody is inside a call"
    with Launching(context(1)) as stream:
        address = get(16)
        assert stream == 0 and address and context(1).held == 512
        give(address)
        assert context(1).held == 0
        assert get(1 << 50) == 0
        with pytest.raises(UnityError, match=f"{1 << 50} bytes") as caught:
            launch_failed(2, "k")
        assert caught.value.code == "E736"
        assert code_of(launch_failed, 1, "k") == "E735" and code_of(launch_failed, 719, "k") == "E737"
    assert code_of(context(1).synchronize) == "E737"


def test_streams_of_a_device(scripted):
    """As TVM's devices and torch's blocks have them; a stream of another library by what that calls its handle."""
    device = unity.cuda(1)
    stream = device.create_raw_stream()
    for given in (
        stream,
        type("T", (), {"cuda_stream": stream})(),
        type("P", (), {"handle": stream})(),
        type("C", (), {"ptr": stream})(),
    ):
        with device.use_stream(given):
            assert context(1).stream() == stream and context(0).stream() == 0
        assert context(1).stream() == 0
    device.set_raw_stream(stream)
    assert context(1).stream() == stream
    device.set_raw_stream(None)
    scripted.calls.clear()
    device.sync(stream)
    assert "cuStreamSynchronize" in scripted.calls
    device.sync()
    assert "cuCtxSynchronize" in scripted.calls
    device.free_raw_stream(stream)
    assert "cuStreamDestroy_v2" in scripted.calls
    assert code_of(device.set_raw_stream, "s") == "E703" and code_of(unity.cpu().create_raw_stream) == "E703"
    unity.cpu().sync()


def test_facts_about_a_device(scripted):
    device = unity.cuda(1)
    assert (device.device_name, device.compute_version, device.warp_size) == ("Scripted 1", "9.0", 32)
    assert (device.max_threads_per_block, device.multi_processor_count, device.max_shared_memory_per_block) == (
        1024,
        7,
        7,
    )
    assert unity.cpu().compute_version is None and unity.cpu().warp_size is None


def test_memory_that_garbage_gives_back_waits_for_no_lock(scripted):
    """The collector runs anywhere, also where a thread holds a lock that whoever allocates is waiting for."""
    here = context(0)
    block, other, held = allocate(here, 64), threading.Lock(), threading.Event()

    def drop_inside():
        nonlocal block
        with other:
            held.set()
            del block

    with memory._LOCK:
        other.acquire()
        thread = threading.Thread(target=drop_inside)
        thread.start()
        other.release()
        held.wait()
        with other:  # what the driver does inside of an allocation
            pass
        thread.join()
        assert here.held == 512, "it is still the block's"
    allocate(here, 64)
    assert here.held == 0 and here.pooled == 512


def test_threads_share_the_pool(scripted):
    """No block is anybody's twice, and every byte is accounted for, with memory that is given back to the driver in between."""
    here, wrong = context(0), []
    mine, used = threading.Lock(), set()

    def work(seed):
        for k in range(150):
            blocks = [allocate(here, 512 * (1 + (seed + k + j) % 3)) for j in range(3)]
            addresses = {block.address for block in blocks}
            with mine:
                wrong.extend(addresses & used)
                used.update(addresses)
            if k % 40 == seed:
                release_pool(here)
            with mine:
                used.difference_update(addresses)
            del blocks

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and here.held == 0 and here.pooled == here.taken
    release_pool(here)
    assert here.taken == 0 and not scripted.blocks
