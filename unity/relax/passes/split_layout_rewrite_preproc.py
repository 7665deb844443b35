"""The first steps of a tensor program on a weight alone become a program of its own: ``split_layout_rewrite_preproc``.

Rewrite, for a program whose block with the annotation ``meta_schedule.layout_rewrite_preproc`` writes ``w`` into memory of its own
in another layout: ``y = R.call_dps(mm, (x, w), ty)`` -> ``p = R.call_dps(mm_weight_prepack, (w,), type of the memory)``,
``y = R.call_dps(mm_prepacked, (x, p), ty)``. Behind it ``lift_transform_params`` moves the first call out of the model. A schedule
makes such a program by ``cache_read``, ``transform_layout`` and ``annotate``. Programs stay whole where the weight is read
elsewhere too, or where the memory has sizes that are not numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.buffer import Buffer
from ...ir.expr import Call, GlobalVar, IntImm, Tuple, Var
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.relation import tensor_type
from ...ir.scalar import BufferLoad
from ...ir.stmt import AllocBuffer, Block, BufferStore, SeqStmt, Stmt, seq
from ...ir.types import VOID_TYPE, prim_type
from ...ir.walk import collect, free_vars, fresh_copy, rewrite
from ...op.building.call_inputs import kernel_call
from ...op.common.table import R
from ...te.kernel_table import KernelTable
from ...transform.infra.passes import module_pass
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls

ANNOTATIONS = ("meta_schedule.layout_rewrite_preproc", "layout_rewrite_preproc")


@dataclass(slots=True)
class _Split:
    """A program without its first steps: ``prepacks[k]`` makes argument ``places[k]`` of ``rest`` from the one that stood there."""

    rest: PrimFunc
    places: list[int]
    prepacks: list[PrimFunc]
    packed: list[Buffer]


def _prepares(block: Block) -> bool:
    return any([block.annotations.get(name) for name in ANNOTATIONS])


def _plain(block: Block) -> Block:
    """A block without the annotation."""
    if not _prepares(block):
        return block
    return replace(block, annotations={k: v for k, v in block.annotations.items() if k not in ANNOTATIONS})


def _is_static(buffer: Buffer) -> bool:
    plain = not buffer.strides and (buffer.elem_offset is None or getattr(buffer.elem_offset, "value", 1) == 0)
    return plain and buffer.scope == "global" and all([type(n) is IntImm for n in buffer.shape])


def _touched(stmt: Stmt, kind: type) -> list[Buffer]:
    return list(dict.fromkeys([access.buffer for access in collect(stmt, kind)]))


def _steps(func: PrimFunc) -> list[tuple[Stmt, AllocBuffer, Buffer, Buffer]]:
    """(the step, the allocation, the weight, the memory it is written to) of each step that can stand alone."""
    if type(func.body) is not SeqStmt:
        return []
    given = {buffer: param for param, buffer in func.buffer_map.items()}
    made = {stmt.buffer: stmt for stmt in func.body.stmts if type(stmt) is AllocBuffer}
    found = []
    for stmt in func.body.stmts:
        blocks = collect(stmt, Block)
        if not blocks or not all([_prepares(block) for block in blocks]):
            continue
        sources, targets = _touched(stmt, BufferLoad), _touched(stmt, BufferStore)
        if len(sources) != 1 or len(targets) != 1 or sources[0] not in given or targets[0] not in made:
            continue
        source, target = sources[0], targets[0]
        others = [s for s in func.body.stmts if s is not stmt]
        shared = [s for s in others if source.data in free_vars(s) or target in _touched(s, BufferStore)]
        closed = set(free_vars(stmt)) <= {source.data, target.data}
        if not shared and closed and _is_static(source) and _is_static(target):
            found.append((stmt, made[target], source, target))
    return found


def _split(func: PrimFunc) -> _Split | None:
    """The parts of a program, None where it has no step that can stand alone."""
    steps = _steps(func)
    if not steps:
        return None
    places, prepacks, packed = [], [], []
    params, buffers = list(func.params), dict(func.buffer_map)
    gone: set[Stmt] = set()
    for stmt, allocation, source, target in steps:
        param = next(p for p, b in func.buffer_map.items() if b is source)
        handle = Var(target.name, prim_type("handle"))
        place = params.index(param)
        body = rewrite(stmt, {Block: _plain})
        whole = PrimFunc(
            (param, handle), {param: source, handle: target}, body, VOID_TYPE, {"tir.noalias": True}, func.span
        )
        prepacks.append(fresh_copy(whole))
        places.append(place)
        packed.append(target)
        gone |= {stmt, allocation}
        del buffers[param]
        params[place] = handle
        buffers[handle] = target
    assert type(func.body) is SeqStmt
    rest = seq(*[s for s in func.body.stmts if s not in gone], span=func.body.span)
    mapped = {p: buffers[p] for p in params if p in buffers}
    made = PrimFunc(tuple(params), mapped, rest, func.ret_ty, func.attrs, func.span).without_attr("global_symbol")
    return _Split(fresh_copy(made), places, prepacks, packed)


@module_pass()
def split_layout_rewrite_preproc(mod: IRModule) -> IRModule:
    """Move the steps of a tensor program that prepare a weight into a program of its own.

    Requires the annotation ``meta_schedule.layout_rewrite_preproc``.
    """
    kernels = KernelTable(mod)
    splits = {name: found for name, fn in mod.prim_funcs().items() if (found := _split(fn)) is not None}
    if not splits:
        return mod

    def change(value: Call, rewriter: GraphRewriter) -> Call | None:
        callee, operands = value.args[0], value.args[1]
        found = splits.get(callee.name) if type(callee) is GlobalVar else None
        if found is None or type(operands) is not Tuple or type(callee) is not GlobalVar:
            return None
        fields = list(operands.fields)
        for place, program, buffer in zip(found.places, found.prepacks, found.packed):
            ty = tensor_type(buffer.shape, buffer.dtype)
            prepack = kernels.add(program, f"{callee.name}_weight_prepack")
            fields[place] = rewriter.emit(kernel_call(prepack, [fields[place]], (), ty), "packed")
        target = kernels.add(found.rest, f"{callee.name}_prepacked")
        return replace(value, args=(target, Tuple(tuple(fields)), *value.args[2:]))

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, R.call_dps.name), kernels.added)
