"""Attributes and annotations that passes and code generators read, with values of any kind: built, or refused in words."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))  # this file is a program as well
from fuzz import SEED, TIMES

import unity
from unity.ir.analysis.threads import MIN_BLOCKS_PER_SM, OWN_BARRIERS
from unity.ir.stmt import BACKWARDS
from unity.script import parse
from unity.support.errors import UnityError
from unity.target.kernel_groups import KEY
from unity.transform.default_schedule.common.choices import PART, SCHEDULE
from unity.transform.tir.analysis.parallel_cost import PARALLEL_CHUNK
from unity.transform.tir.blocks.lower_opaque_block import DOUBLE_BUFFER, REDUCTION
from unity.transform.tir.loops.unroll_loop import EXPLICIT, PRAGMA
from unity.transform.tir.threads.inject_software_pipeline import ASYNC_SCOPE
from unity.transform.tir.vectors.configure_tiles import TILE_REGISTERS

KEYS = [
    MIN_BLOCKS_PER_SM, OWN_BARRIERS, KEY, PART, SCHEDULE, BACKWARDS, PARALLEL_CHUNK, DOUBLE_BUFFER, REDUCTION, EXPLICIT, PRAGMA,
    ASYNC_SCOPE, TILE_REGISTERS, "thread_extent", "virtual_thread", "reduce_scope", "software_prefetch_panel",
    "software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages", "layout_free_placeholders",
    "buffer_dim_align", "pragma_loop_partition_hint", "tir.is_scheduled", "op_pattern", "calling_conv", "target",
]  # fmt: skip
VALUES = ["1", "0", "-1", "True", "None", "'text'", "1.5", "T.int64(3)", "T.bool(False)", "n", "A[0]", "A.data", "[1]", "[0, 'x']",
          "{'rows': 8}", "{'a': 'b'}", "10**30"]  # fmt: skip
NODES = ["0", "A", "A.data", "None", "n", "'x'"]
PLACES = [
    "with T.attr({node}, '{key}', {value}):\n        for i in {kind}(16):\n            A[i] = A[i] + T.float32(1)",
    "T.func_attr({{'{key}': {value}}})\n    for i in {kind}(16):\n        A[i] = A[i] + T.float32(1)",
    "for i in {kind}(16, annotations={{'{key}': {value}}}):\n        A[i] = A[i] + T.float32(1)",
    "for i in {kind}(16):\n        with T.block('b'):\n            vi = T.axis.spatial(16, i)\n"
    "            T.block_attr({{'{key}': {value}}})\n            A[vi] = A[vi] + T.float32(1)",
]
TARGETS = ["llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v4", "llvm -mcpu=x86-64-v3", "cuda -arch=sm_80"]


def text(rng: random.Random) -> str:
    """A program with one such mark."""
    kind = rng.choice(["T.serial", "T.parallel", "T.vectorized", "T.unroll"])
    body = rng.choice(PLACES).format(node=rng.choice(NODES), key=rng.choice(KEYS), value=rng.choice(VALUES), kind=kind)
    return f"@T.prim_func\ndef main(A: T.Buffer((16,), 'float32'), n: T.int64):\n    {body}\n"


def main() -> None:
    """Build them all."""
    for case in range(60 * TIMES):
        rng = random.Random(f"{SEED}.{case}")
        program = text(rng)
        print(f"case {case} of seed {SEED}\n{program}", file=sys.stderr, flush=True)
        try:
            unity.compile(parse(program), target=rng.choice(TARGETS))
        except UnityError as problem:
            assert problem.code != "E717" and problem.code[:2] != "E9", problem


def test_marks_of_any_value() -> None:
    """In a process of its own: LLVM ends it at what it cannot select."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=300 * TIMES)
    assert done.returncode == 0, done.stderr[-3000:]


def test_tile_registers_that_the_target_does_not_have() -> None:
    program = "@T.prim_func\ndef main(A: T.Buffer((16,), 'float32')):\n    with T.attr(0, 'tile_registers', 0):\n        A[0] = T.float32(1)\n"
    with pytest.raises(UnityError) as caught:
        unity.compile(parse(program), target="llvm -mcpu=x86-64-v3")
    assert caught.value.code == "E520"


if __name__ == "__main__":
    main()
