"""Gradients against central differences of the numpy meaning, in float64."""

import numpy as np
import pytest
from op_cases import GRADIENT_CASES as CASES, Shape

import unity.op as op
from unity.ir import BlockBuilder, ShapeExpr, Tuple, Var
from unity.ir.build import const
from unity.ir.builder import make_call
from unity.ir.expr import op as op_node
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.support.errors import TypeRuleError
from unity.transform.relax.lowering.legalize_ops import legalize_ops

RNG = np.random.default_rng(3)


PARTIAL = [
    "strided_slice",
    "scatter_elements",
    "gather_nd",
    "scatter_nd",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "einsum",
] + [f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]
"""Operators that have a gradient for some of their samples, and say for the others what it needs."""


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CASES)])
def test_gradient(case):
    try:
        check_gradient(*case)
    except TypeRuleError as problem:
        assert case[0] in PARTIAL and problem.code in ("E214", "E218")


def gradient(name, inputs, attrs):
    """A function's parameters, their values, the weights of its results, and the gradients of its arguments."""
    row = OPS[f"R.{name}"]
    params, arrays = [], []

    def param(array):
        params.append(Var(f"p{len(params)}", tensor_type([const(n, "int64") for n in array.shape], str(array.dtype))))
        arrays.append(array)
        return params[-1]

    args = []
    for value in inputs:
        if isinstance(value, Shape):
            args.append(ShapeExpr(tuple(const(v, "int64") for v in value)))
        elif isinstance(value, int):
            args.append(const(value, "int64"))
        elif isinstance(value, float):
            args.append(value)
        elif isinstance(value, tuple):
            args.append(Tuple(tuple(param(v) for v in value)))
        else:
            args.append(param(value))
    call = op.OPERATORS[f"R.{name}"](*args, **attrs)
    count = len(params)
    made = row.ref(*inputs, **attrs)
    several = isinstance(made, tuple)
    weights = [RNG.uniform(-1, 1, np.shape(m)).astype(m.dtype) for m in map(np.asarray, made if several else (made,))]
    outs = [param(w) for w in weights]
    grads = row.grad(make_call(op_node(row.name), call.args, call.attrs), Tuple(tuple(outs)) if several else outs[0])
    flat = []
    for a, g in zip(call.args, grads):
        flat += g.fields if type(g) is Tuple else [g] * (len(a.fields) if type(a) is Tuple else 1)
    tensors = list(params[:count])
    flat = [
        g for g, a in zip(flat, [i for i in call.args for i in (i.fields if type(i) is Tuple else [i])]) if a in tensors
    ]
    return params, arrays, weights, flat


def check_gradient(name, inputs, attrs):
    params, arrays, weights, flat = gradient(name, inputs, attrs)
    row = OPS[f"R.{name}"]
    several = isinstance(row.ref(*inputs, **attrs), tuple)
    wanted = [k for k, g in enumerate(flat) if g is not None]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(Tuple(tuple(flat[k] for k in wanted))))
    mod = legalize_ops(bb.get())
    got = run(mod, "main", *arrays)

    def total():
        result = row.ref(*inputs, **attrs)
        pairs = [(w, np.asarray(r)) for w, r in zip(weights, result if several else (result,))]
        return sum(float(np.where(np.isfinite(r), w * r, 0).sum()) for w, r in pairs)

    for k, grad in zip(wanted, got, strict=True):
        array, step = arrays[k], 1e-6
        expected = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            old = array[index]
            array[index] = old + step
            above = total()
            array[index] = old - step
            expected[index] = (above - total()) / (2 * step)
            array[index] = old
        assert np.asarray(grad).shape == array.shape
        np.testing.assert_allclose(np.asarray(grad), expected, rtol=1e-5, atol=1e-6)


IDENTITIES = {"hint_on_device": {"device": "llvm:0"}, "builtin.stop_lift_params": {}}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities_pass_the_gradient_on(name):
    x, flow = [Var(n, tensor_type([const(3, "int64")], "float64")) for n in ("x", "flow")]
    assert OPS[f"R.{name}"].grad(op.OPERATORS[f"R.{name}"](x, **IDENTITIES[name]), flow) == [flow]


CONSTANT = ("zeros_like", "ones_like")


@pytest.mark.parametrize("name", CONSTANT)
def test_constants_have_no_gradient(name):
    x = Var("x", tensor_type([const(3, "int64")] * 2, "float64"))
    assert OPS[f"R.{name}"].grad(op.OPERATORS[f"R.{name}"](x), x) == [None]


def test_a_move_between_devices_is_turned_back():
    x, flow = [
        Var(n, tensor_type([const(3, "int64")], "float64", vdevice=v)) for n, v in (("x", "llvm:0"), ("g", "llvm:1"))
    ]
    (made,) = OPS["R.to_vdevice"].grad(op.OPERATORS["R.to_vdevice"](x, dst_vdevice="llvm:1"), flow)
    assert made.args == (flow,) and made.ty.vdevice == "llvm:0"


def test_every_gradient_is_tested():
    rules = {n[2:] for n, row in OPS.items() if callable(row.grad)}
    assert rules - {c[0] for c in CASES} - {*IDENTITIES, *CONSTANT, "to_vdevice"} == set()
    for name in PARTIAL:
        made = [c for c in CASES if c[0] == name]
        assert 0 < len([c for c in made if refused(c)]) < len(made), name


def refused(case):
    try:
        gradient(*case)
    except TypeRuleError:
        return True
    return False
