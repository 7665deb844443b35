"""Costs of the VM: a whole call from Python, one kernel inside a chain, a registered function. Run: python -m benchmarks.bench_vm

The tensor programs are tiny (8 elements), so what is measured is the way to them. Times are the best of several repeats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "vm")]

import vm_doubles as d

import unity
from unity.support.errors import MissingExtraError
from unity.support.optional import require
from unity.vm.virtual_machine import VirtualMachine


def best(function: Callable[[], object], calls: int = 20000, repeats: int = 7) -> float:
    """Seconds per call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def chain(count: int, planned: bool) -> object:
    """main(a, b, c, e): ``count`` kernels one after the other on 8 floats."""
    params = [d.var(name, 8) for name in "abce"]
    s = d.Var("s", d.OBJECT)
    bindings = [(s, d.storage(256))] if planned else []
    current = params[0]
    for index in range(count):
        last = index == count - 1
        out = d.var(f"t{index}", 8)
        bindings.append((out, d.tensor_in(s, 64 * (index % 2), 8) if planned and not last else d.alloc(8)))
        bindings.append((d.Var("_", d.OBJECT), d.run_kernel("add", current, params[index % 4], out)))
        current = out
    return d.fn(params, bindings, current)


def main() -> None:
    """Print the table."""
    unity.register_func("bench.identity", lambda x: x, override=True)
    x = d.var("x", 8)
    y = d.Var("y", d.ten(8))
    functions = {
        "one": chain(1, True), "twenty": chain(20, True), "hundred": chain(100, True), "twenty_unplanned": chain(20, False),
        "identity": d.fn([x], [], x), "packed": d.fn([x], [(y, d.packed("bench.identity", [x], d.ten(8)))], y),
    }  # fmt: skip
    vm = VirtualMachine(d.executable(functions))
    slow = VirtualMachine(d.executable(functions), exec_mode="bytecode")
    arrays = [np.ones(8, np.float32) for _ in range(4)]
    one = vm["one"]
    print(f"call with 4 numpy arrays, 1 kernel     {best(lambda: one(*arrays)) * 1e9:8.0f} ns")
    tensors = [unity.tensor(a) for a in arrays]
    print(f"call with 4 unity tensors, 1 kernel    {best(lambda: one(*tensors)) * 1e9:8.0f} ns")
    try:
        torch = require("torch")
    except MissingExtraError:
        print("call with 4 torch tensors               (torch is not installed)")
    else:
        torches = [torch.ones(8) for _ in range(4)]
        one(*torches)
        print(f"call with 4 torch tensors, 1 kernel    {best(lambda: one(*torches)) * 1e9:8.0f} ns")
    twenty, hundred = best(lambda: vm["twenty"](*arrays)), best(lambda: vm["hundred"](*arrays))
    each = (hundred - twenty) / 80
    print(f"each further kernel (20 -> 100)         {each * 1e9:8.1f} ns (the kernel's own time included)")
    print(f"call with 20 kernels, planned           {twenty * 1e9:8.0f} ns")
    print(f"call with 20 kernels, unplanned         {best(lambda: vm['twenty_unplanned'](*arrays)) * 1e9:8.0f} ns")
    plain, packed = best(lambda: vm["identity"](arrays[0])), best(lambda: vm["packed"](arrays[0]))
    print(f"registered Python function, whole call  {packed * 1e9:8.0f} ns ({plain * 1e9:.0f} ns without the function)")
    print(f"interpreter, 20 kernels                 {best(lambda: slow['twenty'](*arrays), 200) * 1e9:8.0f} ns")


if __name__ == "__main__":
    main()
