"""Structural equality up to renaming, the first difference as a path, and a hash that agrees with it."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ..ffi.tensor import Tensor
from ..support.errors import DifferenceError
from ..support.recursion import deep_recursion
from .binders import bound_symbols
from .buffer import Buffer
from .expr import GlobalVar, IntImm, Op, Var
from .module import IRModule
from .node import ASIDE, BINDING, DEF, DERIVED, LEAF, Node
from .scalar import OPERATOR_NAMES, Let
from .stmt import DeclBuffer
from .types import PrimType


class _Different(Exception):
    """Internal: the reason of a difference, and the steps to it, which are added while unwinding."""

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps = [*steps]

    def __str__(self) -> str:
        path = "".join([f"[{step}]" if type(step) is int else str(step) for step in reversed(self.steps)])
        return f"{path or '<root>'}: {self.reason}"


@cache
def _compared(kind: Any) -> list[tuple[str, str, str]]:
    """Name, role and step of the fields that are part of the meaning, those that bind first."""
    fields = [(name, role, f".{name}") for name, role in kind.plan if role not in (ASIDE, DERIVED)]
    return sorted(fields, key=lambda field: field[1] not in BINDING)


class _Comparer:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.left: dict[Node, Node] = {}
        self.right: dict[Node, Node] = {}

    def bind(self, a: Node, b: Node) -> None:
        known_a, known_b = self.left.get(a), self.right.get(b)
        if known_a is None and known_b is None:
            self.left[a] = b
            self.right[b] = a
        elif known_a is not b or known_b is not a:
            raise _Different(f"{name_of(a)} and {name_of(b)} are bound to different things")

    def value(self, a: Any, b: Any, defining: bool, step: str | int = "") -> None:
        """Compare what stands at one step of the way."""
        try:
            if isinstance(a, Node) and isinstance(b, Node):
                self.node(a, b, defining)
            elif type(a) is tuple and type(b) is tuple:
                if len(a) != len(b):
                    raise _Different(f"{len(a)} elements against {len(b)}")
                for index, (x, y) in enumerate(zip(a, b)):
                    self.value(x, y, defining, index)
            elif isinstance(a, dict) and isinstance(b, dict):
                self.mapping(a, b, defining)
            elif not data_equal(a, b):
                raise _Different(f"{shown(a)} against {shown(b)}")
        except _Different as difference:
            difference.steps.append(step)
            raise

    def mapping(self, a: dict[Any, Any], b: dict[Any, Any], defining: bool) -> None:
        if a and isinstance(next(iter(a)), Node):  # buffer_map: in order of the parameters
            self.value(tuple(a), tuple(b), False)
            self.value(tuple(a.values()), tuple(b.values()), defining)
            return
        _same_keys(a, b, "key {!r}")
        for key, item in a.items():
            self.value(item, b[key], defining, f"[{key!r}]")

    def node(self, a: Any, b: Any, defining: bool) -> None:
        kind = type(a)
        if kind is not type(b):
            raise _Different(f"{kind.__name__} against {type(b).__name__}")
        if a.is_reference:
            self.reference(a, b, defining)
            return
        if a is b and not self.left and not defining:
            return
        if kind is IRModule:
            self.module(a, b)
            return
        if kind is GlobalVar or kind is Op:
            if a.name != b.name:
                raise _Different(f"{a.name} against {b.name}")
            return
        if kind is PrimType:
            if a.dtype is not b.dtype:
                raise _Different(f"{a.dtype.name} against {b.dtype.name}")
            return
        if kind is DeclBuffer:
            self.value(a.buffer.data, b.buffer.data, False)
        for name, role, step in _compared(a.__class__):
            x, y = getattr(a, name), getattr(b, name)
            if role is LEAF:
                if not data_equal(x, y):
                    raise _Different(f"{shown(x)} against {shown(y)}", step)
                continue
            if (
                role is DEF
            ):  # the symbols that the fields define are paired; where they do not pair up, the fields differ
                for left, right in zip(bound_symbols(x), bound_symbols(y)):
                    if left not in self.left and right not in self.right:
                        self.value(left, right, True, step)
            self.value(x, y, role in BINDING, step)
        if kind is Let:  # its variable ends with it: an expression that stands twice binds it twice
            self.left.pop(a.var, None)
            self.right.pop(b.var, None)

    def reference(self, a: Any, b: Any, defining: bool) -> None:
        mapped = self.left.get(a)
        if mapped is not None or b in self.right:
            if mapped is not b:
                raise _Different(f"variable {name_of(a)} against {name_of(b)}")
            return
        if not defining and not self.map_free_vars:
            if a is not b:
                raise _Different(f"free variable {name_of(a)} against {name_of(b)}")
            return
        self.bind(a, b)
        if isinstance(a, Var):
            if a.dataflow is not b.dataflow:
                raise _Different(f"{name_of(a)} and {name_of(b)}: one is visible only inside its dataflow block")
            self.value(a.ty, b.ty, False, ".ty")
        else:
            for name, _, step in _compared(Buffer):
                if name != "name":
                    self.value(getattr(a, name), getattr(b, name), name == "data", step)

    def module(self, a: IRModule, b: IRModule) -> None:
        self.value(a.attrs, b.attrs, False, ".attrs")
        self.value(a.global_infos, b.global_infos, False, ".global_infos")
        _same_keys(a.functions, b.functions, "function {}")
        for name, fn in a.functions.items():
            self.left.clear()
            self.right.clear()
            self.value(fn, b.functions[name], False, f'["{name}"]')


def _same_keys(a: dict[Any, Any], b: dict[Any, Any], what: str) -> None:
    for keys, others, side in ((a, b, "left"), (b, a, "right")):
        for key in keys:
            if key not in others:
                raise _Different(f"{what.format(key)} only on the {side}")


def name_of(node: Any) -> str:
    """Name hint of a variable or buffer."""
    return str(getattr(node, "name", node))


def shown(value: Any) -> str:
    """Short text of a value for a difference."""
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def data_equal(a: Any, b: Any) -> bool:
    """Equality of data: by type and value; floats by bits (NaN equals NaN, 0.0 differs from -0.0); arrays by bytes."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Tensor):
        return tensors_equal(a, b)
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if type(a) is list:
        return len(a) == len(b) and all([data_equal(x, y) for x, y in zip(a, b)])
    return bool(a == b)


