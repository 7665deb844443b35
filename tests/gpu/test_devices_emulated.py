"""Programs on CUDA devices: memory, streams, faults. What needs two devices, little memory or a lost context is emulated alone."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity import Tensor, UnityError, VirtualMachine, runtime, tensor
from unity.ffi.cuda.context import context
from unity.script import parse
from unity.testing import emulated_gpu
from unity.vm.native.run import MOST_ARENAS

pytestmark = pytest.mark.gpu
MODES = ("native", "bytecode")
SCALE = """
    @T.prim_func(private=True)
    def scale(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for b in T.thread_binding((n + 31) // 32, "blockIdx.x"):
            for t in T.thread_binding(32, "threadIdx.x"):
                with T.block("c"):
                    v = T.axis.spatial(n, b * 32 + t)
                    T.where(b * 32 + t < n)
                    Y[v] = X[v] * T.float32(2) + T.float32(1)
"""
THREE = parse(f"""
@I.ir_module
class M:
{SCALE}
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y = R.call_tir(cls.scale, (x,), out_sinfo=R.Tensor((n,), "float32"))
        z = R.call_tir(cls.scale, (y,), out_sinfo=R.Tensor((n,), "float32"))
        w = R.call_tir(cls.scale, (z,), out_sinfo=R.Tensor((n,), "float32"))
        return w
""")


@pytest.fixture
def gpu():
    """None on a device of this machine."""
    with device_or_emulated(launched=False, races=False, traffic=False) as made:
        yield made


@pytest.fixture
def emulated():
    """Two devices with little memory."""
    with emulated_gpu(devices=2, memory=1 << 24, races=False, traffic=False) as made:
        yield made


@pytest.fixture(scope="module")
def executable():
    return unity.compile(THREE, target="cuda")


def three(x):
    return ((x * 2 + 1) * 2 + 1) * 2 + 1


def check_sizes(executable, mode, index):
    vm = VirtualMachine(executable, unity.cuda(index), exec_mode=mode)
    for n in (100, 1, 0, 33):
        x = np.arange(n, dtype=np.float32)
        y = vm["main"](x)
        assert type(y) is Tensor and y.device is unity.cuda(index) and (y.numpy() == three(x)).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_program_runs_at_any_size(gpu, executable, mode):
    check_sizes(executable, mode, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [0, 1])
def test_a_program_runs_on_each_device(emulated, executable, mode, index):
    check_sizes(executable, mode, index)
    vm = VirtualMachine(executable, unity.cuda(index), exec_mode=mode)
    assert not emulated.findings
    other = tensor(np.ones(4, np.float32), device=unity.cuda(1 - index))
    with pytest.raises(UnityError, match=f"expected a tensor on cuda:{index}, got one on cuda:{1 - index}") as caught:
        vm["main"](other)
    assert caught.value.code == "E612"


@pytest.mark.parametrize("mode", MODES)
def test_streams_have_arenas_of_their_own(gpu, executable, mode):
    vm = VirtualMachine(executable, unity.cuda(0), exec_mode=mode)
    device, x = unity.cuda(0), np.arange(50, dtype=np.float32)
    streams = [device.create_raw_stream(), device.create_raw_stream()]
    for stream in streams:
        with device.use_stream(stream):
            before = len(gpu.launches) if gpu is not None else 0
            for _ in range(2):
                assert (vm["main"](x).numpy() == three(x)).all()
            assert gpu is None or {launch.stream for launch in gpu.launches[before:]} == {stream}
    vm["main"](x)
    assert gpu is None or gpu.launches[-1].stream == 0
    if mode == "native":
        assert set(vm.native.arenas) == {0, *streams}
        assert len({block.address for block in vm.native.arenas.values()}) == 3
    for stream in streams:
        device.sync(stream)
        device.free_raw_stream(stream)


def test_streams_that_come_and_go_leave_no_arenas(gpu, executable):
    vm, device = VirtualMachine(executable, unity.cuda(0)), unity.cuda(0)
    x = np.arange(50, dtype=np.float32)
    held = []
    gc.freeze()  # the collections below need not look at what is there
    for _ in range(2 * MOST_ARENAS):
        stream = device.create_raw_stream()
        with device.use_stream(stream):
            for _ in range(2):
                assert (vm["main"](x).numpy() == three(x)).all()
        device.free_raw_stream(stream)
        gc.collect()
        held.append(context(0).held)
    assert len(vm.native.arenas) == MOST_ARENAS and held[MOST_ARENAS] == held[-1]
    assert (vm["main"](x).numpy() == three(x)).all()


@pytest.mark.parametrize("handle", [3, 99, 12345, 0x5EEDFFF0, -1, 1 << 64, "s", None])
def test_what_is_no_stream_is_told_where_it_is_given(handle: object) -> None:
    """Before anything works on it: a driver may crash on such a handle. Those that every context has are taken."""
    with emulated_gpu():
        device = unity.cuda(0)
        ended = device.create_raw_stream()
        device.free_raw_stream(ended)
        for given in (handle, ended):
            for use in (
                device.set_raw_stream,
                device.sync,
                device.free_raw_stream,
                lambda s: device.use_stream(s).__enter__(),
            ):
                if given is not None or use not in (device.set_raw_stream, device.sync):
                    with pytest.raises(unity.UnityError, match="is not a stream") as caught:
                        use(given)
                    assert caught.value.code == "E703" and caught.value.help
        for own in (0, 1, 2):
            with device.use_stream(own):
                assert unity.tensor(np.ones(3), device=device).numpy().sum() == 3


def test_memory_outlives_its_stream(gpu, executable):
    """Memory of a stream that was destroyed goes to the stream of whoever drops it; a real driver crashes on a destroyed one."""
    vm, device = VirtualMachine(executable, unity.cuda(0)), unity.cuda(0)
    held, driver = context(0), context(0).driver
    stream = device.create_raw_stream()
    with device.use_stream(stream):
        y = vm["main"](np.arange(50, dtype=np.float32))
    device.free_raw_stream(stream)
    assert (y.numpy() == three(np.arange(50, dtype=np.float32))).all()
    address, given, call = y.data_ptr, [], type(driver).call

    def noted(self, name, *arguments):
        given.extend(arguments)
        return call(self, name, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(driver), "call", noted)
        del y
        gc.collect()
        tensor(np.zeros(50, np.float32), device=device)
    assert stream not in given
    assert any([address in blocks for (s, _), blocks in held.waiting.items() if s != stream]) or not driver.recycles
    del vm
    gc.collect()


@pytest.mark.parametrize("mode", MODES)
def test_memory_goes_back(gpu, executable, mode):
    gc.collect()
    others = context(0).held
    vm = VirtualMachine(executable, unity.cuda(0), exec_mode=mode)
    x = np.arange(1000, dtype=np.float32)
    for _ in range(3):
        vm["main"](x)
    gc.collect()
    held = context(0).held
    for _ in range(3):
        vm["main"](x)
    gc.collect()
    assert context(0).held == held <= others + 3 * 4096, "the arena alone"
    del vm
    gc.collect()
    assert context(0).held == others


@pytest.mark.parametrize("mode", MODES)
def test_out_of_memory(emulated, executable, mode):
    vm = VirtualMachine(executable, unity.cuda(0), exec_mode=mode)
    big = tensor(np.zeros(3 << 20, np.float32), device=unity.cuda(0))
    with pytest.raises(UnityError, match="bytes are more than cuda:0") as caught:
        vm["main"](big)
    assert caught.value.code == "E736"
    del big, caught
    gc.collect()
    x = np.arange(64, dtype=np.float32)
    assert (vm["main"](x).numpy() == three(x)).all(), "the machine works on"


FAULT = parse("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def pick(X: T.Buffer((64,), "float32"), I: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "float32")):
        for t in T.thread_binding(64, "threadIdx.x"):
            with T.block("c"):
                v = T.axis.spatial(64, t)
                Y[v] = X[I[v]]

    @R.function
    def main(x: R.Tensor((64,), "float32"), i: R.Tensor((64,), "int32")):
        y = R.call_tir(cls.pick, (x, i), out_sinfo=R.Tensor((64,), "float32"))
        return y
""")


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_leaves_its_memory_loses_the_context(mode):
    with emulated_gpu(memory=1 << 24) as gpu:
        vm = VirtualMachine(unity.compile(FAULT, target="cuda"), unity.cuda(0), exec_mode=mode)
        x, i = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.int32)[::-1].copy()
        kept = vm["main"](x, i)
        assert (kept.numpy() == x[i]).all()
        i[3] = 1 << 22
        with pytest.raises(UnityError) as caught:
            vm["main"](x, i).numpy()
        assert caught.value.code in ("E614", "E737")
        if caught.value.code == "E737":
            for call in (
                lambda: vm["main"](x, i),
                kept.numpy,
                lambda: runtime.empty((4,), "int8", "cuda"),
                unity.cuda(0).sync,
            ):
                with pytest.raises(UnityError, match="the context of cuda:0 is lost") as again:
                    call()
                assert again.value.code == "E737"
            assert gpu.findings


