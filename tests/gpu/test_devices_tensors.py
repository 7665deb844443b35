"""Tensors on devices whose memory the host does not read: a toy of another package, CUDA over a scripted driver, and the device of
this machine or the emulated one."""

import copy
import ctypes
import gc
import pickle

import numpy as np
import pytest
import toy_device
from device_choice import device_or_emulated
from scripted_driver import ScriptedDriver

import unity
from unity import IRModule, Tensor, UnityError, runtime, tensor
from unity.ffi.cuda.context import context
from unity.ffi.cuda.driver import use_driver
from unity.ffi.device import DeviceKind, register_device_kind
from unity.ffi.dtype import dtype_names
from unity.ir import interpret
from unity.script import parse
from unity.testing import emulated_gpu


@pytest.fixture(params=["apart", "cuda", pytest.param("gpu", marks=pytest.mark.gpu)])
def place(request):
    """A device; the driver behind it for cuda."""
    if request.param == "apart":
        yield unity.device("apart", 1)
    elif request.param == "gpu":
        with device_or_emulated(launched=False):
            yield unity.cuda(0)
    else:
        with use_driver(ScriptedDriver(devices=2).driver):
            yield unity.cuda(1)


@pytest.fixture
def cuda():
    made = ScriptedDriver(devices=2)
    with use_driver(made.driver):
        yield made


def code_of(call):
    with pytest.raises(UnityError) as caught:
        call()
    return caught.value.code


VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_devices_are_counted(place):
    assert place.exist and not unity.device(place.kind, 2 if place.index else 99).exist and not place.host_memory
    assert unity.device(f"{place.kind}:{place.index}") is place
    place.sync()


@pytest.mark.parametrize("name", dtype_names())
def test_every_data_type_goes_there_and_back(place, name):
    host = tensor([1, 1, 0 if name != "float8_e8m0fnu" else 2], name)
    there = tensor(host, device=place)
    assert there.device is place and there.dtype == name and there.shape == (3,) and there.strides == (1,)
    assert there.data_ptr != host.data_ptr and there.layout.dtype is host.layout.dtype
    assert (there.numpy() == host.numpy()).all() and type(there.layout) is np.ndarray
    assert [float(x) for x in there] == [float(x) for x in host]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3, 4)])
def test_shapes(place, shape):
    host = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    there = runtime.array(host, place)
    assert there.shape == shape and (there.numpy() == host).all() and there.numpy().shape == shape


MAKERS = {
    "tensor": lambda x, at: tensor(x, device=at), "runtime": runtime.array, "text": lambda x, at: runtime.tensor(x, str(at)),
    "wrapped": Tensor, "copyto": lambda x, at: tensor(x).copyto(at), "to": lambda x, at: tensor(x).to(str(at)),
    "filled": lambda x, at: runtime.empty(x.shape, "float32", at).copyfrom(x), "number": lambda x, at: tensor(x.tolist(), device=at),
}  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_a_tensor_of_a_device_lies_there(place, maker):
    """No way to make one labels memory of the host."""
    made = MAKERS[maker](VALUES, place)
    assert made.device is place and (made.numpy() == VALUES).all()
    assert not np.shares_memory(made.numpy(), VALUES) and made.data_ptr != VALUES.ctypes.data
    if place.kind == "apart":
        toy_device.shadow(made.data_ptr, VALUES.nbytes)


def test_readers_copy(place):
    there = tensor(VALUES, device=place)
    assert repr(there) == repr(tensor(VALUES)).replace("cpu:0", str(place))
    assert (np.asarray(there) == VALUES).all() and (np.array(there, "float64") == VALUES).all()
    with pytest.raises(ValueError, match="a copy is needed"):
        np.asarray(there, copy=False)
    assert (
        there[1, 2, 3].item() == 23.0
        and float(there[0, 0, 1]) == 1.0
        and int(there[0, 1, 0]) == 4
        and bool(there[0, 0, 1])
    )
    assert len(there) == 2 and there.ndim == 3 and there.size == 24
    assert (there.to(unity.cpu()).numpy() == VALUES).all() and there.to(place) is there
    for made in (pickle.loads(pickle.dumps(there)), copy.deepcopy(there), copy.copy(there)):
        assert made.device is place and (made.numpy() == VALUES).all()


