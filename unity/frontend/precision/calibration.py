"""Calibration of static quantisation: inputs, and which layers stay out.

``Calibration`` says what is wanted, ``Quantization`` what was decided and why, as a table. Not here: the passes
(``transform/relax/precision/quantize_products.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.expr import IntImm, Var
from ...ir.module import IRModule
from ...ir.relation import dims
from ...support.errors import PassError
from ...transform.relax.precision.integer_sums import Site
from ...transform.relax.precision.quantization_ranges import Seen
from ...transform.relax.precision.quantize_products import observed, seen_on, sites
from .accuracy import as_inputs

RESTS = ("float32", "bf16")
"""The precisions in which layers that stay out may be computed."""
Build = Callable[[IRModule], Callable[..., Any]]
"""``main`` of a module as a function of the inputs of a call."""


@dataclass(slots=True, frozen=True)
class Calibration:
    """Settings of static quantisation, with inputs that look like real ones.

    ``inputs``: a tuple for each call. ``keep``: layers that stay out, by the name of their variable or a part of their torch module
    path. ``rest``: data type of those layers, "float32" or "bf16".
    """

    inputs: Sequence[Any]
    keep: Sequence[str] = ()
    rest: str = "float32"


@dataclass(slots=True, frozen=True)
class Layer:
    """A product or convolution: its variable, the torch module it comes from, its multiply-adds (a symbol counts as one) and the
    range of its data."""

    name: str
    source: str
    shape: tuple[int, ...]
    work: int
    span: tuple[float, float]
    quantized: bool


@dataclass(slots=True, frozen=True)
class Quantization:
    """The decisions of a calibration: the layers in order, and the precision of those that are not quantised."""

    layers: tuple[Layer, ...]
    rest: str = "float32"

    @property
    def ranges(self) -> list[tuple[float, float] | None]:
        """The range of each layer that is quantised, None for others."""
        return [layer.span if layer.quantized else None for layer in self.layers]

    def __str__(self) -> str:
        rows = [("layer", "weights", "data from", "to", "8 bits", "source")]
        for layer in self.layers:
            rows.append((
                layer.name, "x".join([str(n) for n in layer.shape]), f"{layer.span[0]:.3g}", f"{layer.span[1]:.3g}",
                "yes" if layer.quantized else "no", layer.source,
            ))  # fmt: skip
        widths = [max([len(row[k]) for row in rows]) for k in range(len(rows[0]))]
        lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip() for row in rows]
        count = sum([layer.quantized for layer in self.layers])
        work = sum([layer.work for layer in self.layers if layer.quantized]) / max(
            1, sum([n.work for n in self.layers])
        )
        said = f"{count} of {len(self.layers)} layers in 8 bits ({work:.0%} of their work), the rest in {self.rest}"
        return "\n".join([*lines, said])


def calibrate(mod: IRModule, calibration: Calibration, build: Build) -> Quantization:
    """Observe the data of each layer and decide which are quantised. Raises PassError E987."""
    if calibration.rest not in RESTS:
        raise PassError("E987", f"rest must be one of {', '.join(RESTS)}, got {calibration.rest!r}")
    if not calibration.inputs:
        raise PassError("E987", "there are no calibration inputs", help="calibration=[(x1,), (x2,), ...]")
    found = sites(mod)
    seen = [Seen() for _ in found]
    watched = build(observed(mod))
    for inputs in calibration.inputs:
        seen_on(watched(*as_inputs(inputs))[1], seen)
    for name in calibration.keep:
        if not any([_is_kept(var, site, (name,)) for var, site, _ in found]):
            raise PassError("E987", f"no layer that can be quantised is called {name!r}",
                            help=f"keep= takes: {', '.join([_source(site) or var.name for var, site, _ in found])}")  # fmt: skip
    kept = [_is_kept(var, site, calibration.keep) for var, site, _ in found]
    layers = [
        Layer(var.name, _source(site), site.sizes, _work(site), known.span(), not out)
        for (var, site, _), known, out in zip(found, seen, kept)
    ]
    return Quantization(tuple(layers), calibration.rest)


def _source(site: Site) -> str:
    return site.call.span.source.owner if site.call.span is not None else ""


def _work(site: Site) -> int:
    known = [extent.value for extent in dims(site.call.ty) or () if type(extent) is IntImm]
    return math.prod(known) * site.depth


def _is_kept(var: Var, site: Site, keep: Sequence[str]) -> bool:
    source = _source(site)
    return any([name == var.name or (bool(name) and name in source) for name in keep])
