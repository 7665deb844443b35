"""Default schedules for devices with threads: the programs of operators, bound, lowered and run with all threads, against the programs
as they were. ``UNITY_GPU_SWEEP=1`` runs every sample of every operator."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from fuzz import SEED, TIMES
from stages import lowered

import unity
from unity.ffi.targets.target import Target
from unity.ir.build import is_int
from unity.ir.interpret import run
from unity.ir.interpret.threads import ThreadedInterpreter, has_kernels
from unity.ir.stmt import For, While
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import InterpreterError, TypeRuleError
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.infra.backend import backend_of
from unity.transform.relax.pipeline import GRAPH_PIPELINE

sys.path.append(str(Path(__file__).parent.parent / "op"))
from op_cases import CASES
from test_against_numpy import as_numpy, build, tolerance

TARGET = Target("cuda -arch=sm_80")
MACHINE = backend_of(TARGET).machine(TARGET)
SHOWN = [
    "abs",
    "add",
    "argmax",
    "searchsorted",
    "collapse_sum_to",
    "concat",
    "cumsum",
    "einsum",
    "gather_nd",
    "left_shift",
    "matmul",
    "max",
    "mean",
    "median",
    "nn.attention",
    "nn.avg_pool2d",
    "nn.batch_norm",
    "nn.conv2d",
    "nn.group_norm",
    "nn.layer_norm",
    "nn.lstm",
    "nn.max_pool2d",
    "nn.rms_norm",
    "nn.softmax",
    "permute_dims",
    "image.resize2d",
    "index_put",
    "scatter_elements",
    "scatter_nd",
    "sort",
    "std",
    "strided_slice",
    "sum",
    "take",
    "topk",
    "tril",
    "where",
]
"""Operators whose first sample runs each time."""
WHOLE = os.environ.get("UNITY_GPU_SWEEP") == "1"


def _samples() -> list[Any]:
    found: dict[str, Any] = {}
    every = []
    for number, case in enumerate(CASES):
        every.append(pytest.param(case, id=f"{case[0]}-{number}"))
        if case[0] in SHOWN and all([getattr(a, "size", 1) for a in case[1]]):
            found.setdefault(case[0], every[-1])
    assert set(found) == set(SHOWN)
    return every if WHOLE else list(found.values())


def scheduled(mod: unity.IRModule) -> unity.IRModule:
    """The module with every tensor program scheduled; none is left that binds no thread, but for those that call the host."""
    made = {}
    for name, fn in mod.prim_funcs().items():
        found = schedule_function(name, fn, set(), MACHINE, GPU_RULES)
        assert found is not None
        if "T.call_packed" in fn.script():
            pytest.skip("it calls a function of the host")
        sizes = [extent for buffer in fn.buffer_map.values() for extent in buffer.shape]
        assert has_kernels(found.func) or any([is_int(extent, 0) for extent in sizes])
        made[name] = found.func
    return mod.with_functions(made)


def is_alone(func: unity.ir.PrimFunc) -> bool:
    """True if one thread does what many could do."""
    launches = [loop for loop in collect(func.body, For) if loop.thread == "blockIdx.x"]
    nests = [collect(launch, (For, While)) for launch in launches]
    sizes = [[loop.extent for loop in nest if type(loop) is For and loop.thread is not None] for nest in nests]
    return any([all([is_int(n, 1) for n in size]) and len(size) < len(nest) for size, nest in zip(sizes, nests)])


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
def test_no_drawn_sample_is_the_work_of_one_thread(symbolic: bool) -> None:
    """The first samples of operators, below, are of floats: others had schedules of one thread."""
    alone = []
    for name, inputs, attrs in random.Random(f"one thread {SEED}").sample(CASES, min(48 * TIMES, len(CASES))):
        try:
            mod = build(name, inputs, attrs, symbolic)[0]
            with TARGET:
                mod = GRAPH_PIPELINE(mod)
        except TypeRuleError:
            assert symbolic  # its sizes must be known
            continue
        for program, fn in mod.prim_funcs().items():
            found = schedule_function(program, fn, set(), MACHINE, GPU_RULES)
            if found is not None and is_alone(found.func) and "T.call_packed" not in found.func.script():
                alone.append((name, inputs))
    assert not alone


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("case", _samples())
def test_programs_of_operators(case: Any, symbolic: bool) -> None:
    name, inputs, attrs = case
    try:
        mod, arrays = build(name, inputs, attrs, symbolic)
        with TARGET:
            plain = GRAPH_PIPELINE(mod)
    except TypeRuleError:
        assert symbolic
        pytest.skip("its sizes must be known")
    mod = scheduled(plain)
    verify(mod)
    assert not any([is_alone(func) for func in mod.prim_funcs().values()])
    try:
        expected = as_numpy(run(plain, "main", *arrays))
    except InterpreterError as problem:
        assert symbolic and problem.code == "E317"
        pytest.skip("sizes that are broadcast must be known")
    interpreter = ThreadedInterpreter(lowered(mod), None, 1 << 14, traffic=False)
    got = as_numpy(interpreter.run("main", *arrays))
    assert not interpreter.log.findings, "\n".join(map(str, interpreter.log.findings.values()))
    for g, e in zip(got, expected) if isinstance(got, list) else [(got, expected)]:
        if g.dtype.kind in "iub":
            np.testing.assert_array_equal(g, e)
            continue
        g, e = np.asarray(g, "float64"), np.asarray(e, "float64")
        wide = max(1.0, float(np.max(np.abs(e[np.isfinite(e)]), initial=0)))
        np.testing.assert_allclose(
            g, e, **tolerance(expected[0].dtype if isinstance(expected, list) else expected.dtype, wide)
        )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batches_of_any_size_lie_on_the_axis_that_takes_any(dtype: str) -> None:
    """The second and third axis of a grid end at 65,535 blocks."""
    mod = parse(f"""
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor(("n", 9, 16), "{dtype}"), b: R.Tensor(("n", 16, 8), "{dtype}")):
        y = R.matmul(a, b)
        return y
