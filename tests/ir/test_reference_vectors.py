"""Vector accesses in the reference interpreter do what those of their lanes one by one do: numbers, checks and messages."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fuzz import TIMES
from samples import buffer, i64, load, loop, nest, prim_func

from unity.ir import AllocBuffer, BufferLoad, BufferStore, Cast, Expr, IfThenElse, PrimFunc, Stmt, prim_type, seq
from unity.ir.build import add, broadcast, const, intrinsic, lt, mul, ramp
from unity.ir.interpret import run
from unity.support.errors import InterpreterError

SIZE = 140


def outcome(fn: PrimFunc, out: np.ndarray) -> tuple[list[int], str]:
    """What a program leaves, and its error."""
    try:
        run(fn, None, out)
    except InterpreterError as error:
        return out.tolist(), f"{error.code} {error.message}"
    return out.tolist(), ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "int4", "uint8", "bool"])
def test_a_vector_access_is_that_of_its_lanes(dtype: str) -> None:
    rng, lanes, seen = random.Random(dtype), 4, set()
    for _ in range(120 * TIMES):
        t, y, out = buffer("T", (SIZE,), dtype), buffer("Y", (SIZE,), dtype), buffer("O", (SIZE,), "int32")
        start, stride = rng.choice([0, 3, 16, 17, 125, 137]), rng.choice([1, 1, 1, 2, -1, 0])
        turn, is_read = rng.choice([0, 1, 4]), rng.random() < 0.5
        is_inside = start < 100  # one kind of error at a time: vectors have all their places checked first
        filled, turns = (rng.choice([SIZE, 20]), 2) if is_inside else (SIZE, 1)
        index_type, active = rng.choice(["int64", "int64", "int8"]), rng.choice([0, 3, 4, 4, 4])
        i, lane = loop("i", turns, rng.choice(["serial", "parallel"])), loop("k", lanes)
        fill, copied = loop("f", filled), loop("c", SIZE)

        def typed(value: Expr, name: str) -> Expr:
            return value if name == "int64" else Cast(value, prim_type(name))

        first = typed(add(mul(i[0], i64(turn)), i64(start)), index_type)
        vector = ramp(first, const(stride, index_type), lanes)
        one = add(first, mul(typed(lane[0], index_type), const(stride, index_type)))
        own = mul(i[0], i64(lanes))
        row = ramp(own, i64(1), lanes)
        some = intrinsic("get_active_lane_mask", i64(0), i64(active), dtype=f"boolx{lanes}")
        mask = None if active == lanes else some
        reads, writes = (vector, row) if is_read else (row, vector)
        wide: Stmt = BufferStore(y, BufferLoad(t, (reads,), prim_type(f"{dtype}x{lanes}"), mask), (writes,), mask)
        reads, writes = (one, add(own, lane[0])) if is_read else (add(own, lane[0]), one)
        narrow = nest([lane], IfThenElse(lt(lane[0], i64(active)), BufferStore(y, load(t, reads), (writes,))))
        found = []
        for copy in (wide, narrow):
            body = seq(
                AllocBuffer(t), AllocBuffer(y),
                nest([fill], BufferStore(t, typed(fill[0], dtype), (fill[0],))),
                nest([copied], BufferStore(y, typed(i64(0), dtype), (copied[0],))),
                nest([i], copy),
                nest([copied], BufferStore(out, typed(load(y, copied[0]), "int32"), (copied[0],))),
            )  # fmt: skip
            found.append(outcome(prim_func(body, out), np.full(SIZE, -1, "int32")))
        assert found[0] == found[1], (start, stride, turn, index_type, active, is_read)
        seen.add(found[0][1][:4])
    assert seen >= {"", "E310", "E311", "E312"}


def test_a_vector_is_not_stored_into_read_only_memory() -> None:
    a = buffer("A", (4,))
    data = np.zeros(4, "float32")
    data.flags.writeable = False
    store = BufferStore(a, broadcast(const(1.0, "float32"), 4), (ramp(i64(0), i64(1), 4),))
    with pytest.raises(InterpreterError, match=r"E319.*read-only"):
        run(prim_func(store, a), None, data)