INDICES = {
    "row": 1, "part": (0, slice(1, 3)), "back": (slice(None), slice(None, None, -1)), "rest": (..., 2), "new": (None, 1, None),
    "one": (1, 2, 3), "list": [1, 0], "mask": VALUES % 2 == 0, "steps": (slice(None), slice(0, 3, 2), slice(1, None, 2)),
    "numpy": np.int64(1), "all": ..., "none": (),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_indexing(place, name):
    index = INDICES[name]
    there, here = tensor(VALUES, device=place), VALUES.copy()
    part = there[index]
    assert part.device is place and part.shape == here[index].shape and (part.numpy() == here[index]).all()
    for value in (5.0, here[index] + 1, tensor(here[index] * 2, device=place)):
        there[index] = value
        here[index] = value.numpy() if isinstance(value, Tensor) else value
        assert (there.numpy() == here).all()


def test_copies(place):
    there, other = tensor(VALUES, device=place), runtime.empty(VALUES.shape, "float32", place)
    assert there.copyto(other) is other and (other.numpy() == VALUES).all()
    twice = runtime.empty(VALUES.shape, "float64", place).copyfrom(there)
    assert twice.dtype == "float64" and (twice.numpy() == VALUES).all()
    back = np.zeros_like(VALUES)
    Tensor(back).copyfrom(there)
    assert (back == VALUES).all()
    assert tensor(there, "int8").device is place and (tensor(there, "int8").numpy() == VALUES).all()
    assert code_of(lambda: there.copyfrom(np.zeros((2, 2)))) == "E704"
    assert code_of(lambda: there.item()) == "E704"


def test_memory_goes_back_with_its_last_view(place):
    def held():
        return sum(toy_device.BLOCKS.values()) if place.kind == "apart" else context(place.index).held

    gc.collect()
    before = held()
    there = tensor(VALUES, device=place)
    part, layout = there[1], there.layout
    del there
    gc.collect()
    assert held() > before and (part.numpy() == VALUES[1]).all()
    del part
    assert held() > before
    del layout
    assert held() == before


def test_dlpack_between_tensors(place):
    class Producer:
        def __init__(self, value):
            self.value = value
            self.streams = []

        def __dlpack__(self, **options):
            self.streams.append(options.get("stream"))
            return self.value.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.value.__dlpack_device__()

    for name in ("float32", "bfloat16", "bool", "uint8", "float8_e4m3fn"):
        there = tensor(VALUES > 3, name, device=place)
        producer = Producer(there[:, 1:, ::2])
        for shared in (Tensor.from_dlpack(producer), tensor(producer)):
            assert shared.device is place and shared.dtype == name and shared.data_ptr == there[:, 1:].data_ptr
            assert shared.strides == (12, 4, 2) and (shared.numpy() == there.numpy()[:, 1:, ::2]).all()
        assert producer.streams[0] == (1 if place.kind == "cuda" else None)
        assert np.from_dlpack(tensor(VALUES, device=place), device="cpu").tolist() == VALUES.tolist()
    with pytest.raises(BufferError):
        there.__dlpack__(dl_device=(1, 0), copy=False)
    assert Tensor.from_dlpack(there) is there


def test_dlpack_keeps_the_memory(place):
    there = tensor(VALUES, device=place)
    kept = there.__dlpack__()

    class Later:
        __dlpack__ = staticmethod(lambda **options: kept)
        __dlpack_device__ = there.__dlpack_device__

    shared = tensor(Later())
    del there
    gc.collect()
    assert (shared.numpy() == VALUES).all()


class Array:
    """As pycuda's GPUArray: memory that only ``__cuda_array_interface__`` shows."""

    def __init__(self, value, **changes):
        self.interface = value.__cuda_array_interface__ | changes
        self.owner = value

    @property
    def __cuda_array_interface__(self):
        return self.interface


def test_cuda_array_interface(cuda):
    here = context(1)
    there = tensor(VALUES, device=unity.cuda(1))
    found = there.__cuda_array_interface__
    assert found["typestr"] == "<f4" and found["data"] == (there.data_ptr, False) and found["strides"] is None
    assert found["stream"] == 1 and there[:, ::2].__cuda_array_interface__["strides"] == (48, 32, 4)
    with here.use_stream(0x77):
        assert there.__cuda_array_interface__["stream"] == 0x77
    shared = tensor(Array(there[:, ::2]))
    assert shared.device is unity.cuda(1) and (shared.numpy() == VALUES[:, ::2]).all()
    cuda.calls.clear()
    tensor(Array(there, stream=0x88))
    assert cuda.calls.count("cuStreamWaitEvent") == 1, "behind the producer's stream"
    assert not hasattr(tensor(VALUES), "__cuda_array_interface__")
    assert not hasattr(tensor([1.0], "bfloat16", unity.cuda(0)), "__cuda_array_interface__")
    assert code_of(lambda: tensor(Array(there, mask=there))) == "E704"
    assert code_of(lambda: tensor(Array(there, typestr="<c8"))) == "E702"
    wrong = [
        {"data": None},
        {"data": (0, False)},
        {"data": (12345, False)},
        {"shape": (2, -1)},
        {"shape": (1 << 62, 4)},
    ]
    assert {code_of(lambda d=d: tensor(Array(there, **d))) for d in wrong} == {"E704"}
    assert tensor(Array(there, data=(0, False), shape=(0, 4))).numpy().shape == (0, 4), "as torch shows no elements"
    behind = (there.data_ptr + there.layout.nbytes, False)
    assert tensor(Array(there, data=behind, shape=(0, 4))).shape == (0, 4), "no elements, wherever they would lie"
    assert (runtime.array(Array(there)).numpy() == VALUES).all()


def test_torch_tensors_of_a_device_share_memory(cuda):
    """A tensor as torch would give one; no torch build with CUDA is at hand."""
    torch = pytest.importorskip("torch")
    there = tensor(VALUES, device=unity.cuda(1))

    class Fake(torch.Tensor):
        device = torch.device("cuda", 1)

        def detach(self):
            return self

        def data_ptr(self):
            return there.data_ptr

    fake = torch.zeros(2, 3, 4).as_subclass(Fake)
    shared = tensor(fake)
    assert shared.device is unity.cuda(1) and shared.data_ptr == there.data_ptr and (shared.numpy() == VALUES).all()
    assert (Tensor.from_torch(fake).numpy() == VALUES).all() and (Tensor.from_dlpack(fake).numpy() == VALUES).all()
    assert code_of(there.torch) == "E703", "this torch has no CUDA"
    assert there.to("cpu").torch().tolist() == VALUES.tolist()


@pytest.mark.parametrize(("first", "copies"), [(0, 0), (1, 1), (4, 0)])
def test_models_copy_views_that_begin_between_vectors(first, copies):
    torch = pytest.importorskip("torch")
    made = []

    class Fake(torch.Tensor):
        device = torch.device("cuda", 0)
        detach = contiguous = resolve_neg = lambda self: self

        def data_ptr(self):
            return self.memory.data_ptr

        def clone(self):
            made.append(self)
            return fake(0)

    def fake(begin):
        plain = torch.zeros(5, 64).as_subclass(Fake)
        plain.memory = tensor(np.ones(324, "float32"), device=unity.cuda(0))[begin : begin + 320]
        return plain

    with emulated_gpu():
        model = unity.compile(torch.nn.Softmax(-1), example_inputs=(torch.zeros(5, 64),), target="cuda")
        with pytest.raises(
            UnityError, match="torch cannot share memory of cuda:0"
        ):  # the result: this torch has no CUDA
            model(fake(first))
    assert len(made) == copies


def test_a_kind_without_memory_is_only_a_name():
    register_device_kind(DeviceKind("nowhere", 13, False, "A name."))
    at = unity.device("nowhere")
    for make in MAKERS.values():
        assert code_of(lambda made=make: made(VALUES, at)) == "E703"


def test_c_functions_take_no_addresses_of_a_device(place):
    address = ctypes.cast(ctypes.CDLL(None).memchr, ctypes.c_void_p).value
    function = unity.register_c_func(
        "test.devices.memchr", address, "(const void*, int32, int64) -> void*", override=True
    )
    assert code_of(lambda: function(tensor(VALUES, device=place), 0, 4)) == "E713"


def test_a_shape_has_no_negative_sizes(place):
    assert {code_of(lambda d=d: runtime.empty((2, -1), "float32", d)) for d in (place, "cpu")} == {"E704"}


def test_out_of_memory_and_no_device(place):
    if place.kind == "cuda":
        sizes = [(1 << 40,), (1 << 61,), ((1 << 62) + 1024,), (1 << 40, 1 << 40)]
        assert {code_of(lambda s=s: runtime.empty(s, "float32", place)) for s in sizes} == {"E736"}
        assert code_of(lambda: tensor(VALUES, device=unity.cuda(99))) == "E734"


def test_a_program_of_the_host_refuses_a_tensor_of_a_device(place):
    mod = parse("@R.function\ndef main(x: R.Tensor((2, 3, 4), 'float32')):\n    return R.add(x, x)")
    for mode in ("native", "bytecode"):
        vm = unity.VirtualMachine(unity.compile(mod), exec_mode=mode)
        assert (vm["main"](VALUES).numpy() == VALUES * 2).all()
        with pytest.raises(UnityError, match=f"on cpu:0, got one on {place}") as caught:
            vm["main"](tensor(VALUES, device=place))
        assert caught.value.code == "E612"


def test_the_reference_interpreter_refuses_a_tensor_of_a_device(place):
    """It would write to a copy."""
    mod = parse("@R.function\ndef main(x: R.Tensor((2, 3, 4), 'float32')):\n    return R.add(x, x)")
    with pytest.raises(UnityError, match="reads the host's memory") as caught:
        interpret.run(IRModule.from_expr(mod), "main", tensor(VALUES, device=place))
    assert caught.value.code == "E703"