def tensors_equal(a: Tensor, b: Tensor) -> bool:
    """Same dtype, shape and bytes."""
    x, y = a.numpy(), b.numpy()
    return bool(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes())


def first_difference(a: Any, b: Any, map_free_vars: bool = False) -> str | None:
    """Return path and reason of the first difference of ``a`` and ``b``, e.g. ``["main"].body.value: 1 against 2``; None if they
    are equal. ``map_free_vars``: as in ``structural_equal``.
    """
    comparer = _Comparer(map_free_vars)
    with deep_recursion():
        try:
            comparer.value(a, b, False)
        except _Different as difference:
            return str(difference)
    return None


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """True if ``a`` and ``b`` are equal up to renaming of bound variables and buffers; free ones must be identical, unless
    ``map_free_vars``.
    """
    equal = None if map_free_vars else _arithmetic_equal(a, b)
    return first_difference(a, b, map_free_vars) is None if equal is None else equal


def _arithmetic_equal(a: Any, b: Any) -> bool | None:
    """``structural_equal`` of arithmetic over scalars, which binds nothing; None where anything else stands in it."""
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        kind = type(x)
        if kind is not type(y):
            return False
        if kind in OPERATOR_NAMES:
            if x.ty is not y.ty:
                return False
            pending += ((x.b, y.b), (x.a, y.a))
        elif kind is IntImm:
            if x.ty is not y.ty or not data_equal(x.value, y.value):
                return False
        elif kind is not Var:
            return None
        elif x is not y:
            return False
    return True


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Raise DifferenceError E306, a ValueError, with the first difference of ``a`` and ``b`` as a path; ``map_free_vars``: as in
    ``structural_equal``."""
    difference = first_difference(a, b, map_free_vars)
    if difference is not None:
        raise DifferenceError("E306", f"not structurally equal at {difference}")


def structural_hash(root: Any, map_free_vars: bool = False) -> int:
    """Return a hash of ``root`` that agrees with ``structural_equal`` (and its ``map_free_vars``)."""
    hasher = _Hasher(map_free_vars)
    with deep_recursion():
        found: int = hasher.value(root)
    return found


def structural_digest(root: Any) -> str:
    """Return a checksum of ``root`` that agrees with ``structural_equal`` and its ``map_free_vars``: the same in every process."""
    hasher = _Hasher(True, _checksum)
    with deep_recursion():
        return str(hasher.value(root))


def _checksum(parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class _Hasher:
    def __init__(self, map_free_vars: bool, mix: Callable[[Any], Any] = hash) -> None:
        self.numbers: dict[Node, int] = {}
        self.map_free_vars = map_free_vars
        self.mix = mix
        """Makes one value of a tuple of parts."""

    def value(self, value: Any, defining: bool = False) -> Any:
        if isinstance(value, Node):
            return self.node(value, defining)
        mix = self.mix
        if type(value) is tuple:
            return mix(tuple([self.value(item, defining) for item in value]))
        if isinstance(value, (dict, Mapping)):
            if value and isinstance(next(iter(value)), Node):
                return self.value((tuple(value), tuple(value.values())), defining)
            return mix(tuple([(key, self.value(value[key])) for key in sorted(value, key=str)]))
        return data_hash(value, mix)

    def node(self, node: Any, defining: bool) -> Any:
        mix = self.mix
        if node.is_reference:
            number = self.numbers.get(node)
            if number is not None:
                return mix(("ref", number))
            if not defining and not self.map_free_vars:
                return mix(("free", id(node)))
            self.numbers[node] = len(self.numbers)
            if isinstance(node, Var):
                return mix(("def", self.value(node.ty)))
            parts = [self.value(getattr(node, n), n == "data") for n, _, _ in _compared(Buffer) if n != "name"]
            return mix(("buffer", *parts))
        kind = type(node)
        if kind is IRModule:
            parts = [self.value(node.attrs), self.value(node.global_infos)]
            for name in sorted(node.functions):
                self.numbers = {}
                parts.append(mix((name, self.value(node.functions[name]))))
            return mix(tuple(parts))
        if kind is GlobalVar or kind is Op:
            return mix((kind.__name__, node.name))
        parts = [kind.__name__]
        for name, role, _ in _compared(node.__class__):
            if role is DEF:
                for symbol in bound_symbols(getattr(node, name)):
                    self.node(symbol, True)
            parts.append(self.value(getattr(node, name), role in BINDING))
        if kind is Let:
            self.numbers.pop(node.var, None)
        return mix(tuple(parts))


def data_hash(value: Any, mix: Callable[[Any], Any] = hash) -> Any:
    """Hash of data that agrees with ``data_equal``."""
    if type(value) is float:
        return mix(("nan",)) if math.isnan(value) else mix(struct.pack("d", value))
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return mix((str(value.dtype), value.shape, value.tobytes()))
    if type(value) is list:
        return mix(tuple([data_hash(item, mix) for item in value]))
    return mix((type(value).__name__, value))
