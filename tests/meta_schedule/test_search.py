"""Spaces and strategies: the default build comes first, decisions are replayed, mutated and learnt from."""

import json
import math
import random
from dataclasses import dataclass

import numpy as np
import pytest
from programs_of_tests import product

import unity.meta_schedule as ms
from unity import te
from unity.ir.interpret import run
from unity.ir.scalar import BufferLoad, IterVar
from unity.ir.stmt import BufferStore
from unity.ir.structural import structural_hash
from unity.ir.walk import collect
from unity.meta_schedule.cost_model.features import NAMES, features_of
from unity.meta_schedule.cost_model.reuse import Accesses
from unity.meta_schedule.search.mutator import MutateCategorical, MutateTileSize
from unity.meta_schedule.search.replay import CandidateSampler
from unity.meta_schedule.space.paths import Paths, decided_by, decided_in, drawn as drawn_trace
from unity.meta_schedule.space.sketch import candidate_of, choices_in
from unity.meta_schedule.space.tensor_instructions import TensorInstructions
from unity.support.errors import ScheduleError
from unity.transform.default_schedule.common.choices import choices_of
from unity.transform.schedule import Schedule, Trace
from unity.transform.schedule.core.tensor_intrin import TensorIntrin

TARGET = "llvm -mcpu=x86-64-v3"


@dataclass
class Result:
    run_secs: list[float] | None
    error_msg: str | None = None


def context(strategy="evolutionary", generator=None, seed=3, **options):
    made = ms.TuneContext(
        product(), target=TARGET, space_generator=generator or ms.PostOrderApply(), search_strategy=ms.search_strategy.create(strategy),
        rand_state=seed, **options,
    )  # fmt: skip
    made.initialize()
    if hasattr(made.search_strategy, "population_size"):
        made.search_strategy.population_size = 6
    return made


def tuned(task, trials, per_round, seconds):
    """Rounds of a task whose candidates take ``seconds(candidate)``."""
    strategy = task.search_strategy
    strategy.pre_tuning(trials, per_round, task.generate_design_space())
    ran = []
    while (candidates := strategy.generate_measure_candidates()) is not None:
        strategy.notify_runner_results(candidates, [Result(seconds(one)) for one in candidates])
        ran += candidates
    strategy.post_tuning()
    return ran


def decisions(candidate):
    return [inst.decision for inst in candidate.sch.trace.insts if inst.decision is not None]


def rows_of(candidate):
    return [abs(8 - (decisions(candidate) or [0, 0, 4])[2]) + 1.0]


