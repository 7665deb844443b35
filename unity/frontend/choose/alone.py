"""The candidates of one call, each built and timed alone, for the shapes of the call.

Invariant: a candidate is usable only if its results on random inputs agree with ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.dtype import DataType
from ...ffi.library import KERNELS, Anchor, LibraryKernel, packed_name
from ...ffi.tensor import Tensor
from ...ir.build import const
from ...ir.builder import BlockBuilder, make_call
from ...ir.expr import Constant, ExternFunc, Tuple, Var
from ...ir.module import IRModule
from ...ir.relation import tensor_type
from ...ir.types import Expr, TensorType
from ...op.common.table import R
from ...support.errors import UnityError
from ...vm.build import build
from ...vm.choices import Choice
from .anchors import BUCKETS, Site, text_of
from .candidates import CONVOLUTION, Tiles

Candidate = LibraryKernel | Tiles | None
"""A kernel of a library, another program of ours, or (None) our schedule."""
MARGIN = 1.1
"""Factor by which a library kernel must be faster than ours."""
NEAR = 1.5
"""Share of our time up to which another kernel is tried in the whole program, where what is around it may turn the result."""
OURS = "unity"
BUDGET = 0.02
"""Seconds of timing for one candidate and shape."""


def random_tensor(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Tensor:
    """Numbers of a normal distribution, or integers from 0 to 4."""
    kind = DataType(dtype)
    if kind.is_float:
        return Tensor(rng.standard_normal(shape).astype("float32").astype(kind.numpy))
    return Tensor(rng.integers(0, 2 if kind.is_bool else 5, shape).astype(kind.numpy))


def _tensor_of(shape: tuple[int, ...], dtype: str) -> TensorType:
    return tensor_type([const(n, "int64") for n in shape], dtype)


def _module(site: Site, anchor: Anchor, values: list[Tensor], library: str | None) -> IRModule:
    """A function of the call alone; operands that are constant in the program are constants here."""
    types = [_tensor_of(tuple(v.shape), v.dtype) for v in values]
    args: list[Expr] = [
        Constant(v, ty) if fixed else Var(f"x{k}", ty)
        for k, (v, ty, fixed) in enumerate(zip(values, types, site.constant))
    ]
    bb = BlockBuilder()
    with bb.function("main", [a for a in args if isinstance(a, Var)]):
        if library is None:
            made: Expr = make_call(site.call.op, args, site.call.attrs)
        else:
            out = _tensor_of(anchor.out_shape, anchor.out_dtype)
            made = make_call(R.call_dps.op, [ExternFunc(library), Tuple(tuple(args))], {}, (out,))
        with bb.dataflow():
            result = bb.emit_output(made)
        bb.emit_func_output(result)
    return bb.finalize()


def _seconds(run: Callable[[], object]) -> float:
    run()
    best, spent, rounds = float("inf"), 0.0, 0
    while rounds < 3 or spent < BUDGET:
        begin = time.perf_counter()
        run()
        took = time.perf_counter() - begin
        best, spent, rounds = min(best, took), spent + took, rounds + 1
    return best


@dataclass(slots=True)
class _Run:
    """A candidate at one shape: its time and result, or why it has none."""

    seconds: float = float("nan")
    result: np.ndarray | None = None
    problem: str = ""


def _run(site: Site, anchor: Anchor, values: list[Tensor], kernel: Candidate, target: Any) -> _Run:
    if isinstance(kernel, LibraryKernel):
        fits = kernel.predicate(anchor)
        if fits is not True:
            return _Run(problem=fits if isinstance(fits, str) else "it does not take this call")
    tiled = kernel.of(_module(site, anchor, values, None)) if isinstance(kernel, Tiles) else None
    if isinstance(tiled, str):
        return _Run(problem=tiled)
    try:
        library = packed_name(kernel, anchor.attrs) if isinstance(kernel, LibraryKernel) else None
        function = build(tiled or _module(site, anchor, values, library), target)["main"]
        given = [v for v, fixed in zip(values, site.constant) if not fixed]
        result = np.array(function(*given).numpy())
        return _Run(_seconds(lambda: function(*given)), result)
    except UnityError as error:
        if kernel is None:
            raise
        return _Run(problem=f"failed: {error.message}")
    except (RuntimeError, ValueError, TypeError) as error:  # what a library kernel raises: it is out, the build goes on
        if kernel is None:
            raise
        return _Run(problem=f"failed: {type(error).__name__}: {error}")


def allclose(ours: np.ndarray, other: np.ndarray) -> bool:
    """True if two results differ by no more than the rounding of another order of sums."""
    a, b = ours.astype("float64"), other.astype("float64")
    scale = np.abs(a).max(initial=0.0)
    limit = 1e-2 * scale if ours.dtype.itemsize < 4 else 1e-4 * max(scale, 1.0)
    return bool(np.allclose(a, b, rtol=1e-2, atol=limit, equal_nan=True))


@dataclass(slots=True, frozen=True)
class Measured:
    """The times of a site's candidates alone. ``kernels``: the best for each size (None is ours); ``near``: others that
    may be better in a program; ``rows``: the table; ``seconds``: of our kernel at the first size."""

    site: Site
    kernels: tuple[Candidate, ...]
    near: tuple[Candidate, ...]
    rows: tuple[Choice, ...]
    seconds: float


def measure_site(site: Site, target: Any, tiles: tuple[Tiles, ...]) -> Measured:
    """Build and time the candidates of a site: our kernel, those of libraries, and ``tiles`` for convolutions."""
    candidates: list[Candidate] = [None, *[k for k in KERNELS.values() if k.op == site.call.op_name]]
    candidates += tiles if site.call.op_name == CONVOLUTION and not site.symbolic else ()
    rng = np.random.default_rng(0)
    anchors = [a for a in [site.anchor(size) for size in (BUCKETS if site.symbolic else (1,))] if a is not None]
    runs: list[list[_Run]] = []
    for anchor in anchors:
        values = [random_tensor(rng, s, d) for s, d in zip(anchor.shapes, anchor.dtypes)]
        row = [_run(site, anchor, values, kernel, target) for kernel in candidates]
        for found in row[1:]:
            if found.result is not None and row[0].result is not None and not allclose(row[0].result, found.result):
                found.problem = "its result differs from ours"
        runs.append(row)
    shares = [[(run.problem and float("inf")) or run.seconds / line[0].seconds for run in line] for line in runs]
    if site.symbol() is None:  # one kernel for all sizes
        shares = [[sum(column) / len(shares) for column in zip(*shares)]] * len(shares)
    best = [_best(line) for line in shares]
    near = [k for k, share in enumerate(shares[0]) if share < NEAR and k not in best] if len(set(best)) == 1 else []
    rows: list[Choice] = []
    for anchor, line, chosen in zip(anchors, runs, best):
        for k, (kernel, run) in enumerate(zip(candidates, line)):
            if k == chosen:
                reason = "fastest alone" if k or len(candidates) == 1 else f"no other is {MARGIN} times faster alone"
            else:
                reason = run.problem or f"{run.seconds / line[chosen].seconds:.2f} times as long alone"
            rows.append(Choice(anchor.op, text_of(anchor), kernel_name(kernel), run.seconds, reason, k == chosen))
    kernels, others = tuple([candidates[k] for k in best]), tuple([candidates[k] for k in near])
    return Measured(site, kernels, others, tuple(rows), runs[0][0].seconds)


def kernel_name(kernel: Candidate) -> str:
    """A candidate as the table shows it."""
    return OURS if kernel is None else kernel.name


def _best(shares: list[float]) -> int:
    usable = [k for k in range(1, len(shares)) if shares[k] * MARGIN < 1 and shares[k] != float("inf")]
    return min(usable, key=lambda k: shares[k], default=0)
