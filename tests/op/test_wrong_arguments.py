"""Every operator with wrong arguments and attributes: a TypeRuleError with a help and a readable message, nothing else."""

from __future__ import annotations

import random

import numpy as np
import op_cases
import pytest

import unity.script  # noqa: F401 - messages show script
from unity.ir import (
    FuncType,
    ObjectType,
    ShapeExpr,
    ShapeType,
    Tuple,
    TupleType,
    Var,
    build as b,
    make_call,
    op,
    prim_type,
)
from unity.ir.op import OPS, REQUIRED
from unity.ir.relation import tensor_type
from unity.op import OPERATORS
from unity.support.errors import TypeRuleError


def size(value):
    return b.const(value, "int64")


N = Var("n", prim_type("int64"))
TYPES = [
    tensor_type((size(3), size(4)), "float32"),
    tensor_type((), "float32"),
    tensor_type((N, size(4)), "int32"),
    tensor_type((N, N), "bool"),
    tensor_type((size(0), size(4)), "float16"),
    tensor_type(None, "float32", 3),
    tensor_type(None, None, -1),
    tensor_type(None, "int8", -1),
    tensor_type((size(2), size(3), size(4), size(5)), "uint8"),
    tensor_type((size(1),) * 6, "bfloat16"),
    TupleType((tensor_type((size(3),), "float32"),)),
    TupleType(()),
    ShapeType((N, size(2)), 2),
    ShapeType(None, -1),
    prim_type("int64"),
    prim_type("float32"),
    prim_type("bool"),
    ObjectType(),
    FuncType(None, ObjectType(), False),
]
VARS = [Var(f"v{k}", ty) for k, ty in enumerate(TYPES)]
VALUES = [
    None, 0, -1, 1, 7, -100, 10**30, 1.5, float("nan"), float("inf"), "a", "", "float32", "float99", "NCHW", True, (), (0,), [0, 0],
    (0, 1, 2, 3, 4, 5, 6), (None,), (1.5,), ("a",), [[0]], {}, {"a": 1}, N, (N,), VARS[0], (VARS[0],), size(3), (size(3),),
    ShapeExpr((size(2), N)), b"x", object(), int, 3 + 4j, {1, 2}, np.int64(3), np.array([1, 2]), np.float32(1.5),
]  # fmt: skip


def argument(value):
    if isinstance(value, op_cases.Shape):
        return ShapeExpr(tuple([size(int(v)) for v in value]))
    if isinstance(value, np.ndarray):
        return Var("x", tensor_type(tuple([size(s) for s in value.shape]), value.dtype.name))
    return Tuple(tuple([argument(v) for v in value])) if isinstance(value, (tuple, list)) else value


BY_NAME: dict[str, list] = {}
for _name, _inputs, _attrs in op_cases.CASES:
    BY_NAME.setdefault(f"R.{_name}", []).append((_inputs, _attrs))


def refusal(name, args, attrs):
    """The message when the call is refused, None when it is accepted."""
    try:
        OPERATORS[name](*args, **attrs)
    except TypeRuleError as problem:
        assert problem.code.startswith("E2") and problem.help, f"{name}: {problem}"
        assert "T.int64(" not in problem.message and " object at " not in problem.message and len(problem.message) < 400
        return problem.message
    return None


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_wrong_arguments(name):
    rng = random.Random(name)
    attributes = [p.name for p in OPS[name].params if p.kind == "attr"]
    refused = 0
    for _ in range(120):
        inputs, given = rng.choice(BY_NAME[name])
        args, attrs = [argument(x) for x in inputs], dict(given)
        for _ in range(rng.choice((1, 1, 2))):
            if attributes and rng.random() < 0.6:
                attrs[rng.choice(attributes)] = rng.choice(VALUES)
            elif args and rng.random() < 0.9:
                args[rng.randrange(len(args))] = rng.choice([*VARS, rng.choice(VALUES), Tuple((rng.choice(VARS),))])
            else:
                args = args[:-1]
        refused += refusal(name, args, attrs) is not None
    assert refused > 5


HOST_AND_DEVICE = tuple([Var("x", tensor_type((3,), "float32", vdevice=device)) for device in ("llvm:0", "cuda:0")])


@pytest.mark.parametrize(
    "name,args,attrs,words",
    [
        ("R.squeeze", [VARS[0]], {"axis": [0]}, "axis 0 has size 3, not 1"),
        ("R.expand_dims", [VARS[0]], {"axis": (1.5,)}, "axis must be integers"),
        ("R.eye", [], {"n": 0, "m": (1.5,)}, "m must be an integer"),
        ("R.eye", [], {"n": 2**40}, "out of range"),
        ("R.to_vdevice", [VARS[0]], {"dst_vdevice": {}}, "must be a device"),
        ("R.strided_slice", [VARS[0]], {"axes": None, "begin": (0,), "end": (1,)}, "axes must be integers"),
        ("R.split", [VARS[6]], {"indices_or_sections": 10**9}, "number of sections"),
        ("R.arange", [2, float("inf"), 3], {}, "finite"),
        ("R.astype", [VARS[0]], {"dtype": "float99"}, "unknown data type"),
        ("R.add", [VARS[0], 10**30], {}, "int64"),
        ("R.nn.attention", [Var("q", tensor_type((N, N, N, N), "float32"))] * 3, {"window_size": 4}, "sliding window"),
        ("R.add", [VARS[0], None], {}, "'x2' is missing"),
        ("R.add", HOST_AND_DEVICE, {}, "different devices, llvm:0 and cuda:0"),
        ("R.concat", [Tuple(HOST_AND_DEVICE)], {"axis": 0}, "different devices, llvm:0 and cuda:0"),
        ("R.flip", [VARS[0]], {"axis": object()}, "R.flip: axis cannot be a value of type object"),
    ],
)
def test_messages(name, args, attrs, words):
    message = refusal(name, args, attrs)
    assert message is not None and words in message


@pytest.mark.parametrize("name", sorted(OPS))
def test_number_of_operands(name):
    """A call made as a node, whose operands no parameter list has bound."""
    params = [p for p in OPS[name].params if p.kind != "attr"]
    least = len([p for p in params if p.kind == "expr" and p.default is REQUIRED])
    wrong = ([least - 1] if least else []) + (
        [] if [p for p in params if p.kind == "exprs"] else [len(params) + 1, len(params) + 7]
    )
    for count in wrong:
        with pytest.raises(TypeRuleError, match="operands") as caught:
            make_call(op(name), [VARS[0]] * count)
        assert caught.value.code == "E215"
