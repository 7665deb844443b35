"""Compiled tensor programs agree with the reference interpreter on random programs."""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path

import numpy as np
from fuzz import TIMES
from generate import random_prim_func

from unity.ir.interpret import run

sys.path.append(str(Path(__file__).parent.parent / "target"))

from kernels import Loaded


def test_compiled_programs_agree_with_the_interpreter():
    programs = [random_prim_func(random.Random(seed), native=seed % 2 == 0) for seed in range(40 * TIMES)]
    loaded = Loaded({f"f{k}": p.mod["main"] for k, p in enumerate(programs)})
    for k, program in enumerate(programs):
        expected, actual = copy.deepcopy(program.args), copy.deepcopy(program.args)
        run(program.mod, "main", *expected)
        loaded(f"f{k}", *actual)
        for position in program.outputs:
            np.testing.assert_array_equal(
                actual[position], expected[position], err_msg=f"seed {k}, argument {position}"
            )
