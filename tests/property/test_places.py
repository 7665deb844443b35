"""Errors about programs of script text say where in the text: programs with random changes, schedules, failed checks."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))
from fuzz import SEED, TIMES
from test_mutated_scripts import TEXTS, change

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.infra.inputs import NoInput, make_inputs
from unity.vm.stages import as_module

ABOUT_NO_NODE = {"E531"}
"""Errors about a target's description, not about a node."""


def has_place(error: UnityError) -> bool:
    """True if an error or one of its notes names a line of the text."""
    notes = [note.span is not None or "<script>:" in note.message for note in error.notes]
    return error.span is not None or any(notes)


def stages(text: str, build: bool) -> str:
    """Read, run and build a program; the stage that it came to."""
    mod = as_module(parse(text))
    if build:
        unity.compile(mod)
    for name in list(mod.functions)[:2]:
        try:
            given = make_inputs(mod[name], 0, "edge", limit=4).arguments
        except (NoInput, UnityError):
            continue
        run(mod, name, *given, max_steps=3000)
    return "ran"


def test_errors_about_changed_programs_have_places() -> None:
    found, without = Counter(), []
    for case in range(400 * TIMES):
        rng = random.Random(f"places {SEED} {case}")
        text = rng.choice(TEXTS)
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = change(rng, text)
        try:
            found[stages(text, case % 20 == 0)] += 1
        except UnityError as error:
            found[error.code[:2]] += 1
            if error.code not in ABOUT_NO_NODE and not has_place(error):
                without.append(f"{error}\n{text}")
    assert not without, f"{len(without)}:\n" + "\n".join(without[:3])
    assert len(found) >= 4 and found["ran"] > 20 * TIMES


PROGRAM = """
@T.prim_func
def f(a: T.handle, k: T.int64, B: T.Buffer((8,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(8):
        with T.block("copy"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi + k]
"""


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_a_failed_check_of_a_program_has_a_place(mode: str) -> None:
    machine = unity.VirtualMachine(unity.compile(parse(PROGRAM)), exec_mode=mode)
    with pytest.raises(UnityError, match="checked at <script>:9") as caught:
        machine["f"](np.ones(5, "float32"), 1, np.zeros(8, "float32"))
    assert caught.value.code == "E614" and "<script>" not in caught.value.message


def test_a_refused_primitive_names_the_line_of_its_loop_or_block() -> None:
    sch = unity.Schedule(parse(PROGRAM))
    block = sch.get_block("copy")
    (loop,) = sch.get_loops(block)
    for step in (
        lambda: sch.split(loop, factors=[0, 2]),
        lambda: sch.compute_inline(block),
        lambda: sch.fuse(loop, loop),
    ):
        with pytest.raises(UnityError) as caught:
            step()
        assert caught.value.span is not None and caught.value.span.line in (6, 7)


def test_bits_of_floats_are_refused_where_the_text_is_read() -> None:
    for text in ("A[0] & A[1]", "A[0] << A[1]", "~A[0]", "T.popcount(A[0])"):
        with pytest.raises(UnityError):
            parse(f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[2] = {text}\n')
