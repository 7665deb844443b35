"""Every public name, called with what it takes and with anything else: a result or a UnityError with a code and a text, soon.

Values come by the annotations of parameters, or from a list of what nobody expects. Not called: what ends or slows the process,
and classes that only the package makes. This file is a program as well: calls leave their traces in the process that makes them.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import operator
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import unity
import unity.meta_schedule as ms
from unity import relax, te, tir
from unity.ir.verifier.fields import first_fault
from unity.script import ir as script_ir, parse, relax as script_relax, tir as script_tir
from unity.support.annotations import fits
from unity.support.errors import UnityError

sys.path.append(str(Path(__file__).parents[1]))
from fuzz import SEED, TIMES

ROUNDS = 2 * TIMES
LIMIT_SECONDS = 10
PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func
    def product(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
        for i, j, k in T.grid(4, 4, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.add(y, x)
            R.output(z)
        return z
"""
SPACES = [
    "unity", "unity.ir", "unity.relax", "unity.relax.op", "unity.relax.op.nn", "unity.relax.op.image", "unity.tir", "unity.te",
    "unity.topi", "unity.topi.nn", "unity.relax.dpl", "unity.transform", "unity.relax.transform", "unity.tir.transform",
    "unity.relax.analysis", "unity.tir.analysis", "unity.script", "unity.tir.stmt_functor", "unity.meta_schedule",
    "unity.runtime", "unity.target", "unity.ffi", "unity.arith", "unity.instrument", "unity.op", "unity.frontend",
]  # fmt: skip
NOT_CALLED = frozenset([
    "remove_global_func", "set_num_threads", "show", "tune", "tune_tir", "tune_relax", "tune_tasks", "compile_relax",
    "compile_tir", "work_off", "unity_backend", "export_library", "close", "time_evaluator", "register_target", "row", "unary",
    "emulated_gpu", "plot",
])  # fmt: skip
NOT_MADE = frozenset([
    "Interval", "ModularSet", "GpuReport", "Span", "Fallback", "ImportReport", "CheckRecord", "Machine", "Proof", "Expr", "Type",
    "Stmt", "Node", "Instrument", "DumpInstrument", "PrintInstrument", "TimeInstrument", "VerifyInstrument", "KernelSignature",
    "PackedFunc", "DeviceKind", "Rewriter", "OpInfo", "Param", "Backend", "KernelCode", "TargetKind", "Runtime", "Operator",
    "CompiledModel", "ReduceAxis", "Executable", "Pass",
])  # fmt: skip
"""Classes whose objects the package makes, and bases."""
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lt, operator.le,
    operator.gt, operator.ge, operator.getitem,
]  # fmt: skip


class Odd:
    """A class nobody knows."""


class Slow(BaseException):
    """A call that takes too long."""


UNEXPECTED = [
    None, -1, 0, 10**30, 2**40, -(2**63), float("nan"), float("inf"), 1.5, True, 3 + 4j, "", "zz top", "é\0", b"x", [], [1, "a", None], {},
    {"a": 1}, {1: [2]}, (), (1,), (None,), [[1], [2, [3]]], set(), range(3), slice(0, 2), ..., NotImplemented, len, Odd(), Odd,
    np.int64(3), np.float32(1.5), np.zeros((2, 2), object), np.ones((2, 3)),
]  # fmt: skip


def known_values() -> list[Any]:
    """Objects of every kind that public functions take."""
    mod = parse(PROGRAM)
    func, main = mod["product"], mod["main"]
    executable = unity.compile(mod)
    x, n = relax.Var("x", relax.TensorType((4, 8), "float32")), tir.Var("n", "int64")
    a = te.placeholder((4, 8), "float32", "A")
    c = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, "C")
    sch = unity.Schedule(func)
    return [
        mod, func, main, func.body, main.body, main.body.blocks[0], main.body.blocks[0].bindings[0], x, n, n + 1, a, c, sch, sch.trace,
        sch.get_block("C"), *sch.get_loops("C"), executable, unity.VirtualMachine(executable), unity.DataType("float32"), "float32", "x",
        "main", "product", "C", 4, 1, 0, 2, 1.5, True, False, None, np.ones((4, 8), np.float32), unity.tensor(np.ones((4, 8), np.float32)),
        unity.Target("llvm"), "llvm", unity.cpu(0), relax.TensorType((4, 8), "float32"), unity.ir.prim_type("int32"),
        relax.dpl.wildcard(), relax.dpl.is_op("relax.add"), (4, 8), [4, 8], [x], [x, x], (x,), {"x": x}, [a, c], ["x"], lambda v: v,
        relax.const(1.0), te.var("m"), te.reduce_axis((0, 4)), unity.arith.Analyzer(), unity.transform.fuse_ops, relax.GlobalVar("product"),
        relax.ShapeExpr([4, 8]), unity.BlockBuilder(), unity.ir.Range(tir.const(0), tir.const(4)), ms.database.MemoryDatabase(),
    ]  # fmt: skip


def names_of(space: Any) -> list[str]:
    """The public names of a namespace."""
    return sorted(set(getattr(space, "__all__", ())) or set(dir(space)))


