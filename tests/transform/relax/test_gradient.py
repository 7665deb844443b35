"""Adjoint functions against central differences of the function itself, in float64; and what has no gradient."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import CheckInstrument, PassContext, gradient, inline_private_functions

MLP = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float64"), w0: R.Tensor((4, 5), "float64"), b0: R.Tensor((5,), "float64"),
             w1: R.Tensor((5, 3), "float64"), y: R.Tensor(("n",), "int64")):
        with R.dataflow():
            h = R.nn.gelu(R.add(R.matmul(x, w0), b0))
            p = R.nn.log_softmax(R.matmul(h, w1), axis=1)
            loss = R.nn.nll_loss(p, y, R.ones((3,), "float64"))
            R.output(p, loss)
        return (p, loss)
"""
TUPLES = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3, 4), "float64"), t: R.Tuple(R.Tensor((4,), "float64"), R.Tensor((3, 4), "float64")), unused: R.Tensor((2,), "float64")):
        with R.dataflow():
            parts = R.split(x, 2, axis=1)
            a = parts[0]
            b = a
            both = (R.multiply(a, b), t[1])
            c = R.concat((both[0], parts[1], both[1]), axis=1)
            d = R.add(R.reshape(both[1], (3, 4)), t[0])
            e = R.match_cast(d, R.Tensor((3, 4), "float64"))
            loss = R.add(R.sum(R.exp(c)), R.mean(R.multiply(e, R.sin(e))))
            R.output(loss)
        return loss
"""
CONV = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((1, 2, 5, 5), "float64"), w: R.Tensor((3, 2, 3, 3), "float64"), g: R.Tensor((3,), "float64")):
        c = R.nn.conv2d(x, w, padding=(1, 1))
        n = R.nn.batch_norm(c, g, g, g, R.exp(g), axis=1)
        r = R.nn.relu(n[0])
        m = R.nn.max_pool2d(r, pool_size=(2, 2), strides=(2, 2))
        return R.sum(R.multiply(m, m))
"""


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


def differences(mod, args, target, step=1e-6):
    """Central differences of the target by each float array."""
    found = []
    for array in leaves(tuple(args)):
        if array.dtype != np.float64:
            continue
        grad = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            kept, sides = array[index], []
            for move in (step, -step):
                array[index] = kept + move
                sides.append(float(leaves(run(mod, "main", *args))[target]))
            array[index] = kept
            grad[index] = (sides[0] - sides[1]) / (2 * step)
        found.append(grad)
    return found


@pytest.mark.parametrize(
    ("text", "args", "target"),
    [
        (MLP, lambda: [data(3, 4), data(4, 5), data(5), data(5, 3), np.array([0, 2, 1])], 1),
        (TUPLES, lambda: [data(3, 4), (data(4, seed=1), data(3, 4, seed=2)), data(2)], 0),
        (CONV, lambda: [data(1, 2, 5, 5), data(3, 2, 3, 3, seed=1), data(3, seed=2)], 0),
    ],
    ids=["mlp", "tuples", "convolution"],
)
def test_against_differences(text, args, target):
    mod, args = parse(text), args()
    made = gradient.with_options(target_index=target)(mod)
    verify(made)
    assert unity.ir.structural_equal(parse(made.script()), made)
    value, grads = run(made, "main_adjoint", *args)
    for x, y in zip(leaves(value), leaves(run(mod, "main", *args)), strict=True):
        np.testing.assert_array_equal(x, y)
    expected = differences(mod, args, target)
    for actual, wanted in zip(leaves(grads), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-6)
    with PassContext(CheckInstrument(inputs=1)):
        machine = unity.VirtualMachine(unity.compile(made))
    for actual, wanted in zip(leaves(tuple(machine["main_adjoint"](*args))[1]), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-6)


def test_chosen_parameters():
    made = gradient.with_options(target_index=1, require_grads=("w1", "b0"))(parse(MLP))
    args = [data(0, 4), data(4, 5), data(5), data(5, 3), np.zeros(0, "int64")]
    _, (b0, w1) = run(made, "main_adjoint", *args)
    assert b0.shape == (5,) and w1.shape == (5, 3)
    assert str(made["main_adjoint"].ret_ty).count("Tensor") == 4


def test_a_step_of_training_lowers_the_loss():
    mod = gradient.with_options(target_index=1, require_grads=("w0", "b0", "w1"))(parse(MLP))
    machine = unity.VirtualMachine(unity.compile(mod))
    x, y = data(16, 4), np.random.default_rng(1).integers(0, 3, 16)
    weights = [data(4, 5), data(5), data(5, 3)]
    losses = []
    for _ in range(20):
        (_, loss), grads = machine["main_adjoint"](x, *weights, y)
        losses.append(float(np.asarray(loss)))
        weights = [w - 0.5 * np.asarray(g) for w, g in zip(weights, grads)]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("return x", "rank 0"),
        (
            "return R.sum(R.call_pure_packed('f', x, ty_args=(R.Tensor((4,), 'float32'),)))",
            "R.call_pure_packed has no gradient",
        ),
        ("return R.sum(square(x))", "inline_private_functions"),
        (
            "u = R.match_cast(R.unique(x), R.Tensor((4,), 'float32'))\n        return R.sum(u)",
            "R.unique has no gradient: not differentiable",
        ),
    ],
    ids=["target", "packed", "call", "operator"],
)
def test_what_has_no_gradient(body, part):
    text = f"""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        {body}

    @R.function(private=True)
    def square(x: R.Tensor((4,), "float32")):
        return R.multiply(x, x)
"""
    with pytest.raises(PassError) as caught:
        gradient(parse(text))
    assert caught.value.code == "E559" and part in str(caught.value)


def test_private_functions_are_inlined_first():
    text = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = square(x)
        return R.sum(y)

    @R.function(private=True)
    def square(x: R.Tensor((4,), "float32")):
        y = R.multiply(x, x)
        return y
"""
    made = gradient(inline_private_functions(parse(text)))
    x = np.arange(4, dtype="float32")
    np.testing.assert_allclose(run(made, "main_adjoint", x)[1][0], 2 * x)
    for options in ({"require_grads": ("q",)}, {"target_index": 2}, {"func_name": "main"}):
        with pytest.raises(PassError):
            gradient.with_options(**options)(made if "func_name" in options else parse(text))


def test_rules_take_the_value_of_their_call_and_share_what_they_compute():
    adjoint = gradient.with_options(target_index=1)(parse(MLP)).script().split("def main_adjoint")[1]
    assert adjoint.count("R.nn.log_softmax(") == adjoint.count("R.nn.gelu(") == 1
