"""Compiled operators on the device of this machine, or on the emulated one: what the reference interpreter gives, with sizes that are
numbers or with sizes that are symbols, in turn. ``UNITY_GPU_SWEEP=1`` runs every sample of every operator with both; so does
``test_default_schedules_operators.py``, without code for a device."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.ir.interpret import run
from unity.support.errors import InterpreterError, TypeRuleError

sys.path += [str(Path(__file__).parents[1] / room) for room in ("op", "property")]
from op_cases import CASES
from test_against_numpy import build
from test_default_schedules_operators import SHOWN
from test_operator_graphs import same

pytestmark = pytest.mark.gpu
ARCH = os.environ.get("UNITY_GPU_ARCH", "sm_80")


KINDS = ("fixed", "symbolic")


def _samples() -> list[Any]:
    """All samples, or the last of each operator that is shown; whether sizes are symbols."""
    every = {f"{case[0]}-{number}": case for number, case in enumerate(CASES)}
    if os.environ.get("UNITY_GPU_SWEEP") == "1":
        chosen = [(name, kind) for name in every for kind in KINDS]
    else:
        last = {case[0]: name for name, case in every.items() if case[0] in SHOWN}
        chosen = [(name, KINDS[place % 2]) for place, name in enumerate(last.values())]
    return [pytest.param(every[name], kind == "symbolic", id=f"{name}-{kind}") for name, kind in chosen]


@pytest.mark.parametrize("case,symbolic", _samples())
def test_an_operator_gives_what_the_interpreter_gives(case: Any, symbolic: bool) -> None:
    try:
        mod, arrays = build(*case, symbolic)
        compiled = unity.compile(mod, target=f"cuda -arch={ARCH}")
    except TypeRuleError:
        assert symbolic
        pytest.skip("its sizes must be known")
    try:
        with np.errstate(all="ignore"):
            expected = run(mod, "main", *copy.deepcopy(arrays))
    except InterpreterError as problem:
        assert symbolic and problem.code in ("E317", "E321")
        pytest.skip("sizes that are broadcast must be known")
    with device_or_emulated(ARCH, traffic=False, launched=False):
        found = unity.VirtualMachine(compiled, unity.cuda(0))["main"](*copy.deepcopy(arrays))
        same(found, expected, mod.script())
