"""Gradients against central differences of the numpy meaning, in float64."""

import gradient_cases
import numpy as np
import pytest
import row_samples
from op_cases import Shape

import unity.op as op
from unity.ir import BlockBuilder, ShapeExpr, Tuple, Var
from unity.ir.build import const
from unity.ir.builder import make_call
from unity.ir.expr import op as op_node
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.transform.relax.lowering.legalize_ops import legalize_ops

RNG = np.random.default_rng(3)


def f(*shape, low=0.2, high=0.9):
    return RNG.uniform(low, high, shape)


CASES = [*row_samples.GRADIENT_CASES, ("clip", [f(9)], {"min": 0.4, "max": 0.6})]
CASES += [("where", [np.array([True, False, True]), f(2, 3), f(3)], {})]
for n in ["sum", "mean", "variance", "max", "min"]:
    CASES += [(n, [f(2, 3)], {"axis": [1]}), (n, [f(2, 3)], {}), (n, [f(2, 3)], {"axis": [-2], "keepdims": True})]
for p, q in [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((2, 1, 2, 3), (4, 3, 2)),
]:
    CASES.append(("matmul", [f(*p), f(*q)], {}))
CASES += [
    ("flatten", [f(2, 3)], {}),
    ("reshape", [f(2, 3), Shape((3, 2))], {}),
    ("expand_dims", [f(2, 3)], {"axis": [1]}),
    ("squeeze", [f(2, 1)], {}),
]
CASES += [
    ("nn.batch_flatten", [f(2, 3, 2)], {}),
    ("permute_dims", [f(2, 3, 4)], {"axes": [2, 0, 1]}),
    ("broadcast_to", [f(3, 1), Shape((2, 3, 4))], {}),
]
CASES += [
    ("concat", [(f(2, 3), f(1, 3))], {"axis": 0}),
    ("split", [f(4, 3)], {"indices_or_sections": [1, 3], "axis": 0}),
    ("astype", [f(3)], {"dtype": "float64"}),
]
CASES += [("nn.leakyrelu", [f(5, low=-1)], {"alpha": 0.2})]
CASES += [("nn.softmax", [f(2, 3)], {}), ("nn.log_softmax", [f(2, 3)], {"axis": 0})]
CASES += [
    ("nn.layer_norm", [f(2, 3, 4), f(3, 4), f(3, 4)], {"axes": [1, 2]}),
    ("nn.layer_norm", [f(2, 4), f(4), f(4)], {"axes": [-1], "center": False, "scale": False}),
    ("nn.layer_norm", [f(4), f(4), f(4)], {"axes": [0]}),
    ("nn.rms_norm", [f(2, 4), f(4)], {"axes": [-1]}),
    ("nn.group_norm", [f(2, 4, 3), f(4), f(4)], {"num_groups": 2}),
    ("nn.group_norm", [f(2, 3, 4), f(4), f(4)], {"num_groups": 2, "channel_axis": 2}),
    ("nn.instance_norm", [f(2, 3, 4), f(3), f(3)], {"axes": [2]}),
    ("nn.batch_norm", [f(2, 3, 2), f(3), f(3), f(3), f(3)], {}),
    ("nn.batch_norm", [f(2, 2), f(2), f(2), f(2), f(2)], {"axis": -1, "center": False, "scale": False}),
    ("nn.batch_norm", [f(2, 3, 2), f(3), f(3), f(3), f(3)], {"training": True, "momentum": 0.3}),
    (
        "nn.batch_norm",
        [f(2, 3), f(2), f(2), f(2), f(2)],
        {"training": True, "axis": 0, "center": False, "scale": False},
    ),
    ("nn.conv1d", [f(2, 3, 6), f(2, 3, 2)], {"strides": 2, "padding": [1, 0]}),
    ("nn.conv2d", [f(1, 4, 5, 4), f(2, 2, 3, 2)], {"groups": 2, "strides": [2, 1], "padding": 1}),
    ("nn.conv3d", [f(1, 1, 3, 2, 3), f(2, 1, 2, 1, 2)], {"dilation": [1, 1, 2]}),
    ("nn.conv1d_transpose", [f(1, 2, 4), f(2, 3, 3)], {"strides": 2, "padding": 1, "output_padding": 1}),
    ("nn.conv2d_transpose", [f(1, 2, 2, 3), f(2, 1, 2, 2)], {"groups": 2, "strides": [1, 2]}),
    ("nn.conv3d_transpose", [f(1, 1, 2, 2, 2), f(1, 1, 2, 1, 2)], {}),
    ("take", [f(4, 3), np.array([[0, 2], [2, -1]])], {"axis": 0}),
    ("take", [f(2, 4), np.array([1, 5, 1])], {"axis": -1, "mode": "wrap"}),
    ("cumsum", [f(2, 3)], {"axis": 1, "exclusive": True}),
    ("cumsum", [f(2, 3)], {}),
    ("strided_slice", [f(4)], {"axes": [0], "begin": [1], "end": [3], "assume_inbound": True}),
    ("nn.attention", [f(1, 2, 3, 2), f(1, 2, 4, 2), f(1, 2, 4, 3)], {"layout": "BHSD"}),
    ("nn.attention_bias", [f(1, 2, 3, 2), f(1, 2, 4, 2), f(1, 2, 4, 3), f(1, 1, 3, 4)], {"layout": "BHSD"}),
    ("strided_slice", [f(5, 4)], {"axes": [0, 1], "begin": [1, -3], "end": [5, 4], "strides": [2, 1]}),
    ("gather_elements", [f(4, 3), np.array([[0, 1, 3], [0, -1, 3]])], {"axis": 0}),
    ("einsum", [(f(2, 3), f(3, 4), f(4))], {"subscripts": "ij,jk,k->i"}),
    ("einsum", [(f(2, 3, 2), f(2, 4))], {"subscripts": "...ab,bc->...c"}),
    ("outer", [f(2), f(3)], {}),
    ("flip", [f(2, 3)], {"axis": 1}),
    ("nn.nll_loss", [f(4, 3), np.array([0, 2, -100, 1])], {}),
    ("nn.nll_loss", [f(2, 3, 2), np.array([[0, 2], [1, 1]])], {"reduction": "none", "ignore_index": 1}),
    ("nn.cross_entropy_with_logits", [f(2, 3), f(2, 3)], {}),
    ("logsumexp", [f(2, 3)], {"axis": 1}),
    ("nn.softplus", [f(4)], {"beta": 2.0}),
    ("nn.attention", [f(1, 2, 2, 3), f(1, 3, 2, 3), f(1, 3, 2, 2)], {}),
    (
        "nn.attention",
        [f(1, 2, 2, 2), f(1, 3, 2, 2), f(1, 3, 2, 2), f(1, 1, 2, 3)],
        {"causal_mask": "BottomRight", "scale": 0.7},
    ),
]
CASES += [
    ("nn.attention", [f(1, 2, 4, 3), f(1, 3, 2, 3), f(1, 3, 2, 2)], {"causal_mask": "TopLeft"}),
    ("nn.attention", [f(1, 2, 2, 3), f(1, 2, 3, 3), f(1, 3, 2, 2)], {"layout": "BHSD,BHSD,BSHD,BHSD"}),
    (
        "nn.attention",
        [f(1, 2, 2, 3), f(1, 3, 2, 3), f(1, 3, 2, 2), np.array([[True, False, True], [False, False, False]])],
        {"empty": 0.0},
    ),
]
CASES.append(("nn.attention_bias", [f(1, 2, 2, 3), f(1, 3, 2, 3), f(1, 3, 2, 2), f(1, 1, 2, 3)], {}))
CASES += [(f"grad.{n}", [f(2, 3)], {}) for n in ("no_grad", "start_checkpoint", "end_checkpoint")]
CASES += [
    ("dequantize", [np.arange(-6, 6, dtype="int8").reshape(3, 4), s, z], {"axis": a, "out_dtype": "float64"})
    for a, s, z in (
        (-1, f(4), f(4)),
        (0, f(3), np.zeros(3, "int8")),
        (1, f(1), f(4)),
        (0, np.array(0.5), np.array(2, "int8")),
    )
]
CASES += [
    ("dynamic_strided_slice", [f(4, 5), np.array(b), np.array(e), np.array(s)], {})
    for b, e, s in (
        ([1, 0], [4, 5], [2, 1]),
        ([-3, 4], [9, -6], [1, -2]),
        ([3, -1], [-9, 1], [-1, -1]),
        ([2, 0], [2, 5], [1, 3]),
    )
]
CASES += [("frexp", [f(2, 3) * 4], {})]
CASES += [("polygamma", [f(2, 3) + 2], {"n": n}) for n in (1, 2)]
CASES += [(n, [f(3, 4)], {"axis": a}) for n in ("cummax", "cummin", "logcumsumexp") for a in (0, -1)]
for n, shape in ((1, (1, 2, 6)), (2, (2, 1, 4, 5)), (3, (1, 1, 3, 3, 2))):
    CASES += [
        (f"nn.max_pool{n}d_with_indices", [f(*shape)], {"pool_size": 2, "strides": 2, "padding": 1}),
        (f"nn.adaptive_max_pool{n}d", [f(*shape)], {"output_size": 2}),
    ]
for n, shape in ((1, (1, 2, 6)), (2, (2, 1, 4, 5)), (3, (1, 1, 3, 3, 2))):
    for kind in ("max", "avg"):
        CASES += [
            (f"nn.{kind}_pool{n}d", [f(*shape)], {"pool_size": 2, "strides": 2, "padding": 1}),
            (f"nn.{kind}_pool{n}d", [f(*shape)], {"pool_size": 2, "count_include_pad": True}),
        ]
CASES += gradient_cases.CASES


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CASES)])
def test_gradient(case):
    check_gradient(*case)


def check_gradient(name, inputs, attrs):
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
    for a, g in zip(args, grads):
        flat += g.fields if type(g) is Tuple else [g] * (len(a.fields) if type(a) is Tuple else 1)
    tensors = list(params[:count])
    flat = [g for g, a in zip(flat, [i for i in args for i in (i.fields if type(i) is Tuple else [i])]) if a in tensors]
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


CONSTANT = ("zeros_like", "ones_like", "eye_like")


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
    assert rules - {c[0] for c in CASES} - {*IDENTITIES, *CONSTANT, "to_vdevice", "layout_transform"} == set()
