"""``unity.compile(..., choose=...)``: which kernel computes each product and convolution, and why.

``analytic`` (the default) keeps our schedules and estimates their time from the machine's roofline; ``measured`` builds every
candidate - our schedule, and the library kernels registered for the operator (``ffi/library.py``) - for the shape of each call,
times them here, and replaces calls where a library wins by more than ``MARGIN`` (what follows a call is computed with it only
in ours).
``measured+winograd`` has Winograd's algorithm among the candidates for convolutions (``candidates.py``).
A symbolic dimension is measured at several sizes (``BUCKETS``), and the winner of the first size that is not smaller computes a
call (of the last one for larger ones); with several symbols one kernel is kept for all sizes.

Invariant: a library kernel is taken only if its results on random inputs agree with ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.dtype import DataType
from ...ffi.library import KERNELS, Anchor, LibraryKernel, packed_name
from ...ffi.native.pool import num_threads
from ...ffi.targets.target import Target
from ...ffi.tensor import Tensor
from ...ir.build import const, int_value, le
from ...ir.builder import BlockBuilder, make_call
from ...ir.expr import (
    BindingBlock,
    Call,
    Constant,
    ExternFunc,
    If,
    IntImm,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, TensorType
from ...ir.walk import collect, free_vars, fresh_copy
from ...op.common.table import R
from ...support.errors import FrontendError, UnityError
from ...transform.relax.fusion.fuse_ops import FunctionTable
from ...transform.relax.layout.winograd import by_tiles
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter
from ...vm.build import build
from ...vm.choices import Choice, Choices
from ...vm.roofline import machine_roofline
from ..precision.precision import PREPARE
from .candidates import CONVOLUTION, LAYOUT, TILES, Tiles

Candidate = LibraryKernel | Tiles | None
"""A kernel of a library, another program of ours, or (None) our schedule."""
WAYS = ("analytic", "measured", "measured+winograd")
"""The values of ``choose``."""

ANCHORS = frozenset([R.matmul.name, R.nn.conv1d.name, R.nn.conv2d.name, R.nn.conv3d.name, R.nn.conv2d_transpose.name])
"""Operators that are decided about, beside those somebody registers a kernel for."""
BUCKETS = (1, 16, 64, 256)
"""Sizes at which symbolic dimensions are measured."""
MARGIN = 1.1
"""Factor by which a library kernel must be faster than ours."""
OURS = "unity"
BUDGET = 0.02
"""Seconds of timing for one candidate and shape."""


@dataclass(slots=True)
class _Site:
    """Calls of one operator on the same types, with the same operands constant."""

    call: Call
    constant: tuple[bool, ...]

    def anchor(self, size: int) -> Anchor | None:
        """The call with every symbol of that size; None where a type is not known well enough."""
        found = [f for f in [_shape(a.ty, size) for a in (*self.call.args, self.call)] if f is not None]
        attrs = {k: v.name if isinstance(v, DataType) else v for k, v in self.call.attrs.items()}
        if len(found) <= len(self.call.args) or not all([_plain(v) for v in attrs.values()]):
            return None
        *tensors, (shape, dtype) = found
        return Anchor(
            _name(self.call), tuple([s for s, _ in tensors]), tuple([d for _, d in tensors]), shape, dtype, attrs
        )

    @property
    def symbolic(self) -> bool:
        """True if a dimension depends on a symbol."""
        return any([type(d) is not IntImm for a in self.call.args for d in dims(a.ty) or ()])

    def symbol(self) -> Var | None:
        """The one symbol that is a dimension of an operand, where no dimension depends on another."""
        extents = [d for a in self.call.args for d in dims(a.ty) or ()]
        found = {v for d in extents for v in free_vars(d)}
        return next(iter(found)) if len(found) == 1 and found <= {d for d in extents if isinstance(d, Var)} else None


def _name(call: Call) -> str:
    return call.op_name


def _shape(ty: Any, size: int) -> tuple[tuple[int, ...], str] | None:
    extents = dims(ty) if isinstance(ty, TensorType) else None
    if extents is None or ty.dtype is None:
        return None
    return tuple([int_value(e, size) for e in extents]), ty.dtype.name


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([_plain(v) for v in value])
    return value is None or isinstance(value, (int, float, str, bool))


def _key(call: Call) -> tuple[Any, ...]:
    constant = tuple([type(a) is Constant for a in call.args])
    return _name(call), tuple([str(a.ty) for a in call.args]), constant, repr(sorted(call.attrs.items(), key=str))


def _sites(mod: IRModule) -> dict[tuple[Any, ...], _Site]:
    known = ANCHORS | {kernel.op for kernel in KERNELS.values()}
    found: dict[tuple[Any, ...], _Site] = {}
    for fn in mod.graph_functions().values():
        for call in collect(fn, Call):
            if _name(call) in known and _Site(call, ()).anchor(1) is not None:
                found.setdefault(_key(call), _Site(call, tuple([type(a) is Constant for a in call.args])))
    return found


def _text(anchor: Anchor) -> str:
    return f"{' x '.join([str(list(s)).replace(' ', '') for s in anchor.shapes])} {anchor.dtypes[0]}"


# ---- measuring


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Tensor:
    kind = DataType(dtype)
    if kind.is_float:
        return Tensor(rng.standard_normal(shape).astype("float32").astype(kind.numpy))
    return Tensor(rng.integers(0, 2 if kind.is_bool else 5, shape).astype(kind.numpy))


def _tensor_of(shape: tuple[int, ...], dtype: str) -> TensorType:
    return tensor_type([const(n, "int64") for n in shape], dtype)


def _module(site: _Site, anchor: Anchor, values: list[Tensor], library: str | None) -> IRModule:
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


def _run(site: _Site, anchor: Anchor, values: list[Tensor], kernel: Candidate, target: Any) -> _Run:
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


def _agree(ours: np.ndarray, other: np.ndarray) -> bool:
    a, b = ours.astype("float64"), other.astype("float64")
    scale = np.abs(a).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=1e-2, atol=1e-2 * scale if ours.dtype.itemsize < 4 else 1e-4 * max(scale, 1.0)))


def _decide(site: _Site, target: Any, tiles: tuple[Tiles, ...]) -> tuple[tuple[Candidate, ...], list[Choice]]:
    """The kernel for each size of a site (None is ours) and the rows of the table."""
    candidates: list[Candidate] = [None, *[k for k in KERNELS.values() if k.op == _name(site.call)]]
    candidates += tiles if _name(site.call) == CONVOLUTION and not site.symbolic else ()
    rng = np.random.default_rng(0)
    anchors = [a for a in [site.anchor(size) for size in (BUCKETS if site.symbolic else (1,))] if a is not None]
    runs: list[list[_Run]] = []
    for anchor in anchors:
        values = [_random(rng, s, d) for s, d in zip(anchor.shapes, anchor.dtypes)]
        row = [_run(site, anchor, values, kernel, target) for kernel in candidates]
        for found in row[1:]:
            if found.result is not None and row[0].result is not None and not _agree(row[0].result, found.result):
                found.problem = "its result differs from ours"
        runs.append(row)
    shares = [[(run.problem and float("inf")) or run.seconds / line[0].seconds for run in line] for line in runs]
    if site.symbol() is None:  # one kernel for all sizes
        shares = [[sum(column) / len(shares) for column in zip(*shares)]] * len(shares)
    best = [_best(line) for line in shares]
    rows: list[Choice] = []
    for anchor, line, chosen in zip(anchors, runs, best):
        for k, (kernel, run) in enumerate(zip(candidates, line)):
            if k == chosen:
                reason = "fastest" if k or len(candidates) == 1 else f"no other is {MARGIN} times faster"
            else:
                reason = run.problem or f"{run.seconds / line[chosen].seconds:.2f} times as long as the chosen one"
            name = OURS if kernel is None else kernel.name
            rows.append(Choice(anchor.op, _text(anchor), name, run.seconds, reason, k == chosen))
    return tuple([candidates[k] for k in best]), rows


def _best(shares: list[float]) -> int:
    usable = [k for k in range(1, len(shares)) if shares[k] * MARGIN < 1 and shares[k] != float("inf")]
    return min(usable, key=lambda k: shares[k], default=0)


KNOWN: dict[tuple[Any, ...], tuple[tuple[Candidate, ...], list[Choice]]] = {}
"""The measurements of this process, by call, target, threads and candidates."""


def _computed(call: Call, kernel: Candidate) -> Call:
    """The call by a kernel of a library, else as it is."""
    if not isinstance(kernel, LibraryKernel):
        return call
    attrs = {k: v.name if isinstance(v, DataType) else v for k, v in call.attrs.items()}
    return make_call(R.call_dps.op, [ExternFunc(packed_name(kernel, attrs)), Tuple(call.args)], {}, (call.ty,))


def _switch(call: Call, kernels: tuple[Candidate, ...], symbol: Var) -> Function:
    """A function of the call's operands that are no constants: by the size of the symbol one kernel or another."""
    params = {a: Var(f"x{k}", a.ty) for k, a in enumerate(call.args) if type(a) is not Constant}
    inner = replace(call, args=tuple([params.get(a, a) for a in call.args]))

    def sequence(value: Expr) -> SeqExpr:
        var = Var("y", call.ty)
        return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)

    made = sequence(_computed(inner, kernels[-1]))
    for size, kernel, larger in zip(BUCKETS[-2::-1], kernels[-2::-1], kernels[:0:-1]):
        if kernel is not larger:
            small = sequence(_computed(inner, kernel))
            made = sequence(If(le(symbol, size), small, made, call.ty))
    result: Function = fresh_copy(Function(tuple(params.values()), made, call.ty, True, {}))
    return result


