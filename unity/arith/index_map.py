"""Index maps: how the cells of one layout move to another, with inverse, and what they do to shapes, ranges and arrays."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

import numpy as np

from ..ir.buffer import Range
from ..ir.build import add, cast, ceildiv, const, dtype_of, eq, floordiv, floormod, ge, index_var, logical_or, mul, sub
from ..ir.expr import IntImm, Var
from ..ir.node import Def, Node, node
from ..ir.scalar import Add, Cast, FloorDiv, FloorMod, Mul, Sub, is_binary
from ..ir.types import Expr
from ..ir.walk import collect, substitute
from ..support.arguments import guarded_class
from ..support.errors import TypeRuleError
from .analyzer import Analyzer
from .evaluate import evaluate
from .intset import IntSet, eval_set, of_range
from .itermap import detect_iter_map
from .itermap_inverse import inverse_affine_iter_map

ARITHMETIC: dict[type[Expr], Callable[..., Expr]] = {
    Add: add,
    Sub: sub,
    Mul: mul,
    FloorDiv: floordiv,
    FloorMod: floormod,
}
"""Builders of the arithmetic of index maps, by the node."""


@guarded_class
@node
class IndexMap(Node):
    """``initial_indices -> final_indices``, e.g. ``(i, j) -> (i // 4, j, i % 4)``."""

    initial_indices: Def[tuple[Var, ...]]
    final_indices: tuple[Expr, ...]

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any], ndim: int | None = None, *, index_dtype: str = "int64"
    ) -> IndexMap:
        """The map that a function of indices says, e.g. ``lambda i, j: [i // 4, j, i % 4]``; ``ndim``: how many indices a function
        of ``*indices`` takes. Raises TypeRuleError E207 where that is not said, where it takes another number, and for results that
        are not integers."""
        parameters = inspect.signature(mapping_function).parameters.values()
        first = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)]
        last = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        takes, is_open = len(first) + len(last), len(first) + len(last) < len(parameters)
        if is_open and ndim is None:
            raise TypeRuleError("E207", "a function of *indices does not say how many", help="give ndim")
        if ndim is not None and (takes > ndim or (takes < ndim and not is_open)):
            raise TypeRuleError("E207", f"the index map takes {takes} indices, {ndim} are mapped",
                                help=f"write lambda {', '.join([f'i{k}' for k in range(ndim)])}: (...)")  # fmt: skip
        names = [*first, *[f"i{k}" for k in range(len(first), (ndim or 0) - len(last))]]
        variables = [index_var(name, index_dtype) for name in (*names, *last)]
        made = mapping_function(*variables[: len(names)], **dict(zip(last, variables[len(names) :])))
        finals: list[Expr] = []
        for result in made if isinstance(made, (list, tuple)) else [made]:
            item = getattr(result, "expr", result)  # of a te.Value
            if not isinstance(item, (Expr, int)):
                raise TypeRuleError("E207", f"an index map gives integer expressions of its indices, got {item!r}")
            finals.append(item if isinstance(item, Expr) else const(item, index_dtype))
        return IndexMap(tuple(variables), tuple(finals))

    def with_dtype(self, dtype: str) -> IndexMap:
        """The map of indices of an integer type."""
        if all([dtype_of(e).name == dtype for e in (*self.initial_indices, *self.final_indices)]):
            return self
        own = {v: index_var(v.name, dtype) for v in self.initial_indices}
        return IndexMap(tuple(own.values()), tuple([_retyped(e, own, dtype) for e in self.final_indices]))

    def map_indices(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The final indices of given initial ones, simplified. Raises TypeRuleError E207 on a wrong number."""
        if len(indices) != len(self.initial_indices):
            raise TypeRuleError("E207", f"the map takes {len(self.initial_indices)} indices, got {len(indices)}")
        ana = Analyzer()
        mapping = dict(zip(self.initial_indices, indices))
        return tuple([ana.simplify(substitute(e, mapping)) for e in self.final_indices])

    def map_ranges(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """Smallest box holding the images of a box. Raises TypeRuleError E208 where it has no end."""
        ana = Analyzer()
        domains: dict[Var, IntSet] = {}
        for var, domain in zip(self.initial_indices, ranges):
            ana.bind(var, domain)
            domains[var] = of_range(domain)
        found = []
        for expr in self.final_indices:
            box = eval_set(expr, domains, ana).as_range(ana)
            if box is None:
                raise TypeRuleError("E208", f"the range of {expr} is not bounded")
            found.append(box)
        return tuple(found)

    def map_shape(self, shape: Sequence[Expr]) -> tuple[Expr, ...]:
        """The shape of the layout that holds the image of a shape. Raises TypeRuleError E208 when that does not begin at
        zero."""
        ranges = self.map_ranges([Range(const(0, dtype_of(n)), n) for n in shape])
        ana = Analyzer()
        for expr, r in zip(self.final_indices, ranges):
            if not ana.can_prove_equal(r.min, const(0, dtype_of(r.min))):
                raise TypeRuleError("E208", f"{expr} begins at {ana.simplify(r.min)}, not at zero")
        return tuple([r.extent for r in ranges])

    def cell_positions(self, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
        """The positions of the cells of a shape in the new layout, in row-major order: one array for each final index."""
        cells = [dict(zip(self.initial_indices, cell)) for cell in itertools.product(*[range(n) for n in shape])]
        return tuple([np.array([evaluate(e, cell) for cell in cells], dtype="int64") for e in self.final_indices])

    def map_tensor(self, array: np.ndarray) -> np.ndarray:
        """The array in the new layout; cells that nothing maps to are zero."""
        shape = [const(n, "int64") for n in array.shape]
        result = np.zeros([_known(n) for n in self.map_shape(shape)], array.dtype)
        result[self.cell_positions(array.shape)] = array.ravel()
        return result

    def inverse(self, shape: Sequence[Expr]) -> IndexMap:
        """The inverse on a shape. Raises TypeRuleError E208 when the map is not bijective there."""
        outputs, solution, errors, gaps = self._solve(shape)
        errors = errors or gaps
        if errors:
            raise TypeRuleError("E208", f"the index map has no inverse on this shape: {errors[0]}")
        return IndexMap(outputs, tuple([solution[v] for v in self.initial_indices]))

    def non_surjective_inverse(self, shape: Sequence[Expr]) -> tuple[IndexMap, Expr]:
        """Inverse on the padded shape, and the condition (of its indices) under which a cell is padding."""
        padded = self.padded_shape(shape)
        inverse = self.inverse(padded)
        condition: Expr = const(False)
        for expr, n, full in zip(inverse.final_indices, shape, padded):
            if full is not n:
                condition = logical_or(condition, ge(expr, n))
        return inverse, condition

    def padded_shape(self, shape: Sequence[Expr]) -> list[Expr]:
        """The shape with each dimension rounded up to what the map divides it by."""
        return [self._padded(var, n) for var, n in zip(self.initial_indices, shape)]

    def require_injective(self, shape: Sequence[Expr]) -> None:
        """Raise TypeRuleError E208 unless every index of the shape has a place of its own; places may stay empty."""
        errors = self._solve(self.padded_shape(shape))[2]
        if errors:
            raise TypeRuleError("E208", errors[0])

    def _solve(self, shape: Sequence[Expr]) -> tuple[tuple[Var, ...], dict[Var, Expr], list[str], list[str]]:
        """(indices of the layout, the initial indices from them, why the map is not injective, which places stay empty)."""
        ranges = {v: Range(const(0, dtype_of(n)), n) for v, n in zip(self.initial_indices, shape)}
        found = detect_iter_map(self.final_indices, ranges, check="bijective")
        outputs = tuple([index_var(f"o{k}", dtype_of(e).name) for k, e in enumerate(self.final_indices)])
        if not found:
            return outputs, {}, found.errors, []
        ana = Analyzer()
        gaps = [
            f"{e} goes in steps of {ana.simplify(s.args[-1].scale)}"
            for e, s in zip(self.final_indices, found.indices)
            if s.args and not any([ana.can_prove_equal(s.args[-1].scale, const(step, dtype_of(e))) for step in (1, -1)])
        ]
        return outputs, inverse_affine_iter_map(found.indices, outputs, ranges), [], gaps

    def _padded(self, var: Var, extent: Expr) -> Expr:
        divisor = 1
        for division in collect(self, (FloorDiv, FloorMod)):
            if type(division.b) is IntImm and division.b.value > 0 and var in collect(division.a, Var):
                divisor = lcm(divisor, division.b.value)
        dtype = dtype_of(extent)
        if divisor == 1 or Analyzer().can_prove(eq(floormod(extent, const(divisor, dtype)), const(0, dtype))):
            return extent
        return Analyzer().simplify(mul(ceildiv(extent, divisor), divisor))


def index_map(ndim: int, make: Callable[..., Sequence[Expr]], dtype: str = "int64") -> IndexMap:
    """An index map from a function of ``ndim`` index variables."""
    variables = tuple([index_var(f"i{k}", dtype) for k in range(ndim)])
    return IndexMap(variables, tuple(make(*variables)))


def _retyped(expr: Expr, own: dict[Var, Var], dtype: str) -> Expr:
    """The expression of other indices, in their integer type."""
    if isinstance(expr, Var) and expr in own:
        return own[expr]
    if type(expr) is IntImm:
        return const(expr.value, dtype)
    if type(expr) is Cast and dtype_of(expr.value).is_int:
        return _retyped(expr.value, own, dtype)
    if is_binary(expr) and type(expr) in ARITHMETIC:
        return ARITHMETIC[type(expr)](_retyped(expr.a, own, dtype), _retyped(expr.b, own, dtype))
    return cast(substitute(expr, {v: cast(new, dtype_of(v)) for v, new in own.items()}), dtype)


def _known(n: Expr) -> int:
    if type(n) is not IntImm:
        raise TypeRuleError("E208", "the mapped shape is not constant")
    return n.value