def test_no_such_device(executable):
    with emulated_gpu(), pytest.raises(UnityError, match="there is no device cuda:3") as caught:
        VirtualMachine(executable, unity.cuda(3))
    assert caught.value.code == "E734"
    assert not unity.cuda(0).exist or unity.cuda(0).sync() is None


@pytest.mark.parametrize("mode", MODES)
def test_saved_programs_run(gpu, executable, mode, tmp_path):
    path = tmp_path / "m.unity"
    executable.save(path)
    x = np.arange(40, dtype=np.float32)
    assert (VirtualMachine(unity.load(path), unity.cuda(0), mode)["main"](x).numpy() == three(x)).all()


def test_times_and_profiles(gpu, executable):
    vm = VirtualMachine(executable, unity.cuda(0))
    x = tensor(np.arange(40, dtype=np.float32), device="cuda")
    assert vm.time_evaluator("main", number=2)(x).mean > 0
    assert [row.calls for row in vm.profile("main", x, runs=2).rows] == [1, 1, 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("outer", ["llvm", "cuda"])
def test_one_module_for_the_host_and_a_device(mode, outer):
    """A tensor program of the other one gets copies."""
    text = """
@I.ir_module
class M:
    @T.prim_func
    def there(x: T.handle, y: T.handle):
        T.func_attr({"target": T.target("cuda")})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for b in T.thread_binding((n + 31) // 32, "blockIdx.x"):
            for t in T.thread_binding(32, "threadIdx.x"):
                with T.block("c"):
                    v = T.axis.spatial(n, b * 32 + t)
                    T.where(b * 32 + t < n)
                    Y[v] = X[v] * T.float32(2)

    @T.prim_func
    def here(x: T.handle, y: T.handle):
        T.func_attr({"target": T.target("llvm")})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                Y[v] = X[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.call_tir(cls.there, (x,), out_sinfo=R.Tensor((n,), "float32"))
        b = R.call_tir(cls.here, (R.to_vdevice(a, "llvm:0"),), out_sinfo=R.Tensor((n,), "float32"))
        c = R.call_tir(cls.there, (R.to_vdevice(b, "cuda:0"),), out_sinfo=R.Tensor((n,), "float32"))
        return c
"""
    with device_or_emulated() as gpu:
        vm = VirtualMachine(unity.compile(parse(text), target=outer), exec_mode=mode)
        x = np.arange(70, dtype=np.float32)
        y = vm["main"](x)
        assert y.device is vm.device is (unity.cpu() if outer == "llvm" else unity.cuda(0))
        assert (y.numpy() == (x * 2 + 1) * 2).all() and (gpu is None or len(gpu.launches) == 2)


@pytest.mark.parametrize("mode", MODES)
def test_threads_with_streams_of_their_own_share_a_machine(gpu, executable, mode):
    vm, device = VirtualMachine(executable, unity.cuda(0), exec_mode=mode), unity.cuda(0)

    def work(start):
        stream = device.create_raw_stream()
        with device.use_stream(stream):
            for n in (40, 10, 70):
                x = np.arange(start, start + n, dtype=np.float32)
                if not (vm["main"](x).numpy() == three(x)).all():
                    return False
        device.free_raw_stream(stream)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


@unity.register_func("test.devices.packed_in_kernel", override=True)
def packed_in_kernel(x, y):
    assert x.device == y.device == unity.cpu()
    y.numpy()[...] = x.numpy() * 2


@pytest.mark.parametrize("mode", MODES)
def test_calls_of_registered_functions_inside_a_tensor_program(gpu, mode):
    mod = parse("""
@I.ir_module
class M:
    @T.prim_func
    def k(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.evaluate(T.call_packed("test.devices.packed_in_kernel", x, y))

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_tir(cls.k, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return y
""")
    vm = VirtualMachine(unity.compile(mod, target="cuda"), unity.cuda(0), exec_mode=mode)
    x = np.arange(4, dtype=np.float32)
    for given in (x, tensor(x, device="cuda")):
        assert vm["main"](given).numpy().tolist() == [0, 2, 4, 6]
