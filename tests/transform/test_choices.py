"""Decisions of rules and passes: the own ones change nothing, others change speed and never results."""

import random
from dataclasses import replace

import numpy as np
import pytest
from fuzz import TIMES
from lowering import LOOPS

from unity.ffi.dtype import DataType
from unity.ffi.targets.target import Target
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.ir.scalar import Shuffle
from unity.ir.stmt import Block, For
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule import contraction_nest
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.common.choices import SCHEDULE, choices_of, without_decisions
from unity.transform.infra.backend import Machine
from unity.transform.schedule import Schedule
from unity.transform.tir.loops.unroll_loop import statement_count

LEVELS = {f"v{level}": Target(f"llvm -mcpu=x86-64-v{level}") for level in (2, 3, 4)}
TILES = Machine(64, 32, ("amx_bf16bf16f32", "dot_16x2_bf16_avx512_local"))

HEAD = """
@T.prim_func
def main({parameters}):
    for {loops} in T.grid({extents}):
        with T.block("Y"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            with T.init():
                {cell} = {zero}
            {cell} = {cell} + {value}
"""


def nest(parameters, extents, kinds, cell, value, zero="T.float32(0)"):
    """A program of one reduction; iterators are ``v0, v1, ...``."""
    names = [f"i{k}" for k in range(len(extents))]
    shapes = ", ".join([f'{n}: T.Buffer({s}, "{d}")' for n, (s, d) in parameters.items()])
    axes = ", ".join([f"v{k}" for k in range(len(extents))])
    return parse(HEAD.format(parameters=shapes, loops=", ".join(names), extents=", ".join(map(str, extents)), axes=axes,
                             kinds=kinds, cell=cell, value=value, zero=zero))  # fmt: skip


