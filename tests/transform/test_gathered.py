"""Contractions whose operands are copied for an instruction: what the copies hold, when they pay, and machine code."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ffi.targets.target import runnable_processor
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.ir.stmt import Block
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.contraction import contraction_of
from unity.transform.default_schedule.gathered import fused_reductions, gather
from unity.transform.infra.backend import Machine
from unity.transform.schedule import Schedule

BYTES = ("uint8", "int8", "int32")
WIDE = Machine(64, 32, ("dot_16x4_vnni_local",))
TILES = Machine(64, 32, ("amx_u8s8s32", "dot_16x4_vnni_local"))


def program(a, b, c, grid, kinds, left, right, output, types=BYTES):
    """A sum of products of A and B; indices by iterators v0, v1, ..."""
    names, iterators = [", ".join([f"{letter}{k}" for k in range(len(grid))]) for letter in "iv"]
    product = f'T.Cast("{types[2]}", A[{left}]) * T.Cast("{types[2]}", B[{right}])'
    return parse(f"""
@T.prim_func
def main(A: T.Buffer({a}, "{types[0]}"), B: T.Buffer({b}, "{types[1]}"), C: T.Buffer({c}, "{types[2]}")):
    for {names} in T.grid({", ".join(map(str, grid))}):
        with T.block("C"):
            {iterators} = T.axis.remap("{kinds}", [{names}])
            with T.init():
                C[{output}] = T.Cast("{types[2]}", 0)
            C[{output}] = C[{output}] + {product}
""")


def matmul(m, n, k, types=BYTES):
    return program((m, k), (k, n), (m, n), (m, n, k), "SSR", "v0, v2", "v2, v1", "v0, v1", types)


def conv(h, c, o, k, stride):
    i = (h - 1) * stride + k
    return program(
        (1, i, i, c), (k, k, c, o), (1, h, h, o), (1, h, h, o, k, k, c), "SSSSRRR",
        f"v0, v1 * {stride} + v4, v2 * {stride} + v5, v6", "v4, v5, v6, v3", "v0, v1, v2, v3",
    )  # fmt: skip


PROGRAMS = {
    "odd depth": matmul(5, 17, 7),
    "one step": matmul(3, 16, 1),
    "one row": matmul(1, 16, 5),
    "transposed data": program((6, 5), (6, 16), (5, 16), (5, 16, 6), "SSR", "v2, v0", "v2, v1", "v0, v1"),
    "transposed weights": program((5, 6), (16, 6), (5, 16), (5, 16, 6), "SSR", "v0, v2", "v1, v2", "v0, v1"),
    "batch": program((2, 5, 6), (2, 6, 16), (2, 5, 16), (2, 5, 16, 6), "SSSR", "v0, v1, v3", "v0, v3, v2", "v0, v1, v2"),
    "convolution": conv(2, 3, 16, 3, 1),
    "strided": conv(2, 2, 17, 3, 2),
    "channels first": program(
        (3, 4, 5), (16, 3, 3, 2), (16, 2, 4), (16, 2, 4, 3, 3, 2), "SSSRRR", "v3, v1 + v4, v2 + v5", "v0, v3, v4, v5", "v0, v1, v2"
    ),
}  # fmt: skip


def operands(fn, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = [tuple([int(n) for n in buffer.shape]) for buffer in fn.buffer_map.values()]
    return rng.integers(0, 256, a, "uint8"), rng.integers(-128, 128, b, "int8"), np.zeros(c, "int32")


def expected(fn):
    a, b, c = operands(fn)
    run(IRModule({"main": fn}, {}, {}), "main", a, b, c)
    assert c.any()
    return c


def contraction(fn):
    (block,) = [block for block in collect(fn.body, Block) if block.init is not None]
    return contraction_of(block, anywhere=True)


@pytest.mark.parametrize("multiple", [4, 12])
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_reductions_may_be_joined(name, multiple):
    fn = PROGRAMS[name]
    what = contraction(fn)
    for count in range(1, len(what.reductions) + 1):
        made = gather(fn, what, what.reductions[-count:], multiple, constant=False).func
        verify(IRModule({"main": made}, {}, {}))
        found = contraction(made)
        assert (
            found.data.indices[-1] is found.reductions[-1].var and found.reductions[-1].dom.extent.value % multiple == 0
        )
        a, b, c = operands(fn)
        run(IRModule({"main": made}, {}, {}), "main", a, b, c)
        assert np.array_equal(c, expected(fn))


def decided(fn, **decisions):
    sch = Schedule(fn)
    sch.annotate("C", "schedule", decisions)
    return sch.mod["main"]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code(name, constant):
    fn = PROGRAMS[name]
    found = schedule_function(
        "main", decided(fn, gather=4, pack=1, transpose=1), {1} if constant else set(), WIDE, CPU.rules
    )
    assert "dot_16x4_vnni_local" in found.reason and "gathered by 4" in found.reason
    verify(IRModule({"main": found.func}, {}, {}))
    if "avx512vnni" not in runnable_processor().features:
        pytest.skip("this processor has no VNNI")
    a, b, c = operands(fn)
    unity.compile(IRModule({"main": found.func}, {}, {}))["main"](a, found.packed[1].pack(b) if constant else b, c)
    assert np.array_equal(c, expected(fn))


@pytest.mark.parametrize(
    ("fn", "machine", "reason"),
    [
        (matmul(256, 256, 250), WIDE, "gathered by 4"),
        (matmul(256, 256, 250), TILES, "gathered by 64"),
        (matmul(256, 256, 256), TILES, "amx_32x32x256_u8s8s32_tiles"),
        (conv(28, 3, 64, 7, 2), WIDE, "gathered by 4"),
        (matmul(64, 16, 2), WIDE, "packed"),
        (matmul(256, 256, 250), Machine(64, 32), "packed"),
        (matmul(256, 256, 250, ("int8", "int8", "int32")), WIDE, "packed"),
    ],
)
def test_when_copies_pay(fn, machine, reason):
    assert schedule_function("main", fn, {1}, machine, CPU.rules).reason.split(", ")[-1].startswith(reason)


def test_an_operand_with_itself_stays():
    fn = program((16, 6), (1, 1), (16, 16), (16, 16, 6), "SSR", "v0, v2", "0, 0", "v0, v1")
    text = fn.script().replace('T.Cast("int32", B[0, 0])', 'T.Cast("int32", A[v1, v2])')
    assert fused_reductions(contraction(parse(text)), 4, 6.0, False) is None


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("size, window, gathers", [(28, 3, True), (14, 5, True), (28, 1, False)])
def test_images_with_channels_first_are_turned_for_an_instruction(size, window, gathers, constant):
    """Weights that are no constant cost a copy, which an instruction is worth where the reduction is long."""
    i = size + window - 1
    loops = (32, size, size, 32, window, window)
    read, weights = "v3, v1 + v4, v2 + v5", "v0, v3, v4, v5"
    fn = program((32, i, i), (32, 32, window, window), (32, size, size), loops, "SSSRRR", read, weights, "v0, v1, v2")
    found = schedule_function("main", fn, {1} if constant else set(), WIDE, CPU.rules)
    assert ("gathered" in found.reason if found is not None else False) == gathers
