"""Every operator's lowering, run by the reference interpreter, against its numpy meaning."""

import numpy as np
import pytest
from op_cases import CASES, Shape

import unity.op as op
from unity.ir import BlockBuilder, ShapeExpr, Tuple, Var, prim_type
from unity.ir.build import const
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.op.common.table import to_expr
from unity.support.errors import TypeRuleError
from unity.transform.relax.lowering.legalize_ops import legalize_ops


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


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CASES)])
def test_lowering_means_what_numpy_says(case):
    check(*case)


def test_every_lowered_row_has_a_case():
    missing = [n for n, info in OPS.items() if callable(info.lower) and n[2:] not in {c[0] for c in CASES}]
    assert missing == []


def test_every_row_is_complete():
    for name, info in OPS.items():
        assert info.doc.endswith("."), name
        for part in (info.lower, info.grad, info.ref):
            assert callable(part) or len(part.split()) > 1, name


NEEDS_SIZES = {"squeeze", "gather_nd", "scatter_nd", "collapse_sum_to", "collapse_sum_like"}
"""Operators whose first sample needs sizes that are known when it is compiled."""


def test_symbolic_shapes():
    """The first sample of every operator that has elements, with every size as a symbol."""
    first = {}
    for case in CASES:
        if callable(OPS[f"R.{case[0]}"].lower) and all(getattr(a, "size", 1) for a in case[1]):
            first.setdefault(case[0], case)
    refused = set()
    for case in first.values():
        try:
            check(*case, symbolic=True)
        except TypeRuleError as problem:
            assert problem.code in ("E214", "E218")
            refused.add(case[0])
    assert refused == NEEDS_SIZES and len(first) > 200
