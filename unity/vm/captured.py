"""Calls of a graph function that launch again what an earlier call of the same sizes launched: CUDA graphs.

The first call for some sizes runs as ever, and so finds every mistake; the second one is captured, later ones replay. The
addresses of a graph are fixed: arguments that came from one address are read there as long as they do, the others are copied in,
and results are copied out. Invariant: a function is captured only if nothing in it depends on the elements of a tensor but what
kernels compute; a graph is used only for the sizes, the numbers and the stream that it was captured for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any

from ..ffi.calls.check import ArgumentChecker
from ..ffi.device import Device, Replay
from ..ffi.tensor import Tensor
from ..support.errors import VMError
from .builtins.builtins import assert_op, deferred_assertions
from .builtins.placement import Placement
from .builtins.values import to_value
from .executable import bytecode as bc
from .executable.entry import plan_entry

MAX_GRAPHS = 16
"""Sizes of a function whose graphs are kept; the one that was used longest ago goes first."""
_ON_SIZES = frozenset({
    "alloc_storage", "new_tensor", "new_tensor_of", "tensor_in", "tensor_in_of", "view", "view_of", "move", "tuple", "shape",
    "get_item", "shape_of", "arith", "cast", "float_bits", "float_of_bits", "null_value", "vm_context", "check_tensor",
    "check_writable", "check_shape", "check_scalar", "check_tuple", "match_shape", "check_equal", "check_bounds", "bind_scalar",
    "set_slot", "kill", "assert_op",
})  # fmt: skip
"""Operations that look at sizes and numbers alone, and assertions, which are looked at after each launch."""


def require_capturable(program: bc.Program, name: str, foreign: Collection[str], device: Device) -> None:
    """Raise VMError E639 where the device has no graphs, and where a function, or one that it calls, asks the host for more than
    sizes; ``foreign``: tensor programs that run elsewhere."""
    if device.host_memory or device.memory.capture is None:
        raise VMError("E639", f"{name} cannot be captured: a {device.kind} device has no graphs",
                      help="make the machine without cuda_graph=True")  # fmt: skip
    if program.functions[name].host_results:
        raise _refused(name, "results on the host", program, -1)
    seen, waiting = {name}, [name]
    while waiting:
        fn = program.functions[waiting.pop()]
        for instruction in fn.code:
            if isinstance(instruction, bc.If) and isinstance(instruction.cond, bc.Reg):
                raise _refused(name, "a condition on a tensor", program, instruction.place)
            if not isinstance(instruction, bc.Call):
                continue
            row = program.table[instruction.function]
            if row.kind == "vm":
                waiting += {row.name} - seen
                seen.add(row.name)
            elif row.kind == "packed":
                raise _refused(name, f"a call of the registered function {row.name}", program, instruction.place)
            elif row.kind == "kernel" and (row.name in foreign or program.kernels[row.name].packed_calls):
                raise _refused(
                    name, f"the tensor program {row.name}, which runs on the host", program, instruction.place
                )
            elif row.kind == "builtin" and row.name not in _ON_SIZES:
                raise _refused(name, f"the operation {row.name} on the host", program, instruction.place)


def _refused(name: str, what: str, program: bc.Program, location: int) -> VMError:
    where = program.place(location)
    return VMError("E639", f"{name} cannot be captured as a CUDA graph: it has {what}{f' ({where})' if where else ''}",
                   help="call it by a machine without cuda_graph=True, or move that into a function of its own")  # fmt: skip


@dataclass(slots=True)
class _Sizes:
    """The calls of a function for some sizes: the addresses that the arguments last came from, ``others`` that are not tensors, the
    arguments that are ``copied``, and once there is a graph, the tensors that it reads, its assertions and its result."""

    addresses: list[int]
    others: list[Any]
    """They live as long as calls are told apart by their identity."""
    copied: set[int] = field(default_factory=set)
    graph: Replay | None = None
    inputs: list[Tensor] = field(default_factory=list)
    assertions: list[tuple[Any, ...]] = field(default_factory=list)
    result: Any = None


class CapturedCalls:
    """Calls of one function. ``function`` is the function itself, ``arenas`` gives what holds the memory of its temporaries."""

    def __init__(
        self,
        name: str,
        program: bc.Program,
        placement: Placement,
        function: Callable[..., Any],
        arenas: Callable[[], list[Any]],
    ) -> None:
        self.function, self.placement, self.arenas = function, placement, arenas
        memory, index = placement.device.memory, placement.device.index
        assert memory.capture is not None
        self.capture = memory.capture
        self.stream: Callable[[], int] = partial(memory.streams.current, index)
        plan = plan_entry(program.functions[name], program, placement.device)
        self.checker = ArgumentChecker(plan.spec)
        self.written = {k for k, param in enumerate(plan.params) if param.written}
        self.known: OrderedDict[Any, _Sizes] = OrderedDict()
        self.lock = RLock()
        """One call at a time reads and writes what a graph works on."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, by a graph where the call is like an earlier one. Raises as the function does."""
        if "out" in kwargs:
            return self.function(*args, **kwargs)
        given = self.checker.order(args, kwargs) if kwargs else list(args)
        leaves: list[Tensor] = []
        others: list[Any] = []
        fixed: set[int] = set()
        shown = []
        for position, value in enumerate(given):
            before = len(leaves)
            shown.append(self._cache_key(value, leaves, others))
            if position in self.written:
                fixed.update(range(before, len(leaves)))
        if any([leaves[k].device != self.placement.device for k in fixed]):
            return self.function(*given)  # it is written to, and copied back
        key = (self.stream(), *shown, *[leaves[k].data_ptr for k in fixed])
        with self.lock:
            sizes = self.known.get(key)
            if sizes is not None:
                self.known.move_to_end(key)
        if sizes is None:
            result = self.function(*given)
            with self.lock:
                self.known[key] = _Sizes([leaf.data_ptr for leaf in leaves], others)
                if len(self.known) > MAX_GRAPHS:
                    self.known.popitem(last=False)
            return result
        with self.lock, self.placement.running:
            self._update_inputs(sizes, leaves, fixed)
            if sizes.graph is None:
                again, arenas = iter(sizes.inputs), self.arenas()
                arguments = [_replaced(value, again) for value in given]
                with deferred_assertions() as sizes.assertions:
                    sizes.result, sizes.graph = self.capture(
                        self.placement.device.index, lambda: self.function(*arguments)
                    )
                sizes.graph.kept += [*arenas, *self.arenas()]
            sizes.graph.launch()
            result = _copied(sizes.result)
            for assertion in sizes.assertions:
                assert_op(*assertion)
            return result

    def _cache_key(self, value: Any, leaves: list[Tensor], others: list[Any]) -> Any:
        """The part of a value that tells calls apart, zeros by their sign; its tensors go to ``leaves``, what is known by its
        identity alone to ``others``."""
        found = to_value(value)
        if isinstance(found, float):
            return float, found.hex()
        if isinstance(found, (bool, int, str)) or found is None:
            return type(found), found
        if isinstance(found, tuple):
            return tuple([self._cache_key(v, leaves, others) for v in found])
        if not isinstance(found, Tensor):
            others.append(found)
            return type(found), id(found)
        leaves.append(found)
        array = found.layout
        return type(value), found.device, array.shape, array.dtype.str, array.dtype.name, array.flags.c_contiguous

    def _update_inputs(self, sizes: _Sizes, leaves: list[Tensor], fixed: Iterable[int]) -> None:
        """Have the arguments where the graph reads them; where one has moved the graph is made anew."""
        device = self.placement.device
        for k, leaf in enumerate(leaves):
            moved = leaf.data_ptr != sizes.addresses[k] or leaf.device != device
            if moved and k not in sizes.copied and k not in fixed:
                sizes.copied.add(k)
                sizes.graph = None
        sizes.addresses = [leaf.data_ptr for leaf in leaves]
        if sizes.graph is None:
            sizes.inputs = [leaf.copyto(device) if k in sizes.copied else leaf for k, leaf in enumerate(leaves)]
        else:
            for k in sizes.copied:
                sizes.inputs[k].copyfrom(leaves[k])


def _replaced(value: Any, again: Any) -> Any:
    """A value with other tensors, in order."""
    found = to_value(value)
    if isinstance(found, tuple):
        return tuple([_replaced(v, again) for v in found])
    return next(again) if isinstance(found, Tensor) else found


def _copied(value: Any) -> Any:
    """A result in memory of its own."""
    if isinstance(value, tuple):
        return tuple([_copied(v) for v in value])
    return value.copyto(value.device) if isinstance(value, Tensor) else value
