"""Weights of a graph that ``torch.compile`` captured, as constants: folded and packed once, watched at every call.

torch hands the parameters of a model to a backend as inputs. Where no gradients are traced they rarely change, so that a program
may keep them in the form its kernels read. Calls see other weights by their addresses, writes to them by torch's count of writes,
and writes past that count (through ``.data``) by a few elements of each weight that the program has a copy of. Then the copies are
made anew, by the steps of the build; weights that change all the time are inputs. Invariant: nothing here keeps a weight alive
but what the program reads where torch has it, and that no longer than all weights it was packed with.

Not here: how a program is called (``dynamo.py``).
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from ...ffi.tensor import Tensor
from ...ir.expr import Var
from ...ir.module import IRModule
from ...support.optional import require
from ...transform.infra.constant_provenance import Provenance
from ...transform.relax.params.bind_params import bind_params
from ...vm.executable.executable import Executable
from .capture.discard_parameters import memory_key

SAMPLES = 8
"""Elements of a copied weight that each call looks at."""
MOST_SETS = 64
"""Sets of weights that one graph keeps packed: layers that torch compiles once are called with those of each."""
SHORT_LIFE, PATIENCE, LONGEST_WAIT = 8, 3, 64
"""Calls that pay for packing. Weights that changed sooner so many times in turn are packed when they have stayed for some calls,
twice as many each time, up to the third number."""
Linked = TypeVar("Linked")
_MADE: weakref.WeakValueDictionary[str, Tensor] = weakref.WeakValueDictionary()
"""Packed weights of all graphs, by what they were made of and how: graphs that read the same form share one copy."""


@dataclass(slots=True, eq=False)
class WeightSet(Generic[Linked]):
    """Weights as a call had them: by their addresses, counts of writes to those at the places ``counted``, and samples."""

    addresses: list[int]
    counted: list[int]
    versions: list[int]
    wait: int = 0
    """Calls without a change before they are packed; -1: never."""
    short_lives: int = 0
    """The times that these weights have changed after few calls, since they last did after many."""
    program: Linked | None = None
    calls: int = 0
    samples: list[np.ndarray] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    owners: list[weakref.ref[Any]] = field(default_factory=list)

    def holds(self, weights: Sequence[Any]) -> bool:
        """True for the same weights with nothing written to them."""
        if [w.data_ptr() for w in weights] != self.addresses:
            return False
        try:
            same = [weights[k]._version for k in self.counted] == self.versions
        except RuntimeError:  # an inference tensor in the memory of one whose writes were counted
            return False
        return same and [s.tobytes() for s in self.samples] == self.seen

    def watch(self, weights: Sequence[Any], places: Sequence[int]) -> None:
        """Look at elements of the weights at some places, of which the program has copies, and at no counts but theirs."""
        left = {k: version for k, version in zip(self.counted, self.versions) if k in places}
        self.counted, self.versions = [*left], [*left.values()]
        self.samples = [sample(weights[k]) for k in places]
        self.seen = [s.tobytes() for s in self.samples]


def graph_weights(example_inputs: Sequence[Any]) -> list[weakref.ref[Any] | None]:
    """For each input of a graph that torch captured: the parameter or buffer it is; None for others."""
    torch = require("torch")
    kinds = [(value, type(value)) for value in example_inputs]
    return [
        weakref.ref(value)
        if kind is torch.nn.Parameter or (kind is torch.Tensor and hasattr(value, "_dynamo_static_input_type"))
        else None
        for value, kind in kinds
    ]


def frozen_inputs(
    weights: Sequence[weakref.ref[Any] | None], nodes: Sequence[Any], positions: Sequence[int]
) -> dict[int, Any]:
    """The weights that a program may keep, by their positions among the arguments of a call: those on the host that the graph does
    not write to. ``nodes``: the inputs of the graph in ATen that are values, at ``positions``."""
    context = require("torch._guards").TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None or not len(weights) == len(nodes) == len(metadata.input_info):
        return {}  # subclasses of tensors are several inputs, inputs that share memory one
    found = {}
    for reference, node, position, info in zip(weights, nodes, positions, metadata.input_info):
        value = None if reference is None else reference()
        if value is None or info.mutation_type.name != "NOT_MUTATED" or not _is_plain(value):
            continue
        seen = node.meta["val"]
        if value.dtype == seen.dtype and [*value.shape] == [d if isinstance(d, int) else -1 for d in seen.shape]:
            found[position] = value
    return found


def _is_plain(value: Any) -> bool:
    """True for real numbers in the host's memory."""
    torch = require("torch")
    here = value.layout is torch.strided and value.device.type == "cpu" and value.numel() > 0 and not value.is_neg()
    return bool(here and value.is_floating_point() and value.data_ptr() % value.element_size() == 0)


