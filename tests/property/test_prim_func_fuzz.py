"""Compiled tensor programs against the reference interpreter: bit for bit, within a few ulp where a program says so.

By hand, longer: ``python tests/property/test_prim_func_fuzz.py 1000 2000`` runs the seeds of a range and names the guilty side.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import TIMES
from prim_func_fuzz import Case, random_case

from unity.ffi.dtype import from_numpy
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.support.errors import InterpreterError

sys.path.append(str(Path(__file__).parent.parent / "target"))

from kernels import KernelError, Loaded

BATCH = 12


def copies(arguments: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def compiled_arguments(arguments: list[Any]) -> list[Any]:
    """Scalars as ctypes takes them: narrow floats by their bits."""
    made: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            made.append(value.copy())
        elif from_numpy(value.dtype).is_float and value.dtype.itemsize == 2:
            made.append(int(value.view(np.uint16)))
        else:
            made.append(value.item())
    return made


def interpreter_arguments(arguments: list[Any]) -> list[Any]:
    """Scalars as the interpreter takes them."""
    return [
        a.copy() if isinstance(a, np.ndarray) else float(a) if from_numpy(a.dtype).is_float else a.item()
        for a in arguments
    ]


def difference(ours: np.ndarray, expected: np.ndarray, ulp: float) -> str:
    """Where two results disagree, or ""."""
    if from_numpy(expected.dtype).is_float:
        with np.errstate(all="ignore"):
            x, y = ours.astype(np.float64), expected.astype(np.float64)
            same = (x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))
            if ulp:
                step = np.abs(np.spacing(expected).astype(np.float64))
                same |= np.abs(x - y) <= ulp * step
    else:
        same = ours == expected
    wrong = np.argwhere(~same)
    if not len(wrong):
        return ""
    place = tuple([int(k) for k in wrong[0]])
    return f"{len(wrong)} of {expected.size} differ; at {place} {ours[place]!r}, expected {expected[place]!r}"


def judge(case: Case, number: int, loaded: Loaded, name: str, with_lowered: bool = False) -> str:
    """Run a case on one argument set both ways; what disagrees, or ""."""
    arguments = case.arguments[number]
    func = loaded.lowered[name] if with_lowered else case.func
    expected = interpreter_arguments(arguments)
    try:
        run(func, None, *expected, max_steps=200_000)
    except InterpreterError as error:
        return f"the interpreter stops: {error}"
    given = compiled_arguments(arguments)
    try:
        loaded(name, *given)
    except KernelError as error:
        return f"the kernel stops: {error}"
    for position, (ours, wanted) in enumerate(zip(given, expected)):
        if isinstance(wanted, np.ndarray):
            found = difference(ours, wanted, case.tolerance.get(position, 0))
            if found:
                return f"argument {position} ({case.func.params[position].name}, {wanted.dtype}): {found}"
    return ""


def failures(seeds: range) -> list[str]:
    """Compile the programs of some seeds together and judge each; a line per disagreement."""
    cases = {f"f{seed}": random_case(seed) for seed in seeds}
    for case in cases.values():
        verify(case.func, 1)
    loaded = Loaded({name: case.func for name, case in cases.items()})
    found = []
    for name, case in cases.items():
        for number in range(len(case.arguments)):
            wrong = judge(case, number, loaded, name)
            if wrong:
                side = "code generation" if judge(case, number, loaded, name, with_lowered=True) else "a pass"
                found.append(f"seed {name[1:]}, arguments {number} ({side}): {wrong}")
                break
    return found


@pytest.mark.parametrize("start", range(0, 60 * TIMES, BATCH))
def test_compiled_programs_agree_with_the_interpreter(start: int) -> None:
    assert failures(range(start, start + BATCH)) == []


if __name__ == "__main__":
    for first in range(int(sys.argv[1]), int(sys.argv[2]), BATCH):
        try:
            lines = failures(range(first, min(first + BATCH, int(sys.argv[2]))))
        except Exception as error:
            lines = [f"seeds from {first}: {type(error).__name__}: {str(error)[:600]}"]
        print(first, *lines, sep="\n  " if lines else " ", flush=True)
