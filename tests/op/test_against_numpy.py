"""Every operator's lowering, run by the reference interpreter, against its numpy meaning."""

import ml_dtypes
import numpy as np
import pytest
from op_cases import CASES, Shape

import unity
import unity.op as op
from unity.ffi.dtype import DataType
from unity.ir import BlockBuilder, ShapeExpr, Tuple, Var, prim_type
from unity.ir.build import const
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.ir.stmt import Block
from unity.ir.walk import collect
from unity.op.common.lowering import SMALL_FLOATS
from unity.op.common.table import to_expr
from unity.script import parse
from unity.support.errors import TypeRuleError, UnityError
from unity.transform.relax.lowering.legalize_ops import legalize_ops
from unity.transform.relax.normalize.check_shapes import check_shapes


def as_numpy(value):
    if isinstance(value, (tuple, list)):
        return [as_numpy(v) for v in value]
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def build(name, inputs, attrs, symbolic):
    params, arrays = [], []

    def param(array):
        dims = [
            Var(f"n{len(arrays)}_{a}", prim_type("int64")) if symbolic else const(n, "int64")
            for a, n in enumerate(array.shape)
        ]
        params.append(Var(f"p{len(arrays)}", tensor_type(dims, str(array.dtype))))
        arrays.append(array)
        return params[-1]

    args = []
    for value in inputs:
        if isinstance(value, np.ndarray):
            args.append(param(value))
        elif isinstance(value, Shape):
            args.append(ShapeExpr(tuple(const(v, "int64") for v in value)))
        elif isinstance(value, tuple):
            args.append(Tuple(tuple(param(v) for v in value)))
        else:
            args.append(to_expr(value))
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(op.OPERATORS[f"R.{name}"](*args, **attrs))
        bb.emit_func_output(out)
    return bb.get(), arrays


def tolerance(dtype, wide):
    if str(dtype) in ("float16", "bfloat16"):
        return {"rtol": 2e-3 if str(dtype) == "float16" else 1e-2, "atol": 1e-3}
    if str(dtype) == "float64":
        return {"rtol": 1e-9, "atol": 1e-9}
    return {"rtol": 3e-5, "atol": 3e-5 * wide}


def check(name, inputs, attrs, symbolic=False):
    mod, arrays = build(name, inputs, attrs, symbolic)
    lowered = legalize_ops(mod)
    assert "main" in lowered
    for program in lowered.prim_funcs().values():
        names = [block.name for block in collect(program.body, Block)]
        assert len(set(names)) == len(names), "a search names the blocks that it decides about"
    got = as_numpy(run(lowered, "main", *arrays))
    expected = OPS[f"R.{name}"].ref(*inputs, **attrs)
    pairs = list(zip(got, expected, strict=True)) if isinstance(expected, tuple) else [(got, np.asarray(expected))]
    for g, e in pairs:
        e = np.asarray(e)
        assert g.shape == e.shape
        if not (name in ("full", "one_hot") or isinstance(expected, tuple)):
            assert g.dtype == e.dtype or g.dtype == arrays[0].dtype
        if g.dtype.kind in "iub":
            np.testing.assert_array_equal(g, e)
        else:
            with np.errstate(all="ignore"):
                finite = np.abs(e.astype("float64"))
                wide = max(1.0, float(np.max(finite[np.isfinite(finite)], initial=0)))
            np.testing.assert_allclose(g.astype("float64"), e.astype("float64"), **tolerance(g.dtype, wide))
    return mod, arrays


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CASES)])
def test_lowering_means_what_numpy_says(case):
    check(*case)


def narrowed(value, dtype):
    """Floats of a sample in another type."""
    if isinstance(value, tuple) and not isinstance(value, Shape):
        return tuple([narrowed(part, dtype) for part in value])
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_numpy_means_the_type_of_the_result(dtype):
    """The interpreter checks each value's type: what numpy computes in a wider one is given back in the operator's."""
    for name, inputs, attrs in CASES:
        given = [narrowed(value, DataType(dtype).numpy) for value in inputs]
        if not all([x is y for x, y in zip(given, inputs)]):
            mod, arrays = build(name, given, attrs, False)
            with np.errstate(all="ignore"):
                run(mod, "main", *arrays)


def test_every_lowered_row_has_a_case():
    missing = [n for n, info in OPS.items() if callable(info.lower) and n[2:] not in {c[0] for c in CASES}]
    assert missing == []


def test_every_row_is_complete():
    for name, info in OPS.items():
        assert info.doc.endswith("."), name
        for part in (info.lower, info.grad, info.ref):
            assert callable(part) or len(part.split()) > 1, name