def choose_measured(
    mod: IRModule, target: str | Target | None = None, choose: str = "measured"
) -> tuple[IRModule, Choices]:
    """The module with calls of other kernels where they are faster, and the table. Raises FrontendError E981 for an unknown way."""
    if choose not in WAYS:
        raise FrontendError("E981", f"unknown choose={choose!r}", help=f"known: {', '.join(WAYS)}")
    winograd = choose == "measured+winograd"
    for step in (*PREPARE, *(LAYOUT if winograd else ())):
        mod = step(mod)
    chosen: dict[tuple[Any, ...], tuple[_Site, tuple[Candidate, ...]]] = {}
    rows: list[Choice] = []
    for key, site in _sites(mod).items():
        whole = (*key, str(target), num_threads(), winograd, tuple(KERNELS.items()))
        if whole not in KNOWN:
            KNOWN[whole] = _decide(site, target, TILES if winograd else ())
        if any([kernel is not None for kernel in KNOWN[whole][0]]):
            chosen[key] = site, KNOWN[whole][0]
        rows += KNOWN[whole][1]
    tiles = {key: kernel.tile for key, (_, (kernel, *_)) in chosen.items() if isinstance(kernel, Tiles)}
    if tiles:
        mod = by_tiles(mod, lambda call: tiles.get(_key(call), 0))
    table = FunctionTable(mod)

    def rule(value: Expr, rewriter: GraphRewriter) -> Expr:
        found = chosen.get(_key(value)) if type(value) is Call and _name(value) in names else None
        if found is None or type(value) is not Call:
            return value
        kernels, symbol = found[1], _Site(value, ()).symbol()
        if all([kernel is kernels[0] for kernel in kernels]) or symbol is None:
            return _computed(value, kernels[0])
        callee = table.add(_switch(value, kernels, symbol), f"choose_{_name(value).rpartition('.')[2]}")
        return make_call(callee, [a for a in value.args if type(a) is not Constant])

    names = {_name(site.call) for site, _ in chosen.values()}
    if names:
        changed = {n: GraphRewriter(rule).function(fn) for n, fn in mod.graph_functions().items()}
        mod = mod.with_functions({**changed, **table.added})
    return mod, Choices(lambda: tuple(rows))


