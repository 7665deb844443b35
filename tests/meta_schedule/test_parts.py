"""The parts of a search under TVM's names: derived from, found by name, given to spaces, each task with its own."""

import functools
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from programs_of_tests import product

import unity
import unity.meta_schedule as ms
from unity import te
from unity.ir.interpret import run
from unity.ir.stmt import Block
from unity.ir.walk import collect
from unity.meta_schedule.search.replay import CandidateSampler
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace

TARGET = "llvm -mcpu=x86-64-v3"
PARTS = ("SpaceGenerator", "ScheduleRule", "Mutator", "Postproc", "SearchStrategy", "CostModel", "FeatureExtractor", "MeasureCallback",
         "Builder", "Runner", "Database", "TaskScheduler")  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_a_class_to_derive_from(name):
    part = getattr(ms, name)
    with pytest.raises(TypeError, match="abstract"):
        part()
    module = {"Database": ms.database, "MeasureCallback": ms.measure_callback}.get(name)
    word = "".join(["_" + c.lower() if c.isupper() else c for c in name])[1:]
    assert getattr(module or getattr(ms, word), f"Py{name}") is part
    with pytest.raises(ScheduleError, match=r"E401.*'no such thing'"):
        part.create("no such thing")
    assert ms.derived_object(part) is part


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_part_says_what_it_lacks(name):
    part = getattr(ms, name)
    with pytest.raises(ScheduleError, match=rf"E401.*3 \(int\) is not a {part.what}: it has no \w+"):
        part.create(3)


def test_parts_as_tvm_makes_them():
    """Without a name the usual part, spaces of a kind of targets, functions as spaces and databases, one callback for a list."""
    for part, made in (
        (ms.SpaceGenerator, ms.PostOrderApply),
        (ms.SearchStrategy, ms.search_strategy.EvolutionarySearch),
        (ms.Builder, ms.builder.LocalBuilder),
        (ms.Runner, ms.runner.LocalRunner),
        (ms.TaskScheduler, ms.task_scheduler.GradientBased),
    ):
        assert type(part.create()) is made
    for name in ("llvm", "cuda", "cuda-tensorcore"):
        assert len(ms.SpaceGenerator.create(name).sch_rules) == len(ms.ScheduleRule.create(name))
    assert type(ms.SpaceGenerator.create(functools.partial(print, "scheduled"))) is ms.ScheduleFn
    assert type(ms.Database.create(lambda sch: True)) is ms.database.ScheduleFnDatabase
    callback = ms.measure_callback.AddToDatabase()
    assert ms.MeasureCallback.create(callback) == ms.MeasureCallback.create([callback]) == [callback]
    for space in ({"sch_rules": "gpu"}, {"postprocs": "gpu"}, {"mutator_probs": "gpu"}):
        with pytest.raises(ScheduleError, match="no kind of targets 'gpu'"):
            ms.PostOrderApply(**space)


@ms.derived_object
class Records(ms.database.PyDatabase):
    """A database with what TVM's have to have."""

    def __init__(self):
        self.workloads, self.records = [], []

    def has_workload(self, mod):
        return any([unity.ir.structural_equal(mod, one.mod) for one in self.workloads])

    def commit_workload(self, mod):
        self.workloads.append(ms.database.Workload(mod))
        return self.workloads[-1]

    def commit_tuning_record(self, record):
        self.records.append(record)

    def get_all_tuning_records(self):
        return self.records

    def __len__(self):
        return len(self.records)


def test_a_database_of_ones_own(capsys):
    records = Records()
    ms.tune_tir(
        product(), "llvm", None, 4, database=records, seed=0, measure_callbacks=ms.measure_callback.AddToDatabase()
    )
    assert len(records) == 5 and records.has_workload(records.workloads[0].mod)
    assert ms.tir_integration.compile_tir(records, product(), "llvm") is not None


def names_of(part):
    return sorted(part.kinds)


