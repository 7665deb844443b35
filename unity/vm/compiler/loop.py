"""Functions that end with a call of themselves -> a loop in bytecode, so that their depth is no matter.

Such a function becomes two: the step, its body, which returns ``(True, next arguments...)`` where it would call itself last and
``(False, result)`` elsewhere; and the loop, which calls the step until it has a result. Every step has a frame of its own: its
memory is given back, its parameters are checked and its symbols bound anew. Not here: functions that call each other in turn.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.expr import Binding, Call, GlobalVar, If, SeqExpr, VarBinding
from ...ir.function import Function, seq_body
from ...ir.types import Expr
from ...op.common.table import R
from ...support.errors import VMError
from ..executable import bytecode as bc
from .function import FunctionCompiler, LowerCall
from .tables import ModuleCompiler

_KILLS = (R.memory.kill_tensor.name, R.memory.kill_storage.name, R.vm.kill_object.name)
"""The calls that may stand between the last call and the return: the step's memory dies with its frame."""


def is_tail_recursive(name: str, fn: Function) -> bool:
    """True if a function returns the result of a call of itself on some path, and something else on another."""
    pending, again, ends = [seq_body(fn)], False, False
    while pending:
        _, last = _split(pending.pop())
        if type(last) is If:
            branches = [b for b in (last.then_branch, last.else_branch) if type(b) is SeqExpr]
            pending += branches
            ends |= len(branches) < 2
        elif _is_call_of(last, name):
            again = True
        else:
            ends = True
    return again and ends


def _is_call_of(value: Expr | None, name: str) -> bool:
    return type(value) is Call and type(value.op) is GlobalVar and value.op.name == name


def _is_kill(binding: Binding) -> bool:
    value = getattr(binding, "value", None)
    return type(value) is Call and value.op_name in _KILLS


def _split(seq: SeqExpr) -> tuple[list[Binding], Expr | None]:
    """The bindings of a sequence, and the conditional or call whose result is its value (not among the bindings then)."""
    bindings = seq.bindings
    if isinstance(seq.body, (If, Call)):
        return bindings, seq.body
    at = len(bindings)
    while at and _is_kill(bindings[at - 1]):
        at -= 1
    last = bindings[at - 1] if at else None
    if type(last) is VarBinding and last.var is seq.body and isinstance(last.value, (If, Call)):
        return bindings[: at - 1], last.value
    return bindings, None


class StepCompiler(FunctionCompiler):
    """Compiles the body of a function that calls itself last; every path returns a tuple that begins with a flag."""

    def __init__(self, module: ModuleCompiler, name: str, step: str, fn: Function, lower_call: LowerCall) -> None:
        super().__init__(module, step, fn, lower_call)
        self.function = name

    def compile(self) -> bc.VMFunction:
        """The step's bytecode: private, its result a tuple."""
        return replace(super().compile(), ret="R.Object", exported=False)

    def body(self, seq: SeqExpr) -> None:
        """Code of a sequence whose value is returned."""
        bindings, last = _split(seq)
        if type(last) is not If and not _is_call_of(last, self.function):
            self.return_values(bc.Imm(False), [self.sequence(seq)])
            return
        for binding in bindings:
            self.binding(binding)
        self.where = self.module.place(last.span)  # type: ignore[union-attr]
        if type(last) is Call:
            if len(last.args) != len(self.fn.params):
                message = f"{self.function} takes {len(self.fn.params)} arguments, the call has {len(last.args)}"
                raise VMError("E624", message, last.span)
            self.return_values(bc.Imm(True), [self.value(a) for a in last.args])
            return
        assert type(last) is If
        cond = self.value(last.cond)
        hole, where, slots = len(self.code), self.where, dict(self.slot_of)
        self.code.append(bc.If(cond, -1, where))
        self.branch_body(last.then_branch)
        self.code[hole] = bc.If(cond, len(self.code), where)
        self.slot_of = slots
        self.branch_body(last.else_branch)

    def branch_body(self, branch: Expr) -> None:
        """Code of a branch whose value is returned."""
        self.body(branch if type(branch) is SeqExpr else SeqExpr((), branch))

    def return_values(self, again: bc.Imm, values: list[bc.Arg]) -> None:
        """Return the flag and the values."""
        self.code.append(bc.Ret(self.result("tuple", again, *values), self.where))


class LoopCompiler(FunctionCompiler):
    """Compiles the function itself: its checks, and the loop around its step."""

    def __init__(self, module: ModuleCompiler, name: str, fn: Function, lower_call: LowerCall, step: str) -> None:
        super().__init__(module, name, fn, lower_call)
        self.step = step

    def body(self, seq: SeqExpr) -> None:
        """The loop: what an iteration made is dropped before its register is written again."""
        self.where = -1
        args = [self.boxed(self.values[p]) for p in self.fn.params]
        result, flag, value = self.register(), self.register(), self.register()
        head = len(self.code)
        self.code.append(bc.Call(result.index, self.module.row("vm", self.step), tuple(args), self.where))
        self.emit("get_item", result, bc.Imm(0), dst=flag)
        hole = len(self.code)
        for number, arg in enumerate(args):
            self.emit("kill", arg)
            self.emit("get_item", result, bc.Imm(number + 1), dst=arg)
        self.emit("kill", result)
        self.emit("kill", flag)
        self.code.insert(hole, bc.If(flag, len(self.code) + 2, -1))
        self.code.append(bc.Goto(head))
        self.emit("get_item", result, bc.Imm(1), dst=value)
        self.code.append(bc.Ret(value, self.where))
