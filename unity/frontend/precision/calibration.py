"""Calibration of static quantisation: inputs, how ranges are chosen, and which layers stay out because they cost too much accuracy.

``Calibration`` says what is wanted, ``Quantization`` what was decided and why, as a table. Not here: the passes
(``transform/relax/precision/quantize_products.py``), how results are compared (``accuracy.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.build import int_values
from ...ir.expr import Var
from ...ir.module import IRModule
from ...ir.relation import dims
from ...support.errors import PassError
from ...transform.relax.precision.integer_sums import Site
from ...transform.relax.precision.quantization_probe import probed
from ...transform.relax.precision.quantization_ranges import Seen, range_method, ranges_of
from ...transform.relax.precision.quantize_products import observed, seen_on, sites
from .accuracy import compare

RESTS = ("float32", "bf16")
"""The precisions in which layers that stay out may be computed."""
Run = Callable[..., Any]
"""``run(module, inputs, *more)`` calls ``main`` of a module with the inputs of a call and what follows them."""


@dataclass(slots=True, frozen=True)
class Calibration:
    """Settings of static quantisation, with inputs that look like real ones.

    ``inputs``: a tuple for each call. ``ranges``: "mse" (least square error), "percentile" (without the outermost 1 in 10,000
    elements on each side) or "minmax". ``max_error``: upper bound of the relative error of the results; layers that cost the most
    accuracy for their work stay out until it is met (``Quantization.error`` is the value reached). ``keep``: layers that stay out,
    by the name of their variable or a part of their torch module path. ``rest``: data type of those layers, "float32" or "bf16".
    """

    inputs: Sequence[Any]
    ranges: str = "mse"
    max_error: float | None = None
    keep: Sequence[str] = ()
    rest: str = "float32"


@dataclass(slots=True, frozen=True)
class Layer:
    """A product or convolution: its variable, the torch module it comes from, its multiply-adds (a symbol counts as one), the range
    of its data, and the relative error of the results where it alone is quantised (None: not measured)."""

    name: str
    source: str
    shape: tuple[int, ...]
    work: int
    span: tuple[float, float]
    error: float | None
    quantized: bool


@dataclass(slots=True, frozen=True)
class Quantization:
    """The decisions of a calibration: the layers in order, the relative error of the results with those that are quantised, in
    simulation (None: not measured), and the precision of the others."""

    layers: tuple[Layer, ...]
    error: float | None
    rest: str = "float32"

    @property
    def ranges(self) -> list[tuple[float, float] | None]:
        """The range of each layer that is quantised, None for others."""
        return [layer.span if layer.quantized else None for layer in self.layers]

    def __str__(self) -> str:
        rows = [("layer", "weights", "data from", "to", "error alone", "8 bits", "source")]
        for layer in self.layers:
            alone = "" if layer.error is None else f"{layer.error:.4f}"
            rows.append((
                layer.name, "x".join([str(n) for n in layer.shape]), f"{layer.span[0]:.3g}", f"{layer.span[1]:.3g}", alone,
                "yes" if layer.quantized else "no", layer.source,
            ))  # fmt: skip
        widths = [max([len(row[k]) for row in rows]) for k in range(len(rows[0]))]
        lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip() for row in rows]
        count = sum([layer.quantized for layer in self.layers])
        work = sum([layer.work for layer in self.layers if layer.quantized]) / max(
            1, sum([n.work for n in self.layers])
        )
        total = "" if self.error is None else f", relative error {self.error:.3g} in simulation"
        said = f"{count} of {len(self.layers)} layers in 8 bits ({work:.0%} of their work), the rest in {self.rest}"
        return "\n".join([*lines, said + total])


def calibrate(mod: IRModule, calibration: Calibration, run: Run) -> Quantization:
    """Observe the data of each layer and decide which are quantised. Raises PassError E987."""
    range_method(calibration.ranges)
    if calibration.rest not in RESTS:
        raise PassError("E987", f"rest must be one of {', '.join(RESTS)}, got {calibration.rest!r}")
    if not calibration.inputs:
        raise PassError("E987", "there are no calibration inputs", help="calibration=[(x1,), (x2,), ...]")
    found = sites(mod)
    seen = [Seen() for _ in found]
    watched = observed(mod, calibration.ranges != "minmax")
    exact = []
    for inputs in calibration.inputs:
        result, looked = run(watched, inputs)
        seen_on(looked, seen)
        exact.append((inputs, result))
    ranges = ranges_of(seen, calibration.ranges)
    for name in calibration.keep:
        if not any([_is_kept(var, site, (name,)) for var, site, _ in found]):
            raise PassError("E987", f"no layer that can be quantised is called {name!r}",
                            help=f"keep= takes: {', '.join([_source(site) or var.name for var, site, _ in found])}")  # fmt: skip
    kept = [_is_kept(var, site, calibration.keep) for var, site, _ in found]
    errors: list[float] = []
    total = None
    if calibration.max_error is not None and found:
        probe = _Probe(probed(mod, ranges, calibration.rest == "bf16"), exact, run, len(found))
        errors = [probe.error({n}) for n in range(len(found))]
        kept, total = _select_excluded(
            [_work(site) for _, site, _ in found], errors, kept, calibration.max_error, probe
        )
    layers = [
        Layer(var.name, _source(site), site.sizes, _work(site), span, errors[n] if errors else None, not kept[n])
        for n, ((var, site, _), span) in enumerate(zip(found, ranges))
    ]
    return Quantization(tuple(layers), total, calibration.rest)


def _source(site: Site) -> str:
    return site.call.span.source.owner if site.call.span is not None else ""


def _work(site: Site) -> int:
    return math.prod(int_values(dims(site.call.ty) or ())) * site.depth


def _is_kept(var: Var, site: Site, keep: Sequence[str]) -> bool:
    source = _source(site)
    return any([name == var.name or (bool(name) and name in source) for name in keep])


@dataclass(slots=True, frozen=True)
class _Probe:
    """Runs the probed module on the calibration inputs; ``exact`` pairs them with their results in float32."""

    mod: IRModule
    exact: Sequence[tuple[Any, Any]]
    run: Run
    count: int

    def error(self, chosen: set[int]) -> float:
        """Relative error of the results with these sites quantised."""
        switches = np.array([n in chosen for n in range(self.count)], "float32")
        found = [(result, self.run(self.mod, inputs, switches)) for inputs, result in self.exact]
        return compare("int8", found).relative


def _select_excluded(
    work: Sequence[int], errors: Sequence[float], kept: Sequence[bool], most: float, probe: _Probe
) -> tuple[list[bool], float]:
    """The sites that stay out, and the error then: of those that cost the most (square error for each multiply-add), as few as
    bring it to ``most``, found by halving."""
    free = [n for n in range(len(work)) if not kept[n]]
    order = sorted(free, key=lambda n: -(errors[n] ** 2) / max(1, work[n]))
    low, high = 0, len(order)
    best = probe.error(set())
    while low < high:
        middle = (low + high) // 2
        error = probe.error(set(order[middle:]))
        if error <= most:
            high, best = middle, error
        else:
            low = middle + 1
    chosen = set(order[low:])
    return [n not in chosen for n in range(len(work))], best
