"""Random sequences of all passes over hostile modules: a few seeds; ``pass_fuzz.py`` searches for long."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fuzz import TIMES
from hostile_programs import hostile_inputs, hostile_program
from pass_fuzz import CHAINS, LAST, OTHERS, SETTLES, sequence, symbolic, trial, walk

from unity.script import parse
from unity.transform import PASSES, Pipeline


@pytest.mark.parametrize("first", range(706, 706 + 12 * TIMES, 6))
def test_random_sequences(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 6):
        fault = trial(seed, counts)
        assert fault is None, f"{fault.kind} {fault.step}\n{fault.text}"
    assert counts["changes"] > 2


def test_programs_that_allocate_as_much_as_a_symbol_says() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3, 8):
        rng = random.Random(seed)
        fault = walk(symbolic(rng), sequence(rng, alone=True), counts, rng)
        assert fault is None, f"seed {seed}: {fault.kind} {fault.step}\n{fault.text}"
    assert counts["compiled"] == 5


def test_all_passes_are_tried() -> None:
    """By name, or for what they need, in tests of their own."""
    names = {p.name for text in (*SETTLES, *OTHERS, *LAST, *CHAINS) if text[0] != "!" for p in Pipeline.parse(text)}
    names |= {text[1:] for text in OTHERS if text[0] == "!"}
    elsewhere = {"lazy_get_input", "lazy_set_output", "lazy_transform_params"}  # their callbacks are parameters
    elsewhere |= {
        "verify_memory",
        "verify_gpu_code",
        "lower_warp_memory",
        "split_wide_vectors",
    }  # tests/gpu: kernels alone
    ours = {
        name
        for name, step in PASSES.items()
        if step.function.__module__.startswith(("unity.transform.", "unity.relax.passes."))
    }
    assert ours - names == elsewhere


def test_hostile_programs_are_valid() -> None:
    """They parse, and hold what they promise."""
    texts = [hostile_program(random.Random(seed)) for seed in range(40)]
    for text in texts:
        parse(text)
    words = (
        "if ",
        "@R.function\n        def",
        "R.call_packed",
        "R.call_inplace",
        "private=True",
        "def other",
        "R.match_cast",
        "nan",
        "int8",
    )
    assert [w for w in words if not any([w in t for t in texts])] == []
    assert any([0 in a.shape for a in hostile_inputs(random.Random(0), True)])