@pytest.mark.parametrize(
    "part, extra",
    [(ms.SpaceGenerator, {"union": [], "schedule-fn": print}), (ms.SearchStrategy, {}), (ms.Mutator, {}), (ms.Postproc, {}),
     (ms.FeatureExtractor, {}), (ms.TaskScheduler, {})],
)  # fmt: skip
def test_parts_by_name(part, extra):
    assert names_of(part)
    for name in names_of(part):
        assert isinstance(part.create(name, *([extra[name]] if name in extra else ())), part)


def stages(rows=12):
    """A sum of three neighbours along each axis, one after the other."""
    x = te.placeholder((rows + 2, 34), "float32", "x")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    first = te.compute((rows + 2, 32), lambda i, j: te.sum(x[i, j + p], p), "first")
    second = te.compute((rows, 32), lambda i, j: te.sum(first[i + q, j], q), "second")
    return te.create_prim_func([x, te.compute((rows, 32), lambda i, j: second[i, j] * 2.0, "y")])


def short_sum():
    x, k = te.placeholder((3, 600), "float32", "x"), te.reduce_axis((0, 600), "k")
    return te.create_prim_func([x, te.compute((3,), lambda i: te.sum(x[i, k], k), "y")])


def context(program, space, strategy="replay-trace", **options):
    return ms.TuneContext(
        program, target=TARGET, space_generator=space, search_strategy=strategy, rand_state=7, **options
    )


def result_of(mod):
    rng, fn = np.random.default_rng(0), mod.prim_funcs()["main"]
    arrays = [rng.standard_normal([int(n) for n in i.shape]).astype(i.dtype) for i in ms.ArgInfo.from_prim_func(fn)]
    run(mod, "main", *arrays)
    return arrays[-1]


@pytest.mark.parametrize(
    "program, steps",
    [
        (lambda: product(12, 16, 24), {"vectorize", "decompose_reduction", "sample_perfect_tile", "cache_write"}),
        (stages, {"decompose_reduction", "sample_compute_location"}),
        (short_sum, {"decompose_reduction", "rfactor"}),
    ],
    ids=["product", "stages", "sum"],
)
def test_the_rules_of_a_processor_make_right_programs(program, steps):
    """Every sketch, with decisions drawn anew and then mutated, is the same function, and its trace leads to it again."""
    task = context(program(), ms.PostOrderApply("llvm"))
    expected, drawn = result_of(task.mod), CandidateSampler(task)
    sketches, mutators, seen = task.generate_design_space()[1:], ms.Mutator.create("llvm"), ""
    for mutator in mutators:
        mutator.initialize_with_tune_context(task)
    for sketch in sketches:
        trace = sketch.trace
        for _ in range(4):
            made = drawn.new(drawn.replay(trace, trace is sketch.trace))
            if made is not None:
                np.testing.assert_allclose(result_of(made.sch.mod), expected, rtol=1e-4, atol=1e-4)
                assert "meta_schedule.vectorize" not in made.sch.mod.script()
                again = Schedule(task.mod)
                Trace.from_json(made.sch.trace.as_json()).apply_to_schedule(again)
                assert again.mod.script() == made.sch.mod.script()
                trace = made.sch.trace
                seen += trace.script()
            changed = [m.apply(trace, drawn.rng) for m in mutators]
            trace = next((one for one in changed if one is not None), sketch.trace)
    assert not [step for step in steps if f".{step}(" not in seen] and not drawn.refused


def test_a_location_is_mutated_to_every_legal_place():
    task = context(stages(), ms.PostOrderApply([ms.schedule_rule.RandomComputeLocation()]), "evolutionary")
    sketch = task.generate_design_space()[1]
    steps = [inst for inst in sketch.trace.insts if inst.kind == "sample_compute_location"]
    mutator, found = ms.mutator.MutateComputeLocation(), {}
    mutator.initialize_with_tune_context(task)
    for seed in range(40):
        changed = mutator.apply(sketch.trace, random.Random(seed))
        for old, new in zip(steps, [i for i in changed.insts if i.kind == "sample_compute_location"]):
            found.setdefault(old, {old.decision}).add(new.decision)
    assert steps and {-1, 0, 1} <= set.union(*found.values())
    task.search_strategy.pre_tuning(8, 8, [sketch])
    programs = [one.sch.mod.script() for one in task.search_strategy.generate_measure_candidates()]
    assert len(set(programs)) == len(programs) > 4


