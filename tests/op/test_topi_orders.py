"""``unity.topi`` with TVM's orders of arguments, defaults and names, judged by numpy and torch."""

import numpy as np
import pytest
import torch
from test_topi_names import DEEP, IMAGES, WEIGHT, A, B, F, computed, random, torched

import unity
from unity import te, topi

PLACES = np.array([[0, 1], [2, 0]])  # the first axis runs over two axes of A
LINES, LINE_WEIGHT = random(2, 4, 9), random(6, 4, 3)


@pytest.mark.parametrize(
    "make, reference, arrays",
    [
        (lambda x: topi.strided_slice(x, [0, 1], [2, 3]), lambda x: x[:2, 1:3], (A,)),
        (lambda x: topi.strided_slice(x, [0, 1, 0], [2, 3, 4], [1, 1, 2]), lambda x: x[:2, 1:3, ::2], (A,)),
        (lambda x: topi.strided_slice(x, begin=[1], end=[3], axes=[2]), lambda x: x[..., 1:3], (A,)),
        (lambda x: topi.strided_slice(x, [0, 1], [-1, 2], slice_mode="size"), lambda x: x[:, 1:3], (A,)),
        (lambda x: topi.expand_dims(x, -2, 2), lambda x: x[:, :, None, None], (A,)),
        (lambda x: topi.flip(x), lambda x: x.flip(0), (A,)),
        (lambda x: topi.sort(x, axis=1, is_ascend=0), lambda x: x.sort(1, descending=True)[0], (A,)),
        (lambda x: topi.argsort(x, axis=1, is_ascend=False), lambda x: x.argsort(1, descending=True).float(), (A,)),
        (lambda x: topi.topk(x, 2, 1, "values", True), lambda x: x.topk(2, 1, largest=False)[0], (A,)),
        (lambda x: topi.topk(x, 2, ret_type="indices"), lambda x: x.topk(2)[1], (A,)),
        (lambda x: topi.argmax(x, axis=2), lambda x: x.argmax(2).int(), (A,)),
        (lambda x, y: topi.einsum("abc,adc->abd", x, y), lambda x, y: torch.einsum("abc,adc->abd", x, y), (A, B)),
        (lambda x, y: topi.matmul(x, y, transp_b=True), lambda x, y: x @ y.mT, (A, B)),
        (lambda x, y: topi.nn.matmul(x, y, None, None, True), lambda x, y: x.mT @ y, (A, A)),
        (lambda x, i: topi.gather_nd(x, i), lambda x, i: x[i[0] // 2, i[1]], (A, PLACES // 2 * 2)),
        (lambda x: topi.nn.pad(x, [0, 1, 0], [0, 0, 2], 7.0), lambda x: F.pad(x, (0, 2, 1, 0), value=7.0), (A,)),
        (lambda x: topi.nn.mirror_pad(x, [0, 0, 1]), lambda x: F.pad(x, (1, 1), "reflect"), (A,)),
        (lambda x: topi.clip(x, a_min=-0.5, a_max=0.5), lambda x: x.clip(-0.5, 0.5), (A,)),
        (lambda x: topi.reshape(x, newshape=(6, 4)), lambda x: x.reshape(6, 4), (A,)),
        (lambda x: topi.sum(data=x, axis=1, keepdims=True), lambda x: x.sum(1, keepdim=True), (A,)),
        (lambda x: topi.add(lhs=x, rhs=x) * 2.0 - x / 4.0, lambda x: x * 4 - x / 4, (A,)),
        (lambda x: 1.0 - (-x).astype("float64") * x.astype("float64"), lambda x: 1 + x.double() ** 2, (A,)),
        (lambda x, w: topi.nn.conv2d(x, w, 1, 1, 1, "NCHW"), lambda x, w: F.conv2d(x, w, padding=1), (IMAGES, WEIGHT)),
        (lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1, "float32"), lambda x, w: F.conv2d(x, w, padding=1), (IMAGES, WEIGHT)),
        (lambda x, w: topi.nn.conv1d_ncw(x, w, 2, 1, 1), lambda x, w: F.conv1d(x, w, stride=2, padding=1), (LINES, LINE_WEIGHT)),
        (lambda x: topi.nn.adaptive_pool(x, (2, 3), "avg"), lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (IMAGES,)),
        (lambda x: topi.nn.adaptive_pool1d(x, (2,), "max"), lambda x: F.adaptive_max_pool1d(x, 2), (LINES,)),
        (lambda x: topi.nn.pool1d(x, (2,), (2,), (1,), (0, 0), "max"), lambda x: F.max_pool1d(x, 2), (LINES,)),
        (lambda x: topi.image.resize2d(x, (0.0, 0.0, 0.0, 0.0), (8, 9)), lambda x: F.interpolate(x, (8, 9), mode="bilinear"),
         (IMAGES,)),
        (lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1, "float32"),
         lambda x, w: F.conv2d(x, w.reshape(8, 1, 3, 3), padding=1, groups=4), (IMAGES, DEEP)),
    ],
)  # fmt: skip
def test_orders(make, reference, arrays) -> None:
    found, wanted = computed(make, *arrays), torched(reference, *arrays)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_full_and_arange() -> None:
    assert (computed(lambda x: topi.full((2, 3), "int8", 7), A) == np.full((2, 3), 7, "int8")).all()
    assert (computed(lambda x: topi.full_like(x, 2), A) == 2).all()
    line = computed(lambda x: topi.arange(4), A)
    assert line.dtype == "float32" and (line == np.arange(4)).all()
    assert (computed(lambda x: topi.arange(1, stop=6, step=2, dtype="int32"), A) == [1, 3, 5]).all()
    hot = computed(lambda i: topi.one_hot(i, 1, 0, 3, -1, "int8"), np.array([2, 0]))
    assert hot.dtype == "int8" and (hot == np.eye(3)[[2, 0]]).all()


def test_refusals() -> None:
    x = te.placeholder((2, 3), "float32", "x")
    for wrong, match in (
        (lambda: topi.nn.pad(x, [1]), "has 2 axes"),
        (lambda: topi.argsort(x, x), "valid_count"),
        (lambda: topi.take(x, x, 1, 1), "batch axes"),
        (lambda: topi.argmax(x, 0, False, True), "first of equal"),
        (lambda: topi.image.resize2d(te.placeholder((1, 1, 4, 4)), (0.0, 0.0, 0.5, 0.5), (2, 2)), "roi must be zeros"),
        (lambda: topi.add(x, x, nope=1), "no parameter 'nope'"),
    ):
        with pytest.raises(unity.UnityError, match=match):
            wrong()
    with pytest.raises(unity.UnityError, match=r"add of a te\.Tensor and a list"):
        _ = x + [1]
