"""Tensor programs with kernels: the code around them runs as in the scalar interpreter, a kernel with all its threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.errors import InterpreterError
from ...analysis.threads import is_thread_axis
from ...buffer import Buffer
from ...expr import Call, Op, Var
from ...function import Function, PrimFunc
from ...module import IRModule
from ...stmt import AttrStmt, For
from ...types import PrimType, pointed
from ...walk import collect
from ..common.blocks import Run
from ..common.expressions import Env
from ..scalar.interpreter import Interpreter
from ..scalar.intrinsics import INTRINSICS as SCALAR
from ..scalar.machine import Machine
from ..scalar.primfunc import CompiledPrimFunc
from ..scalar.statements import StmtCompiler
from . import barriers as _barriers, fragments as _fragments, mma as _mma, warp as _warp, warpgroup as _warpgroup
from .findings import Log
from .intrinsics import INTRINSICS
from .kernel import Kernel
from .memory import rank_of

TABLES = (_barriers, _fragments, _mma, _warp, _warpgroup)
"""Modules that give intrinsics their meaning when imported."""

TOGETHER = frozenset(INTRINSICS.keys() - SCALAR.keys() | {"T.tvm_storage_sync"})
"""Intrinsics by which threads work together."""
DEFAULT_MAX_LANES = 1 << 14


def has_kernels(func: PrimFunc) -> bool:
    """True if a tensor program binds thread axes."""
    return any([is_thread_axis(s) for s in collect(func.body, (For, AttrStmt))])


def needs_threads(func: PrimFunc) -> bool:
    """True if the threads of a program work together, so that running them one by one would be wrong."""
    return has_kernels(func) and any([type(c.op) is Op and c.op.name in TOGETHER for c in collect(func.body, Call)])


class HostCompiler(StmtCompiler):
    """Statements around kernels. Memory of a kernel that is declared outside of it is made at the launch."""

    def __init__(self, machine: Machine, log: Log, granule: int, max_lanes: int) -> None:
        super().__init__(machine)
        self.log, self.granule, self.max_lanes = log, granule, max_lanes
        self.around: list[Buffer] = []
        """Memory of kernels that is declared outside of them."""

    def loop(self, stmt: For) -> Run:
        """A loop, or a kernel."""
        return self._kernel(stmt) if is_thread_axis(stmt) else super().loop(stmt)

    def attribute(self, stmt: AttrStmt) -> Run:
        """An attribute without meaning, or a kernel."""
        return self._kernel(stmt) if is_thread_axis(stmt) else self.visit(stmt.body)

    def _kernel(self, stmt: For | AttrStmt) -> Run:
        kernel = Kernel(stmt, self.machine, self.log, self.expr.visit, self.granule, self.max_lanes, self.around)

        def run(env: Env) -> Env:
            kernel.launch(env)
            return env

        return run

    def allocation(self, buffer: Buffer) -> Callable[[Any], None]:
        """Memory of the scopes of a kernel is made by the kernel."""
        if rank_of(buffer.scope) in (None, "grid"):
            return super().allocation(buffer)
        self.expr.declare(buffer)
        self.around.append(buffer)
        return lambda env: None


def cell_size(func: PrimFunc) -> int:
    """Size in bytes of the smallest number the program keeps in memory."""
    sizes = [b.dtype.element.itemsize for b in collect(func, Buffer)]
    for call in collect(func.body, Call):
        if type(call.op) is Op and call.op.name == "T.type_annotation" and isinstance(call.ty, PrimType):
            sizes.append(call.ty.dtype.element.itemsize)
    for var in collect(func.body, Var):
        dtype = pointed(var.ty)
        if dtype is not None and dtype.bits:
            sizes.append(dtype.element.itemsize)
    return min([s for s in sizes if s], default=1)


class ThreadedPrimFunc(CompiledPrimFunc):
    """A tensor program whose kernels run with all their threads."""

    def __init__(self, fn: PrimFunc, name: str, machine: Machine, log: Log, max_lanes: int) -> None:
        narrow = [b.name for b in collect(fn, Buffer) if b.dtype.is_integral and b.dtype.bits < 8]
        if narrow:
            raise InterpreterError("E369", f"{narrow[0]}: integers below a byte inside kernels", fn.span)
        self.log, self.max_lanes = log, max_lanes
        super().__init__(fn, name, machine)

    def statement_compiler(self, machine: Machine) -> StmtCompiler:
        """Statements whose kernels run with all their threads."""
        return HostCompiler(machine, self.log, cell_size(self.fn), self.max_lanes)


class ThreadedInterpreter(Interpreter):
    """The reference interpreter with kernels run thread by thread; ``log`` gathers what they bring to light."""

    def __init__(
        self, mod: IRModule, max_steps: int | None = None, max_lanes: int = DEFAULT_MAX_LANES, traffic: bool = True
    ) -> None:
        super().__init__(mod, max_steps)
        self.log = Log(traffic)
        self.max_lanes = max_lanes

    def _call(self, name: str, args: list[Any], span: Any) -> Any:
        fn = self.mod[name]
        if isinstance(fn, PrimFunc) and has_kernels(fn):
            compiled = self.machine.compiled.get(name)
            if compiled is None:
                compiled = ThreadedPrimFunc(fn, name, self.machine, self.log, self.max_lanes)
                self.machine.compiled[name] = compiled
            return compiled.call(args, span)
        return super()._call(name, args, span)


def run(mod: IRModule | Function | PrimFunc, name: str | None = None, *args: Any, max_steps: int | None = None) -> Any:
    """Run a function of a module (``run(mod, "main", x, w)``), or a single function (``run(fn, None, x)``).

    Loops over thread axes run one thread after the other, but where the threads of a program work together (barriers, shuffles,
    matrix units) they run side by side; a fault found there is raised.
    """
    if isinstance(mod, (Function, PrimFunc)):
        name = name or str(mod.attrs.get("global_symbol", "main"))
        mod = IRModule({name: mod}, {}, {})
    if not any([needs_threads(fn) for fn in mod.prim_funcs().values()]):
        return Interpreter(mod, max_steps).run(name or "main", *args)
    interpreter = ThreadedInterpreter(mod, max_steps, traffic=False)
    value = interpreter.run(name or "main", *args)
    for finding in interpreter.log.findings.values():
        raise finding
    return value