F = "float32"
PROGRAMS = {
    "product": (
        nest({"A": ((19, 5), F), "B": ((5, 21), F), "Y": ((19, 21), F)}, (19, 21, 5), "SSR", "Y[v0, v1]", "A[v0, v2] * B[v2, v1]"),
        set(),
    ),
    "long product of a constant": (
        nest({"A": ((3, 260), F), "B": ((9, 260), F), "Y": ((3, 9), F)}, (3, 9, 260), "SSR", "Y[v0, v1]", "A[v0, v2] * B[v1, v2]"),
        {1},
    ),
    "product of a transposed input": (
        nest({"A": ((19, 13), F), "B": ((21, 13), F), "Y": ((19, 21), F)}, (19, 21, 13), "SSR", "Y[v0, v1]", "A[v0, v2] * B[v1, v2]"),
        set(),
    ),
    "convolution, channels last": (
        nest({"X": ((7, 8, 3), F), "W": ((3, 3, 3, 10), F), "Y": ((5, 6, 10), F)}, (5, 6, 10, 3, 3, 3), "SSSRRR", "Y[v0, v1, v2]",
             "X[v0 + v3, v1 + v4, v5] * W[v3, v4, v5, v2]"), {1},
    ),
    "long convolution of a constant": (
        nest({"X": ((3, 4, 65), F), "W": ((2, 2, 65, 17), F), "Y": ((2, 3, 17), F)}, (2, 3, 17, 2, 2, 65), "SSSRRR",
             "Y[v0, v1, v2]", "X[v0 + v3, v1 + v4, v5] * W[v3, v4, v5, v2]"), {1},
    ),
    "dilated convolution, channels first": (
        nest({"X": ((3, 9, 17), F), "W": ((6, 3, 3, 3), F), "Y": ((6, 5, 13), F)}, (6, 5, 13, 3, 3, 3), "SSSRRR", "Y[v0, v1, v2]",
             "X[v3, v1 + v4 * 2, v2 + v5 * 2] * W[v0, v3, v4, v5]"), set(),
    ),
    "window": (
        nest({"X": ((6, 9, 16), F), "W": ((3, 3, 16), F), "Y": ((4, 7, 16), F)}, (4, 7, 16, 3, 3), "SSSRR", "Y[v0, v1, v2]",
             "X[v0 + v3, v1 + v4, v2] * W[v3, v4, v2]"), set(),
    ),
    "windowed sum": (nest({"X": ((9, 23), F), "Y": ((7, 19), F)}, (7, 19, 3, 5), "SSRR", "Y[v0, v1]", "X[v0 + v2, v1 + v3]"), set()),
    "gathered sum": (
        nest({"X": ((11, 13), F), "I": ((5, 6), "int32"), "Y": ((5, 13), F)}, (5, 13, 6), "SSR", "Y[v0, v1]", "X[I[v0, v2], v1]"),
        set(),
    ),
    "cells": (
        parse("""
@T.prim_func
def main(A: T.Buffer((3, 5), "float32"), B: T.Buffer((2, 21), "float32"), Y: T.Buffer((3, 2, 5, 21), "float32")):
    for i, j, k, l in T.grid(3, 2, 5, 21):
        with T.block("Y"):
            v0, v1, v2, v3 = T.axis.remap("SSSS", [i, j, k, l])
            Y[v0, v1, v2, v3] = A[v0, v2] * B[v1, v3]
"""), set(),
    ),
    "border, groups, and their join": (
        parse("""
@T.prim_func
def main(X: T.Buffer((4, 19), "float32"), W: T.Buffer((4, 3, 3), "float32"), Z: T.Buffer((12, 19), "float32")):
    P = T.alloc_buffer((4, 21), "float32")
    Y = T.alloc_buffer((4, 3, 19), "float32")
    for i, j in T.grid(4, 21):
        with T.block("P"):
            v0, v1 = T.axis.remap("SS", [i, j])
            P[v0, v1] = T.if_then_else(1 <= v1 and v1 < 20, X[v0, v1 - 1], T.float32(0))
    for i, j, k, l in T.grid(4, 3, 19, 3):
        with T.block("Y"):
            v0, v1, v2, v3 = T.axis.remap("SSSR", [i, j, k, l])
            with T.init():
                Y[v0, v1, v2] = T.float32(0)
            Y[v0, v1, v2] = Y[v0, v1, v2] + P[v0, v2 + v3] * W[v0, v1, v3]
    for i, j in T.grid(12, 19):
        with T.block("Z"):
            v0, v1 = T.axis.remap("SS", [i, j])
            Z[v0, v1] = Y[v0 // 3, v0 % 3, v1]
"""), set(),
    ),
    "batched": (
        nest({"A": ((2, 17, 4), F), "B": ((2, 4, 12), F), "Y": ((2, 17, 12), F)}, (2, 17, 12, 4), "SSSR", "Y[v0, v1, v2]",
             "A[v0, v1, v3] * B[v0, v3, v2]"), set(),
    ),
}  # fmt: skip


def decided(fn, decisions):
    """The program with decisions ``{(block, name): number}``."""
    sch = Schedule(IRModule({"main": fn}, {}, {}), error_render_level="none")
    for block in {block for block, _ in decisions}:
        sch.annotate(sch.get_block(block), SCHEDULE, {name: n for (b, name), n in decisions.items() if b == block})
    return sch.mod["main"]


def built(fn, constants, target):
    """What the rules make of a program, and the layouts of its parameters."""
    found = schedule_function("main", fn, constants, CPU.machine(target), CPU.rules)
    return (found.func, found.packed) if found is not None else (fn, {})


def lowered(fn, target):
    """The program with flat loops, for a target."""
    with target:
        return LOOPS(IRModule({"main": fn}, {}, {}))["main"]


def explored(fn, constants, target):
    """The choices of rules and passes about the blocks of a program."""
    with choices_of() as seen:
        lowered(built(fn, constants, target)[0], target)
    own = {block.name for block in collect(fn.body, Block)}
    return {(choice.block, choice.name): choice for choice in seen if choice.block in own}


def arrays(fn, rng):
    made = []
    for param in fn.params:
        buffer = fn.buffer_map[param]
        shape = [n.value for n in buffer.shape]
        data = rng.integers(0, 5, shape) if buffer.dtype == "int32" else rng.standard_normal(shape)
        made.append(data.astype(buffer.dtype.name))
    return made


