"""Random modules compiled and run by the VM, in both modes, agree with the reference interpreter."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from fuzz import TIMES
from generate import GraphGenerator, Program

import unity
import unity.op
from unity.ir.interpret import run


def flat(value: object) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [np.asarray(value)]


def programs(count: int) -> list[Program]:
    return [GraphGenerator(random.Random(seed)).module() for seed in range(count)]


@pytest.mark.parametrize("mode", ["bytecode", "native"])
def test_graph_modules(mode):
    for seed, program in enumerate(programs(15 * TIMES)):
        expected = flat(run(program.mod, "main", *copy.deepcopy(program.args)))
        executable = unity.compile(program.mod, exec_mode=mode)
        machine = unity.VirtualMachine(executable, exec_mode=mode)
        actual = flat(machine["main"](*[unity.tensor(a) for a in program.args]))
        assert len(actual) == len(expected)
        for x, y in zip(actual, expected):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=f"seed {seed}")
