"""Random schedules on hostile programs, with every primitive: an accepted step keeps what the interpreter computes, also for
sizes of zero and one; a refused one leaves the module as it was; a sample runs as machine code."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from inputs import InputMaker
from schedule_hostile import HOSTILE
from schedule_programs import module
from test_schedule_property import PROGRAMS, TIMES, blocks_of, random_step

import unity
from unity.arith.evaluate import evaluate
from unity.arith.index_map import IndexMap
from unity.ir import IRModule
from unity.ir.buffer import Buffer
from unity.ir.expr import Var
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.structural import structural_equal
from unity.ir.types import Expr
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import ScheduleError, UnityError
from unity.transform.schedule import Schedule, Trace

ALL = {**PROGRAMS, **HOSTILE}
MODULES = {name: module(text) for name, text in ALL.items()}
SIZES = (0, 1, 4)
MAPS: dict[int, list[Any]] = {
    1: [lambda i: (i // 4, i % 4), lambda i: i, lambda i: (i % 2, i // 2), lambda i: i + 3, lambda i: 20 - i, lambda i: i * 2],
    2: [lambda i, j: (j, i), lambda i, j: (i // 2, j, i % 2), lambda i, j: i * 10 + j, lambda i, j: (i, j * 2), lambda i, j: (i,)],
    3: [lambda i, j, k: (k, i, j), lambda i, j, k: (i, j // 2, k, j % 2), lambda i, j, k: (i, j * 8 + k)],
    4: [lambda n, c, y, x: (n, y, x, c), lambda n, c, y, x: (n, c // 2, y, x, c % 2)],
}  # fmt: skip
KINDS = ("rfactor", "rfactor", "blockize", "blockize", "blocks", "layout", "layout", "iterations", "padding", "einsum", "align",
         "cached", "cached", "plain")  # fmt: skip


def hostile_step(sch: Schedule, rng: random.Random) -> None:
    """A random step, half of them of those that ``random_step`` has not; may be refused."""
    if rng.random() < 0.5:
        random_step(sch, rng)
        return
    blocks = blocks_of(sch)
    block = rng.choice(blocks)
    loops = sch.get_loops(block)
    loop = rng.choice(loops) if loops else block
    count = len(sch.get(block).iter_vars)
    kind = rng.choice(KINDS)
    if kind == "rfactor":
        sch.rfactor(loop, rng.choice([0, -1, 1]), rng.random() < 0.3)
    elif kind == "blockize":
        sch.blockize(rng.choice([block, loop, loop]), rng.random() < 0.6)
    elif kind == "blocks":
        sch.blockize(rng.sample(blocks, rng.randint(1, min(3, len(blocks)))), rng.random() < 0.6)
    elif kind == "layout":
        which = rng.choice(["read", "write"])
        regions = (sch.get(block).reads if which == "read" else sch.get(block).writes) or ()
        place = rng.randint(0, 1)
        ndim = regions[place].buffer.ndim if place < len(regions) else 2
        sch.transform_layout(
            block, (which, place), rng.choice(MAPS.get(ndim, [lambda *a: a])), rng.choice([None, None, 0, 7])
        )
    elif kind == "iterations":
        sch.transform_block_layout(block, rng.choice([*MAPS.get(count, []), lambda *a: a]))
    elif kind == "padding":
        sch.decompose_padding(block, loop)
    elif kind == "einsum":
        sch.pad_einsum(block, [rng.choice([1, 2, 4, 5]) for _ in range(count)])
    elif kind == "align":
        sch.storage_align(block, 0, rng.randint(0, 1), 4, 1)
    elif kind == "cached":
        layout = rng.choice([*MAPS.get(count, []), lambda *a: a[::-1]])
        rng.choice([sch.reindex_cache_read, sch.reindex_cache_write])(block, rng.randint(0, 1), "local", layout)
    else:
        sch.split(loop, rng.choice([[None, 2], [8, None], [3, 4]]), preserve_unit_iters=rng.random() < 0.5)


def arguments(mod: IRModule, size: int) -> list[Any]:
    """Random arguments, every symbol of a shape being ``size``."""
    maker = InputMaker(size)
    for buffer in mod["main"].buffer_map.values():  # type: ignore[union-attr]
        maker.symbols.update({dim: size for dim in buffer.shape if isinstance(dim, Var)})
    return maker.arguments(mod["main"])


def reference(name: str) -> list[tuple[list[Any], list[np.ndarray]]]:
    """Arguments that a program runs on, and what it leaves in them."""
    found = []
    symbolic = any([isinstance(d, Var) for b in MODULES[name]["main"].buffer_map.values() for d in b.shape])  # type: ignore[union-attr]
    for size in SIZES if symbolic else SIZES[-1:]:
        args = arguments(MODULES[name], size)
        try:
            found.append((args, after(MODULES[name], args)))
        except UnityError:
            continue  # it reads beyond a buffer of that size
    return found


@dataclass
class Move:
    """A parameter that comes in another layout: its place, how its cells are moved, its shape then; the buffers at the start."""

    before: list[Buffer]
    place: int
    index_map: IndexMap
    pad_value: float
    shape: tuple[Expr, ...]


def moves_of(sch: Schedule) -> list[Move]:
    """What the last step of a schedule did to parameters."""
    func: PrimFunc = sch.mod["main"]  # type: ignore[assignment]
    start: PrimFunc = sch.state.given["main"]  # type: ignore[assignment]
    before = [start.buffer_map[p] for p in start.params]
    return [
        Move(before, func.params.index(r.param), r.index_map, r.pad_value or 0, func.buffer_map[r.param].shape)
        for r in sch.state.relaid
    ]


def after(mod: IRModule, args: list[Any], moves: Sequence[Move] = ()) -> list[np.ndarray]:
    """What a program leaves in its arguments; those that it takes in another layout are moved there and back."""
    given = copy.deepcopy(args)
    sizes = {
        d: n
        for move in moves[:1]
        for b, a in zip(move.before, args)
        for d, n in zip(b.shape, a.shape)
        if isinstance(d, Var)
    }
    cells = [np.arange(a.size) for a in given]
    for move in moves:
        array = given[move.place]
        made = np.full([evaluate(n, sizes) for n in move.shape], move.pad_value, array.dtype)
        places = move.index_map.cell_positions(array.shape)
        made[places] = array.ravel()
        cells[move.place] = (
            np.ravel_multi_index(places, made.shape)[cells[move.place]] if array.size else cells[move.place]
        )
        given[move.place] = made
    run(mod, "main", *given)
    return [x.ravel()[c].reshape(a.shape) for x, c, a in zip(given, cells, args)]


def compare(wanted: list[np.ndarray], found: list[np.ndarray]) -> None:
    for x, y in zip(wanted, found, strict=True):
        np.testing.assert_allclose(x.astype("float64"), y.astype("float64"), rtol=1e-4, atol=1e-4)


def random_schedule(name: str, seed: int) -> tuple[Schedule, list[Move]]:
    """A schedule of random steps, and the parameters to which they gave another layout."""
    rng = random.Random(f"hostile {name} {seed}")
    sch = Schedule(MODULES[name], seed=seed, debug_mask=1, error_render_level="fast")
    moves: list[Move] = []
    for _ in range(rng.randint(2, 12)):
        before, steps = sch.mod, len(sch.trace.insts)
        try:
            hostile_step(sch, rng)
            moves += moves_of(sch)
        except ScheduleError:
            assert sch.mod is before or len(sch.trace.insts) > steps
    return sch, moves


@pytest.mark.parametrize("name", ALL)
def test_accepted_steps_keep_results(name: str) -> None:
    cases = reference(name)
    assert cases
    applied = 0
    for seed in range(4 * TIMES):
        sch, moves = random_schedule(name, seed)
        try:
            verify(sch.mod)
            assert structural_equal(parse(sch.mod.script()), sch.mod)
            for args, wanted in cases:
                compare(wanted, after(sch.mod, args, moves))
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{sch.trace.simplified().script()}\n{sch.mod.script()}") from error
        applied += len([i for i in sch.trace.insts if i.row.kind == "step"])
    again = Schedule(MODULES[name])
    Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()
    assert applied > 2


@pytest.mark.parametrize("name", [*ALL][::3])
def test_a_sample_as_machine_code(name: str) -> None:
    for seed in range(50, 60):
        sch, moves = random_schedule(name, seed)
        threads = any([i.row.name == "bind" for i in sch.trace.insts])
        if not threads and not moves and not any(["shared" in str(i.args.values()) for i in sch.trace.insts]):
            break
    args, wanted = reference(name)[-1]
    given = copy.deepcopy(args)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](*given)
    compare(wanted, [x for x in given if isinstance(x, np.ndarray)])


# ---- what was once accepted and wrong


def refused(name: str, step: Any) -> str:
    sch = Schedule(MODULES[name], error_render_level="fast")
    before = sch.mod
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert sch.mod is before
    return str(found.value)


def test_maps_that_leave_cells_out_have_no_inverse() -> None:
    text = refused("elementwise", lambda s: s.transform_block_layout("B", lambda i, j: (i, j * 2)))
    assert "goes in steps of" in text
    assert "begins at 3" in refused(
        "elementwise", lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (i + 3, j))
    )


def test_conditions_on_data_cover_nothing() -> None:
    assert "is bound as A says" in refused("datapred", lambda s: s.reindex("B", ("write", 0)))
    assert "E4" in refused("ifaround", lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]))


def test_recurrences_keep_their_order() -> None:
    assert "reads other cells of B" in refused("scan", lambda s: s.transform_block_layout("s", lambda i: 8 - i))


def test_a_value_loaded_outside_of_blocks_orders_them() -> None:
    assert "E4" in refused("letbind", lambda s: s.compute_at("B", s.get_loops("D")[0]))
    assert "E4" in refused("predread", lambda s: s.merge(*[s.get_loops(b)[0] for b in ("B", "C")]))


def test_a_condition_false_at_the_first_step_stays_at_the_initialisation() -> None:
    text = PROGRAMS["softmax"].replace(
        'vi, vj = T.axis.remap("SR", [i, j])\n                with T.init():\n                    M[vi]',
        'vi, vj = T.axis.remap("SR", [i, j])\n                T.where(j > 1)\n                with T.init():\n                    M[vi]',
    )
    text = text.replace("for i, j in T.grid(4, 6):", """for i in range(4):
            with T.block("M0"):
                vi = T.axis.spatial(4, i)
                M[vi] = T.float32(5)
        for i, j in T.grid(4, 6):""", 1)  # fmt: skip
    mod = module(text)
    sch = Schedule(mod)
    outer = sch.blockize(sch.get_loops("M")[1])
    args = arguments(mod, 4)
    compare(after(mod, args), after(sch.mod, args))
    assert sch.get(outer).init is not None