def test_the_first_sketch_is_the_default_build():
    task = context()
    sketch = task.generate_design_space()[0]
    default = ms.PostOrderApply  # the name leads to the room
    assert default is type(task.space_generator)
    text = sketch.trace.script()
    assert "sample_categorical" in text and '"rows"' in text
    texts = [candidate_of(task, sch).lowered.script() for sch in (sketch, Schedule(task.mod))]
    assert texts[0] == texts[1]
    again = Schedule(task.mod)
    Trace.from_json(sketch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sketch.mod.script()


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_candidates_differ_and_come_again_with_the_seed(strategy):
    first, second = [tuned(context(strategy), 5, 3, rows_of) for _ in range(2)]
    assert [decisions(one) for one in first] == [decisions(one) for one in second]
    assert len(first) == 5 and first[0].is_default and not any([one.is_default for one in first[1:]])
    texts = [one.lowered.script() for one in first]
    assert len(set(texts)) == len(texts)


def test_a_space_that_is_used_up_ends():
    def one_choice(sch):
        loops = sch.get_loops(sch.get_block("c"))
        sch.split(loops[0], sch.sample_perfect_tile(loops[0], 2, 3))

    for strategy in ("replay-func", "replay-trace", "evolutionary"):
        ran = tuned(context(strategy, ms.ScheduleFn(one_choice)), 10, 4, lambda one: [1.0])
        assert 2 <= len(ran) <= 4, strategy


def windows():
    """The greatest of 7 x 7 windows."""
    x = te.placeholder((6, 23, 37), "float32", "x")
    p, q = te.reduce_axis((0, 7), "p"), te.reduce_axis((0, 7), "q")
    return te.create_prim_func([x, te.compute((6, 17, 31), lambda c, i, j: te.max(x[c, i + p, j + q], [p, q]), "y")])


def long_sum():
    """A sum that is done in pieces."""
    x, k = te.placeholder((4001, 37), "float32", "x"), te.reduce_axis((0, 4001), "k")
    return te.create_prim_func([x, te.compute((37,), lambda j: te.sum(x[k, j], k), "y")])


@pytest.mark.parametrize(
    "program, parts", [(windows, {"v_p_rows", "rows"}), (long_sum, {"pieces_lanes", "joined_rows"})]
)
def test_what_a_rule_makes_of_a_block_has_decisions_of_its_own(program, parts):
    """Every draw is a path that leads to its program, and no two paths to one."""
    task = ms.TuneContext(program(), target=TARGET, space_generator=ms.PostOrderApply(), rand_state=3)
    task.initialize()
    (sketch,) = task.generate_design_space()
    assert parts <= set(sketch.trace.insts[-1].args["ann_val"])
    drawn, paths, programs = CandidateSampler(task), Paths(), []
    assert drawn.default().lowered.script() == candidate_of(task, sketch).lowered.script()
    for _ in range(8):
        sch = drawn.replay(sketch.trace, True)
        known = paths.leads_to_known(decided_in(sch.mod.prim_funcs()["main"]))
        with choices_of() as path:
            made = structural_hash(candidate_of(task, sch).lowered)
        assert not known or made in programs
        paths.add(path)
        assert paths.leads_to_known(decided_in(sch.mod.prim_funcs()["main"]))
        programs.append(made)
    assert len(set(programs)) > 4


def test_the_decisions_of_a_trace_are_those_of_its_program():
    """A draw is judged by its trace, before its program is made; a trace with steps of its own says no decisions alone."""
    task = ms.TuneContext(windows(), target=TARGET, space_generator=ms.PostOrderApply(), rand_state=3)
    task.initialize()
    (sketch,) = task.generate_design_space()
    rng, seen = random.Random(1), []
    for _ in range(4):
        trace = drawn_trace(sketch.trace, rng)
        seen.append(decided_by(trace))
        sch = CandidateSampler(task).replay(trace, False)
        assert {name: said for name, said in decided_in(sch.mod.prim_funcs()["main"]).items() if said} == seen[-1]
    assert any(one != seen[0] for one in seen)
    sch = Schedule(windows())
    sch.split(sch.get_loops(sch.get_block("y"))[1], [None, 2])
    assert decided_by(sch.trace) is None


def test_a_program_without_decisions_is_lowered_once(monkeypatch):
    """Draws that can be no other program cost nothing."""
    task = context("replay-trace", ms.ScheduleFn(lambda sch: None))
    count = []
    monkeypatch.setattr(
        "unity.meta_schedule.search.replay.candidate_of", lambda *a: count.append(a) or candidate_of(*a)
    )
    assert len(tuned(task, 10, 5, lambda one: [1.0])) == 1
    assert len(count) <= 1


def test_what_ran_well_is_mutated():
    ran = tuned(context(), 20, 4, rows_of)
    assert any([sum(a != b for a, b in zip(decisions(one), decisions(two))) == 1 for one in ran[1:] for two in ran[1:]])


def test_a_candidate_that_failed_counts_as_slow():
    task, model = context("replay-trace"), ms.cost_model.LinearModel()
    ran = tuned(task, 3, 3, rows_of)
    model.update(task, ran, [Result([1.0])] * 2 + [Result(None, "hung")])
    assert model.times[-1] > max(model.times[:-1])
    scores = model.predict(task, ran)
    assert len(scores) == 3 and np.isfinite(scores).all()


def test_the_model_learns_a_level_for_each_task():
    """Times that follow a feature are ranked by it, whatever the tasks take together."""
    model, rng = ms.cost_model.LinearModel(), np.random.default_rng(0)
    rows = rng.random((60, len(NAMES))) * 3
    model.rows, model.tasks = list(rows), ["a"] * 30 + ["b"] * 30
    model.times = list(rows[:, 0] + 2 * rows[:, 7] + np.repeat([0.0, 9.0], 30))
    model.fit()
    guess = rows[:30, 0] + rows[:30] @ model.coefficients
    assert np.corrcoef(guess, model.times[:30])[0, 1] > 0.95


def made_up(model, seed, count=100):
    """Measured candidates whose times are a step of a feature and a line of another."""
    rows = np.random.default_rng(seed).random((count, len(NAMES))) * 3
    model.rows, model.tasks = list(rows), ["a"] * count
    model.times = list(rows[:, 0] + rows[:, 7] + 2 * (rows[:, 3] > 1.5))
    return rows


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_a_model_is_saved_and_learns_again(tmp_path, kind):
    if kind == "trees":
        pytest.importorskip("lightgbm", reason="the extra [tune] is not installed")
    first, second, blank = [ms.cost_model.create(kind) for _ in range(3)]
    made_up(first, 0)
    first.save(tmp_path / "model")
    second.load(tmp_path / "model")
    rows = made_up(blank, 1)
    assert np.corrcoef(second.guess(rows), blank.times)[0, 1] > (0.96 if kind == "trees" else 0.9)
    first.fit()
    np.testing.assert_array_equal(first.guess(rows), second.guess(rows))
    (tmp_path / "text").write_text("no model")
    ms.cost_model.create(kind).save(tmp_path / "blank")
    blank.load(tmp_path / "blank")
    whole = json.loads((tmp_path / "model").read_text())
    changes = {
        "other": {"names": ["x"]}, "short": {"times": whole["times"][1:]}, "row": {"rows": [[1.0], *whole["rows"][1:]]},
        "words": {"rows": "abc"}, "more": {"call": "os.system"}, "infinite": {"times": [math.inf, *whole["times"][1:]]},
    }  # fmt: skip
    for name, change in changes.items():
        (tmp_path / name).write_text(json.dumps({**whole, **change}))
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name in ("text", "deep", "bytes", "nothing", *changes):
        with pytest.raises(ScheduleError, match="E461"):
            second.load(tmp_path / name)


def test_a_space_without_schedules_has_the_default_alone():
    ran = tuned(context(generator=ms.ScheduleFn(lambda sch: [])), 4, 2, rows_of)
    assert [candidate.is_default for candidate in ran] == [True]


def test_models_by_name():
    assert ms.cost_model.create("linear").guess(np.ones((2, len(NAMES)))).tolist() == [1.0, 1.0]
    with pytest.raises(ScheduleError, match="no cost model 'forest'"):
        ms.cost_model.create("forest")


def test_features_tell_vectors_from_single_loads():
    task = context()
    row = dict(zip(NAMES, features_of(candidate_of(task, Schedule(task.mod)).lowered, task.machine)))
    assert (
        row["strided loads"] == 0
        and row["vector loads"] > 0
        and row["single loads"] > 0
        and row["arithmetic"] > np.log(9 * 12 * 33 / 8)
    )
    assert all(np.isfinite(list(row.values())))


def test_reuse_is_what_lies_between_two_reads():
    """A line that is read again for each row, columns that are walked one after the other, and lines that fit into no cache."""
    line, long = te.placeholder((256,), "float32", "line"), te.placeholder((1 << 20,), "float32", "long")
    behind = []
    for data, rows in ((line, 64), (long, 2)):
        program = te.create_prim_func([data, te.compute((rows, data.shape[0]), lambda i, j: data[j] * 2, "out")])
        accesses = Accesses()
        (store,) = collect(program.body, BufferStore)
        (load,) = collect(store.value, BufferLoad)
        blocks = {axis.var: float(axis.domain.extent.value) for axis in collect(program.body, IterVar)}
        accesses.add(load, tuple(blocks.items()), lambda extent: float(extent.value))
        reuse = accesses.reuse(1 << 20)
        assert reuse.distance == pytest.approx(math.log1p(int(data.shape[0]) * 4))
        behind.append(reuse.behind)
    assert behind == [(0.0, 0.0), (2 * 4 * 2.0**20, 2 * 4 * 2.0**20)]
    column = Accesses()
    matrix = te.placeholder((4096, 64), "float32", "matrix")
    program = te.create_prim_func([matrix, te.compute((64, 4096), lambda i, j: matrix[j, i] * 2, "out")])
    (load,) = collect(program.body, BufferLoad)
    column.add(
        load,
        tuple([(axis.var, float(axis.domain.extent.value)) for axis in collect(program.body, IterVar)]),
        lambda n: float(n.value),
    )
    assert column.reuse(1 << 20).behind == (64 * 4096 * 64.0, 0.0)


def test_mutators_change_one_decision():
    sch = Schedule(product(), seed=1)
    loop = sch.get_loops(sch.get_block("c"))[0]
    sch.split(loop, sch.sample_perfect_tile(loop, 3, -1, decision=[3, 3, 1]))
    value = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5], decision=0)
    sch.annotate(sch.get_block("c"), "note", value)
    rng = random.Random(0)
    for _ in range(8):
        tile, other = [m.apply(sch.trace, rng) for m in (MutateTileSize(), MutateCategorical())]
        assert tile is not None and np.prod(next(iter(tile.decisions.values()))) == 9
        assert list(other.decisions.values())[1] in (1, 2)
    assert MutateTileSize().apply(Trace(), rng) is None


