"""Tensors share memory with numpy, torch and DLPack producers, and say clearly when they cannot."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from unity.ffi import CPU, Device, Tensor, cpu, device, tensor
from unity.ffi.dtype import dtype_names
from unity.support.errors import FFIError


def code_of(function) -> str:
    with pytest.raises(FFIError) as caught:
        function()
    return caught.value.code


def test_devices():
    assert device("cpu") is CPU and device("cpu:0") is CPU and cpu() is CPU
    assert str(device("cuda:1")) == "cuda:1" and device("cuda:1") == Device("cuda", 1)
    assert CPU.dlpack == (1, 0) and CPU.host_memory and not device("cuda").host_memory
    assert code_of(lambda: device("tpu:0")) == "E703"
    assert code_of(lambda: device("cpu:x")) == "E703"


@pytest.mark.parametrize("name", dtype_names())
def test_every_dtype_shares_memory_with_numpy(name):
    array = np.array([0, 1, 1]).astype(tensor([0], name).data_type.numpy)
    value = Tensor(array)
    assert value.dtype == name and value.numpy() is array
    array[0] = 1
    assert float(value[0]) == 1.0
    assert np.asarray(value) is array


@pytest.mark.parametrize("name", [n for n in dtype_names() if hasattr(torch, n)])
def test_torch_round_trip_shares_memory(name):
    source = torch.tensor([1, 0, 1]).to(getattr(torch, name))
    value = Tensor.from_torch(source)
    assert value.dtype == name and value.data_ptr == source.data_ptr()
    back = value.torch()
    assert back.dtype == source.dtype and back.data_ptr() == source.data_ptr()
    imported = torch.from_dlpack(value)
    assert imported.dtype == source.dtype and imported.data_ptr() == source.data_ptr()


class Producer:
    """An object that offers DLPack and nothing else."""

    def __init__(self, value):
        self.value = value

    def __dlpack__(self, **options):
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "bool", "int64", "float8_e4m3fn"])
def test_dlpack_producers_share_memory(name):
    for source in (torch.tensor([1, 0, 1]).to(getattr(torch, name)), tensor([1, 0, 1], name)):
        value = Tensor.from_dlpack(Producer(source))
        assert value.dtype == name and [float(x) for x in value] == [1.0, 0.0, 1.0]
        assert value.data_ptr == (source.data_ptr() if isinstance(source, torch.Tensor) else source.data_ptr)


def test_dlpack_memory_of_other_devices_is_refused():
    """Producers that say they lie elsewhere: Vulkan, an unknown number. Pinned and managed memory is the host's."""
    for place in ((7, 0), (99, 0)):
        producer = type("Elsewhere", (Producer,), {"__dlpack_device__": lambda self, place=place: place})(np.ones(3))
        assert code_of(lambda given=producer: Tensor.from_dlpack(given)) == "E703"
        assert code_of(lambda given=producer: tensor(given)) == "E703"


def test_values_of_numbers_and_lists():
    assert tensor([1.5, 2]).dtype == "float32" and tensor([1, 2]).dtype == "int64" and tensor(True).dtype == "bool"
    assert tensor([1, 2], "bfloat16").numpy().dtype == ml_dtypes.bfloat16
    assert tensor(np.float64(2.5)).dtype == "float64" and tensor(np.longlong(3)).numpy().dtype is np.dtype("int64")
    assert tensor(3).shape == () and tensor(3).item() == 3 and int(tensor(3)) == 3 and bool(tensor(1))
    assert tensor(np.zeros((0, 3))).shape == (0, 3)


def test_views_keep_strides_and_read_only_memory():
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    value = Tensor(base.T)
    assert value.shape == (4, 3) and value.strides == (1, 4) and np.shares_memory(value.numpy(), base)
    row = value[1]
    assert row.shape == (3,) and row.strides == (4,)
    row.numpy()[0] = 50
    assert base[0, 1] == 50
    base.flags.writeable = False
    fixed = Tensor(base)
    assert not fixed.numpy().flags.writeable
    assert code_of(fixed.torch) == "E712"


def test_array_protocol_honours_copy():
    value = tensor([1.0, 2.0])
    assert np.asarray(value) is value.numpy()
    copied = np.array(value, copy=True)
    assert copied is not value.numpy() and not np.shares_memory(copied, value.numpy())
    assert np.asarray(value, dtype="float64").dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(value, dtype="float64", copy=False)


def test_repr_len_and_device():
    value = tensor([[1.0, 2.0]])
    assert repr(value) == 'tensor([[1., 2.]], shape=(1, 2), dtype="float32", device="cpu:0")'
    assert len(value) == 1 and value.device is CPU and value.__dlpack_device__() == (1, 0)
    with pytest.raises(TypeError):
        len(tensor(1.0))


def test_refusals_have_codes():
    assert code_of(lambda: tensor(np.zeros(2, "complex64"))) == "E702"
    assert code_of(lambda: tensor(np.zeros(2, ">f4"))) == "E702"
    assert code_of(lambda: tensor([[1, 2], [3]])) == "E704"
    assert code_of(lambda: tensor(["a"], "float32")) == "E704"
    assert code_of(lambda: Tensor([1, 2])) == "E704"
    assert code_of(lambda: tensor([1, 2]).item()) == "E704"
    assert code_of(lambda: Tensor.from_dlpack(3)) == "E704"
    assert code_of(lambda: tensor(torch.zeros(2).to_sparse())) == "E704"
    assert code_of(lambda: tensor(torch.zeros(2, device="meta"))) == "E703"
    assert code_of(Tensor(np.zeros(3, np.float32)[::-1]).torch) == "E704"


def test_subclasses_become_plain_arrays():
    matrix = np.ma.masked_array([1.0, 2.0])
    value = Tensor(matrix)
    assert type(value.numpy()) is np.ndarray and np.shares_memory(value.numpy(), matrix.data)