def test_a_space_says_what_finishes_and_what_mutates():
    """Steps behind the decisions see every candidate and may refuse it; mutators of the space are those of the search."""

    class Finish(ms.postproc.PyPostproc):
        def _initialize_with_tune_context(self, context):
            self.context = context

        def apply(self, sch):
            sch.annotate(sch.get_block("c"), "finished", 1)
            return sch.get(sch.get_loops(sch.get_block("c"))[0]).extent.value != 3

    class Nothing(ms.mutator.PyMutator):
        def apply(self, trace, rng):
            asked.append(trace)

    def tiles(sch):
        loop = sch.get_loops(sch.get_block("c"))[0]
        sch.split(loop, sch.sample_perfect_tile(loop, 2))

    asked = []
    space = ms.ScheduleFn(tiles, postprocs=[Finish()], mutator_probs={Nothing(): 1.0})
    task = context(product(), space, "evolutionary")
    task.pre_tuning(8, 2)
    while (ran := task.generate_measure_candidates()) is not None:
        for one in ran[1 if ran[0].is_default else 0 :]:
            assert "finished" in one.sch.mod.script() and "for i_0, i_1 in T.grid(3" not in one.sch.mod.script()
        task.notify_runner_results(ran, [ms.runner.RunnerResult([1.0])] * len(ran))
    assert asked and task.space_generator.postprocs[0].context is task


def test_rules_see_the_blocks_they_are_asked_about():
    seen = []

    class Look(ms.ScheduleRule):
        def apply(self, sch, block):
            seen.append(sch.get(block).name)
            return [sch]

    context(stages(), ms.PostOrderApply([Look()])).generate_design_space()
    assert seen == ["root", "y", "second", "first"]
    seen.clear()
    context(
        stages(), ms.PostOrderApply([Look()], f_block_filter=lambda block: block.name == "first")
    ).generate_design_space()
    assert seen == ["first"]


def test_each_task_has_parts_of_its_own():
    """One strategy and one space that are given for a module of two programs are not mixed up."""
    mod = unity.IRModule({"a": product(9, 12, 33), "b": product(10, 20, 16)}, {}, {})
    database = ms.tune_tir(
        mod, "llvm", database="memory", max_trials_global=6, num_trials_per_iter=3, seed=None, num_tuning_cores=1,
        strategy=ms.search_strategy.ReplayTrace(), space=ms.PostOrderApply(), task_scheduler="round-robin",
    )  # fmt: skip
    records = database.get_all_tuning_records()
    for record in records:
        assert list(record.args_info) == ms.ArgInfo.from_prim_func(record.workload.func)
    assert all([record.run_secs for record in records]) and len({r.workload.shash for r in records}) == 2


def test_a_runner_of_ones_own_need_not_run_the_default_in_turns():
    class Build(ms.Builder):
        def build(self, build_inputs):
            return [ms.builder.BuilderResult("nowhere") for _ in build_inputs]

    class Run(ms.Runner):
        def run(self, runner_inputs):
            return [
                ms.runner.RunnerFuture(lambda: True, lambda: ms.runner.RunnerResult([0.1, 0.2])) for _ in runner_inputs
            ]

    database = ms.database.create("memory")
    scheduler = ms.TaskScheduler.create("round-robin")
    (row,) = scheduler.tune(
        [context(product(), "post-order-apply")], [1.0], max_trials_global=3, max_trials_per_task=10, num_trials_per_iter=64,
        builder=Build(), runner=Run(), measure_callbacks=[ms.measure_callback.AddToDatabase()], database=database,
    )  # fmt: skip
    assert row.trials == 3 and row.gain == 1.0 and len(database) == 4


