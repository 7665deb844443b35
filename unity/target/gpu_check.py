"""GPU programs checked on the processor: ``check_gpu`` runs every thread and reports what a device would do wrong or slowly.

The work is done by ``ir.interpret.threads``; here are the entry point and the report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.analysis.threads import is_device_function
from ..ir.function import Function, PrimFunc
from ..ir.interpret.threads import DEFAULT_MAX_LANES, Finding, Site, ThreadedInterpreter, has_kernels
from ..ir.module import IRModule
from ..ir.verifier.verifier import verify
from ..support.errors import InterpreterError
from ..transform.infra.passes import Pipeline

MAX_STEPS = 1 << 17
"""Iterations of loops, those of all threads side by side counting once, after which a program counts as endless."""
SHOWN = 10
"""Findings and access sites printed in a report."""


@dataclass(slots=True)
class GpuReport:
    """The results of a run.

    ``value`` is what the function returned (None for tensor programs, which write into their arguments); ``findings`` are the
    faults, each with its place, threads and cell; ``sites`` the accesses of shared and global memory with their traffic.
    """

    name: str
    value: Any
    findings: list[Finding]
    sites: list[Site]
    launches: int
    barriers: int
    arguments: tuple[Any, ...] = field(repr=False, default=())

    @property
    def ok(self) -> bool:
        """True when nothing was found wrong (traffic is not a fault)."""
        return not self.findings

    def of_kind(self, kind: str) -> list[Finding]:
        """Findings of one kind: "race", "barrier", "bounds", "uninitialised", "collective", "alignment"."""
        return [f for f in self.findings if f.kind == kind]

    @property
    def races(self) -> list[Finding]:
        """Two threads, one cell, at least one write, no barrier between."""
        return self.of_kind("race")

    @property
    def divergent_barriers(self) -> list[Finding]:
        """Barriers that some threads of a block do not reach."""
        return self.of_kind("barrier")

    @property
    def out_of_bounds(self) -> list[Finding]:
        """Accesses outside a buffer."""
        return self.of_kind("bounds")

    @property
    def uninitialised(self) -> list[Finding]:
        """Reads of memory nobody has written."""
        return self.of_kind("uninitialised")

    @property
    def bank_conflicts(self) -> list[Site]:
        """Accesses of shared memory that took more passes over the banks than needed, worst first."""
        found = [s for s in self.sites if s.scope.startswith("shared") and s.excess > 0]
        return sorted(found, key=lambda s: -s.excess)

    @property
    def uncoalesced(self) -> list[Site]:
        """Accesses of global memory that took more than the least number of 32-byte transactions, worst first."""
        found = [s for s in self.sites if s.scope == "global" and s.excess > 0]
        return sorted(found, key=lambda s: -s.excess)

    def raise_if_failed(self) -> GpuReport:
        """The report itself; raises the first finding where there is one."""
        if self.findings:
            raise self.findings[0]
        return self

    def __str__(self) -> str:
        state = "no fault found" if self.ok else f"{len(self.findings)} faults found"
        lines = [f"{self.name}: {state} ({self.launches} launches, {self.barriers} barriers)"]
        for finding in self.findings[:SHOWN]:
            lines += ["", str(finding)]
        if len(self.findings) > SHOWN:
            lines += ["", f"{len(self.findings) - SHOWN} more faults"]
        for title, sites in (("bank conflicts", self.bank_conflicts), ("uncoalesced accesses", self.uncoalesced)):
            if sites:
                lines += ["", f"{title}:", *[f"  {s}" for s in sites[:SHOWN]]]
        return "\n".join(lines)


def check_gpu(
    program: IRModule | Function | PrimFunc,
    *args: Any,
    name: str | None = None,
    pipeline: Pipeline | None = None,
    max_steps: int | None = None,
    max_lanes: int = DEFAULT_MAX_LANES,
    traffic: bool = True,
) -> GpuReport:
    """Run a GPU-shaped program on the processor with all its threads and report faults and traffic.

    ``args`` are those of the function ``name`` ("main", or the only function that is not a kernel): numpy arrays, tensors,
    numbers. A tensor program writes into its arrays, as on the device. ``pipeline`` is run on the module first: ``GPU_PIPELINE``
    for a scheduled program that has no barriers yet. ``max_lanes`` bounds the threads run side by side, ``max_steps`` the
    iterations of loops, ``MAX_STEPS`` where it is not given: an endless program ends (E320). ``traffic``: count what memory does; a
    run without takes less time.

    Raises: InterpreterError for arguments that do not fit and for programs that cannot be run at all (E367 to E369 and E372
    among them), VerifyError for a program that breaks the rules of the IR. Faults of the program itself are not raised, see
    ``GpuReport.raise_if_failed``.
    """
    if isinstance(program, IRModule):
        module = program
        called = [n for n, f in module.functions.items() if not is_device_function(f)]
        name = name or (called[0] if len(called) == 1 else "main")
    else:
        name = name or str(program.attrs.get("global_symbol", "main"))
        module = IRModule({name: program}, {}, {})
    verify(module)
    if pipeline is not None:
        module = pipeline(module)
    if not any([has_kernels(f) for f in module.prim_funcs().values()]):
        raise InterpreterError(
            "E367", f"{name} binds no thread axis: there is no kernel to check",
            help='bind loops with T.thread_binding(..., thread="threadIdx.x"), or run it with unity.ir.interpret',
        )  # fmt: skip
    interpreter = ThreadedInterpreter(module, MAX_STEPS if max_steps is None else max_steps, max_lanes, traffic)
    value = interpreter.run(name, *args)
    log = interpreter.log
    arrays = tuple([a for a in args if isinstance(a, np.ndarray)])
    sites = [s for s in log.sites if s.requests]
    return GpuReport(name, value, list(log.findings.values()), sites, log.launches, log.barriers, arrays)
