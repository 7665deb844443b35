"""Traces: text, JSON, replay, decisions, simplification; what is damaged or no longer applies is said."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from schedule_programs import ELEMENTWISE, MM_RELU, assert_same, module

from unity.support.errors import ScheduleError, UnityError
from unity.transform.schedule import ROWS, Schedule, Trace


def scheduled(seed: int = 0) -> Schedule:
    """A schedule with queries, samples, arithmetic on samples, steps and annotations."""
    sch = Schedule(module(MM_RELU), seed=seed)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    tiles = sch.sample_perfect_tile(i, 2)
    i0, i1 = sch.split(i, tiles)
    factor = sch.sample_categorical([1, 2], [0.5, 0.5])
    j0, j1 = sch.split(j, [None, factor * 2 + 1])
    sch.get_consumers(block)
    sch.sample_categorical([3, 4], [0.5, 0.5])
    sch.reorder(i0, j0, k, i1, j1)
    sch.annotate(block, "meta", {"a": [1, 2.5, True], "b": 'x"y\n'})
    sch.vectorize(j1)
    sch.enter_postproc()
    sch.parallel(i0)
    return sch


def replay(trace: Trace, mod: Any = None, debug_mask: str = "none", **options: Any) -> Schedule:
    sch = Schedule(module(MM_RELU) if mod is None else mod, debug_mask=debug_mask)
    trace.apply_to_schedule(sch, **options)
    return sch


@pytest.mark.parametrize("seed", range(4))
def test_json_and_python_replay(seed: int) -> None:
    sch = scheduled(seed)
    text = json.dumps(sch.trace.as_json())
    again = replay(Trace.from_json(text))
    assert again.mod.script() == sch.mod.script()
    assert again.trace.script() == sch.trace.script()
    names: dict[str, Any] = {}
    exec(sch.trace.script(), names)  # it needs nothing but itself
    by_hand = Schedule(module(MM_RELU))
    names["apply_trace"](by_hand)
    assert by_hand.mod.script() == sch.mod.script()


def test_same_seed_same_schedule() -> None:
    assert scheduled(3).trace.script() == scheduled(3).trace.script()
    first, second = Schedule(module(MM_RELU), seed=1), Schedule(module(MM_RELU), seed=1)
    assert first.fork_seed() == second.fork_seed()
    assert len({tuple(scheduled(s).trace.lines()) for s in range(8)}) > 1


def test_decisions() -> None:
    sch = scheduled()
    sampling = [inst for inst in sch.trace.insts if inst.kind == "sample_perfect_tile"]
    assert set(sampling) <= set(sch.trace.decisions)
    other = sch.trace.with_decision(sampling[0], [3, 2], remove_postproc=True)
    made = replay(other)
    assert "parallel" not in made.trace.script() and "decision=[3, 2]" in made.trace.script()
    asked: list[str] = []

    def provide(inst: Any, args: dict[str, Any], decision: Any) -> Any:
        asked.append(inst.kind)
        return [2, 3] if inst.kind == "sample_perfect_tile" else None

    assert "decision=[2, 3]" in replay(sch.trace, decision_provider=provide).trace.script()
    assert asked == ["sample_perfect_tile", "sample_categorical", "sample_categorical"]
    with pytest.raises(ScheduleError, match="E406"):
        sch.trace.with_decision(sch.trace.insts[0], 1)


def test_simplified() -> None:
    trace = scheduled().trace
    kinds = [inst.kind for inst in trace.simplified().insts]
    assert "get_consumers" not in kinds and kinds.count("sample_categorical") == 1 and kinds[-1] == "parallel"
    assert [inst.kind for inst in trace.simplified(remove_postproc=True).insts][-1] == "vectorize"
    assert replay(trace.simplified()).mod.script() == scheduled().mod.script()


def test_a_step_that_no_longer_applies_is_named() -> None:
    trace = scheduled().trace
    with pytest.raises(ScheduleError) as caught:
        replay(trace, module(ELEMENTWISE))
    assert caught.value.code == "E406" and "step 1 of the trace, get_block" in caught.value.message
    wider = module(MM_RELU.replace("A[vi, vk]", "A[vi, vk]").replace("6,", "7,").replace("grid(6", "grid(7"))
    with pytest.raises(ScheduleError, match=r"step 3 of the trace, sample_perfect_tile") as caught:
        replay(trace.with_decision(trace.insts[2], [3, 2]), wider)
    assert "sch.sample_perfect_tile(loop=l1, n=2, decision=[3, 2])" in str(caught.value)


def test_results_that_differ_in_number() -> None:
    sch = Schedule(module(MM_RELU))
    sch.get_loops(sch.get_block("C"))
    deeper = module(ELEMENTWISE.replace('"D"', '"C"').replace("D[", "D["))
    with pytest.raises(ScheduleError, match="2 results, 3 when recorded"):
        replay(sch.trace, deeper)


def test_unknown_primitive_and_argument() -> None:
    data = scheduled().trace.as_json()
    data["insts"][3]["kind"] = "divide"
    with pytest.raises(ScheduleError, match="step 4 of the trace, 'divide', is a primitive this version does not have"):
        Trace.from_json(data)
    data = scheduled().trace.as_json()
    data["insts"][3]["args"]["colour"] = 1
    with pytest.raises(ScheduleError, match="split has no argument 'colour'"):
        Trace.from_json(data)
    data = scheduled().trace.as_json()
    data["version"] = 99
    with pytest.raises(ScheduleError, match="version 99"):
        Trace.from_json(data)


def test_damaged_json_is_an_error_never_a_crash() -> None:
    data = scheduled().trace.as_json()
    rng = random.Random(0)
    junk = [
        None,
        1,
        "x",
        [],
        {},
        {"rv": "b99"},
        {"rv": 3},
        {"rv": "__import__('os')"},
        {"dict": 3},
        {"index_map": {}},
        [[]],
        -5,
        1e300,
    ]

    def damage(node: Any) -> None:
        at = node
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                return
            key = rng.choice(keys)
            if isinstance(at[key], (dict, list)) and rng.random() < 0.8:
                at = at[key]
                continue
            at[key] = rng.choice(junk)
            return

    for _ in range(150):
        broken = copy.deepcopy(data)
        damage(broken)
        with contextlib.suppress(UnityError):
            replay(Trace.from_json(json.dumps(broken)))
    for text in ("", "{", "[]", "null", "[" * 5000):
        with pytest.raises(ScheduleError, match="E405"):
            Trace.from_json(text)


def test_every_row_says_what_it_does() -> None:
    for row in ROWS.values():
        assert row.doc and row.signature is not None
        assert getattr(Schedule, row.name).__doc__ == row.doc


def test_anchor_trace_applies_where_it_can() -> None:
    trace = Schedule(module(MM_RELU))
    block = trace.get_block("C")
    i, j, k = trace.get_loops(block)
    trace.reorder(k, i, j)
    other = trace.get_block("D")
    x, _ = trace.get_loops(other)
    trace.parallel(x)
    trace.vectorize(j)
    renamed = Schedule(module(MM_RELU.replace('"D"', '"E"')))
    left_out = trace.trace.apply_where_possible(renamed)
    assert [inst.kind for inst, _ in left_out] == ["get_block", "get_loops", "parallel"]
    assert "has no block 'D'" in left_out[0][1] and "comes from no earlier step" in left_out[1][1]
    assert [inst.kind for inst in renamed.trace.insts] == ["get_block", "get_loops", "reorder", "vectorize"]


def test_a_trace_keeps_its_own_copy_of_lists() -> None:
    sch = Schedule(module(MM_RELU))
    factors: list[Any] = [None, 2]
    sch.split(sch.get_loops(sch.get_block("C"))[0], factors)
    factors[1] = 3
    assert "factors=[None, 2]" in sch.trace.lines()[-1]


def test_a_trace_saved_by_version_1_replays() -> None:
    """The file was written by the first version of the format: it must go on replaying, or say which step does not."""
    saved = (Path(__file__).parent / "trace_v1.json").read_text()
    sch = replay(Trace.from_json(saved), debug_mask="all")
    assert len(sch.trace.insts) == 16
    assert_same(module(MM_RELU), sch.mod)
    assert json.loads(saved)["version"] == 1
    assert "T.parallel(6)" in sch.mod.script() and "B_global = T.alloc_buffer((2, 8, 5)" in sch.mod.script()