def namespaces() -> Iterator[tuple[str, Any]]:
    """What programs import names from."""
    for path in SPACES:
        try:
            yield path, importlib.import_module(path)
        except ImportError:
            yield path, operator.attrgetter(path.partition(".")[2])(unity)
    yield from (("T", script_tir), ("R", script_relax), ("I", script_ir))


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function and class that is to be had from a namespace, once."""
    seen: set[int] = set()
    for path, space in namespaces():
        for name in names_of(space):
            found = getattr(space, name, None) if not name.startswith("_") and name not in NOT_CALLED else None
            hidden = isinstance(found, types.ModuleType) or not callable(found) or id(found) in seen
            if hidden or not str(getattr(found, "__module__", "unity")).startswith("unity"):
                continue
            if isinstance(found, type) and (
                issubclass(found, (BaseException, enum.Enum)) or found.__name__ in NOT_MADE
            ):
                continue
            seen.add(id(found))
            yield f"{path}.{name}", found


class Caller:
    """Calls with arguments at random, and the faults that came out."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values = known_values()
        self.faults: dict[tuple[str, str], str] = {}
        self.answers = {"results": 0, "errors": 0}
        self._fitting: dict[str, list[Any]] = {}

    def argument(self, hint: Any, chance: float) -> Any:
        """A value of an annotation; with some chance any value."""
        if self.rng.random() < chance:
            return self.rng.choice(UNEXPECTED if self.rng.random() < 0.7 else self.values)
        key = str(hint)
        if key not in self._fitting:
            check = None if hint is inspect.Parameter.empty else fits(hint, exact=False)
            found = self.values if check is None else [v for v in self.values if check(v)]
            self._fitting[key] = found or self.values
        return self.rng.choice(self._fitting[key])

    def arguments(self, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a call: most bind, some are too many or have other names."""
        chance = self.rng.choice((0, 0.3, 0.6))
        try:
            parameters = list(inspect.signature(function).parameters.values())
            hints = typing.get_type_hints(function.__init__ if isinstance(function, type) else function)  # type: ignore[misc]
        except (TypeError, ValueError, NameError, AttributeError):
            parameters, hints = [], {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for p in parameters:
            value = self.argument(hints.get(p.name, p.empty), chance)
            if p.kind is p.VAR_POSITIONAL:
                args += [] if kwargs else [value] * self.rng.randrange(3)
            elif p.kind is not p.VAR_KEYWORD and (p.default is p.empty or self.rng.random() < 0.3):
                if p.kind is p.KEYWORD_ONLY or len(args) < parameters.index(p):
                    kwargs |= {} if p.kind is p.POSITIONAL_ONLY else {p.name: value}
                else:
                    args.append(value)
        if not parameters:
            args = [self.argument(inspect.Parameter.empty, chance) for _ in range(self.rng.randrange(4))]
        if self.rng.random() < 0.05:
            kwargs["taget"] = 1
        return args, kwargs

    def call(self, name: str, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call, None for one that was refused; anything else is a fault."""
        signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
        try:
            result = function(*args, **kwargs)
            self.answers["results"] += 1
            return result
        except UnityError as error:
            self.answers["errors"] += 1
            if error.code != "E904" and error.code.startswith("E") and str(error).startswith(f"error[{error.code}]"):
                return None
            fault, trace = f"{error.code}: {error}", error.__traceback__
        except OSError:  # a path that is taken
            return None
        except Slow as error:
            fault, trace = "takes too long", error.__traceback__
        except Exception as error:
            trace = error.__traceback__
            calls = [frame for frame in traceback.extract_tb(trace) if Path(frame.filename).name != "contextlib.py"]
            if isinstance(error, TypeError) and len(calls) == 1:  # Python's own: no such arguments
                return None
            fault = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        last = traceback.extract_tb(trace)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        self.faults.setdefault((name, place), f"{name} at {place}: {' '.join(fault.split())[:200]}")
        return None

    def walk(self) -> None:
        """Call functions and classes, then the methods and operators of what there is and of what was made."""
        objects: dict[type, list[Any]] = {}
        for value in self.values:
            objects.setdefault(type(value), []).append(value)
        for name, function in public_callables():
            for _ in range(ROUNDS):
                args, kwargs = self.arguments(function)
                made = objects.setdefault(type(found := self.call(name, function, args, kwargs)), [])
                if len(made) < 3 and first_fault(found) is None:
                    made.append(found)
        for kind, known in objects.items():
            known_here = kind.__module__.startswith("unity") and kind.__name__ not in NOT_MADE
            if known and known_here and not issubclass(kind, (BaseException, enum.Enum)):
                self._use(kind, known)

    def _use(self, kind: type, known: list[Any]) -> None:
        hooks = [n for n in dir(kind) if n.startswith("visit_") and n.endswith("_")]  # called by the package alone
        tables = [
            n
            for base in kind.__mro__
            for n, hint in vars(base).get("__annotations__", {}).items()
            if "ClassVar" in str(hint)
        ]
        for name in sorted(set(dir(kind)) - {*hooks, *tables, *NOT_CALLED}):
            for _ in range(0 if name.startswith("_") else ROUNDS):
                value = self.rng.choice(known)
                method = self.call(f"{kind.__name__}.{name}", getattr, [value, name], {})
                if callable(method):
                    self.call(f"{kind.__name__}.{name}", method, *self.arguments(method))
        for function in OPERATORS if isinstance(known[0], (unity.ir.Expr, te.Value, te.Tensor)) else ():
            for _ in range(ROUNDS):
                other = self.argument(inspect.Parameter.empty, 0.7)
                sides = [self.rng.choice(known), other]
                self.call(f"{kind.__name__} {function.__name__}", function, sides, {})
        self.call(f"repr of {kind.__name__}", repr, [self.rng.choice(known)], {})


def stop(*_: object) -> None:
    raise Slow


def test_any_call_ends_in_a_result_or_a_clear_error(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=100 * TIMES, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, stop)
    os.chdir(tempfile.mkdtemp())
    caller = Caller(random.Random(SEED))
    caller.walk()
    print(*caller.faults.values(), caller.answers, sep="\n")
    sys.exit(bool(caller.faults) or min(caller.answers.values()) < 1000)