# ---- estimating


def _work(anchor: Anchor) -> tuple[float, float]:
    """Operations and bytes of a call: every result is a sum of products along the reduced axes."""
    out = float(np.prod(anchor.out_shape, dtype="float64"))
    depth = anchor.shapes[0][-1] if anchor.op == R.matmul.name else np.prod(anchor.shapes[-1], dtype="float64") / max(
        1, anchor.shapes[-1][0])  # fmt: skip
    tensors = [*zip(anchor.shapes, anchor.dtypes), (anchor.out_shape, anchor.out_dtype)]
    return 2.0 * out * float(depth), float(
        sum([np.prod(s, dtype="float64") * DataType(d).itemsize for s, d in tensors])
    )


def analytic_choices(mod: IRModule) -> tuple[Choice, ...]:
    """The table of the default: our schedules, at the time the roofline allows."""
    for step in PREPARE:
        mod = step(mod)
    roofline, rows = machine_roofline(), []
    for site in _sites(mod).values():
        for size in BUCKETS if site.symbolic else (1,):
            anchor = site.anchor(size)
            assert anchor is not None
            flops, moved = _work(anchor)
            bound = "arithmetic" if flops / roofline.flops > moved / roofline.bandwidth else "memory"
            reason = f"estimated, bound by {bound}; a library would add a call and computes what follows apart"
            rows.append(Choice(anchor.op, _text(anchor), OURS, roofline.seconds(flops, moved), reason, True))
    return tuple(rows)