def test_names_that_are_none():
    with pytest.raises(ScheduleError, match="no search strategy"):
        ms.search_strategy.create("annealing")
    with pytest.raises(ScheduleError, match="no space generator"):
        ms.space_generator.create("sketch")


def test_what_a_space_is_made_of():
    with pytest.raises(ScheduleError, match="the function gave a LoopRV"):
        context(generator=ms.ScheduleFn(lambda sch: sch.get_loops("c")[0])).generate_design_space()


def byte_convolution(channels=7):
    """A convolution of bytes over an image of odd sizes, its channels last."""
    x, w = te.placeholder((5, 6, channels), "uint8", "x"), te.placeholder((3, 3, channels, 19), "int8", "w")
    p, q, r = [te.reduce_axis((0, n), name) for n, name in ((3, "p"), (3, "q"), (channels, "r"))]
    term = lambda i, j, f: x[i + p, j + q, r].astype("int32") * w[p, q, r, f].astype("int32")  # noqa: E731
    return te.create_prim_func([x, w, te.compute((3, 4, 19), lambda i, j, f: te.sum(term(i, j, f), [p, q, r]), "y")])


def test_tensor_intrinsics_of_the_machine_are_decisions():
    """Three channels of seven fill no instruction as they lie."""
    target = "llvm -mcpu=znver4"
    task = ms.TuneContext(byte_convolution(), target=target, space_generator=ms.PostOrderApply(), rand_state=5)
    task.initialize()
    (sketch,) = task.generate_design_space()
    assert set(choices_in(task)["y", "gather"].candidates) == {0, 4} and "gather" in sketch.trace.script()


