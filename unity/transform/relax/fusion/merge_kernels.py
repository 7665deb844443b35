"""The tensor programs a primitive function calls, merged into one program, one after the other.

Parameters stand in the function's order, then outputs, then the scalars of shape parameters. What is handed from one program to
the next becomes a buffer allocated inside. Here: the merging, without any inlining (`auto_inline.py`).
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer, make_buffer
from ....ir.expr import Call, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import SCHEDULED, Function, PrimFunc, seq_body
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.relation import dims
from ....ir.stmt import AllocBuffer, Block, Stmt, seq
from ....ir.types import VOID_TYPE, Expr, PrimType, ShapeType, TensorType, TupleType, Type, prim_type
from ....ir.walk import fresh_copy, rewrite
from ....op.common.table import R
from ....support.errors import PassError


class KernelMerger:
    """Merges the calls of one primitive function."""

    def __init__(self, mod: IRModule, fn: Function) -> None:
        self.mod = mod
        self.fn = fn
        self.names = NameSupply()
        self.block_names = NameSupply()
        self.buffers: dict[Var, Buffer] = {}
        """The buffer of each tensor variable."""
        self.tuples: dict[Var, list[Buffer]] = {}
        self.fields: dict[tuple[Var, int], Var] = {}
        """Results that are fields of tuples: (tuple, index) -> the result."""
        self.allocated: list[Buffer] = []
        self.scalars: dict[Var, Var] = {}
        """Symbols and scalar parameters of the function -> scalar parameters of the program."""
        self.notes: dict[str, Any] = {"tir.noalias": True}

    def merge(self) -> PrimFunc:
        """The merged program. Raises PassError E550 for a function that is more than calls of tensor programs."""
        fn, body = self.fn, seq_body(self.fn)
        params: list[Var] = []
        inputs: list[tuple[Var, Buffer]] = []
        late: list[Var] = []
        for param in fn.params:
            if isinstance(param.ty, TensorType):
                handle, buffer = self._input(param)
                params.append(handle)
                inputs.append((handle, buffer))
            elif isinstance(param.ty, ShapeType) and param.ty.values is not None:
                late += [v for v in param.ty.values if isinstance(v, Var)]
            elif isinstance(param.ty, PrimType):
                params.append(param)
            else:
                raise self._error(f"parameter {param.name} of type {param.ty}")
        results = self._results(body.body)
        outputs = [self._buffer(name, ty) for name, ty in results]
        stmts: list[Stmt] = []
        for binding in body.bindings:
            value = binding.value
            if type(value) is TupleGetItem and isinstance(value.tuple_value, Var):
                if self._output_of(binding.var, body.body, outputs) is not None:
                    self.fields.setdefault((value.tuple_value, value.index), binding.var)
        for binding in body.bindings:
            if type(binding) is not VarBinding:
                raise self._error("a match_cast")
            stmts += self._binding(binding.var, binding.value, body.body, outputs)
        handles = [Var(self.names.fresh(f"{b.name}_handle"), prim_type("handle")) for b in outputs]
        buffer_map = dict(inputs) | dict(zip(handles, outputs))
        allocations = [AllocBuffer(buffer) for buffer in self.allocated]
        whole = seq(*allocations, *stmts)
        func = PrimFunc((*params, *handles, *late), buffer_map, whole, VOID_TYPE, self.notes, fn.span)
        return fresh_copy(func)

    def _error(self, what: str) -> PassError:
        return PassError(
            "E550", f"a primitive function holds {what}", self.fn.span, help="it may hold calls of tensor programs only"
        )

    def _buffer(self, name: str, ty: Type) -> Buffer:
        shape = dims(ty)
        if not isinstance(ty, TensorType) or shape is None or ty.dtype is None:
            raise self._error(f"a value of type {ty}")
        return make_buffer(self.names.fresh(name), ty.dtype, shape)

    def _input(self, param: Var) -> tuple[Var, Buffer]:
        buffer = self.buffers[param] = self._buffer(param.name, param.ty)
        return Var(self.names.fresh(f"{buffer.name}_handle"), prim_type("handle")), buffer

    def _results(self, result: Expr) -> list[tuple[str, Type]]:
        ty = result.ty
        if isinstance(ty, TupleType):
            fields = result.fields if type(result) is Tuple else [result] * len(ty.fields)
            return [(getattr(f, "name", "out"), t) for f, t in zip(fields, ty.fields)]
        return [(getattr(result, "name", "out"), ty)]

    def _output_of(self, var: Var, result: Expr, outputs: list[Buffer]) -> list[Buffer] | None:
        """The output buffers a variable stands for."""
        if var is result:
            return outputs
        if type(result) is Tuple and var in result.fields:
            return [outputs[result.fields.index(var)]]
        return None

    def _binding(self, var: Var, value: Expr, result: Expr, outputs: list[Buffer]) -> list[Stmt]:
        if type(value) is TupleGetItem and isinstance(value.tuple_value, Var) and value.tuple_value in self.tuples:
            self.buffers[var] = self.tuples[value.tuple_value][value.index]
            wanted = self._output_of(var, result, outputs)
            if wanted is not None and wanted[0] is not self.buffers[var]:
                raise self._error("a field of a tuple as two results")
            return []
        if type(value) is not Call or value.op_name != R.call_dps.name or type(value.args[0]) is not GlobalVar:
            raise self._error("something else than calls of tensor programs")
        callee = self.mod[value.args[0].name]
        if type(callee) is not PrimFunc:
            raise self._error(f"a call of {value.args[0].name}, which is not a tensor program")
        made = self._output_of(var, result, outputs)
        several = isinstance(var.ty, TupleType)
        if made is None:
            types = var.ty.fields if isinstance(var.ty, TupleType) else (var.ty,)
            made = []
            for index, ty in enumerate(types):
                field = (
                    self._output_of(self.fields[var, index], result, outputs) if (var, index) in self.fields else None
                )
                made.append(field[0] if field is not None else self._buffer(var.name, ty))
                self.allocated += made[-1:] if field is None else []
        if several:
            self.tuples[var] = made
        else:
            self.buffers[var] = made[0]
        return [self._inlined(callee, value, made)]

    def _inlined(self, callee: PrimFunc, call: Call, outputs: list[Buffer]) -> Stmt:
        """The body of a called program over the caller's buffers."""
        given = call.args[1]
        assert type(given) is Tuple
        scalars: list[Expr] = []
        if len(call.args) > 2:
            if type(call.args[2]) is not ShapeExpr:
                raise self._error("scalars given as a variable")
            scalars = list(call.args[2].values)
        actual: list[Any] = [self.buffers.get(a, a) if isinstance(a, Var) else a for a in given.fields]
        actual += [*outputs, *scalars]
        mapping: dict[Any, Any] = {}
        for param, value in zip(callee.params, actual, strict=True):
            formal = callee.buffer_map.get(param)
            if formal is None:
                mapping[param] = value
                continue
            if not isinstance(value, Buffer):
                raise self._error("an argument that is not a tensor of its own")
            mapping[param] = mapping[formal.data] = value.data
            mapping[formal] = value
            for x, y in zip(formal.shape, value.shape, strict=True):
                if isinstance(x, Var):
                    mapping.setdefault(x, y)
        self.notes |= {key: callee.attrs[key] for key in (SCHEDULED, "target") if key in callee.attrs}
        body: Stmt = fresh_copy(callee.body, mapping)
        return rewrite(body, {Block: self._named})

    def _named(self, block: Block) -> Block:
        name = self.block_names.fresh(block.name)
        return block if name == block.name else replace(block, name=name)
