"""Print, read, print: the text is a fixpoint and the module read is equal to the one printed, for 1,000 random modules."""

from __future__ import annotations

import random

import pytest
from fuzz import TIMES
from generate import random_module
from test_random_programs import results, same

import unity.op  # noqa: F401 - fills the operator table
from unity.ir.structural import first_difference
from unity.script.printer.show import script
from unity.script.reader.module import parse

BATCHES = [range(start, start + 100) for start in range(0, 300 * TIMES, 100)]


@pytest.mark.parametrize("seeds", BATCHES, ids=[str(seeds.start) for seeds in BATCHES])
def test_print_read_print(seeds):
    for seed in seeds:
        mod = random_module(random.Random(seed)).mod
        text = script(mod)
        again = parse(text)
        difference = first_difference(mod, again)
        assert difference is None, f"seed {seed}: {difference}\n{text}"
        assert script(again) == text, f"seed {seed}"


def test_what_was_read_runs_the_same():
    for seed in range(0, 200 * TIMES, 8):
        program = random_module(random.Random(seed))
        same(results(program), results(program, parse(script(program.mod))))
