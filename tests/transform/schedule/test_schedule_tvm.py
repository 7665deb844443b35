"""What users of TVM write: traces of its tuning records, names of its instructions, methods that are not here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from schedule_programs import ELEMENTWISE, MM_RELU, assert_same, module

from unity import te, tir
from unity.support.errors import ScheduleError
from unity.transform.schedule import ROWS, Schedule, Trace
from unity.transform.schedule.schedule import INSTEAD
from unity.transform.schedule.traces.tvm_trace import INPUTS, inputs_and_attributes, row_of, tvm_name

RECORD = json.loads((Path(__file__).parent / "trace_tvm.json").read_text(encoding="utf-8"))
"""A trace as TVM 0.27 writes it, of the product below."""


def product() -> Any:
    A, B = te.placeholder((128, 128), name="A"), te.placeholder((128, 128), name="B")
    k = te.reduce_axis((0, 128), "k")
    C = te.compute((128, 128), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="update")
    D = te.compute((128, 128), lambda i, j: C[i, j] + 1.0, name="D")
    return te.create_prim_func([A, B, D])


def test_a_tuning_record_replays() -> None:
    sch = tir.Schedule(product())
    tir.Trace.apply_json_to_schedule(RECORD, sch)
    assert [inst.kind.name for inst in sch.trace.insts] == [entry[0] for entry in RECORD[0]]
    text = sch.mod.script()
    for part in (
        'A_global = T.alloc_buffer((128, 128), "float32", scope="shared")',
        'T.block_attr({"buffer_dim_align": ((0, 0, 32, 8),)})',
        'T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})',
        'annotations={"pragma_auto_unroll_max_step": 0, "list": (1, 2)}',
        "for j_0, i_2, i_3, i_1, j_1 in T.grid(128, 16, 8, 1, 1):",
        "for k_0, k_1 in T.grid(16, 8):",
        "update_reindex[v_j_2, v_i_2] = update[v_i_2, v_j_2]",
    ):
        assert part in text
    again = tir.Schedule(product())
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == text


def test_every_kind_of_instruction_has_its_arguments() -> None:
    for name, inputs in INPUTS.items():
        assert {word.lstrip("*") for word in inputs.split()} <= set(ROWS[name].signature.parameters), name
    for row in ROWS.values():
        mapped = "index_map" in row.annotations
        assert row_of(tvm_name(row.name)) is (None if mapped else row)
        inputs, attributes = inputs_and_attributes(row)
        names = [name.lstrip("*") for name in (*inputs, *attributes)]
        assert sorted(names) == sorted(set(row.signature.parameters) - {"decision"})
    assert inputs_and_attributes(ROWS["compute_at"]) == (["block", "loop"], ["preserve_unit_loops", "index"])
    assert inputs_and_attributes(ROWS["fuse"]) == (["*loops"], ["preserve_unit_iters"])
    assert inputs_and_attributes(ROWS["annotate"]) == (["block_or_loop", "ann_val"], ["ann_key"])


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ([[["GetBlock", [], ["C", "main"], ["b0"]], ["RollingBuffer", ["b0"], [0], []]], []], "E406"),
        ([[["GetBlock", [], ["C", "main"]]], []], "E405"),
        ([[["GetBlock", [], ["C", "main", 1], ["b0"]]], []], "E405"),
        ([[["ComputeInline", ["b0"], [], []]], []], "E405"),
        ([[["GetBlock", [], ["C", "main"], ["b0"]]], [[0]]], "E405"),
        ([[["Split", ["l0", "v1 +"], [], []]], []], "E405"),
    ],
)
def test_damaged_records(record: Any, code: str) -> None:
    with pytest.raises(ScheduleError) as found:
        Trace.from_json(record).apply_to_schedule(Schedule(module(MM_RELU)))
    assert found.value.code == code


def test_instructions_by_tvms_names() -> None:
    sch = Schedule(module(MM_RELU), seed=1)
    block = sch.get_block("C")
    i, *_ = sch.get_loops(block)
    tiles = sch.sample_perfect_tile(i, 2)
    sch.split(i, tiles, preserve_unit_iters=True)
    query, _, sample, split = sch.trace.insts
    assert (query.kind.name, query.inputs, query.attrs) == ("GetBlock", [], ["C", "main"])
    assert (sample.kind.name, sample.inputs) == ("SamplePerfectTile", [i]) and sample.kind == "sample_perfect_tile"
    assert split.inputs == [i, *tiles] and split.attrs == [True, False]
    assert sch.trace.get_decision(sample) == sch.trace.decisions[sample] and sch.trace.get_decision(split) is None
    trace = sch.trace.copy()
    trace.pop()
    trace.pop()
    trace.append(sample, decision=[2, 3])
    trace.append(split)
    again = Schedule(module(MM_RELU))
    trace.apply_to_schedule(again)
    assert "T.grid(2, 3, 10, 8)" in again.mod.script()


@pytest.mark.parametrize("name", INSTEAD)
def test_methods_that_are_not_here(name: str) -> None:
    assert name not in ROWS
    with pytest.raises(AttributeError, match="instead: "):
        getattr(Schedule(module(ELEMENTWISE)), name)


def test_names_that_nobody_has() -> None:
    sch = Schedule(module(ELEMENTWISE))
    assert not hasattr(sch, "nothing_like_it")
    with pytest.raises(AttributeError, match="did you mean compute_inline"):
        sch.compute_inlin("C")


def test_what_stands_for_a_variable() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod)
    block = sch.get(sch.get_block("C"))
    assert block is sch.get(sch.get_block("C")) and block.name_hint == "C"
    assert [r.buffer.name for r in block.reads] == ["A", "B"] and block.writes[0].buffer.shape[1].value == 10
    assert sch.get_sref(sch.get_block("C")).stmt is not None and sch.state.mod is mod
    assert sch.get_sref(sch.get_loops("C")[0]).stmt is sch.get(sch.get_loops("C")[0])
    assert isinstance(sch.get_sblock("C"), tir.schedule.SBlockRV)
    sch.unsafe_set_dtype("C", "C", "float64")
    assert_same(mod, sch.mod)
