"""Products of few columns: weights laid out along the reduction, outputs as dot products."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.few_columns import FEW_COLUMNS
from unity.transform.infra.backend import Machine

RNG = np.random.default_rng(0)


def product(batch, rows, columns, steps, dtype, also=""):
    """A program of a product with constant weights, and a sum with 1 behind it."""
    shapes = [(batch, rows, steps), (batch, steps, columns), (batch, rows, columns)]
    return parse(f"""
@T.prim_func
def main(x: T.handle, w: T.Buffer({shapes[1]}, "{dtype}"), y: T.handle):
    {"n = T.int64()" if rows == "n" else ""}
    X = T.match_buffer(x, ({batch}, {rows}, {steps}), "{dtype}")
    Y = T.match_buffer(y, ({batch}, {rows}, {columns}), "{dtype}")
    C = T.alloc_buffer(({batch}, {rows}, {columns}), "{dtype}")
    for b, i, j, k in T.grid({batch}, {rows}, {columns}, {steps}):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = T.{dtype}(0)
            C[vb, vi, vj] = C[vb, vi, vj] + X[vb, vi, vk] * w[vb, vk, vj]
    for b, i, j in T.grid({batch}, {rows}, {columns}):
        with T.block("Y"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            Y[vb, vi, vj] = C[vb, vi, vj] + T.{dtype}(1){also}
""")


MACHINE = Machine(64, 32)
TAKEN = [(1, 33, 7, 515, "float32"), (3, 5, 2, 37, "float32"), (1, "n", 3, 300, "float32"), (2, 1, 5, 129, "float64"),
         (1, 4, 3, 256, "int32")]  # fmt: skip
LEFT = [
    (1, 1000, 7, 33, "float32"),
    (1, 64, 15, 1024, "float32"),
    (1, 33, 16, 512, "float32"),
    (1, 33, 7, 512, "float16"),
]


@pytest.mark.parametrize("case", TAKEN)
def test_outputs_are_dot_products(case):
    batch, rows, columns, steps, dtype = case
    found = FEW_COLUMNS.apply(product(*case), {1}, MACHINE)
    assert not isinstance(found, str), found
    verify(found.func)
    lanes = MACHINE.lanes(np.dtype(dtype).itemsize)
    shape = (batch, columns, 1, -(-steps // lanes) * lanes)
    for count in (0, 1, 3) if rows == "n" else (rows,):
        x, w = [RNG.integers(-8, 9, s).astype(dtype) for s in ((batch, count, steps), (batch, steps, columns))]
        y, z = [np.zeros((batch, count, columns), dtype) for _ in range(2)]
        packed = found.packed[1].pack(w)
        assert packed.shape == shape
        if count * steps < 200:
            run(found.func, None, x, packed, y)
        unity.build(found.func)["main"](x, packed, z)
        for result in (y, z) if count * steps < 200 else (z,):
            np.testing.assert_array_equal(result, x @ w + 1)


@pytest.mark.parametrize("case", LEFT)
def test_vectors_along_columns_stay_where_they_are_faster(case):
    assert isinstance(FEW_COLUMNS.apply(product(*case), {1}, MACHINE), str)


def test_weights_are_constants_that_nothing_else_reads():
    assert "not constant" in FEW_COLUMNS.apply(product(1, 33, 7, 515, "float32"), (), MACHINE)
    other = product(1, 33, 7, 515, "float32", " + w[0, vi, vj]")
    assert "read elsewhere" in FEW_COLUMNS.apply(other, {1}, MACHINE)


def test_a_long_product_is_split_as_well():
    found = FEW_COLUMNS.apply(product(1, 1, 2, 200_000, "float32"), {1}, MACHINE)
    assert "pieces" in found.reason and found.packed


@pytest.mark.parametrize("dots", [0, 1])
def test_it_is_a_decision(dots):
    sch = unity.Schedule(product(1, 33, 7, 515, "float32"))
    sch.annotate("C", "schedule", {"dots": dots})
    assert isinstance(CPU.rules[1].apply(sch.mod["main"], {1}, MACHINE), str) == (not dots)


def test_a_layer_of_few_outputs(level, capfd, monkeypatch):
    level.require()
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    x, w = RNG.standard_normal((3, 300)).astype("float32"), RNG.standard_normal((2, 300)).astype("float32")
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 300), "float32"), w: R.Tensor((2, 300), "float32")):
        y = R.nn.relu(R.matmul(x, R.permute_dims(w)))
        return y
""")
    layer = unity.compile(unity.relax.transform.BindParams("main", {"w": w})(mod))
    assert "few columns: weights along the reduction" in capfd.readouterr().err
    np.testing.assert_allclose(layer["main"](x).numpy(), np.maximum(x @ w.T, 0), rtol=1e-4, atol=1e-4)
