"""CPU time of printing about 1,000 and 10,000 lines of script, graph and tensor level. Run: python benchmarks/bench_print.py"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "script"))

from test_print_module import matmul, sym, tensor

from unity.ir import Call, DataflowBlock, Function, IRModule, SeqExpr, Var, VarBinding, op


def graph(lines: int) -> IRModule:
    """One graph function of many operator calls."""
    n = sym("n")
    last = first = Var("x", tensor(n))
    bindings = []
    for number in range(lines):
        var = Var(f"lv{number}", tensor(n), dataflow=True)
        bindings.append(VarBinding(var, Call(op("R.add"), (last, last), {}, (), tensor(n))))
        last = var
    body = SeqExpr((DataflowBlock(tuple(bindings)),), last)
    return IRModule({"main": Function((first,), body, tensor(n), True, {})}, {}, {})


def kernels(lines: int) -> IRModule:
    """Many matrix products of 13 lines."""
    return IRModule({f"f{i}": matmul()[0] for i in range(lines // 13)}, {}, {})


for name, make in (("graph", graph), ("tensor", kernels)):
    for size in (1_000, 10_000):
        mod = make(size)
        best = 1e9
        for _ in range(5):
            start = time.process_time()
            text = mod.script()
            best = min(best, time.process_time() - start)
        print(f"{name:7} {text.count(chr(10)):6} lines  {best * 1e3:8.2f} ms")
