"""What the parts of the search hand each other: the context of a task, a candidate, arguments."""

import pytest
from programs_of_tests import product

import unity.meta_schedule as ms
from unity import te
from unity.ir.analysis import defined_symbols
from unity.ir.module import IRModule
from unity.meta_schedule.core.arg_info import other_size
from unity.support.errors import ScheduleError
from unity.transform.infra.backend import Machine


def test_a_task_is_one_program_named_main():
    context = ms.TuneContext(IRModule({"product": product()}, {}, {}), target="llvm -mcpu=x86-64-v3", constants=[1])
    assert list(context.mod.functions) == ["main"] and context.func.attrs["global_symbol"] == "main"
    assert context.machine == Machine(32, 16) and context.constants == (1,) and context.rand_state > 0
    with pytest.raises(ScheduleError, match="one tensor program"):
        ms.TuneContext(IRModule({"a": product(), "b": product()}, {}, {}))


def test_arguments_of_a_program():
    found = ms.TensorInfo.from_prim_func(product(4, 3, 5))
    assert [info.shape for info in found] == [(4, 3), (3, 5), (4, 5)]
    assert [ms.TensorInfo.from_json(info.as_json()) for info in found] == found
    with pytest.raises(ScheduleError):
        ms.TensorInfo.from_json(["SCALAR", "float32"])
    with pytest.raises(ScheduleError, match="constant shape: n is not known"):
        ms.TensorInfo.from_prim_func(product(te.var("n")))
    program = product(te.var("n"))
    (n,) = defined_symbols(program)
    assert [i.shape for i in ms.TensorInfo.from_prim_func(program, {n: 5})] == [(5, 12), (12, 33), (5, 33)]


def test_other_sizes_are_odd_and_others():
    for size in range(1, 300):
        assert other_size(size) % 2 and other_size(size) != size and other_size(size) >= 3
    context = ms.TuneContext(product(te.var("n")), target="llvm", sizes={"n": 64})
    assert [i.shape[0] for i in context.other_args_info] == [33, 12, 33]
    assert ms.TuneContext(product(), target="llvm").other_args_info == []


def test_the_profiler_adds_up_parts_by_name():
    @ms.Profiler.timeit("part")
    def part():
        raise ValueError

    with ms.Profiler() as profiler:
        for _ in range(2):
            with pytest.raises(ValueError):
                part()
        with ms.Profiler.timeit("other"):
            assert ms.Profiler.current() is profiler
    with ms.Profiler.timeit("nobody asked"):
        assert ms.Profiler.current() is None
    assert list(profiler.get()) == ["part", "other", "Total"]
    assert profiler.table().splitlines()[0].startswith("Total") and "100.0%" in profiler.table()