def test_features_are_a_part_of_a_model():
    class Parity(ms.feature_extractor.ProgramFeatures):
        columns = (*ms.feature_extractor.ProgramFeatures.columns, "parity")

        def extract_from(self, context, candidates):
            found = super().extract_from(context, candidates)
            return [np.append(one.numpy(), [[k % 2]], axis=1) for k, one in enumerate(found)]

    task = context(product(), "post-order-apply")
    task.pre_tuning(3)
    ran = task.generate_measure_candidates()
    model = ms.cost_model.LinearModel(extractor=Parity())
    model.update(task, ran, [ms.runner.RunnerResult([1.0 + k]) for k in range(3)])
    assert len(model.predict(task, ran)) == 3 and len(model.rows[0]) == len(Parity.columns)
    (alone,) = ms.feature_extractor.ProgramFeatures().extract_from(
        task, [ms.MeasureCandidate(Schedule(task.mod), task.args_info)]
    )
    assert alone.numpy().shape == (1, len(ms.feature_extractor.ProgramFeatures.columns))
    with pytest.raises(
        ScheduleError, match=rf"E428.*{len(Parity.columns) - 1} numbers for {len(Parity.columns)} columns"
    ):
        Parity.rows(
            type("Short", (Parity,), {"extract_from": ms.feature_extractor.ProgramFeatures.extract_from})(), task, ran
        )
    with pytest.raises(ScheduleError, match="E461"):
        ms.cost_model.RandomModel().save("nowhere")


def test_a_task_without_parts_says_so():
    for ask, code in (
        (lambda t: t.generate_design_space(), "E428"),
        (lambda t: t.pre_tuning(1, 1, []), "E428"),
        (lambda t: t.func, "E407"),
    ):
        with pytest.raises(ScheduleError, match=code):
            ask(ms.TuneContext())


def test_equality_of_programs(tmp_path):
    database = ms.database.JSONDatabase(tmp_path / "w.json", tmp_path / "r.json", module_equality="ignore-tensor")
    assert database.path_workload.exists()
    with pytest.raises(ScheduleError, match=r"E401.*'anchor-block'"):
        ms.tune_tir(product(), "llvm", tmp_path, module_equality="anchor-block")


def test_the_page_has_a_line_for_each_feature():
    lines = (Path(__file__).parents[2] / "docs" / "search_space.md").read_text("utf-8").splitlines()
    at = lines.index("| feature | of the lowered program |") + 2
    table = list(itertools.takewhile(lambda line: line.startswith("| `"), lines[at:]))
    assert tuple([line.split("`")[1] for line in table]) == ms.feature_extractor.ProgramFeatures.columns


def test_explanations_are_of_builds_not_of_candidates(monkeypatch, capfd):
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    database = ms.tune_tir(
        product(12, 16, 24), "llvm", database="memory", max_trials_global=3, num_trials_per_iter=3, seed=0
    )
    said = capfd.readouterr().err
    assert "trials" in said and "not contraction" not in said and "tile of" not in said and said.count("cache: ") < 3
    with database:
        unity.build(product(12, 16, 24), "llvm")
    assert "record " in capfd.readouterr().err


def test_decisions_by_hand_are_first_in_the_space() -> None:
    x = te.placeholder((19, 33), "float32", "x")
    k = te.reduce_axis((0, 19), "k")
    sch = unity.Schedule(te.create_prim_func([x, te.compute((33,), lambda j: te.max(x[k, j], k), "y")]))
    sch.annotate("y", "schedule", {"vectors": 2})
    task = ms.TuneContext(sch.mod, target="llvm -mcpu=x86-64-v3", space_generator=ms.PostOrderApply(), rand_state=1)
    (sketch,) = task.generate_design_space()
    (decided,) = [block.annotations["schedule"] for block in collect(sketch.mod["main"], Block) if block.name == "y"]
    assert decided["vectors"] == 2 and len(decided) > 1
    found = ms.tune_tir(sch.mod, target="llvm", database="memory", max_trials_global=2, seed=0)
    assert found.query_tuning_record(sch.mod, "llvm").verdict in ("kept", "default")
