"""The thread-level checker against the scalar interpreter: random programs run as kernels of one thread, bit for bit."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from fuzz import TIMES
from prim_func_fuzz import Case, random_case
from test_prim_func_fuzz import difference, interpreter_arguments

from unity.ir import build as b
from unity.ir.buffer import Buffer
from unity.ir.expr import Var
from unity.ir.function import PrimFunc
from unity.ir.interpret.scalar.interpreter import Interpreter
from unity.ir.interpret.threads import ThreadedInterpreter
from unity.ir.module import IRModule
from unity.ir.node import replace
from unity.ir.stmt import AllocBuffer, Block, For
from unity.ir.types import PointerType
from unity.ir.walk import collect, substitute

BATCH = 10


def as_kernel(func: PrimFunc) -> PrimFunc:
    """The body under a thread axis of extent 1, its own memory in registers."""
    own: list[Buffer] = [a.buffer for a in collect(func.body, AllocBuffer)]
    own += [x for block in collect(func.body, Block) for x in block.alloc_buffers]
    mapping: dict[Any, Any] = {}
    for buffer in own:
        ty = buffer.data.ty
        assert isinstance(ty, PointerType)
        mapping[buffer.data] = Var(buffer.data.name, PointerType(ty.element, "local"))
    body = substitute(func.body, mapping) if mapping else func.body
    thread = b.index_var("tx", "int32")
    loop = For(thread, b.const(0, "int32"), b.const(1, "int32"), "thread_binding", body, "threadIdx.x")
    return replace(func, body=loop)  # type: ignore[no-any-return]


def compare(case: Case) -> None:
    """Run both ways and compare the arguments afterwards."""
    kernel = as_kernel(case.func)
    for arguments in case.arguments:
        expected, found = interpreter_arguments(arguments), interpreter_arguments(arguments)
        Interpreter(IRModule({"main": case.func}, {}, {})).run("main", *expected)
        threaded = ThreadedInterpreter(IRModule({"main": kernel}, {}, {}), traffic=False)
        threaded.run("main", *found)
        faults = [
            f for f in threaded.log.findings.values() if f.kind != "alignment"
        ]  # vectors anywhere are fine on a CPU
        assert not faults, faults[0]
        for position, (x, y) in enumerate(zip(found, expected)):
            if isinstance(x, np.ndarray):
                wrong = difference(x, y, case.tolerance.get(position, 0.0))
                assert not wrong, f"argument {position}: {wrong}\n{kernel.script()}"


@pytest.mark.parametrize("batch", range(3 * TIMES))
def test_random_programs(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        compare(random_case(seed))


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    for number in range(first, last):
        try:
            compare(random_case(number))
        except Exception as error:
            print(f"seed {number}: {type(error).__name__}: {str(error)[:600]}")
