"""Constants that only a build reads: their memory goes back as soon as a pass has replaced the last place that reads them.

What ``fold_constant`` computes belongs to the build; a build with ``discard_parameters`` owns the constants of its module too. A
pass that puts another constant in the place of one says so with ``replaced``. Invariant: a constant goes only when no place of the
module being rewritten reads it; a place visited less often than it is counted is left to ``sweep``, which looks at what is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from ...ffi.discard import discard
from ...ffi.tensor import Tensor
from ...ir.expr import Constant
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.node import Node
from ...ir.walk import collect
from ...support.context_stack import ContextStack


def module_constants(mod: IRModule) -> list[Tensor]:
    """Tensors of the constants in a module's graph functions."""
    return [c.data for fn in mod.graph_functions().values() for c in collect(fn, Constant)]


class Releases:
    """The constants one build owns. ``released`` is called with a tensor before its memory goes."""

    def __init__(self, owned: Iterable[Tensor] = (), released: Callable[[Tensor], None] | None = None) -> None:
        self._owned: WeakSet[Tensor] = WeakSet(owned)
        self._released = released
        self._module: IRModule | None = None
        self._uses: Counter[int] | None = None

    def __enter__(self) -> Releases:
        _BUILDS.push(self)
        return self

    def __exit__(self, *_: object) -> None:
        _BUILDS.pop()

    def watch(self, mod: IRModule | None) -> None:
        """From now on a pass rewrites ``mod``, which nobody reads afterwards; none does with None."""
        self._module, self._uses = mod, None

    @property
    def is_watching(self) -> bool:
        """True while a pass rewrites a module of this build."""
        return self._module is not None

    def take_ownership(self, made: Tensor) -> None:
        """A tensor that was made during the build, for its module alone."""
        self._owned.add(made)

    def owns(self, tensor: Tensor) -> bool:
        """True if the build decides over this tensor."""
        return tensor in self._owned

    def drop_use(self, read: Tensor) -> None:
        """One use reads another constant now."""
        if read not in self._owned or self._module is None:
            return
        if self._uses is None:
            self._uses = count_uses(self._module)
        self._uses[id(read)] -= 1
        if self._uses[id(read)] == 0:
            self._release(read)

    def sweep(self, kept: Iterable[Tensor]) -> None:
        """The build is done and reads these alone: all others go."""
        left = {id(tensor) for tensor in kept}
        for tensor in [t for t in self._owned if id(t) not in left]:
            self._release(tensor)

    def _release(self, tensor: Tensor) -> None:
        self._owned.discard(tensor)
        if self._released is not None:
            self._released(tensor)
        discard(tensor)


_BUILDS: ContextStack[Releases] = ContextStack("builds that release constants")


@contextmanager
def watching(mod: IRModule) -> Iterator[None]:
    """Inside, one pass of the build around, if any, rewrites ``mod``, which nobody reads afterwards."""
    build = _BUILDS.top
    if build is None:
        yield
        return
    build.watch(mod)
    try:
        yield
    finally:
        build.watch(None)


def _current() -> Releases | None:
    """The build around this pass."""
    build = _BUILDS.top
    return build if build is not None and build.is_watching else None


def take_ownership(made: Tensor) -> None:
    """Tell the build around this pass, if any, that a constant was made which nobody else reads."""
    current = _current()
    if current is not None:
        current.take_ownership(made)


def is_owned(tensor: Tensor) -> bool:
    """True if the memory of a constant is freed when nothing reads it any more."""
    current = _current()
    return current is not None and current.owns(tensor)


def drop_use(read: Tensor) -> None:
    """Tell the build around this pass, if any, that one use of a constant reads another one now."""
    current = _current()
    if current is not None:
        current.drop_use(read)


def count_uses(mod: IRModule) -> Counter[int]:
    """The number of uses of each constant in graph functions, by the identity of its tensor; a shared node counts for each use."""
    found: Counter[int] = Counter()
    for fn in mod.functions.values():
        stack: list[Any] = [fn.body] if type(fn) is Function else []
        while stack:
            node = stack.pop()
            if type(node) is Constant:
                found[id(node.data)] += 1
            elif isinstance(node, Node):
                stack += [getattr(node, name) for name, _ in node.walked if name != "ty"]
            elif type(node) is tuple:
                stack += node
            elif isinstance(node, dict):
                stack += node.values()
    return found
