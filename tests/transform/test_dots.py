"""Dot-product instructions in the contraction rule: bfloat16 pairs and groups of bytes, packed at build or in the program."""

import ml_dtypes
import numpy as np
import pytest

import unity
from unity import te
from unity.ffi.targets.target import runnable_processor
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.target.tensor_intrin import shipped
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.packing import Packing
from unity.transform.infra.backend import Machine, machine_in_use

PAIRS, BYTES = "dot_16x2_bf16_avx512_local", "dot_16x4_vnni_local"
WIDE = Machine(64, 32, (PAIRS, BYTES))
PRODUCT = """
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "{a}"), B: T.Buffer(({k}, {n}), "{b}"), C: T.Buffer(({m}, {n}), "{c}")):
    for i, j, l in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[vi, vj] = T.Cast("{c}", 0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vk, vj])
"""
CASES = [(1, 2, 16), (7, 8, 33), (17, 12, 80), (20, 64, 16), (5, 16, 300)]


def product(m, k, n, a, b, c):
    return parse(PRODUCT.format(m=m, k=k, n=n, a=a, b=b, c=c))


def data(rng, shape, dtype):
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype("float32").astype(ml_dtypes.bfloat16)
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return rng.integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize(("m", "k", "n"), CASES)
@pytest.mark.parametrize(
    ("types", "name"), [(("bfloat16", "bfloat16", "float32"), PAIRS), (("uint8", "int8", "int32"), BYTES)]
)
@pytest.mark.parametrize("constant", [True, False])
def test_dot_products(m, k, n, types, name, constant):
    found = schedule_function("main", product(m, k, n, *types), {1} if constant else set(), WIDE, CPU.rules)
    if found is None:
        assert m < 16 and not constant  # too few rows to pack for
        return
    packed_anywhere = constant or m >= 16
    uses = k % (2 if name == PAIRS else 4) == 0 and packed_anywhere
    assert (name in found.reason) == uses
    verify(unity.IRModule({"main": found.func}, {}, {}))
    feature = "avx512bf16" if name == PAIRS else "avx512vnni"
    if uses and feature not in runnable_processor().features:
        pytest.skip(f"this processor has no {feature}")
    rng = np.random.default_rng(0)
    x, w = data(rng, (m, k), types[0]), data(rng, (k, n), types[1])
    given = found.packed[1].pack(w) if constant else w
    out = np.zeros((m, n), types[2])
    unity.compile(found.func)["main"](unity.tensor(x), unity.tensor(given), out)
    wide = "float64" if types[2] == "float32" else "int32"
    np.testing.assert_allclose(out, x.astype(wide) @ w.astype(wide), rtol=1e-5, atol=1e-4)


def test_packing_in_groups_is_what_indices_say():
    layout, array = Packing((0,), 2, (1,), 4, 2), np.arange(2 * 6 * 7).reshape(2, 6, 7)
    packed = layout.pack(array)
    assert packed.shape == layout.shape(array.shape) == (2, 2, 3, 4, 2)
    for b in range(2):
        for k in range(6):
            for n in range(7):
                assert packed[b, n // 4, k // 2, n % 4, k % 2] == array[b, k, n]
    assert packed[:, 1, :, 3].sum() == 0


def test_odd_depth_and_other_machines_keep_the_plain_schedule():
    plain = schedule_function("main", product(20, 7, 32, "bfloat16", "bfloat16", "float32"), {1}, WIDE, CPU.rules)
    assert plain is not None and PAIRS not in plain.reason
    other = schedule_function(
        "main", product(20, 8, 32, "bfloat16", "bfloat16", "float32"), {1}, Machine(64, 32), CPU.rules
    )
    assert other is not None and PAIRS not in other.reason
    rng = np.random.default_rng(0)
    x, w = data(rng, (20, 8), "bfloat16"), data(rng, (8, 32), "bfloat16")
    out = np.zeros((20, 32), "float32")
    run(unity.IRModule({"main": other.func}, {}, {}), "main", x, other.packed[1].pack(w), out)
    np.testing.assert_allclose(out, x.astype("float32") @ w.astype("float32"), rtol=1e-5, atol=1e-5)


def test_only_features_of_the_target_are_used():
    assert {PAIRS, BYTES} <= set(shipped())
    for processor, intrinsics in [
        ("x86-64-v3", ()), ("x86-64-v4", ()), ("x86-64-v4 -mattr=+avx512bf16", (PAIRS,)), ("icelake-server", (BYTES,)),
        ("znver4 -mattr=-avx512bf16", (BYTES,)),
    ]:  # fmt: skip
        with unity.Target(f"llvm -mcpu={processor}"):
            assert machine_in_use().intrinsics == intrinsics


def test_an_instruction_that_is_slower_than_plain_steps_is_a_decision_alone():
    """Processors that begin few products of pairs widen them instead, and copy nothing for them; a search may decide otherwise."""
    slow = {}
    for processor in ("znver4", "cooperlake"):
        with unity.Target(f"llvm -mcpu={processor}"):
            machine = machine_in_use()
        slow[processor], types = PAIRS in machine.slow_intrinsics, ("bfloat16", "bfloat16", "float32")
        fast = not slow[processor]
        for depth, decisions, taken in ((8, {}, fast), (8, {"instruction": 0}, True), (8, {"instruction": 1}, False),
                                        (255, {}, fast), (255, {"instruction": 0, "gather": 2}, True)):  # fmt: skip
            sch = unity.Schedule(product(20, depth, 32, *types))
            if decisions:
                sch.annotate(sch.get_block("C"), "schedule", decisions)
            found = schedule_function("main", sch.mod.prim_funcs()["main"], {1}, machine, CPU.rules)
            assert (PAIRS in found.reason) == taken, (processor, depth, decisions, found.reason)
    assert slow == {"znver4": False, "cooperlake": True}


def test_infinity_meets_no_padding():
    """Columns beyond the last are zeros, rows beyond the last are computed and dropped: neither shows."""
    x, w = np.ones((7, 8), ml_dtypes.bfloat16), np.ones((8, 33), ml_dtypes.bfloat16)
    x[6, 3] = np.inf
    mod = parse(
        """
@R.function
def main(x: R.Tensor((7, 8), "bfloat16")):
    with R.dataflow():
        y = R.matmul(x, w, out_dtype="float32")
        R.output(y)
    return y
""",
        scope={"w": w},
    )
    y = unity.compile(mod)["main"](unity.tensor(x)).numpy()
    assert (y[:6] == 8).all() and np.isposinf(y[6]).all()


def test_all_lines_of_an_image_pay_for_packing():
    """Seven rows to a line are few, seven lines of them are not."""
    x, w = [te.placeholder(shape, "bfloat16", name) for shape, name in (((1, 7, 7, 64), "x"), ((64, 32), "w"))]
    r = te.reduce_axis((0, 64), "r")
    y = te.compute(
        (1, 7, 7, 32), lambda n, i, j, c: te.sum(x[n, i, j, r].astype("float32") * w[r, c].astype("float32"), r), "y"
    )
    found = schedule_function("main", te.create_prim_func([x, w, y]), set(), WIDE, CPU.rules)
    assert found is not None and PAIRS in found.reason
