"""``unity.nd`` and ``unity.runtime``: tensors that copy, as TVM's do."""

import numpy as np
import pytest

import unity
from unity import nd, runtime, testing
from unity.support.errors import FFIError


def test_arrays_are_copies() -> None:
    given = np.arange(4, dtype="float64")
    a, b, shared = nd.array(given), runtime.tensor(given), unity.tensor(given)
    given[0] = 9
    assert a.numpy()[0] == b.numpy()[0] == 0 and shared.numpy()[0] == 9
    assert nd.array([1.0, 2.0]).dtype == "float64" and nd.array(True).dtype == "bool"
    assert nd.array(a, nd.cpu(0)).numpy() is not a.numpy() and nd is runtime and nd.NDArray is unity.Tensor


def test_elements_move_between_tensors() -> None:
    target = nd.empty((2, 3), "int8", device=nd.cpu())
    assert target.copyfrom(np.full((2, 3), 2.7)) is target and (target.numpy() == 2).all()
    other = nd.empty((2, 3))
    assert target.copyto(other) is other and other.dtype == "float32" and other.numpy().sum() == 12
    other[:] = np.full((2, 3), 3.0)
    other[1] = [1, 1, 1]
    assert other.numpy().sum() == 12
    copy = other.copyto(nd.cpu())
    other.copyfrom(np.zeros((2, 3)))
    assert copy.numpy().sum() == 12
    with pytest.raises(FFIError, match=r"shape \(3, 2\) into a tensor of shape \(2, 3\)"):
        other.copyfrom(np.zeros((3, 2)))


def test_devices() -> None:
    assert nd.device("cpu", 0) == nd.cpu() and nd.cpu().exist and not nd.cuda(999).exist
    assert nd.device("cuda", 1) == unity.cuda(1) and nd.cpu().device_type == 1
    assert runtime.ShapeTuple(np.array([1, 2])) == (1, 2)


@pytest.mark.skipif(unity.cuda(0).exist, reason="tests/gpu makes tensors on a device")
@pytest.mark.parametrize("place", ["cuda", "cuda:1", unity.cuda(0), unity.device("cuda", 1)], ids=str)
def test_no_tensor_is_labelled_as_a_gpus(place) -> None:
    host = unity.tensor([1.0, 2.0])
    makers = (
        lambda: runtime.tensor([1.0], device=place), lambda: nd.array(host, place), lambda: nd.empty((2,), "int8", place),
        lambda: unity.Tensor(np.ones(2), place), lambda: host.copyto(unity.device(place)), lambda: host.copyto(place),
    )  # fmt: skip
    for make in makers:
        with pytest.raises(FFIError, match="no CUDA driver") as refused:
            make()
        assert refused.value.code == "E734" and "exist" in refused.value.help
    with pytest.raises(FFIError, match="E703"):
        nd.empty((2,), device=3)
    assert nd.array([1], "cpu").device is nd.array([1], nd.cpu()).device is nd.cpu()


def test_assert_allclose() -> None:
    testing.assert_allclose(nd.array([1.0, np.nan]), np.array([1.0, np.nan]))
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.ones(2), np.ones(3))
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.ones(2), np.ones(2) + 1e-5)