@pytest.mark.parametrize("names", [["described_dot", "nobody's"], None])
def test_points_with_a_tensor_intrinsic_are_right(names):
    """The intrinsic computes by its description, which the interpreter runs; without names it is found as soon as it is there."""
    TensorIntrin.register("described_dot", *[TensorIntrin.get("dot_16x4_vnni").desc] * 2, override=True)
    space = ms.PostOrderApply([TensorInstructions(names)])
    task = ms.TuneContext(byte_convolution(), target=TARGET, space_generator=space, rand_state=5,
                          search_strategy=ms.search_strategy.create("replay-trace"))  # fmt: skip
    task.initialize()
    ran = [one for one in tuned(task, 8, 8, lambda one: [1.0]) if "described_dot" in one.sch.trace.script()]
    assert len({str(decisions(one)) for one in ran}) > 1
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 255, (5, 6, 7), "uint8"), rng.integers(-128, 127, (3, 3, 7, 19), "int8")
    expected = np.zeros((3, 4, 19), "int32")
    run(task.mod, "main", x, w, expected)
    for candidate in ran:
        result = np.zeros_like(expected)
        run(candidate.sch.mod, "main", x, w, result)
        assert expected.any() and np.array_equal(result, expected)


def test_decisions_are_about_blocks_of_the_program():
    """The rule that splits a long reduction makes blocks, about which the passes decide as well."""
    x, r = te.placeholder((4096, 64), "float32", "x"), te.reduce_axis((0, 4096), "r")
    task = ms.TuneContext(te.create_prim_func([x, te.compute((64,), lambda j: te.max(x[r, j], r), "y")]), target=TARGET)
    found = choices_in(task)
    assert ("y", "pieces") in found and {block for block, _ in found} == {"y"}