def result(fn, packed, given):
    module = IRModule({"main": fn}, {}, {})
    verify(module)
    own = [packed[k].pack(a) if k in packed else a for k, a in enumerate(given)]
    own[-1] = np.zeros_like(own[-1])
    run(module, "main", *own)
    return own[-1]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("is_bordered", [False, True])
def test_what_is_written_out_is_bounded(stride, is_bordered):
    inside = f"v2 * {stride} + v5 >= 3 and v2 * {stride} + v5 < 64"
    read = f"X[v3, v1 * {stride} + v4, v2 * {stride} + v5]"
    value = f"T.if_then_else({inside}, {read}, T.float32(0))" if is_bordered else read
    extents = (19, 60 // stride, 60 // stride, 3, 7, 7)
    fn = nest({"X": ((3, 67, 67), F), "W": ((19, 3, 7, 7), F), "Y": (extents[:3], F)}, extents, "SSSRRR", "Y[v0, v1, v2]",
              f"{value} * W[v0, v3, v4, v5]")  # fmt: skip
    asked = {"row_axis": 0, "rows": 10, "vectors": 2, "written": 3, "unrolled": 8, "transpose": 0, "dots": 0}
    one = decided(fn, {("Y", name): number for name, number in asked.items()})
    statements = statement_count(lowered(built(one, set(), LEVELS["v4"])[0], LEVELS["v4"]).body)
    assert 100 < statements < (1000 if is_bordered and stride > 1 else 6000)  # without bounds 15,000 and more


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_own_decisions_give_the_same_program(name, level):
    (fn, constants), target = PROGRAMS[name], LEVELS[level]
    seen = explored(fn, constants, target)
    assert seen
    own = decided(fn, {key: choice.candidates[0] for key, choice in seen.items()})
    (one, packed), (other, layouts) = [built(program, constants, target) for program in (fn, own)]
    assert packed == layouts
    texts = [lowered(program, target).script() for program in (one, other)]
    assert texts[0] == texts[1]
    if one is not fn:
        plain = without_decisions(other)
        assert IRModule({"main": one}, {}, {}).script() == IRModule({"main": plain}, {}, {}).script()


def test_tensor_instructions_are_a_decision():
    parameters = {"A": ((48, 64), "bfloat16"), "B": ((64, 32), "bfloat16"), "Y": ((48, 32), F)}
    fn = nest(
        parameters, (48, 32, 64), "SSR", "Y[v0, v1]", 'T.Cast("float32", A[v0, v2]) * T.Cast("float32", B[v2, v1])'
    )
    with choices_of() as seen:
        schedule_function("main", fn, {1}, TILES, CPU.rules)
    assert {choice.name: choice.candidates for choice in seen}["instruction"] == (0, 1, 2)
    said = [
        schedule_function("main", decided(fn, {("Y", "instruction"): k}), {1}, TILES, CPU.rules).reason
        for k in range(3)
    ]
    assert "amx" in said[0] and "dot_16x2" in said[1] and said[2].endswith("packed at build")


@pytest.mark.parametrize(
    "name, lanes", [("product", (16, 8, 4)), ("long product of a constant", (16, 8, 4)), ("cells", (8, 0, 16))]
)
def test_lines_that_are_not_filled_have_shorter_vectors(name, lanes):
    fn, constants = PROGRAMS[name]
    assert explored(fn, constants, LEVELS["v4"])["Y", "lanes"].candidates == lanes
    for number in lanes:
        check(fn, constants, {("Y", "lanes"): number}, LEVELS["v4"])


@pytest.mark.parametrize("columns, steps, dtypes", [
    (45, 29, [F]), (48, 32, [F, "float64", "int32"]), (33, 17, [F, "float64", "int32"]), (95, 30, [F]), (33, 5, [F]),
])  # fmt: skip
@pytest.mark.parametrize("level", LEVELS)
def test_an_operand_contiguous_along_the_steps_is_copied_into_panels_through_registers(level, columns, steps, dtypes):
    for dtype in dtypes:
        check_panels(level, dtype, columns, steps)


def check_panels(level, dtype, columns, steps):
    """Panels of an operand that is contiguous along the steps are turned in registers where a vector of steps is there."""
    parameters = {"A": ((2, 19, steps), dtype), "B": ((2, columns, steps), dtype), "Y": ((2, 19, columns), dtype)}
    loops, value = (2, 19, columns, steps), "A[v0, v1, v3] * B[v0, v2, v3]"
    fn, target = nest(parameters, loops, "SSSR", "Y[v0, v1, v2]", value, f"T.{dtype}(0)"), LEVELS[level]
    program = built(fn, set(), target)[0]
    side = CPU.machine(target).vector_bytes // DataType(dtype).itemsize
    assert bool(collect(program.body, Shuffle)) == (steps >= side)
    check(fn, set(), {}, target, lambda a, b, _: a @ b.swapaxes(1, 2))


def check(fn, constants, decisions, target, expected=None):
    """Compare a program under decisions with ``expected`` of its arguments, or with itself as it was written."""
    given = arrays(fn, np.random.default_rng(1))
    program, packed = built(decided(fn, decisions), constants, target)
    wanted = expected(*given) if expected is not None else result(fn, {}, given)
    np.testing.assert_allclose(result(lowered(program, target), packed, given), wanted, rtol=1e-4, atol=1e-4)


def test_blocks_before_and_behind_a_sum_are_in_its_tiles_where_that_is_decided():
    fn, constants = PROGRAMS["border, groups, and their join"]
    target = LEVELS["v3"]
    seen = explored(fn, constants, target)
    assert seen["P", "inline"].candidates == (0, 1) and seen["Y", "follow"].candidates == (1, 0)
    for inline, follow in ((0, 1), (1, 1), (0, 0)):
        decisions = {("P", "inline"): inline, ("Y", "follow"): follow}
        text = lowered(built(decided(fn, decisions), constants, target)[0], target).script()
        assert ("P = T.alloc" in text) == (not inline) and ("Y = T.alloc" in text) == (not follow)
        check(fn, constants, decisions, target)


@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_of_a_long_sum_go_outside_of_the_tiles_where_that_is_decided(rows):
    fn, constants = PROGRAMS["long convolution of a constant"]
    decisions = {("Y", "chunks_outside"): 1, ("Y", "vectors"): 1, ("Y", "rows"): rows}
    text = built(decided(fn, decisions), constants, LEVELS["v4"])[0].script()
    assert "software_prefetch_once" in text
    check(fn, constants, decisions, LEVELS["v4"])


@pytest.mark.parametrize("height, width", [(6, 7), (1, 20), (5, 3)])
def test_panels_beyond_the_second_cache_are_read_once_for_a_group_of_tiles(height, width, monkeypatch):
    monkeypatch.setattr(contraction_nest, "TOTALS", 1 << 12)
    fn = nest({"X": ((height + 1, width + 1, 65), F), "W": ((2, 2, 65, 17), F), "Y": ((height, width, 17), F)},
              (height, width, 17, 2, 2, 65), "SSSRRR", "Y[v0, v1, v2]",
              "X[v0 + v3, v1 + v4, v5] * W[v3, v4, v5, v2]")  # fmt: skip
    given = arrays(fn, np.random.default_rng(1))
    images, weights, _ = given
    windows = np.lib.stride_tricks.sliding_window_view(images, (2, 2), (0, 1))
    target, wanted = LEVELS["v4"], np.einsum("hwcij,ijcn->hwn", windows, weights)
    for size in (1 << 12, 1 << 20):
        machine = replace(CPU.machine(target), second_level=size, streams=True)
        found = schedule_function("main", fn, {1}, machine, CPU.rules)
        fetches = "prefetch" in lowered(found.func, target).script()
        assert fetches == (size == 1 << 12)
        got = result(lowered(found.func, target), found.packed, given)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


OWN = {
    "rows of a window in three dimensions go along the innermost of its axes": (
        nest({"X": ((12, 40, 70), F), "W": ((3, 3, 3), F), "Y": ((10, 38, 68), F)}, (10, 38, 68, 3, 3, 3), "SSSRRR",
             "Y[v0, v1, v2]", "X[v0 + v3, v1 + v4, v2 + v5] * W[v3, v4, v5]"),
        {"v3": {"row_axis": 1, "written": 2}, "v4": {"row_axis": 1, "written": 2, "rows": 4, "vectors": 2}},
    ),
    "a window of 7 x 7 is written out": (
        nest({"X": ((40, 70), F), "W": ((7, 7), F), "Y": ((34, 64), F)}, (34, 64, 7, 7), "SSRR", "Y[v0, v1]",
             "X[v0 + v2, v1 + v3] * W[v2, v3]"),
        {"v3": {"written": 2}, "v4": {"written": 2}},
    ),
    "one of 9 x 9 is not": (
        nest({"X": ((40, 70), F), "W": ((9, 9), F), "Y": ((32, 62), F)}, (32, 62, 9, 9), "SSRR", "Y[v0, v1]",
             "X[v0 + v2, v1 + v3] * W[v2, v3]"),
        {"v3": {"written": 0}, "v4": {"written": 0}},
    ),
    "short sums of lines that share nothing": (
        nest({"X": ((11, 95), F), "I": ((5, 13), "int32"), "Y": ((5, 95), F)}, (5, 95, 13), "SSR", "Y[v0, v1]", "X[I[v0, v2], v1]"),
        {"v3": {"written": 0}, "v4": {"written": 1}},
    ),
    "long ones": (
        nest({"X": ((11, 95), F), "I": ((5, 33), "int32"), "Y": ((5, 95), F)}, (5, 95, 33), "SSR", "Y[v0, v1]", "X[I[v0, v2], v1]"),
        {"v3": {"written": 0}, "v4": {"written": 0}},
    ),
    "few steps of two loops are vectors": (
        nest({"X": ((9, 6, 8, 7), F), "Y": ((9, 8), F)}, (9, 8, 6, 7), "SSRR", "Y[v0, v1]", "X[v0, v2, v1, v3]"),
        {"v3": {"lanes": 8, "along": 1}, "v4": {"lanes": 8, "along": 1}},
    ),
    "few steps of one loop are not": (
        nest({"X": ((90, 5), F), "Y": ((90,), F)}, (90, 5), "SR", "Y[v0]", "X[v0, v1] * X[v0, v1]"),
        {"v3": {"along": 0}, "v4": {"along": 0}},
    ),
    "eight steps of one loop": (
        nest({"X": ((90, 8), F), "Y": ((90,), F)}, (90, 8), "SR", "Y[v0]", "X[v0, v1]"),
        {"v3": {"along": 1}, "v4": {"along": 0}},
    ),
    "few steps of two operands": (
        nest({"X": ((90, 5), F), "Z": ((90, 5), F), "Y": ((90,), F)}, (90, 5), "SR", "Y[v0]", "X[v0, v1] * Z[v0, v1]"),
        {"v3": {"along": 1}, "v4": {"along": 1}},
    ),
    "rows of lines whose elements are picked": (
        nest({"X": ((9, 99), F), "Y": ((9, 23), F)}, (9, 23, 9), "SSR", "Y[v0, v1]", "X[v0, v1 * 4 + v2]"),
        {"v3": {"row_axis": -1}, "v4": {"row_axis": 0, "rows": 3}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("level", ["v3", "v4"])
@pytest.mark.parametrize("name", OWN)
def test_own_choices_of_windows_and_short_sums(name, level):
    fn, wanted = OWN[name]
    seen = explored(fn, set(), LEVELS[level])
    assert {name: seen["Y", name].taken for name in wanted[level]} == wanted[level]


@pytest.mark.parametrize("rows, columns, level, tile", [(9, 10, "v4", {5}), (13, 29, "v4", {5})])
def test_tiles_of_dot_products_count_the_last_as_large_as_it_is(rows, columns, level, tile):
    parameters = {"A": ((rows, 600), F), "B": ((columns, 600), F), "Y": ((rows, columns), F)}
    fn = nest(parameters, (rows, columns, 600), "SSR", "Y[v0, v1]", "A[v0, v2] * B[v1, v2]")
    seen = explored(fn, set(), LEVELS[level])
    assert {seen["Y", f"outputs_{k}"].candidates[0] for k in range(2)} == tile
    check(fn, set(), {}, LEVELS[level], lambda a, b, _: a @ b.T)


def test_threads_share_as_many_loops_as_is_decided():
    image = {"X": ((9, 70, 70), F), "W": ((40, 9, 3, 3), F), "Y": ((40, 68, 68), F)}
    read, loops = "X[v3, v1 + v4, v2 + v5] * W[v0, v3, v4, v5]", (40, 68, 68, 9, 3, 3)
    fn, target = nest(image, loops, "SSSRRR", "Y[v0, v1, v2]", read), LEVELS["v3"]
    assert explored(fn, set(), target)["Y", "parallel"].candidates == (1, 0, 2, 3)
    shared = []
    for count in range(4):
        with target:
            made = CPU.nests(IRModule({"main": decided(fn, {("Y", "parallel"): count})}, {}, {}))["main"]
        names = [loop.loop_var.name for loop in collect(made.body, For) if loop.kind == "parallel"]
        shared.append(len(dict.fromkeys(names)))
    assert shared == [0, 1, 2, 3]


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_decisions_keep_the_result(name):
    fn, constants = PROGRAMS[name]
    rng, wanted = random.Random(name), result(fn, {}, arrays(fn, np.random.default_rng(1)))
    for target in list(LEVELS.values()) * TIMES:
        seen = explored(fn, constants, target)
        decisions = {key: rng.choice(choice.candidates) for key, choice in seen.items()}
        check(fn, constants, decisions, target, lambda *given: wanted)


@pytest.mark.parametrize("steps, loops", [(20, 0), (150, 1)])
def test_steps_are_written_out_where_their_code_is_small(steps, loops):
    product = nest(
        {"A": ((19, steps), F), "B": ((steps, 21), F), "Y": ((19, 21), F)},
        (19, 21, steps), "SSR", "Y[v0, v1]", "A[v0, v2] * B[v2, v1]",
    )  # fmt: skip
    fn = decided(product, {("Y", "pack"): 0, ("Y", "written"): 1, ("Y", "unrolled"): 1})
    made = lowered(built(fn, set(), LEVELS["v4"])[0], LEVELS["v4"])
    assert len({loop.extent.value for loop in collect(made.body, For) if loop.extent.value >= 20}) == loops


LINES = """
@T.prim_func
def main(X: T.Buffer(({rows}, {line}), "float32"), B: T.Buffer(({rows},), "float32"), Y: T.Buffer(({rows}, {line}), "float32")):
    for i, j in T.grid({rows}, {line}):
        with T.block("Y"):
            v0, v1 = T.axis.remap("SS", [i, j])
            Y[v0, v1] = {value}
"""


@pytest.mark.parametrize("rows, line, value, lanes", [
    (20, 13, "X[v0, v1] - B[v0]", 8), (20, 61, "X[v0, v1] * B[v0]", 8), (20, 7, "X[v0, v1] - B[v0]", 0),
    (20, 100, "X[v0, v1] - B[v0]", 0), (20, 13, "X[v0, v1] * T.float32(2)", 0), (20, 100, "T.exp(X[v0, v1] - B[v0])", 16),
    (20, 600, "T.exp(X[v0, v1] - B[v0])", 0), (20, 13, "T.exp(X[v0, v1] - B[v0])", 0), (20, 100, "T.exp(X[v0, v1])", 0),
    (200, 255, "T.exp(X[v0, v1])", 16),
])  # fmt: skip
def test_lanes_of_lines(rows, line, value, lanes):
    fn = parse(LINES.format(rows=rows, line=line, value=value))
    assert explored(fn, set(), LEVELS["v4"])["Y", "lanes"].candidates[0] == lanes
    check(fn, set(), {("Y", "lanes"): lanes}, LEVELS["v4"])
