"""Programs of the table in several schedules, as PTX with all that a launch needs written down as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.gpu.products import (
    MATRIX_TILES,
    TILES,
    TINY_MATRIX_TILES,
    TINY_TILES,
    by_matrix_instructions,
    by_tiles,
)
from benchmarks.gpu.programs import Program
from unity.ffi.targets.target import Target
from unity.ir import IRModule, PrimFunc
from unity.ir.analysis.asynchronous import SWIZZLES, TensorCopy
from unity.ir.expr import Call, GlobalVar, IntImm, Var
from unity.ir.node import replace
from unity.ir.stmt import AllocBuffer, Block, Evaluate, SeqStmt
from unity.ir.types import Expr
from unity.ir.walk import collect, rewrite
from unity.script import parse
from unity.support.errors import CodegenError
from unity.target import GPU_PIPELINE
from unity.target.cuda.codegen import ptx_of, write_programs
from unity.target.cuda.kernels import thread_extents
from unity.target.cuda.launch import TENSOR_MAP_TYPES
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.common.choices import SCHEDULE
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.infra.backend import backend_of
from unity.transform.relax.pipeline import GRAPH_PIPELINE

NEXT_TILES = (1, 2, 3)
"""Tiles of a product that the rules would take next."""
THREADS = (64, 128, 256, 512, 1024)
"""Threads of a block that the rules are given at most, one variant each."""


def variants(program: Program, size: int, archs: Sequence[str], tiny: bool) -> Iterator[tuple[str, str, PrimFunc]]:
    """Schedules of a program by name and architecture: those of the rules for each, and for products tiles of several shapes that
    divide the size, for the first."""
    for arch in archs:
        for threads in THREADS[-2:] if tiny else THREADS:
            target = Target(f"cuda -arch={arch} -max_threads_per_block={threads}")
            yield f"rules for {arch}, {threads} threads", arch, by_rules(program, size, target)
        for number in NEXT_TILES[: 1 if tiny else None] if program.name == "product bfloat16" else ():
            yield (
                f"rules for {arch}, tile {number}",
                arch,
                by_rules(program, size, Target(f"cuda -arch={arch}"), number),
            )
    if program.name == "product float32":
        for tile in TINY_TILES if tiny else TILES:
            if size % tile.edge == 0:
                yield f"tiles, {_shown(tile)}", archs[0], by_tiles(size, tile)
    if program.name == "product bfloat16":
        for matrix in TINY_MATRIX_TILES if tiny else MATRIX_TILES:
            if size % matrix.rows == 0 and size % matrix.columns == 0:
                yield f"matrix instructions, {_shown(matrix)}", archs[0], by_matrix_instructions(size, matrix)


def _shown(tile: Any) -> str:
    return " ".join([f"{name}={value}" for name, value in asdict(tile).items()])


def by_rules(program: Program, size: int, target: Target, tile: int = 0) -> PrimFunc:
    """The one tensor program of a program of the table, scheduled by the rules; of a product in the tile that costs least, or one
    that costs more. Raises CodegenError E526 where it has several."""
    with target:
        functions = GRAPH_PIPELINE(parse(program.script(size))).prim_funcs()
    if len(functions) != 1:
        raise CodegenError("E526", f"{program.name} is {len(functions)} tensor programs, not one")
    ((name, func),) = functions.items()
    if tile:
        func = rewrite(func, {Block: lambda block: replace(block, annotations={SCHEDULE: {"tile": tile}})})
    found = schedule_function(name, func, set(), backend_of(target).machine(target), GPU_RULES)
    if found is None:
        raise CodegenError("E526", f"no rule takes {program.name}")
    return found.func


def launches(func: PrimFunc, arch: str) -> tuple[str, dict[str, Any]]:
    """PTX of a scheduled program, and its launches in order: kernel, grid, block, bytes of shared memory, and arguments by number:
    of the program's buffers, then of ``scratch`` (in bytes); tensor maps are behind them (``_map``). Raises CodegenError E526 for
    what is no straight line of launches."""
    lowered = GPU_PIPELINE(IRModule({"main": func}))
    written = write_programs(lowered.prim_funcs(), Target(f"cuda -arch={arch}"))
    host = lowered.prim_funcs()["main"]
    numbers: dict[Var, int] = {host.buffer_map[param].data: k for k, param in enumerate(host.params)}
    scratch, steps = [], []
    for stmt in host.body.stmts if type(host.body) is SeqStmt else (host.body,):
        if type(stmt) is AllocBuffer:
            numbers[stmt.buffer.data] = len(numbers)
            scratch.append(_number(stmt.buffer.shape) * stmt.buffer.dtype.itemsize)
        elif type(stmt) is Evaluate and type(stmt.value) is Call and type(stmt.value.op) is GlobalVar:
            kernel = lowered.prim_funcs()[stmt.value.op.name]
            extents, given = thread_extents(kernel), dict(zip(kernel.params, stmt.value.args))
            steps.append({
                "kernel": written.device.symbols[stmt.value.op.name],
                **{k: [_number([extents[f"{k}.{x}"]]) if f"{k}.{x}" in extents else 1 for x in "xyz"]
                   for k in ("blockIdx", "threadIdx")},
                "shared": sum([_number(a.buffer.shape) * a.buffer.dtype.itemsize for a in collect(kernel.body, AllocBuffer)
                               if a.buffer.scope == "shared.dyn"]),
                "arguments": [numbers[arg] for arg in stmt.value.args if type(arg) is Var],
                "maps": [{"of": numbers[given[source]], **_map(copy)} for source, copy in written.device.maps[stmt.value.op.name]],
            })  # fmt: skip
            if len(steps[-1]["arguments"]) != len(stmt.value.args):
                raise CodegenError("E526", "a kernel takes more than the program's buffers")
        else:
            raise CodegenError("E526", f"{type(stmt).__name__} between launches")
    return ptx_of(written.device, written.arch), {"scratch": scratch, "steps": steps}


def _map(copy: TensorCopy) -> dict[str, Any]:
    """A tensor map as ``cuTensorMapEncodeTiled`` takes it, innermost axis first."""
    sizes = [_constant(size) for size in reversed(copy.sizes)]
    if copy.window is not None:
        raise CodegenError("E526", "a tensor map of windows")
    return {"type": TENSOR_MAP_TYPES[copy.dtype.name], "sizes": sizes, "box": [*reversed(copy.box)],
            "pitches": [copy.dtype.itemsize * math.prod(sizes[:k]) for k in range(1, len(sizes))],
            "swizzle": SWIZZLES.index(copy.swizzle) + 1 if copy.swizzle else 0}  # fmt: skip


def _number(extents: Any) -> int:
    """The product of constant extents."""
    made = 1
    for extent in extents:
        made *= _constant(extent)
    return made


def _constant(extent: Expr) -> int:
    if type(extent) is not IntImm:
        raise CodegenError("E526", f"an extent that is no constant: {extent}")
    return extent.value
