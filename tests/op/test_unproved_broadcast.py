"""Broadcasting of sizes nobody can prove equal: numpy's result where they fit, an error that names them where they do not."""

import itertools

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.scalar import Select
from unity.ir.walk import collect
from unity.script import parse

TEXT = """
@I.ir_module
class M:
    @R.function
    def main({params}):
        with R.dataflow():
            {body}
            R.output(y)
        return y
"""
VECTORS = 'x: R.Tensor(("n",), "float32"), z: R.Tensor(("m",), "float32")'


def module(body, params=VECTORS):
    return parse(TEXT.format(params=params, body="\n            ".join(body)))


def values(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["y = R.add(x, z)"], lambda x, z: x + z),
        (["a = R.maximum(x, z)", "b = R.multiply(z, a)", "y = R.nn.relu(R.subtract(b, x))"],
         lambda x, z: np.maximum(z * np.maximum(x, z) - x, 0)),
    ],
    ids=["one", "chain"],
)  # fmt: skip
def test_every_pair_of_sizes(body, expected):
    mod = module(body)
    main = unity.VirtualMachine(unity.compile(mod))["main"]
    for n, m in itertools.product((0, 1, 2, 3), repeat=2):
        x, z = values(n), values(m)
        if n == m or 1 in (n, m):
            np.testing.assert_allclose(main(x, z).numpy(), expected(x, z))
            np.testing.assert_allclose(np.asarray(run(mod, "main", x, z)), expected(x, z))
        else:
            with pytest.raises(unity.UnityError, match="_size") as caught:
                main(x, z)
            assert caught.value.code == "E608" and f"n = {n}" in str(caught.value)


def test_a_number_decides():
    mod = module(["y = R.add(x, z)"], 'x: R.Tensor(("n",), "float32"), z: R.Tensor((4,), "float32")')
    assert str(mod["main"].ret_ty) == 'R.Tensor((4,), "float32")'
    main = unity.VirtualMachine(unity.compile(mod))["main"]
    for n in (1, 4):
        np.testing.assert_allclose(main(values(n), values(4)).numpy(), values(n) + values(4))
    with pytest.raises(unity.UnityError, match="add_size"):
        main(values(3), values(4))


def test_broadcast_to_sizes_that_do_not_fit():
    mod = module(["y = R.broadcast_to(x, R.shape([m, p]))"],
                 'x: R.Tensor(("n",), "float32"), z: R.Tensor(("m", "p"), "float32")')  # fmt: skip
    main = unity.VirtualMachine(unity.compile(mod))["main"]
    for n in (1, 3):
        np.testing.assert_array_equal(main(values(n), values(2, 3)).numpy(), np.broadcast_to(values(n), (2, 3)))
    with pytest.raises(unity.UnityError, match="broadcast_to_size"):
        main(values(6), values(2, 4))


def test_types_grow_with_the_sizes_not_with_the_operators():
    body = ["a0 = R.add(x, z)"] + [f"a{i + 1} = R.add(a{i}, {'zx'[i % 2]})" for i in range(30)] + ["y = R.exp(a30)"]
    assert len(collect(module(body)["main"].ret_ty, Select)) == 1