""")
    executable = unity.compile(mod, target="cuda")
    with device_or_emulated(races=False, traffic=False) as gpu:
        vm = unity.VirtualMachine(executable, unity.cuda(0))
        for n in (0, 1, 3):
            a, b = [np.random.default_rng(n).integers(-2, 3, (n, *shape)).astype(dtype) for shape in ((9, 16), (16, 8))]
            assert (vm["main"](a, b).numpy() == a @ b).all()
        assert gpu is None or [launch.grid for launch in gpu.launches] == [(1, 1, 1), (3, 1, 1)]


@pytest.mark.gpu
@pytest.mark.parametrize("rows, columns", [("n", "m"), ("n", 40), (37, "m")])
def test_transposes_of_any_size_have_code(rows: str | int, columns: str | int) -> None:
    """Whatever is not known, a tile in shared memory has a constant size."""
    mod = parse(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, ({rows}, {columns}), "float16")
    B = T.match_buffer(b, ({columns}, {rows}), "float16")
    for i, j in T.grid({columns}, {rows}):
        with T.block("turn"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
""")
    executable = unity.compile(unity.IRModule({"main": mod}, {}, {}), target="cuda")
    with device_or_emulated(traffic=False):
        a = np.arange(37 * 40).reshape(37, 40).astype("float16")
        b = unity.tensor(np.zeros((40, 37), "float16"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b)
        assert (b.numpy() == a.T).all()


PARTS: list[tuple[str, Callable[..., Any]]] = [
    ("R.concat([R.permute_dims(a), R.permute_dims(b)], axis=0)", lambda a, b: np.concatenate([a.T, b.T])),
    ("R.concat([R.permute_dims(a), R.permute_dims(b)], axis=1)", lambda a, b: np.concatenate([a.T, b.T], 1)),
    ("R.nn.pad(R.permute_dims(a), (16, 3, 0, 32))", lambda a, b: np.pad(a.T, ((16, 3), (0, 32)))),
    ("R.strided_slice(R.permute_dims(a), [0, 1], [3, 7], [40, 40])", lambda a, b: a.T[3:40, 7:40]),
    ("R.where(R.less(R.permute_dims(a), R.permute_dims(b)), R.permute_dims(a), R.const(1.0))", lambda a, b: np.where(a.T < b.T, a.T, 1)),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("expression, expected", PARTS)
def test_transposes_read_what_there_is(expression: str, expected: Callable[..., Any]) -> None:
    """A tile has elements that a condition of the program keeps from being read: they may lie outside of the operand."""
    a, b = np.random.default_rng(0).standard_normal((2, 64, 50)).astype("float32")
    executable = unity.compile(
        graph_module(expression, a='(64, 50), "float32"', b='(64, 50), "float32"'), target="cuda"
    )
    with device_or_emulated() as gpu:
        found = unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b).numpy()
        np.testing.assert_array_equal(found, expected(a, b))
        assert gpu is None or not [site for site in gpu.traffic if site.transactions > 1.3 * site.ideal]


TURNED = """
@T.prim_func
def main(A: T.Buffer((2, 40), "float32"), I: T.Buffer((30,), "int32"), C: T.Buffer((30, 40), "float32")):
    for {loop}:
        {statement}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("loop, statement, launches", [
    ("i in range(30)", "for k in range(40): A[I[i], k] = A[I[i], k] * T.float32(0.5) + C[i, k]", 1),
    ("i in range(29)", "for k in T.parallel(40): C[i + 1, k] = C[i, k] * T.float32(0.5) + C[i + 1, k]", 1),
    ("t in range(5)", "for j in T.parallel(38): A[(t + 1) % 2, j + 1] = A[t % 2, j] + A[t % 2, j + 2]", 5),
    ("i in range(5)", "for k in range(i, 40): C[i, k] = C[i, k] + C[i + 1, k]", 1),
    ("i in range(5)", "for k in range(40): C[i, k] = C[i, k] + C[i + 1, 39 - k]", 5),
])  # fmt: skip
def test_a_thread_has_the_loop_around_it(loop: str, statement: str, launches: int) -> None:
    """One launch, in which each thread goes through all iterations, where none needs what another thread makes. Loops that begin at
    other places are those of one thread."""
    program = parse(TURNED.format(loop=loop, statement=statement.replace(": ", ":\n            ", 1)))
    draw = np.random.default_rng(0)
    given = [
        draw.random((2, 40)).astype("float32"),
        draw.integers(0, 2, 30).astype("int32"),
        draw.random((30, 40)).astype("float32"),
    ]
    wanted = [array.copy() for array in given]
    run(program, None, *wanted)
    with device_or_emulated() as gpu:
        unity.VirtualMachine(unity.compile(program, target=TARGET), unity.cuda(0))["main"](*given)
        unity.cuda(0).sync()
        assert gpu is None or len(gpu.launches) == launches
    for found, expected in zip(given, wanted):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


MADE = """
@T.prim_func
def main(A: T.Buffer((21, 5), "float32"), B: T.Buffer((5, 22), "float32"), C: T.Buffer(({shape}), "float32")):
    D = T.alloc_buffer((21, 22), "float32")
    for i, j, k in T.grid(21, 22, 5):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j, k in T.grid({loops}):
        with T.block("reader"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = {value}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("shape, loops, value", [
    ("21, 5", "21, 5, 22", "C[vi, vj] + D[vi, vk] * B[vj, vk]"),
    ("20, 22", "20, 22, 2", "T.max(C[vi, vj], D[vi + vk, vj])"),
    ("1, 21", "1, 21, 22", "C[vi, vj] + D[vj, vk]"),
    ("1, 1", "1, 1, 21", "C[vi, vj] + D[vk, vk]"),
])  # fmt: skip
def test_what_a_product_makes_is_read_by_the_next_kernel(shape: str, loops: str, value: str) -> None:
    """What one kernel has computed in its own memory is no producer that another one may compute again."""
    program = parse(MADE.format(shape=shape, loops=loops, value=value))
    draw = np.random.default_rng(0)
    sizes = [(21, 5), (5, 22), tuple(map(int, shape.split(", ")))]
    wanted = [draw.integers(-2, 3, size).astype("float32") for size in sizes]
    given = [array.copy() for array in wanted]
    run(program, None, *wanted)
    with device_or_emulated():
        unity.VirtualMachine(unity.compile(program, target=TARGET), unity.cuda(0))["main"](*given)
        unity.cuda(0).sync()
    np.testing.assert_array_equal(given[2], wanted[2])
