"""Combinations of operators against torch and numpy."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError

RNG = np.random.default_rng(0)


def value(call, *arrays):
    params = ", ".join([f'{n}: R.Tensor({a.shape}, "{a.dtype}")' for n, a in zip("abcd", arrays)])
    text = f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        y = {call}\n        return y\n"
    return np.asarray(run(parse(text), "main", *arrays))


def test_windows_and_diagonals():
    for size in (0, 1, 2, 7):
        for periodic in (True, False):
            turns = max(size if periodic else size - 1, 1)
            wanted = np.ones(1) if size == 1 else 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(size) / turns)
            np.testing.assert_allclose(
                value(f"R.hamming_window({size}, {periodic})"), wanted.astype("float32"), rtol=1e-6
            )
    for k in (-1, 0, 2):
        np.testing.assert_array_equal(value(f'R.eye_like(a, k={k}, dtype="int32")', np.ones((3, 4))), np.eye(3, 4, k))
    with pytest.raises(UnityError, match="not negative"):
        value("R.hamming_window(-1)")


def test_samples_of_classes():
    prob = np.array([[0.1, 0.2, 0.7], [0.5, 0, 0.5]], "float32")
    uniform, rows = np.array([[0.05], [0.99], [0.5], [1.0]], "float32"), np.array([[0], [0], [1], [1]])
    made = value('R.multinomial_from_uniform(a, b, c, dtype="int32")', prob, uniform, rows)
    np.testing.assert_array_equal(made, [[0], [2], [2], [2]])
    np.testing.assert_array_equal(
        value("R.multinomial_from_uniform(a, b, c)", prob[:1, :1], uniform, rows * 0), rows * 0
    )


def test_integers_and_back():
    x, scale, zero = (
        RNG.uniform(-90, 90, (2, 3, 4)).astype("float32"),
        np.array([0.1, 0.5, 2], "float32"),
        np.array([3, 0, -4], "int8"),
    )
    x[0, 0, 0], x[0, 1, 0] = np.nan, np.inf
    wide, step, offset = x.astype("float64"), scale.astype("float64")[:, None], zero.astype("float64")[:, None]
    wanted = np.clip(np.where(np.isnan(wide), offset, np.round(wide / step) + offset), 0, 255).astype("uint8")
    np.testing.assert_array_equal(value('R.quantize(a, b, c, axis=1, out_dtype="uint8")', x, scale, zero), wanted)
    wanted = np.clip(np.round(wide / 0.25), -128, 127)
    one = np.array([0.25], "float32"), np.array(0, "int8")
    np.testing.assert_array_equal(value("R.quantize(a, b, c)", np.nan_to_num(x), *one), np.nan_to_num(wanted))
    ints = RNG.integers(-128, 128, (3, 4)).astype("int8")
    made = value('R.dequantize(a, b, c, axis=0, out_dtype="float16")', ints, scale, zero)
    np.testing.assert_allclose(made, ((ints - offset) * step).astype("float16"))
    with pytest.raises(UnityError, match="integer type"):
        value('R.quantize(a, b, c, out_dtype="float32")', x, *one)
    with pytest.raises(UnityError, match="vector along axis 5"):
        value("R.quantize(a, b, c, axis=5)", x, scale, zero)


def test_channels_and_sequences():
    torch = pytest.importorskip("torch")
    f, x = torch.nn.functional, RNG.standard_normal((2, 8, 3, 2)).astype("float32")
    slopes = RNG.standard_normal(8).astype("float32")
    for alpha in (slopes, slopes[:1]):
        np.testing.assert_allclose(
            value("R.nn.prelu(a, b)", x, alpha), f.prelu(torch.tensor(x), torch.tensor(alpha)).numpy()
        )
    made = value("R.nn.pixel_shuffle(a, 2)", x)
    np.testing.assert_array_equal(made, f.pixel_shuffle(torch.tensor(x), 2).numpy())
    np.testing.assert_array_equal(value("R.nn.pixel_shuffle(a, upscale_factor=2)", x[0]), made[0])
    with pytest.raises(UnityError, match="do not divide by 3"):
        value("R.nn.pixel_shuffle(a, 3)", x)
    labels = RNG.uniform(size=x.shape).astype("float32")
    wanted = -(x.astype("float64") * labels).sum() / 2
    np.testing.assert_allclose(value("R.nn.cross_entropy_with_logits(a, b)", x, labels), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        value("R.nn.cross_entropy_with_logits(a, b)", slopes, slopes), -(slopes**2).sum(), rtol=1e-5
    )
    lengths, rows = np.array([0, 2, 9]), RNG.standard_normal((3, 4, 2))
    turned = np.stack([rows[0], rows[1][[1, 0, 2, 3]], rows[2][::-1]])
    np.testing.assert_array_equal(value("R.reverse_sequence(a, b)", rows, lengths), turned)
    made = value("R.reverse_sequence(a, b, seq_axis=0, batch_axis=1)", rows.swapaxes(0, 1), lengths.astype("int32"))
    np.testing.assert_array_equal(made, turned.swapaxes(0, 1))


def test_grids_of_affine_maps():
    torch = pytest.importorskip("torch")
    for n, sizes in ((2, (3, 4)), (2, (1, 5)), (3, (2, 3, 4))):
        maps = RNG.standard_normal((2, n, n + 1)).astype("float32")
        for corners in (True, False):
            wanted = torch.nn.functional.affine_grid(torch.tensor(maps), [2, 1, *sizes], corners).movedim(-1, 1)
            made = value(f"R.image.affine_grid(a, {sizes}, align_corners={corners})", maps)
            np.testing.assert_allclose(made, wanted.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(UnityError, match="data must be"):
        value("R.image.affine_grid(a, (3, 4))", maps)


def test_short_combinations():
    x, y = RNG.standard_normal((2, 3, 4)), RNG.standard_normal(3)
    np.testing.assert_array_equal(value("R.nn.batch_flatten(a)", x), x.reshape(2, 12))
    np.testing.assert_array_equal(value("R.outer(a, b)", y, y[:2]), np.outer(y, y[:2]))
    np.testing.assert_allclose(value("R.collapse_sum_like(a, b)", x, np.zeros((1, 4))), x.sum((0, 1))[None])
    np.testing.assert_array_equal(value('R.wrap_param(a, dtype="float16")', x), x.astype("float16"))
    edges = np.array([-1, 0, 0, 0.5])
    for right in (True, False):
        wanted = np.searchsorted(edges, y, "right" if right else "left")
        np.testing.assert_array_equal(value(f"R.bucketize(a, b, out_int32=True, right={right})", y, edges), wanted)


def test_combinations_of_tensor_expressions():
    x, alpha = unity.te.placeholder((2, 3), name="x"), unity.te.placeholder((3,), name="alpha")
    func = unity.te.create_prim_func([x, alpha, unity.topi.nn.prelu(x, alpha)])
    given, made = RNG.standard_normal((2, 3)).astype("float32"), np.zeros((2, 3), "float32")
    run(unity.IRModule({"main": func}), "main", given, np.full(3, 0.5, "float32"), made)
    np.testing.assert_allclose(made, np.where(given > 0, given, given / 2))


def test_backward_steps():
    torch = pytest.importorskip("torch")

    def grad(function, x, flow):
        x = torch.tensor(x, requires_grad=True)
        (function(x) * torch.tensor(flow)).sum().backward()
        return x.grad.numpy()

    def near(made, wanted):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)

    f = torch.nn.functional
    x, flow = RNG.standard_normal((1, 2, 5, 4)), RNG.standard_normal((1, 2, 3, 3))
    tied, call = x.round(), "R.grad.{}_pool2d_backward(a, b, pool_size=2, strides=2, padding=1, {})"
    near(value(call.format("max", "ceil_mode=False"), flow, tied), grad(lambda x: f.max_pool2d(x, 2, 2, 1), tied, flow))
    for counted in (True, False):
        wanted = grad(lambda x, c=counted: f.avg_pool2d(x, 2, 2, 1, count_include_pad=c), x, flow)
        near(value(call.format("avg", f"count_include_pad={counted}"), flow, x), wanted)
    flow, x, indices = RNG.standard_normal((2, 2, 3)), RNG.standard_normal((4, 3)), np.array([[0, 2], [2, 1]])
    near(
        value("R.grad.take_backward(a, b, c, axis=0)", flow, x, indices),
        grad(lambda x: x[torch.tensor(indices)], x, flow),
    )
    flow, x, targets, weights = (
        np.array(2.0),
        RNG.standard_normal((4, 3)),
        np.array([0, 2, -100, 1]),
        np.array([0.5, 1, 2]),
    )
    wanted = grad(lambda x: f.nll_loss(x, torch.tensor(targets), torch.tensor(weights)), x, flow)
    near(value("R.grad.nll_loss_backward(a, b, c, d)", flow, x, targets, weights), wanted)
    with pytest.raises(UnityError, match="layout must be NCHW"):
        value(call.format("max", 'layout="NHWC"'), RNG.standard_normal((1, 2, 3, 3)), np.ones((1, 2, 5, 4)))


def test_they_are_called_from_python():
    x = unity.relax.Var("x", unity.relax.TensorType((2, 3), "float32"))
    assert str(unity.relax.op.eye_like(x).ty) == str(x.ty)
    assert callable(unity.relax.op.grad.take_backward)
