"""Types of operator calls, read from script: symbolic shapes, unknown shapes, and what is refused."""

import pytest

from unity.ir import structural_equal
from unity.op import OPERATORS
from unity.script import parse
from unity.support.errors import UnityError

PARAMS = (
    'x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 1), "float32"), w: R.Tensor((4, "m"), "float32"), u: R.Tensor("float32", ndim=2), '
    'i: R.Tensor((3,), "int32"), b: R.Tensor(("n",), "bool"), t: R.Tensor((2, 3, 4), "float16"), d: R.Tensor(ndim=1), z: R.Tensor(("m",), "float32")'
)


def type_of(expression, expected):
    text = f"@I.ir_module\nclass M:\n    @R.function\n    def main({PARAMS}):\n        n = T.int64()\n        m = T.int64()\n        a: {expected} = {expression}\n        return a\n"
    mod = parse(text)
    binding = mod["main"].body.blocks[-1].bindings[-1]
    assert structural_equal(binding.value.ty, binding.var.ty), f"{binding.value.ty}"


GOOD = [
    ("R.exp(x)", 'R.Tensor((n, 4), "float32")'),
    ("R.split(x, 3, axis=1)", 'R.Tuple(R.Tensor((n, 2), "float32"), R.Tensor((n, 2), "float32"), R.Tensor((n, 0), "float32"))'),
    ("R.exp(u)", 'R.Tensor("float32", ndim=2)'),
    ("R.add(x, y)", 'R.Tensor((n, 4), "float32")'),
    ("R.add(x, R.const(1.0, \"float32\"))", 'R.Tensor((n, 4), "float32")'),
    ("R.less(x, y)", 'R.Tensor((n, 4), "bool")'),
    ("R.add(x, u)", 'R.Tensor("float32", ndim=2)'),
    ("R.isnan(t)", 'R.Tensor((2, 3, 4), "bool")'),
    ("R.matmul(x, w)", 'R.Tensor((n, m), "float32")'),
    ("R.matmul(u, w)", 'R.Tensor("float32", ndim=2)'),
    ("R.sum(x, axis=[-1])", 'R.Tensor((n,), "float32")'),
    ("R.sum(x, axis=[0], keepdims=True)", 'R.Tensor((1, 4), "float32")'),
    ("R.mean(t)", 'R.Tensor((), "float16")'),
    ("R.argmax(x, axis=1)", 'R.Tensor((n,), "int64")'),
    ("R.flatten(x)", 'R.Tensor((n * 4,), "float32")'),
    ("R.reshape(x, (2, n, 2))", 'R.Tensor((2, n, 2), "float32")'),
    ("R.reshape(x, (n, -1))", 'R.Tensor((n, 4), "float32")'),
    ("R.reshape(x, (-1,))", 'R.Tensor((n * 4,), "float32")'),
    ("R.permute_dims(t)", 'R.Tensor((4, 3, 2), "float16")'),
    ("R.permute_dims(t, axes=[0, -1, 1])", 'R.Tensor((2, 4, 3), "float16")'),
    ("R.expand_dims(x, axis=[0, -1])", 'R.Tensor((1, n, 4, 1), "float32")'),
    ("R.squeeze(y, axis=[1])", 'R.Tensor((n,), "float32")'),
    ("R.concat((x, x), axis=0)", 'R.Tensor((n * 2, 4), "float32")'),
    ("R.concat((x, y), axis=1)", 'R.Tensor((n, 5), "float32")'),
    ("R.split(x, 2, axis=1)", 'R.Tuple(R.Tensor((n, 2), "float32"), R.Tensor((n, 2), "float32"))'),
    ("R.strided_slice(x, axes=[1], begin=[1], end=[3])", 'R.Tensor((n, 2), "float32")'),
    ("R.take(x, i, axis=0)", 'R.Tensor((3, 4), "float32")'),
    ("R.astype(x, \"int8\")", 'R.Tensor((n, 4), "int8")'),
    ("R.broadcast_to(y, (n, 7))", 'R.Tensor((n, 7), "float32")'),
    ("R.where(b, z, z)", 'R.Tensor((T.Select(n == 1, m, n),), "float32")'),
    ("R.shape_of(x)", "R.Shape([n, 4])"),
    ("R.size(x)", 'R.Tensor((), "int64")'),
    ("R.nn.softmax(x, axis=-1)", 'R.Tensor((n, 4), "float32")'),
    ("R.zeros((n, 3), dtype=\"int32\")", 'R.Tensor((n, 3), "int32")'),
]  # fmt: skip


@pytest.mark.parametrize("case", GOOD, ids=[g[0] for g in GOOD])
def test_result_types(case):
    type_of(*case)


BAD = [
    ("R.exp(i)", "E211"), ("R.exp(n)", "E210"), ("R.add(x, i)", "E211"), ("R.add(x, R.zeros((3, 5), \"float32\"))", "E213"),
    ("R.matmul(x, t)", "E211"), ("R.matmul(b, b)", "E211"), ("R.matmul(x, R.zeros((5, 2), \"float32\"))", "E213"), ("R.sum(x, axis=[2])", "E214"),
    ("R.sum(x, axis=[0, -2])", "E214"), ("R.reshape(t, (5, 5))", "E213"), ("R.reshape(x, (-1, -1))", "E214"), ("R.squeeze(x, axis=[1])", "E213"),
    ("R.logical_not(x)", "E211"), ("R.divide(i, i)", "E211"), ("R.nn.relu(b)", "E211"), ("R.call_dps(\"f\", (x,), R.Tensor(\"float32\", ndim=2))", "E216"),
    ("R.concat((x, i), axis=0)", "E211"), ("R.permute_dims(t, axes=[0, 1])", "E214"),
    ("R.take(t, i)", "E214"), ("R.broadcast_to(t, (2, 3))", "E212"), ("R.expp(x)", "E"),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=[b[0] for b in BAD])
def test_refused(case):
    expression, code = case
    with pytest.raises(UnityError) as caught:
        type_of(expression, "R.Object")
    assert caught.value.code.startswith(code), caught.value
    assert caught.value.span is not None


assert OPERATORS  # importing the room fills the operator table
