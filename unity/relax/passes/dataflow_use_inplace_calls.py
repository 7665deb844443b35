"""Elementwise programs write into an argument nobody needs any more.

Rewrite: ``b = R.call_dps(f, (a,), ty)`` with the last use of a ->
``b = R.call_inplace(f_inplace, (a,), ty, inplace_indices=(0,))``, where ``f_inplace`` is f without its output. Run it behind
``legalize_ops`` and ``fuse_tir``, inside dataflow blocks.

Sound because of what is asked: a is memory made by a program of this block, of the type of the result, and only ever an argument of
programs (no tuple, view or output holds it); nothing after the call uses it; the program has one block, and reads a only at the
element it then writes.
"""

from __future__ import annotations

from typing import Any

from ...ir.buffer import Buffer
from ...ir.build import is_int
from ...ir.expr import Binding, Call, Constant, DataflowBlock, GlobalVar, Tuple, Var, VarBinding
from ...ir.function import PrimFunc, is_marked
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.scalar import BufferLoad
from ...ir.stmt import AllocBuffer, Block, BufferStore, DeclBuffer
from ...ir.structural import structural_equal
from ...ir.types import Expr, TensorType
from ...ir.walk import Rewriter, collect, free_vars, fresh_copy
from ...op.common.table import R
from ...te.kernel_table import KernelTable
from ...transform.infra.passes import module_pass


def _at_start(buffer: Buffer) -> bool:
    """True if the buffer begins where its memory does."""
    return buffer.elem_offset is None or is_int(buffer.elem_offset, 0)


def inplace_arguments(func: PrimFunc) -> dict[int, PrimFunc]:
    """For each input (by parameter) whose memory the output may take, the program that writes there."""
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    stores, blocks = collect(func.body, BufferStore), collect(func.body, Block)
    if len(stores) != 1 or len(blocks) != 1 or blocks[0].init is not None or blocks[0].alloc_buffers or not buffers:
        return {}
    store, output = stores[0], buffers[-1]
    if store.buffer is not output or collect(func.body, (AllocBuffer, DeclBuffer)) or blocks[0].match_buffers:
        return {}
    handle = next(p for p in func.params if func.buffer_map.get(p) is output)
    found: dict[int, PrimFunc] = {}
    for index, param in enumerate(func.params):
        source = func.buffer_map.get(param)
        if source is None or source is output or source.dtype is not output.dtype:
            continue
        plain = all([not b.strides and _at_start(b) and b.scope == output.scope for b in (source, output)])
        loads = [load for load in collect(func.body, BufferLoad) if load.buffer in (source, output)]
        same = all([load.buffer is source and structural_equal(load.indices, store.indices) for load in loads])
        if plain and same and loads and structural_equal(source.shape, output.shape):
            mapping: dict[Any, Any] = {output: source, output.data: source.data}
            body = Rewriter(mapping=mapping)(func.body)
            kept = tuple([p for p in func.params if p is not handle])
            held = {p: b for p, b in func.buffer_map.items() if p is not handle}
            made = PrimFunc(kept, held, body, func.ret_ty, dict(func.attrs), func.span)
            found[index] = fresh_copy(made.without_attr("global_symbol"))
    return found


class _InPlace:
    """Rewrites the dataflow blocks of one function."""

    def __init__(self, mod: IRModule, kernels: KernelTable, known: dict[str, dict[int, PrimFunc]]) -> None:
        self.mod, self.kernels, self.known = mod, kernels, known

    def block(self, block: DataflowBlock) -> DataflowBlock:
        own: set[Var] = set()
        held: set[Var] = set()
        last: dict[Var, int] = {}
        for index, binding in enumerate(block.bindings):
            value: Expr = binding.value
            operands = self.operands(binding)
            last.update(dict.fromkeys(free_vars(value), index))
            if operands is None:
                held.update(free_vars(value))
                continue
            held.update([v for a in operands if type(a) is Tuple for v in free_vars(a)])
            if binding.var.dataflow and isinstance(value.ty, TensorType) and value.op_name == R.call_dps.name:
                own.add(binding.var)
        made: list[Binding] = []
        for index, binding in enumerate(block.bindings):
            candidates = [v for v in own - held if last.get(v) == index]
            made.append(self.rewrite(binding, candidates) if candidates else binding)
        return replace(block, bindings=tuple(made))

    def operands(self, binding: Binding) -> tuple[Expr, ...] | None:
        """Arguments of a call of a tensor program, None for any other binding."""
        value = binding.value
        if not isinstance(binding, VarBinding) or type(value) is not Call or value.op_name != R.call_dps.name:
            return None
        callee, given = value.args[0], value.args[1]
        kernel = type(callee) is GlobalVar and type(self.mod.functions.get(callee.name)) is PrimFunc
        return given.fields if kernel and type(given) is Tuple else None

    def rewrite(self, binding: Binding, candidates: list[Var]) -> Binding:
        """The call writing into one of the candidates where its program allows it."""
        operands = self.operands(binding)
        if operands is None or not isinstance(binding.var.ty, TensorType):
            return binding
        assert isinstance(binding, VarBinding) and type(binding.value) is Call
        call, callee = binding.value, binding.value.args[0]
        assert type(callee) is GlobalVar
        if callee.name not in self.known:
            self.known[callee.name] = inplace_arguments(self.mod[callee.name])
        for index, program in self.known[callee.name].items():
            given = operands[index] if index < len(operands) else None
            if given not in candidates or sum([a is given for a in operands]) != 1:
                continue
            if given is None or isinstance(given, Constant) or not structural_equal(given.ty, binding.var.ty):
                continue
            ref = self.kernels.add(program, f"{callee.name}_inplace")
            args = (GlobalVar(ref.name), *call.args[1:])
            made = Call(R.call_inplace.op, args, {"inplace_indices": (index,)}, call.ty_args, call.ty, call.span)
            return replace(binding, value=made)
        return binding


@module_pass()
def dataflow_use_inplace_calls(mod: IRModule) -> IRModule:
    """Let elementwise programs write into arguments that nothing uses afterwards.

    Requires calls of tensor programs in dataflow blocks (``legalize_ops``, ``fuse_tir``). Gives ``R.call_inplace``.
    """
    kernels = KernelTable(mod)
    known: dict[str, dict[int, PrimFunc]] = {}
    return mod.with_graph_functions(
        lambda fn: fn if is_marked(fn) else Rewriter({DataflowBlock: _InPlace(mod, kernels, known).block})(fn),
        kernels.added,
    )
