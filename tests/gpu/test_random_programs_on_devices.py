"""Random programs on the device of this machine, or an emulated one: tensor programs over every data type, which get their threads from
the rules, kernels as users write them, and graphs. ``FUZZ=10`` tries ten times as many, ``FUZZ_SEED`` others.

By hand, longer: ``python tests/gpu/test_random_programs_on_devices.py programs 100 200 sm_90a``.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from stages import lowered as by_stages

import unity
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.ir.node import replace
from unity.script import parse
from unity.support.errors import UnityError
from unity.testing import emulated_gpu
from unity.vm import stages

sys.path += [str(Path(__file__).parents[1] / room) for room in ("property", "op", "target")]
from fuzz import SEED, TIMES
from hostile_programs import hostile_inputs, hostile_program
from kernel_fuzz import random_kernel
from prim_func_fuzz import random_case
from test_operator_graphs import outcome, same
from test_prim_func_fuzz import difference, interpreter_arguments

ARCHS = ("sm_80", "sm_90a")
PROGRAMS, KERNELS, GRAPHS = 8, 6, 3


def programs(seeds: range, arch: str) -> None:
    """Tensor programs with loops, conditions, tables, vectors and blocks, against the interpreter."""
    cases = {f"f{seed}": random_case(seed) for seed in seeds}
    funcs = {name: replace(case.func, attrs={**case.func.attrs, "global_symbol": name}) for name, case in cases.items()}
    mod, config = parse(IRModule(funcs, {}, {}).script()), stages.configure(f"cuda -arch={arch}")
    with config.target:
        by_stages(stages.schedule(stages.graph(stages.check(mod, config), config), config))
    compiled = unity.compile(mod, target=config.target)
    with device_or_emulated(arch, launched=False, traffic=False, late=True):
        machine = unity.VirtualMachine(compiled, unity.cuda(0))
        for name, case in cases.items():
            for arguments in case.arguments:
                expected, given = interpreter_arguments(arguments), interpreter_arguments(arguments)
                run(case.func, None, *expected)
                machine[name](*given)
                for place, (x, y) in enumerate(zip(given, expected)):
                    wrong = difference(x, y, case.tolerance.get(place, 0)) if isinstance(y, np.ndarray) else ""
                    assert not wrong, f"{name}, argument {place}: {wrong}\n{case.func.script()}"


def checked(mod: IRModule, arguments: list[Any]) -> tuple[list[Any], bool]:
    """The arguments after a run in the checker of threads, and whether it found nothing."""
    given = copy.deepcopy(arguments)
    return given, unity.check_gpu(mod, *given, traffic=False).ok


def kernel(seed: int, arch: str) -> None:
    """A kernel, right or wrong: the checker says the same before and after the passes for devices as the device itself."""
    text, arguments = random_kernel(random.Random(seed))
    mod: Any = parse(text)
    written, right = checked(mod, arguments)
    try:
        compiled = unity.compile(mod, target=f"cuda -arch={arch}")
    except UnityError as refused:
        assert not right and refused.code < "E9" and refused.help, f"{refused}\n{text}"
        return
    lowered, lowers = checked(by_stages(mod), arguments)
    assert lowers or not right, text
    given = copy.deepcopy(arguments)
    with emulated_gpu(arch, traffic=False) as gpu:
        fault = outcome(lambda: [unity.VirtualMachine(compiled, unity.cuda(0))["main"](*given), unity.cuda(0).sync()])
        found = gpu.findings
    clean = not found and not isinstance(fault, UnityError)
    # wrong reads whose values nobody uses are gone from the code
    assert clean or not lowers, f"{found[:1]} {fault}\n{text}"
    for x, y, z in zip(given, lowered, written) if lowers else ():
        wrong = difference(x, y, 0) or (difference(y, z, 0) if right else "")
        assert not wrong, f"{wrong}\n{text}"


def graph(seed: int, arch: str) -> None:
    """A module with branches, closures, effects, calls in place and tensors without elements, NaN and infinities among the data."""
    rng = random.Random(seed)
    mod: Any = parse(hostile_program(rng))
    inputs = [hostile_inputs(rng, rng.random() < 0.5) for _ in range(2)]
    compiled = unity.compile(mod, target=f"cuda -arch={arch}")
    with device_or_emulated(arch, launched=False, traffic=False, late=True):
        machine = unity.VirtualMachine(compiled, unity.cuda(0))
        for given in inputs:
            expected = outcome(lambda: run(mod, "main", *copy.deepcopy(given)))
            found = outcome(lambda: machine["main"](*copy.deepcopy(given)))
            assert isinstance(found, UnityError) == isinstance(expected, UnityError), (
                f"{found}, {expected}\n{mod.script()}"
            )
            if not isinstance(expected, UnityError):
                same(found, expected, mod.script())


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(TIMES))
@pytest.mark.parametrize("arch", ARCHS)
def test_tensor_programs(arch: str, part: int) -> None:
    first = SEED + 1000 * ARCHS.index(arch) + PROGRAMS * part
    programs(range(first, first + PROGRAMS), arch)


@pytest.mark.parametrize("case", range(KERNELS * TIMES))
def test_kernels(case: int) -> None:
    kernel(SEED + case, ARCHS[case % 2])


@pytest.mark.gpu
@pytest.mark.parametrize("case", range(GRAPHS * TIMES))
def test_graphs(case: int) -> None:
    graph(SEED + case, ARCHS[case % 2])


if __name__ == "__main__":
    kinds: dict[str, Callable[[int, str], None]] = {
        "programs": lambda seed, arch: programs(range(seed, seed + 1), arch), "kernels": kernel, "graphs": graph,
    }  # fmt: skip
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        try:
            kinds[sys.argv[1]](number, sys.argv[4])
        except Exception as error:
            print(f"seed {number}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
