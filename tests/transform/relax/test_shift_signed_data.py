"""Products and convolutions of signed bytes computed as those of unsigned by signed ones: exact, extremes and wrap-around included."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.transform.relax.precision.shift_signed_data import shift_signed_data

DOTS = "llvm -mattr=+avx512vnni"


def module(shape, weight, call, scope=None):
    param = "" if scope else f', w: R.Tensor({weight}, "int8")'
    text = f"""
@R.function
def main(x: R.Tensor({shape}, "int8"){param}):
    y = {call}
    return y
"""
    return unity.IRModule({"main": parse(text, scope=scope or {})}, {}, {})


def value(found):
    return found if isinstance(found, np.ndarray) else found.numpy()


PRODUCT = 'R.matmul(x, w, out_dtype="int32")'
CONV = 'R.nn.conv2d(x, w, padding=(1, 0, 2, 1), strides=2, out_dtype="int32")'
CASES = [
    ((40, 16), (16, 16), PRODUCT), ((33, 7), (7, 20), PRODUCT), ((2, 20, 12), (12, 48), PRODUCT), ((1, 8, 19, 17), (16, 8, 3, 3), CONV),
    ((2, 3, 20, 20), (18, 3, 2, 3), CONV),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "weight", "call"), CASES)
@pytest.mark.parametrize("constant", [True, False])
def test_exact(shape, weight, call, constant):
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-128, 128, n).astype("int8") for n in (shape, weight)]
    x.reshape(-1)[:4], w.reshape(-1)[:4] = -128, (-128, 127, -128, 0)
    mod = module(shape, weight, call, {"w": w} if constant else None)
    given = (x,) if constant else (x, w)
    with unity.Target(DOTS):
        made = shift_signed_data(mod)
    assert '"uint8"' in made.script()
    expected = value(run(mod, "main", *given))
    np.testing.assert_array_equal(value(run(made, "main", *given)), expected)
    np.testing.assert_array_equal(unity.compile(mod)["main"](*given).numpy(), expected)


@pytest.mark.parametrize(
    "target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v4", "llvm -mattr=+avx512vnni,+amx-int8"]
)
def test_where_signed_bytes_are_multiplied_or_none_are(target):
    mod = module((40, 16), (16, 16), PRODUCT)
    with unity.Target(target):
        assert shift_signed_data(mod) is mod


def test_what_stays():
    few = module((8, 16), (16, 32), PRODUCT)
    with unity.Target(DOTS):
        assert shift_signed_data(few) is few  # eight rows do not pay for summing weights that are no constants
        for shape, weight, call in [
            ((40, 16), (16, 15), PRODUCT), ((40, 16), (16, 16), "R.matmul(x, w)"), ((40, 16), (16,), PRODUCT),
            ((1, 8, 9, 9), (32, 4, 3, 3), 'R.nn.conv2d(x, w, groups=2, out_dtype="int32")'),
        ]:  # fmt: skip
            mod = module(shape, weight, call)
            assert shift_signed_data(mod) is mod


def test_torch_int_mm():
    torch = pytest.importorskip("torch")
    x, w = [torch.randint(-128, 128, n, dtype=torch.int8) for n in ((32, 24), (24, 40))]

    class Product(torch.nn.Module):
        def forward(self, x, w):
            return torch._int_mm(x, w)

    f = unity.compile(Product(), example_inputs=(x, w))
    assert 'R.matmul(x, w, out_dtype="int32")' in f.script()
    assert torch.equal(f(x, w), torch._int_mm(x, w))