NEEDS_SIZES = {"squeeze", "gather_nd", "scatter_nd", "collapse_sum_to"}
"""Operators whose first sample needs sizes that are known when it is compiled."""


REFUSALS = ("E316", "E317", "E319", "E313")
"""Sizes that do not fit an argument, a requirement or a result, and a division by a size that is 0."""


def check_other_sizes(name, mod, arrays):
    """A program for any size stays inside its tensors when equal sizes become 0 or 1: the type rule asks for what it needs."""
    lowered = legalize_ops(check_shapes(mod))
    for n, size in enumerate(sorted({d for a in arrays for d in a.shape})):
        cut = [a[tuple([slice(n % 2 if d == size else None) for d in a.shape])] for a in arrays]
        try:
            run(lowered, "main", *cut)
        except UnityError as problem:
            assert problem.code in REFUSALS, f"{name}: {problem}"


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        ("R.nn.conv1d(x, w, groups=2)", [(1, 4, 3), (5, 2, 1)]),
        ("R.nn.conv1d_transpose(x, w, groups=2)", [(1, 5, 3), (5, 2, 1)]),
        ("R.nn.attention(x, w, w)", [(1, 1, 3, 2), (1, 1, 2, 2)]),
        ("R.nn.attention(x, w, w)", [(1, 1, 1, 2), (1, 1, 2, 2)]),
        ("R.nn.group_norm(x, w, w, num_groups=2, channel_axis=1, axes=[2])", [(1, 5, 2), (5,)]),
        ("R.reshape(x, (-1, 3))", [(4, 2), (1,)]),
        ("R.reshape(x, (-1, w0))", [(4, 2), (3,)]),
        ("R.median(x)", [(0, 2), (1,)]),
    ],
)
def test_multiples_are_required(call, shapes):
    """Sizes that have to be multiples of others, or not 0, are checked where they are symbols."""
    params = [", ".join([f'"{p}{n}"' for n in range(len(shape))]) for p, shape in zip("xw", shapes)]
    kinds = [f'{p}: R.Tensor(({dims},), "float32")' for p, dims in zip("xw", params)]
    mod = parse(f"@R.function\ndef main({', '.join(kinds)}):\n    return {call}\n")
    arrays = [np.ones(shape, "float32") for shape in shapes]
    with pytest.raises(UnityError, match=r"E607|E608"):
        unity.VirtualMachine(unity.compile(mod))["main"](*arrays)


def test_symbolic_shapes():
    """The first sample of every operator that has elements, with every size as a symbol."""
    first = {}
    for case in CASES:
        if callable(OPS[f"R.{case[0]}"].lower) and all(getattr(a, "size", 1) for a in case[1]):
            first.setdefault(case[0], case)
    refused = set()
    for case in first.values():
        try:
            check_other_sizes(case[0], *check(*case, symbolic=True))
        except TypeRuleError as problem:
            assert problem.code in ("E214", "E218")
            refused.add(case[0])
    assert refused == NEEDS_SIZES and len(first) > 170


@pytest.mark.parametrize(
    "dtype", [name for name in dir(ml_dtypes) if name.startswith("float8_e") and name != "float8_e8m0fnu"]
)
def test_maxima_begin_with_a_value_of_the_type(dtype):
    """Not every type has an infinity to begin with."""
    x = np.array([[0.25, 2.0, 1.0], [1.0, 0.5, 4.0]]).astype(getattr(ml_dtypes, dtype))
    fn = parse(f"""
@R.function
def main(x: R.Tensor((2, 3), "{dtype}")):
    y = R.nn.max_pool1d(R.negative(R.expand_dims(x, 0)), pool_size=3, padding=1)
    return R.max(x, axis=1), R.min(x, axis=1), R.argmax(x, axis=1), R.nn.softmax(x, axis=1), y
""")
    mod = unity.IRModule({"main": fn})
    wide = x.astype("float32")
    for run_it in (lambda: run(mod, "main", x), lambda: unity.VirtualMachine(unity.compile(mod))["main"](x)):
        high, low, at, soft, pooled = as_numpy(run_it())
        assert pooled.astype("float32").tolist() == [[[-0.25, -0.25, -1], [-0.5, -0.5, -0.5]]]
        assert (
            high.astype("float32").tolist() == wide.max(1).tolist()
            and low.astype("float32").tolist() == wide.min(1).tolist()
        )
        assert at.tolist() == wide.argmax(1).tolist() and np.isfinite(soft.astype("float32")).all()
