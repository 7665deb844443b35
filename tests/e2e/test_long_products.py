"""Long sums of float32 products are as exact as numpy's: the error does not grow with the length of the reduction."""

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.infra.backend import Machine

PRODUCT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({m}, {k}), "float32"), w: R.Tensor(({k}, {n}), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y
"""
SUMS = """
@T.prim_func
def main(A: T.Buffer((4, {p}, {k}, 16), "float32"), B: T.Buffer(({p}, {k}, 48), "float32"), C: T.Buffer((4, 16, 48), "float32")):
    for b, i, j, p, k in T.grid(4, 16, 48, {p}, {k}):
        with T.block("C"):
            vb, vi, vj, vp, vk = T.axis.remap("SSSRR", [b, i, j, p, k])
            with T.init():
                C[vb, vi, vj] = T.float32(0)
            C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vp, vk, vi] * B[vp, vk, vj]
"""


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """Root of the mean squared error, relative to that of the values."""
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def build(text: str):
    return unity.VirtualMachine(unity.compile(parse(text)))["main"]


@pytest.mark.parametrize(
    ("m", "k", "n"), [(8, 4096, 48), (1, 4099, 128), (33, 16384, 32), (64, 6007, 50), (8, 16384, 5), (16, 513, 80)]
)
def test_products(m, k, n):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, n)).astype("float32")
    exact = x.astype("float64") @ w.astype("float64")
    # a product of many rows: numpy sums those of one row, or of few columns, in another order
    many = rng.standard_normal((64, k)).astype("float32")
    bound = 1.5 * error(many @ w, many.astype("float64") @ w.astype("float64"))
    assert error(build(PRODUCT.format(m=m, k=k, n=n))(x, w).numpy(), exact) < bound


def test_symbolic_reduction():
    f = build(PRODUCT.format(m='"m"', k='"k"', n=64))
    rng = np.random.default_rng(0)
    for m, k in ((0, 3), (3, 0), (1, 1), (9, 191), (8, 192), (7, 193), (16, 8192), (5, 8191)):
        x, w = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, 64)).astype("float32")
        found, exact = f(x, w).numpy(), x.astype("float64") @ w.astype("float64")
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
        assert k < 8000 or error(found, exact) < 4e-7


@pytest.mark.parametrize(("p", "k"), [(3, 1000), (100, 30), (5, 197), (700, 7), (2, 128)])
def test_two_reductions(p, k):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, p, k, 16)).astype("float32"), rng.standard_normal((p, k, 48)).astype("float32")
    exact = np.einsum("bpki,pkj->bij", a.astype("float64"), b.astype("float64"))
    out = np.empty((4, 16, 48), "float32")
    unity.build(parse(SUMS.format(p=p, k=k)))["main"](a, b, out)
    assert error(out, exact) < 4e-7


def test_symbolic_loops_around():
    """Chunks of a symbolic loop among others are not fused: the program keeps its schedule, and its result."""
    text = SUMS.format(p="p", k="k").replace(
        'A: T.Buffer((4, p, k, 16), "float32"), B: T.Buffer((p, k, 48), "float32")', "a: T.handle, b: T.handle"
    )
    text = text.replace(
        "    for b,",
        """    p, k = T.int64(), T.int64()
    A = T.match_buffer(a, (4, p, k, 16), "float32")
    B = T.match_buffer(b, (p, k, 48), "float32")
    for b,""",
    )
    assert schedule_function("main", parse(text), set(), Machine(16, 32), CPU.rules) is not None


REDUCTIONS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({x}, "float32"), w: R.Tensor({w}, "float32")):
        with R.dataflow():
            y = {call}
            R.output(y)
        return y
"""


@pytest.mark.parametrize("rows", ["16384", "5003", '"n"'])
def test_sums_over_rows(rows):
    """Values of one sign: the error of one running sum would grow with their number."""
    f = build(REDUCTIONS.format(x=f"({rows}, 70)", w="(1,)", call="R.add(R.sum(x, axis=0), w)"))
    count = 9001 if rows == '"n"' else int(rows)
    x = np.random.default_rng(0).uniform(0, 1, (count, 70)).astype("float32")
    assert error(f(x, np.zeros(1, "float32")).numpy(), x.astype("float64").sum(0)) < 3e-7


def test_a_reduction_that_is_not_scheduled():
    """Fewer columns than the default schedule takes, several loops, a consumer, a last chunk that is shorter."""
    call = "R.nn.relu(R.nn.conv2d(x, w, groups=2))"
    f = build(REDUCTIONS.format(x="(1, 514, 9, 9)", w="(24, 257, 3, 3)", call=call))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 514, 9, 9)).astype("float32"), rng.standard_normal((24, 257, 3, 3)).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), (3, 3), axis=(2, 3))
    halves = [np.einsum("nchwij,ocij->nohw", windows[:, 257 * g :][:, :257], w[12 * g : 12 * g + 12]) for g in range(2)]
    assert error(f(x, w).numpy(), np.maximum(np.concatenate(halves, 1), 0)) < 3e-7
