"""What a refusal says: the nearest legal step for each, the loops and blocks at fault, examples; steps once accepted and wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from schedule_hostile import HOSTILE
from schedule_programs import ELEMENTWISE, MM_RELU, module
from schedule_text import alloc, buffers, nest, program

import unity.transform.schedule
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule

SOURCES = [
    path
    for path in sorted(Path(unity.transform.schedule.__file__).parent.rglob("*.py"))
    if " refuse(" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_refusal_names_the_nearest_step(source: Path) -> None:
    for call in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "refuse":
            named = "nearest" in [keyword.arg for keyword in call.keywords]
            assert named or len(call.args) > 4, f"{source.name}:{call.lineno}"


def test_refusals_are_looked_at() -> None:
    assert len(SOURCES) > 20


Step = Callable[[Schedule], Any]


def loops(name: str, *places: int) -> Callable[[Schedule], list[Any]]:
    return lambda s: [s.get_loops(name)[place] for place in places]


CASES: dict[str, tuple[str, Step, str, str]] = {
    "inner before outer": (MM_RELU, lambda s: s.fuse(*loops("C", 1, 0)(s)), "loop j stands inside loop i", "sch.fuse(i, j)"),
    "two nests": (MM_RELU, lambda s: s.fuse(s.get_loops("C")[0], s.get_loops("D")[1]), "in another nest", "compute_at"),
    "one axis twice": (
        MM_RELU,
        lambda s: [s.bind(loop, "threadIdx.x") for loop in s.get_loops("C")[:2]],
        "would be the same threadIdx.x",
        "fuse the two loops",
    ),
    "one axis twice, inner first": (
        MM_RELU,
        lambda s: [s.bind(s.get_loops("C")[place], "blockIdx.x") for place in (1, 0)],
        "would be the same blockIdx.x",
        "another axis",
    ),
    "a loop by its name": (MM_RELU, lambda s: s.parallel("i"), "loop must be a loop, got 'i'", "sch.get_loops(block)"),
    "nobody reads it": (MM_RELU, lambda s: s.cache_read("C", 0, "local", [s.get_block("D")]), "does not read A", "one of: C"),
    "an output": (ELEMENTWISE, lambda s: s.compute_inline("D"), "not a buffer of the program's own", "reverse_compute_inline"),
    "the root": (MM_RELU, lambda s: s.blockize(s.get_block("root")), "stays as it is", "inside of it"),
    "a foreign loop": (MM_RELU, lambda s: s.decompose_reduction("C", s.get_loops("D")[0]), "not around block C", "i, j, k"),
    "a late place": (
        ELEMENTWISE, lambda s: s.reverse_compute_at("D", s.get_loops("B")[0], index=0), "place 0 in loop i", "index=-1",
    ),
    "a recurrence": (HOSTILE["scan"], lambda s: s.transform_block_layout("s", lambda i: 8 - i), "other cells of B", "runs in order"),
    "a decision": (
        MM_RELU, lambda s: s.sample_perfect_tile(s.get_loops("C")[0], 2, decision=[4, 4]), "does not divide", "multiply",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_words(name: str) -> None:
    text, step, words, nearest = CASES[name]
    sch = Schedule(module(text))
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert words in str(found.value) and nearest in str(found.value.help)


def test_arguments_that_are_missing() -> None:
    sch = Schedule(module(MM_RELU))
    with pytest.raises(TypeError, match=r"split: missing a required argument: 'factors'"):
        sch.split(sch.get_loops("C")[0], factor=[2, 3])


def test_an_axis_for_blocks_that_use_one_of_its_loops() -> None:
    """Cooperative fetching: every thread of the outer loop takes part in the inner copy."""
    sch = Schedule(module(MM_RELU))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, _ = sch.split(k, [None, 4])
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read(block, "A", "shared")
    sch.compute_at(copy, outer)
    sch.bind(sch.get_loops(copy)[-1], "threadIdx.x")
    assert sch.mod.script().count("threadIdx.x") == 2


# ---- steps that were once accepted


def test_iterations_that_a_predicate_lets_through_are_counted() -> None:
    text = program(buffers(A="11", B="11"), nest("B", "i", "8", "S", "B[vi] = A[vi]", where="i < 3")).replace(
        "T.axis.spatial(8, i)", "T.axis.spatial(11, i * 4)"
    )
    sch = Schedule(module(text))
    with pytest.raises(ScheduleError, match="E440"):
        sch.blockize(sch.get_block("B"), preserve_unit_iters=False)


def test_inlining_stays_where_the_buffer_is_used() -> None:
    sch = Schedule(module(program(
        buffers(A="8", B="8"), alloc("C", "8"), nest("C", "i", "8", "S", "C[vi] = A[vi]"), nest("D", "i", "8", "S", "B[vi] = C[vi]")
    )))  # fmt: skip
    copy = sch.cache_write("C", 0, "local")
    sch.compute_at("C", sch.get_loops(copy)[0], preserve_unit_loops=True)
    sch.blockize([sch.get_block("C"), copy])
    with pytest.raises(ScheduleError, match="used outside of block C_o"):
        sch.compute_inline(copy)


def test_copies_inside_a_block_stay_in_what_it_declares() -> None:
    sch = Schedule(module(ELEMENTWISE))
    outer = sch.blockize(sch.get_loops("B")[1])
    sch.reindex_cache_read("B", 0, "local", lambda j: j)
    assert sch.get(outer).reads[0].buffer.name == "A"
    sch = Schedule(module(ELEMENTWISE))
    sch.blockize(sch.get_block("B"))
    inner = sch.get_child_blocks(sch.get_block("B_o"))[0]
    sch.cache_read(inner, 0, "local")
    with pytest.raises(ScheduleError, match="declares to read less"):
        sch.reindex_cache_read("A_local", 0, "local", lambda i, j: (j, i))


def test_order_of_scattered_stores_is_tested_with_numbers_that_repeat() -> None:
    sch = Schedule(module(HOSTILE["scatter"]))
    outer, inner = sch.split(sch.get_loops("B1")[0], [None, 2])
    with pytest.raises(ScheduleError, match="E404"):
        sch.reorder(inner, outer)


def test_a_region_that_a_block_changes_is_not_known_at_its_entry() -> None:
    text = program(
        buffers("int32", A="6", X="6", B="8"),
        alloc("Z", "6", "int32"),
        "for i in range(6):",
        *['    with T.block("Z"):', "        vi = T.axis.spatial(6, i)", "        Z[vi] = X[vi] % 8"],
        *['    with T.block("B"):', "        vj = T.axis.spatial(6, i)", "        B[Z[vj]] = A[vj]"],
    )
    sch = Schedule(module(text), debug_mask="all")
    outer = sch.blockize([sch.get_block("Z"), sch.get_block("B")])
    (region,) = [w for w in sch.get(outer).writes if w.buffer.name == "B"]
    assert region.region[0].extent.value == 8


def test_cells_that_nobody_wrote_are_not_copied() -> None:
    text = program(
        buffers(A="4", B="4", D="4"), alloc("C", "7"), nest("C", "i", "4", "S", "C[vi * 2] = A[vi]"),
        nest("B", "i", "4", "S", "B[vi] = C[vi * 2]"), nest("D", "i", "4", "S", "D[vi] = C[vi * 2] + A[vi]"),
    )  # fmt: skip
    sch = Schedule(module(text))
    sch.blockize([sch.get_block("B"), sch.get_block("D")])
    with pytest.raises(ScheduleError, match="E404"):
        sch.cache_read("B", "C", "local")
