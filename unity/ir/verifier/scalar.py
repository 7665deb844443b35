"""Level 1 of the verifier for scalar expressions: data types of operands, indices, intrinsics, variables in scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ffi.dtype import DataType
from ..analysis.asynchronous import problem_of
from ..buffer import Buffer
from ..build import wrap_int
from ..expr import Call, ExternFunc, FloatImm, GlobalVar, IntImm, Op, StringImm, Var
from ..function import PrimFunc
from ..intrinsic import INTRINSICS
from ..module import IRModule
from ..scalar import (
    ARITHMETIC,
    COMPARISONS,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Let,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    Shuffle,
)  # fmt: skip
from ..types import Expr, PointerType, PrimType, Type
from .report import Report

_ADDRESS_AT = {
    "T.atomic_add": 0, "T.handle_add_byte_offset": 0, "T.ptr_byte_offset": 0, "T.isnullptr": 0, "T.tvm_access_ptr": 1,
}  # fmt: skip
"""Position of the argument that must be an address."""
_BITS = frozenset([f"T.{name}" for name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "popcount", "clz",
)])  # fmt: skip
"""Intrinsics of integers."""
_MIXED = ("T.ldexp", "T.shift_left", "T.shift_right", "T.q_multiply_shift", "T.q_multiply_shift_per_axis")


def element_type(ty: Type) -> DataType | None:
    """Data type of a scalar type; pointers count as handle; None for other types."""
    if isinstance(ty, PrimType):
        return ty.dtype
    return DataType("handle") if isinstance(ty, PointerType) else None


def _same_bits(taken: DataType, given: DataType) -> bool:
    """True if the bits of one type can be those of another."""
    if "handle" in (taken.code, given.code):
        return True
    return taken.bits * taken.lanes == given.bits * given.lanes and not (taken.is_bool or given.is_bool)


class ScalarVerifier:
    """Checks expressions; ``vars`` and ``buffers`` are what is in scope (owned by the statement walk)."""

    def __init__(self, report: Report, mod: IRModule | None) -> None:
        self.report = report
        self.mod = mod
        self.vars: set[Var] = set()
        self.buffers: set[Buffer] = set()
        self.handlers: dict[type, Callable[[Any], None]] = {
            Var: self._var, IntImm: self._int, FloatImm: self._float, StringImm: lambda expr: None, Cast: self._cast,
            And: self._logical, Or: self._logical, Not: self._not, Select: self._select, BufferLoad: self._load,
            Ramp: self._ramp, Broadcast: self._broadcast, Shuffle: self._shuffle, Let: self._let, Call: self._call,
            Reduce: self._reduce,
        }  # fmt: skip
        self.handlers |= dict.fromkeys(ARITHMETIC, self._arithmetic) | dict.fromkeys(COMPARISONS, self._compare)

    def visit(self, expr: Expr) -> None:
        """Check an expression."""
        handler = self.handlers.get(type(expr))
        if handler is None:
            self.report.add("E341", f"{type(expr).__name__} cannot stand in a tensor program", expr)
        else:
            handler(expr)

    __call__ = visit  # recursion goes through the name: a call of an object goes through C, whose depth is bounded

    def bad(self, expr: Any, message: str) -> None:
        """Record a data type violation."""
        self.report.add("E341", message, expr)

    def type_of(self, expr: Expr) -> DataType | None:
        """Check an expression; its data type."""
        self.visit(expr)
        return element_type(expr.ty)

    def condition(self, expr: Expr, what: str) -> None:
        """An expression used as a scalar condition."""
        dtype = self.type_of(expr)
        if dtype is None or not dtype.is_bool or dtype.lanes != 1:
            self.bad(expr, f"{what} must be bool, got {dtype}")

    def integer(self, expr: Expr, what: str, like: DataType | None = None) -> None:
        """An expression used as a scalar integer (of one certain type)."""
        dtype = self.type_of(expr)
        if dtype is None or not dtype.is_integral or dtype.lanes != 1:
            self.bad(expr, f"{what} must be an integer, got {dtype}")
        elif like is not None and dtype is not like:
            self.bad(expr, f"{what} must be {like.name}, got {dtype.name}")

    def _var(self, expr: Var) -> None:
        if expr not in self.vars:
            self.report.add("E340", f"variable {expr.name} is not defined here", expr)

    def _int(self, expr: IntImm) -> None:
        dtype = expr.ty.dtype
        if dtype.is_float or dtype.lanes != 1:
            self.bad(expr, f"an integer constant cannot be {dtype.name}")
        elif dtype.is_bool and expr.value not in (0, 1):
            self.bad(expr, f"{expr.value} is not a bool")
        elif dtype.is_integral and wrap_int(expr.value, dtype) != expr.value:
            self.bad(expr, f"{expr.value} is outside the range of {dtype.name}")

    def _float(self, expr: FloatImm) -> None:
        if not expr.ty.dtype.is_float or expr.ty.dtype.lanes != 1:
            self.bad(expr, f"a float constant cannot be {expr.ty.dtype.name}")

    def _same(self, expr: Any, a: Expr, b: Expr, what: str) -> DataType | None:
        left, right = element_type(a.ty), element_type(b.ty)
        if left is None or left is not right:
            self.bad(expr, f"{what} have types {left} and {right}")
            return None
        return left

    def _arithmetic(self, expr: Any) -> None:
        self.visit(expr.a)
        self.visit(expr.b)
        name = type(expr).__name__
        dtype = self._same(expr, expr.a, expr.b, f"operands of {name}")
        if dtype is None:
            return
        if element_type(expr.ty) is not dtype:
            self.bad(expr, f"{name} of {dtype.name} has type {element_type(expr.ty)}")
        if dtype.code == "handle" or (dtype.is_bool and name not in ("Min", "Max")):
            self.bad(expr, f"{name} is not defined on {dtype.name}")

    def _compare(self, expr: Any) -> None:
        self.visit(expr.a)
        self.visit(expr.b)
        dtype = self._same(expr, expr.a, expr.b, f"operands of {type(expr).__name__}")
        if dtype is not None:
            self._is_bool(expr, dtype)

    def _is_bool(self, expr: Any, like: DataType) -> None:
        dtype = element_type(expr.ty)
        if dtype is None or not dtype.is_bool or dtype.lanes != like.lanes:
            self.bad(expr, f"{type(expr).__name__} must be bool with {like.lanes} lanes, has type {dtype}")

    def _logical(self, expr: Any) -> None:
        self.visit(expr.a)
        self.visit(expr.b)
        dtype = self._same(expr, expr.a, expr.b, f"operands of {type(expr).__name__}")
        if dtype is not None:
            if not dtype.is_bool:
                self.bad(expr, f"operands of {type(expr).__name__} must be bool, got {dtype.name}")
            self._is_bool(expr, dtype)

    def _not(self, expr: Not) -> None:
        self.visit(expr.a)
        dtype = element_type(expr.a.ty)
        if dtype is None or not dtype.is_bool:
            self.bad(expr, f"the operand of Not must be bool, got {dtype}")
        else:
            self._is_bool(expr, dtype)

    def _select(self, expr: Select) -> None:
        for part in (expr.cond, expr.true_value, expr.false_value):
            self.visit(part)
        self._choice(expr, expr.cond, expr.true_value, expr.false_value)

    def _choice(self, expr: Any, cond: Expr, yes: Expr, no: Expr) -> None:
        dtype = self._same(expr, yes, no, "the two sides of a choice")
        test = element_type(cond.ty)
        if test is None or not test.is_bool or (dtype is not None and test.lanes not in (1, dtype.lanes)):
            self.bad(expr, f"the condition of a choice must be bool, got {test}")
        if dtype is not None and element_type(expr.ty) is not dtype:
            self.bad(expr, f"a choice between {dtype.name} has type {element_type(expr.ty)}")

    def _cast(self, expr: Cast) -> None:
        self.visit(expr.value)
        dtype = element_type(expr.value.ty)
        if dtype is None or dtype.lanes != expr.ty.dtype.lanes or "void" in (dtype.code, expr.ty.dtype.code):
            self.bad(expr, f"cannot cast {dtype} to {expr.ty.dtype.name}")

    def _ramp(self, expr: Ramp) -> None:
        self.visit(expr.base)
        self.visit(expr.stride)
        dtype = self._same(expr, expr.base, expr.stride, "base and stride of a ramp")
        if dtype is None:
            return
        if not dtype.is_integral or dtype.lanes != 1:
            self.bad(expr, f"a ramp needs an integer base, got {dtype.name}")
        self._lanes(expr, dtype, expr.lanes)

    def _broadcast(self, expr: Broadcast) -> None:
        self.visit(expr.value)
        dtype = element_type(expr.value.ty)
        if dtype is None:
            self.bad(expr, "only scalars can be broadcast")
        else:
            self._lanes(expr, dtype, expr.lanes)

    def _lanes(self, expr: Any, element: DataType, lanes: Any) -> None:
        dtype = element_type(expr.ty)
        if dtype is None or dtype.element is not element.element:
            self.bad(expr, f"{type(expr).__name__} of {element.name} has type {dtype}")
        elif not dtype.scalable and isinstance(lanes, int) and dtype.lanes != lanes * element.lanes:
            self.bad(expr, f"{type(expr).__name__} of {lanes} lanes has type {dtype.name}")

    def _shuffle(self, expr: Shuffle) -> None:
        total = 0
        for vector in expr.vectors:
            self.visit(vector)
            dtype = element_type(vector.ty)
            total += dtype.lanes if dtype is not None else 0
            if dtype is None or dtype.element is not expr.ty.dtype.element:
                self.bad(expr, f"a shuffle of {dtype} has type {expr.ty.dtype.name}")
        for index in expr.indices:
            if type(index) is not IntImm or not 0 <= index.value < total:
                self.bad(expr, f"an index of a shuffle must be a constant below {total}")
        if len(expr.indices) != expr.ty.dtype.lanes:
            self.bad(expr, f"a shuffle with {len(expr.indices)} indices has type {expr.ty.dtype.name}")

    def _let(self, expr: Let) -> None:
        self.visit(expr.value)
        if element_type(expr.var.ty) is not element_type(expr.value.ty):
            self.bad(expr, f"{expr.var.name} is {element_type(expr.var.ty)}, its value {element_type(expr.value.ty)}")
        fresh = expr.var not in self.vars
        self.vars.add(expr.var)
        self.visit(expr.body)
        if fresh:
            self.vars.discard(expr.var)

    def _reduce(self, expr: Reduce) -> None:
        self.bad(expr, "a reduction expression can stand only in a tensor expression")

    def access(self, node: Any, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None) -> int:
        """An access to a buffer; returns the number of lanes that the indices select."""
        if buffer not in self.buffers:
            self.report.add("E340", f"buffer {buffer.name} is not declared here", node)
        if len(indices) != len(buffer.shape):
            self.report.add("E342", f"{buffer.name} has {len(buffer.shape)} axes, indexed with {len(indices)}", node)
        lanes = 1
        for index in indices:
            self.visit(index)
            dtype = element_type(index.ty)
            if dtype is None or not dtype.is_integral:
                self.report.add("E342", f"an index of {buffer.name} must be an integer, got {dtype}", node)
            else:
                lanes = max(lanes, dtype.lanes)
        if predicate is not None:
            self.visit(predicate)
            dtype = element_type(predicate.ty)
            if dtype is None or not dtype.is_bool or dtype.lanes != lanes or lanes == 1:
                self.report.add(
                    "E342", f"the predicate of an access to {buffer.name} must be bool with {lanes} lanes", node
                )
        return lanes

    def _load(self, expr: BufferLoad) -> None:
        lanes = self.access(expr, expr.buffer, expr.indices, expr.predicate)
        dtype = expr.ty.dtype
        if dtype.element is not expr.buffer.dtype.element or dtype.lanes != lanes * expr.buffer.dtype.lanes:
            self.bad(
                expr, f"{lanes} elements of {expr.buffer.name} ({expr.buffer.dtype.name}) are read as {dtype.name}"
            )

    # ---- calls

    def _call(self, expr: Call) -> None:
        for arg in expr.args:
            self.visit(arg)
        callee = expr.op
        if type(callee) is GlobalVar:
            self._function_call(expr, callee)
            return
        if type(callee) is ExternFunc:
            return
        row = INTRINSICS.get(callee.name) if type(callee) is Op else None
        if row is None:
            name = getattr(callee, "name", type(callee).__name__)
            self.report.add("E347", f"{name} is not an intrinsic of tensor programs", expr)
            return
        least, most = row.arity
        if len(expr.args) < least or (most >= 0 and len(expr.args) > most):
            self.report.add("E347", f"{row.name} cannot take {len(expr.args)} arguments", expr)
            return
        self._argument_kinds(expr, row.name)
        problem = problem_of(expr)
        if problem:
            self.bad(expr, problem)
        if row.name == "T.if_then_else":
            self._choice(expr, *expr.args)
        elif row.result == "same":
            if row.name in _BITS and any(
                [(d := element_type(a.ty)) is None or not (d.is_integral or d.is_bool) for a in expr.args]
            ):
                self.bad(expr, f"{row.name} of {element_type(expr.args[0].ty)} values")
            if len(expr.args) > 1 and row.name not in _MIXED:
                for other in expr.args[1:]:
                    self._same(expr, expr.args[0], other, f"arguments of {row.name}")
            if element_type(expr.ty) is not element_type(expr.args[0].ty):
                self.bad(expr, f"{row.name} of {element_type(expr.args[0].ty)} has type {element_type(expr.ty)}")

    def _argument_kinds(self, expr: Call, name: str) -> None:
        """Addresses and vectors where an intrinsic needs them."""
        operand = _ADDRESS_AT.get(name)
        if operand is not None:
            dtype = element_type(expr.args[operand].ty)
            if dtype is None or dtype.code != "handle":
                self.bad(expr, f"{name} needs an address, got {dtype}")
        if name == "T.reinterpret":
            taken, given = element_type(expr.ty), element_type(expr.args[0].ty)
            if taken is None or given is None or not _same_bits(taken, given):
                self.bad(expr, f"{name} needs as many bits as it gives: {given} as {taken}")
        if name in ("T.vectorlow", "T.vectorhigh"):
            dtype = element_type(expr.args[0].ty)
            if dtype is None or dtype.lanes % 2:
                self.bad(expr, f"{name} needs a vector of an even number of lanes, got {dtype}")

    def statement(self, expr: Expr) -> None:
        """Check an expression that stands alone as a statement: a call there need not return anything."""
        if type(expr) is Call and type(expr.op) is GlobalVar:
            for arg in expr.args:
                self.visit(arg)
            self._function_call(expr, expr.op, is_statement=True)
        else:
            self.visit(expr)

    def _function_call(self, expr: Call, callee: GlobalVar, is_statement: bool = False) -> None:
        if self.mod is None:
            return
        fn = self.mod.functions.get(callee.name)
        if fn is None:
            self.report.add("E337", f"the module has no function {callee.name}", expr)
        elif not isinstance(fn, (PrimFunc, ExternFunc)):
            self.report.add("E337", f"{callee.name} is a graph function: a tensor program cannot call it", expr)
        elif isinstance(fn, PrimFunc):
            if len(fn.params) != len(expr.args):
                self.report.add("E337", f"{callee.name} takes {len(fn.params)} arguments, got {len(expr.args)}", expr)
                return
            taken = element_type(expr.ty)
            given_back = fn.ret_ty.dtype if isinstance(fn.ret_ty, PrimType) else DataType("void")
            if given_back.code == "void" and not is_statement:
                self.report.add("E337", f"{callee.name} returns nothing: a call of it is not a value", expr)
            if given_back.code != "void" and taken is not given_back and (taken is None or taken.code != "void"):
                self.report.add("E337", f"{callee.name} returns {given_back.name}, taken as {taken}", expr)
            for param, arg in zip(fn.params, expr.args):
                wanted, given = element_type(param.ty), element_type(arg.ty)
                if wanted is not given:
                    self.report.add("E337", f"{callee.name}: parameter {param.name} is {wanted}, got {given}", expr)