def sample(weight: Any) -> np.ndarray:
    """Some elements of a torch tensor, spread over its memory, which is not kept alive."""
    extent = 1 + sum([(size - 1) * stride for size, stride in zip(weight.shape, weight.stride())])
    width = weight.element_size()
    memory = (ctypes.c_char * (extent * width)).from_address(weight.data_ptr())
    return np.frombuffer(memory, f"V{width}")[:: max(1, extent // SAMPLES) | 1]


class FrozenWeights(Generic[Linked]):
    """The weights of one graph, which are the parameters ``params`` of its ``module``.

    ``build`` compiles a module, ``link`` makes an executable callable.
    """

    def __init__(
        self,
        module: IRModule,
        params: Sequence[Var],
        build: Callable[[IRModule], Executable],
        link: Callable[[Executable], Linked],
    ) -> None:
        self.module, self.params = module, params
        self.build, self.link = build, link
        self.lock = threading.RLock()
        self.sets: dict[tuple[int, ...], WeightSet[Linked]] = {}
        self.last: WeightSet[Linked] | None = None
        self.pattern: Packing | None = None
        self._plain: Linked | None = None

    def plain(self) -> Linked:
        """The program that takes the weights as inputs."""
        if self._plain is None:
            with self.lock:
                if self._plain is None:
                    self._plain = self.link(self.build(self.module))
        return self._plain

    def program(self, weights: Sequence[Any]) -> Linked | None:
        """The program with these weights in it; None where they are inputs of the ``plain`` one."""
        current = self.last
        if current is None or not current.holds(weights):
            with self.lock:
                current = self._set(weights)
        current.calls += 1
        if current.program is None and 0 <= current.wait < current.calls:
            with self.lock:
                self._pack(current, weights)
        return current.program

    def _set(self, weights: Sequence[Any]) -> WeightSet[Linked]:
        """The set of these weights: known, or new, since they are others or were written to."""
        addresses = [w.data_ptr() for w in weights]
        known, short = self.sets.get(tuple(addresses)), 0
        if known is not None:
            if known.holds(weights):
                self.last = known
                return known
            short = known.short_lives + 1 if known.calls < SHORT_LIFE else 0
        wait = 0 if short < PATIENCE else min(1 << short, LONGEST_WAIT)
        if known is None and len(self.sets) >= MOST_SETS:
            wait = -1
        counted = [k for k, w in enumerate(weights) if not w.is_inference()]
        made = WeightSet[Linked](addresses, counted, [weights[k]._version for k in counted], wait, short)
        forget = partial(_forget, weakref.ref(self), tuple(addresses))
        made.owners = [weakref.ref(w, forget) for w in weights]
        if wait >= 0:
            self.sets[tuple(addresses)] = made
        self.last = made
        return made

    def _pack(self, current: WeightSet[Linked], weights: Sequence[Any]) -> None:
        """Give a set its program; it stays without one where the build's steps do not fit these weights."""
        if current.program is not None:
            return  # another thread was here
        tensors = [Tensor.from_torch(w.detach().contiguous()) for w in weights]
        if self.pattern is None:
            executable = self.build(bind_params.with_options(params=dict(zip(self.params, tensors)))(self.module))
            self.pattern, constants = Packing.of(executable, weights, tensors), executable.program.constants
        else:
            found = self.pattern.constants(weights, tensors)
            if found is None:
                current.wait = -1
                return
            constants = found
        copied = self.pattern.copied(weights, tensors)
        current.watch(weights, copied)
        constants = self.pattern.shared(constants, current, weights)
        current.program = self.link(self.pattern.executable(constants))


def _forget(owner: weakref.ref[FrozenWeights[Any]], addresses: tuple[int, ...], _: Any = None) -> None:
    """A weight is gone: so is what was made of it."""
    frozen = owner()
    if frozen is not None:
        gone = frozen.sets.pop(addresses, None)
        if frozen.last is gone:
            frozen.last = None


@dataclass(slots=True, frozen=True)
class Packing:
    """The way a build made its constants of weights, without any of them.

    ``empty``: the executable. ``provenance``: its steps, without sources. ``sources``: for each source the place of the weight, or
    the constant of the graph. ``aliases``: which weights lay in the same memory.
    """

    empty: Executable
    provenance: Provenance | None
    sources: list[int | Tensor]
    aliases: list[int]

    @staticmethod
    def of(executable: Executable, weights: Sequence[Any], tensors: Sequence[Tensor]) -> Packing:
        """That of an executable built with these weights as constants."""
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        made = executable.provenance
        sources = [] if made is None else [places.get(id(s), s) for s in made.sources]
        program = replace(executable.program, constants=[])
        empty = replace(executable, program=program, provenance=None, describe=None, count=None, choices=None)
        return Packing(empty, None if made is None else replace(made, sources=()), sources, aliases(weights))

    def executable(self, constants: list[Tensor]) -> Executable:
        """One with these constants."""
        return replace(self.empty, program=replace(self.empty.program, constants=constants))

    def constants(self, weights: Sequence[Any], tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """The constants of other weights; None where only another build can make them."""
        if self.provenance is None or aliases(weights) != self.aliases:
            return None
        return self.provenance.constants([tensors[s] if isinstance(s, int) else s for s in self.sources])

    def copied(self, weights: Sequence[Any], tensors: Sequence[Tensor]) -> list[int]:
        """The places of weights whose writes do not show in the program."""
        if self.provenance is None:
            return [*range(len(weights))]
        read = self.provenance.read_sources(len(self.sources))
        found = {s for k, s in enumerate(self.sources) if k in read and isinstance(s, int)}
        return [k for k, w in enumerate(weights) if k in found or tensors[k].data_ptr != w.data_ptr()]

    def shared(self, constants: list[Tensor], current: WeightSet[Any], weights: Sequence[Any]) -> list[Tensor]:
        """These constants, those that another graph has made of the same weights by the same steps in its place."""
        if self.provenance is None:
            return constants
        versions = dict(zip(current.counted, current.versions))
        names = [
            f"constant {id(s)}" if isinstance(s, Tensor)
            else f"weight {memory_key(weights[s])} {versions.get(s)} {sample(weights[s]).tobytes()!r}"
            for s in self.sources
        ]  # fmt: skip
        made = self.provenance.names(names)
        rows = self.provenance.rows
        return [c if row < len(names) else _MADE.setdefault(name, c) for name, row, c in zip(made, rows, constants)]


def aliases(weights: Sequence[Any]) -> list[int]:
    """For each weight the place of the first in the same memory."""
    first: dict[Any, int] = {}
    return [first.setdefault(w.data_ptr(), place) if w.numel() else place for place, w in enumerate(weights)]
