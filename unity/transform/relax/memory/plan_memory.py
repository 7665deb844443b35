"""Reuse of memory inside a function: ``R.builtin.alloc_tensor`` -> ``R.memory.alloc_storage`` shared by tensors that
are never alive together, and ``R.memory.alloc_tensor`` placed in it.

Static sizes take the smallest free storage that is large enough, else the largest free one is made larger. A size whose symbols
have upper bounds (``ir/analysis/symbol_bounds.py``) is static too: its storage is as large as the bounds allow.
Other symbolic sizes share only where the sizes are provably equal. Memory that escapes (see
``transform/relax/analysis/liveness.py``) stays as it is. Each branch of a conditional is planned by itself.

``lower_alloc_tensor`` gives each allocation that stays whole a storage of its own, for pipelines that want it: the default one does
without, since bytecode has an instruction for whole tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....arith.analyzer import Analyzer
from ....arith.poly import PolyKey, poly_key
from ....ffi.dtype import DataType
from ....ir.analysis.symbol_bounds import noted_bounds, promised_bounds
from ....ir.build import const
from ....ir.expr import (  # fmt: skip
    Binding,
    BindingBlock,
    Call,
    DataTypeImm,
    IntImm,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Var,
    VarBinding,
)
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.relation import Answer, dims, same_dim
from ....ir.structural import structural_equal
from ....ir.types import OBJECT, Expr, TensorType
from ....ir.walk import used_vars
from ....op.common.table import R
from ....op.common.type_rules import product
from ...infra.passes import function_pass, module_pass
from ..analysis.liveness import Liveness, with_branches
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls


@dataclass(slots=True, eq=False)
class Storage:
    """Memory of ``size`` bytes on one device and scope, and the tensors placed in it. ``alike``: the one of equal sizes."""

    var: Var
    size: Expr
    alike: Expr
    place: tuple[Expr, Expr]
    tensors: list[Var] = field(default_factory=list)


def bytes_of(ty: TensorType, bounds: SizeBounds | None = None) -> Expr | None:
    """Bytes of a tensor, or the most that bounds allow it; None when unknown."""
    known = dims(ty)
    if known is None or ty.dtype is None:
        return None
    return product([*[d if bounds is None else bounds.most(d) for d in known], const(ty.dtype.itemsize, "int64")])


class _Planner:
    def __init__(self, fn: Function, mod: IRModule, bounds: SizeBounds) -> None:
        self.mod = mod
        self.bounds = bounds
        self.total = 0
        """Bytes of the static storages."""
        self.names = NameSupply([v.name for v in used_vars(fn)])
        self.places: list[tuple[Expr, Expr]] = []
        """Devices and scopes met, one of each."""
        self.numbers = Analyzer()
        self.sizes: dict[PolyKey, Expr] = {}
        """Symbolic sizes met: the one of those that are equal, by polynomial."""

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        live = Liveness(seq, self.mod)
        homes = self.assign(live)
        placed: set[Storage] = set()
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            made: list[Binding] = []
            for binding in block.bindings:
                storage = homes.get(binding.var)
                if storage is not None and isinstance(binding, VarBinding):
                    if storage not in placed:
                        placed.add(storage)
                        made.append(VarBinding(storage.var, alloc_storage(storage)))
                    made.append(VarBinding(binding.var, alloc_in(storage, binding), binding.span))
                else:
                    made.append(self.inside(binding))
            blocks.append(replace(block, bindings=tuple(made)))
        return replace(seq, blocks=tuple(blocks))

    def inside(self, binding: Binding) -> Binding:
        value = binding.value
        if type(value) is Function and type(value.body) is SeqExpr:
            return replace(binding, value=replace(value, body=self.sequence(value.body)))
        return with_branches(binding, self.sequence)

    def assign(self, live: Liveness) -> dict[Var, Storage]:
        ends: dict[int, list[Storage]] = {}
        free: list[Storage] = []
        homes: dict[Var, Storage] = {}
        for index, binding in enumerate(live.bindings):
            value = binding.value
            if value.op_name == R.builtin.alloc_tensor.name and binding.var not in live.escapes:
                assert type(value) is Call and isinstance(value.ty, TensorType)
                size = bytes_of(value.ty, self.bounds)
                if size is not None:
                    place = (
                        (value.args[2], value.args[3])
                        if len(value.args) > 3
                        else (const(0, "int64"), StringImm("global"))
                    )
                    storage = self.choose(free, size, self.known(place))
                    storage.tensors.append(binding.var)
                    homes[binding.var] = storage
                    ends.setdefault(live.last_use[binding.var], []).append(storage)
            free.extend(ends.pop(index, ()))
        self.total += sum([s.size.value for s in set(homes.values()) if type(s.size) is IntImm])
        return homes

    def known(self, place: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        """The one of equal places."""
        for old in self.places:
            if all([structural_equal(x, y) for x, y in zip(old, place)]):
                return old
        self.places.append(place)
        return place

    def one_size(self, size: Expr) -> Expr:
        """The one of equal symbolic sizes, which are then compared by identity; a number as it is."""
        if type(size) is IntImm:
            return size
        key = poly_key(self.numbers.poly(size))
        found = self.sizes.get(key)
        if found is None:
            found = next((s for s in self.sizes.values() if same_dim(s, size) is Answer.YES), size)
            self.sizes[key] = found
        return found

    def choose(self, free: list[Storage], size: Expr, place: tuple[Expr, Expr]) -> Storage:
        near = [s for s in free if s.place is place]
        picked: Storage | None = None
        alike = self.one_size(size)
        if type(size) is IntImm:
            fixed = [s for s in near if type(s.size) is IntImm]
            fitting = [s for s in fixed if s.size.value >= size.value]  # type: ignore[attr-defined]
            if fitting:
                picked = min(fitting, key=lambda s: s.size.value)  # type: ignore[attr-defined]
            elif fixed:
                picked = max(fixed, key=lambda s: s.size.value)  # type: ignore[attr-defined]
                picked.size = size
        else:
            picked = next((s for s in near if s.alike is alike), None)
        if picked is None:
            return Storage(Var(self.names.fresh("storage"), OBJECT), size, alike, place)
        free.remove(picked)
        return picked


def alloc_storage(storage: Storage) -> Call:
    """``R.memory.alloc_storage`` in bytes."""
    args = (ShapeExpr((storage.size,)), storage.place[0], storage.place[1], DataTypeImm(DataType("uint8")))
    return Call(R.memory.alloc_storage.op, args, {}, (), OBJECT)


def alloc_in(storage: Storage, binding: VarBinding) -> Call:
    """``R.memory.alloc_tensor`` at the beginning of a storage."""
    old = binding.value
    assert type(old) is Call
    args = (storage.var, const(0, "int64"), old.args[0], old.args[1], storage.place[0])
    return Call(R.memory.alloc_tensor.op, args, {}, (), old.ty, old.span)


def _planned(fn: Function, body: SeqExpr, mod: IRModule, max_noted: int) -> SeqExpr:
    planner = _Planner(fn, mod, SizeBounds(fn))
    made = planner.sequence(body)
    if planner.total > max_noted and noted_bounds(fn):
        return _Planner(fn, mod, SizeBounds(fn, noted=False)).sequence(body)
    return made


@module_pass()
def plan_memory(mod: IRModule, *, max_noted: int = 256 << 20) -> IRModule:
    """Let tensors that are never alive together share storage.

    Requires ``R.builtin.alloc_tensor`` (``lower_call_dps``). Gives ``R.memory.alloc_storage`` and ``R.memory.alloc_tensor``.
    ``max_noted``: storages are as large as ranges that an importer noted allow if they take no more bytes than this together;
    what the attribute ``tir_var_upper_bound`` says holds at any size.
    """
    return mod.with_graph_functions(
        lambda fn: replace(fn, body=_planned(fn, fn.body, mod, max_noted)) if type(fn.body) is SeqExpr else fn
    )


_MOST = (1 << 63) - 1


class SizeBounds:
    """The most that dimensions of one function can be. ``noted``: also by the ranges that an importer noted."""

    def __init__(self, fn: Function, noted: bool = True) -> None:
        self.bounds = {**(noted_bounds(fn) if noted else {}), **promised_bounds(fn)}
        self.analyzer = Analyzer()
        for var, bounds in self.bounds.items():
            lowest = -_MOST if var in fn.params else 0  # a scalar may be negative, a dimension may not
            least = lowest if bounds.lower is None else max(bounds.lower, lowest)
            self.analyzer.bind_range(var, least, _MOST if bounds.upper is None else bounds.upper)
        self.limited = any([b.upper is not None for b in self.bounds.values()])

    def most(self, dim: Expr) -> Expr:
        """A number that a dimension never exceeds where one is known, else the dimension."""
        if not self.limited or type(dim) is IntImm:
            return dim
        high = self.analyzer.const_int_bound(dim).high
        return const(max(int(high), 0), "int64") if isinstance(high, int) and high < _MOST else dim


@function_pass()
def lower_alloc_tensor(fn: Function) -> Function:
    """Give each tensor that ``plan_memory`` left whole a storage of its own."""

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        size = bytes_of(value.ty) if isinstance(value.ty, TensorType) else None
        if size is None:
            return None
        storage = Storage(Var("storage", OBJECT), size, size, (value.args[2], value.args[3]))
        storage.var = rewriter.emit(alloc_storage(storage), "storage")
        return alloc_in(storage, VarBinding(rewriter.var, value))

    return rewrite_calls(fn, change, R.builtin.alloc_tensor.name)
