"""The key of a torch model for ``remember_export``: everything ``torch.export`` can see of it but the elements of its weights.

Of the model: classes and the code of their methods, attributes (configurations, functions with what they close over, tensors by
content), hooks, parameters and buffers by type, shape, order and sharing. Of the call: examples by type and shape, sizes that vary.
Of torch: the state that decides how it traces. Invariant: a value is part of the key or an ``Unkeyable`` - nothing is left out but
what the page docs/torch.md names. Not here: the files the code came from (``frontend/torch/remember_export.py``).
"""

from __future__ import annotations

import enum
import functools
import json
import logging
import re
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any

import numpy as np

from ....ffi.checksum import checksum
from ....ffi.object_cache import content_key, package_state
from ....support.optional import require
from ....support.recursion import deep_recursion
from .known_numbers import is_whole_number

VERSIONED = frozenset({"torch", "numpy", __name__.partition(".")[0]}) | sys.stdlib_module_names - {"__main__"}
"""Packages whose code their version names."""
_UNSEEN = (
    "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip
"""Attributes of a module that ``forward`` does not run."""
_TABLES = ("_parameters", "_buffers", "_modules")
_NO_MEANING = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl",
                         "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__parameters__", "__orig_bases__",
                         "__static_attributes__", "__firstlineno__", "__slots__"})  # fmt: skip
_PLAIN = (type(None), bool, int, str)


class Unkeyable(Exception):
    """Something about a model that a key cannot hold; the text says what and where."""


def model_key(model: Any, args: Any, kwargs: Any, dynamic_shapes: Any, options: str) -> str:
    """The name of an export. Raises Unkeyable."""
    torch = require("torch")
    versions = [sys.version, torch.__version__, np.__version__, package_state()]
    writer = _Writer(torch)
    with deep_recursion():
        seen = [
            writer.value(model, "the model"),
            writer.examples(args, "an input"),
            writer.examples(kwargs, "an input"),
            writer.value(dynamic_shapes, "dynamic_shapes"),
            _torch_state(torch),
            writer.globals_of(writer.kinds),
        ]
    return content_key("export 1", *versions, options, json.dumps(seen, separators=(",", ":")))


def _torch_state(torch: Any) -> list[Any]:
    """The part of torch's own state that decides how it traces. Raises Unkeyable."""
    hooks = [
        name
        for name, table in vars(torch.nn.modules.module).items()
        if name.startswith("_global_") and name.endswith("_hooks") and table
    ]
    if hooks:
        raise Unkeyable(f"hooks on all modules ({hooks[0]})")
    modes = torch.overrides._get_current_function_mode_stack()
    if modes or torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        raise Unkeyable("a torch function or dispatch mode that is active")
    backends = torch.backends
    flags = [
        torch.get_default_dtype(), torch.get_default_device(), torch.get_float32_matmul_precision(), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(), torch.are_deterministic_algorithms_enabled(), torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"), backends.mkldnn.enabled, backends.mha.get_fastpath_enabled(),
        backends.cuda.flash_sdp_enabled(), backends.cuda.math_sdp_enabled(), backends.cuda.mem_efficient_sdp_enabled(),
    ]  # fmt: skip
    return [str(flag) for flag in flags]


def is_versioned(name: str) -> bool:
    """Does a module belong to a package whose version is part of the key?"""
    return name.partition(".")[0] in VERSIONED


class _Writer:
    """Values as JSON data; objects that were met before by their number."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.kinds: dict[type, None] = {}
        """The classes of the model's modules, and their bases, in the order in which they were met."""
        self._seen: dict[int, int] = {}
        self._keep: list[Any] = []
        self._classes: set[type] = set()
        self._memory: dict[int, int] = {}
        self._kinds: dict[type, Any] = {
            float: lambda v, at: ["f", v.hex()],
            complex: lambda v, at: ["z", str(v)],
            bytes: lambda v, at: ["b", v.hex()],
            range: lambda v, at: ["range", v.start, v.stop, v.step],
            slice: lambda v, at: ["slice", *self.all((v.start, v.stop, v.step), at)],
            re.Pattern: lambda v, at: ["re", v.pattern, v.flags],
            type(...): lambda v, at: ["..."],
            object: lambda v, at: ["sentinel"],
            torch.dtype: lambda v, at: [str(v)],
            torch.device: lambda v, at: [str(v)],
            torch.layout: lambda v, at: [str(v)],
            torch.memory_format: lambda v, at: [str(v)],
            torch.Size: lambda v, at: ["size", *v],
            np.ndarray: lambda v, at: ["array", v.dtype.str, v.shape, checksum(np.ascontiguousarray(v)).hex()],
            logging.Logger: lambda v, at: ["log", v.name],
            ModuleType: lambda v, at: ["module", v.__name__],
            BuiltinFunctionType: self._builtin,
            FunctionType: self._function,
            MethodType: lambda v, at: ["method", self.value(v.__func__, at), self.value(v.__self__, at)],
            property: lambda v, at: ["property", *self.all((v.fget, v.fset), at)],
            staticmethod: lambda v, at: ["static", self.value(v.__func__, at)],
            classmethod: lambda v, at: ["class", self.value(v.__func__, at)],
            functools.partial: lambda v, at: ["partial", *self.all((v.func, v.args, v.keywords), at)],
            type(functools.cache(len)): lambda v, at: ["cache", self.value(v.__wrapped__, at)],
            defaultdict: lambda v, at: ["default", self.value(v.default_factory, at), self.value(dict(v), at)],
            deque: lambda v, at: ["deque", v.maxlen, *self.all(v, at)],
            functools.cached_property: lambda v, at: ["cached", self.value(v.func, at)],
        }

    def all(self, values: Iterable[Any], at: str) -> list[Any]:
        """Several values."""
        return [self.value(v, at) for v in values]

    def value(self, value: Any, at: str) -> Any:
        """A value; ``at`` says where it was found. Raises Unkeyable."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._keep.append(value)
        if kind in self._kinds:
            return self._kinds[kind](value, at)
        if kind in (list, tuple):
            return [kind.__name__, *self.all(value, at)]
        if kind in (dict, MappingProxyType):
            return ["dict", *[[self.value(k, at), self.value(v, f"{at}[{k!r}]")] for k, v in value.items()]]
        if kind in (set, frozenset):
            return ["set", *sorted([json.dumps(self.value(v, at)) for v in value])]
        if kind in (UnionType, GenericAlias) or kind.__module__ == "typing":
            return ["type", str(value)]
        if isinstance(value, type):
            return self._class(value, at)
        if isinstance(value, enum.Enum):
            return ["enum", self._class(kind, at), value.name]
        if isinstance(value, self.torch.nn.Module):
            return self._module(value, at)
        if isinstance(value, self.torch.Tensor):
            return [*self.tensor(value, at), self._elements(value, at)]
        return self._object(value, at)

    def examples(self, value: Any, at: str) -> Any:
        """Example inputs: tensors without their elements."""
        leaves, spec = self.torch.utils._pytree.tree_flatten(value)
        return [
            str(spec),
            [self.tensor(v, at) if isinstance(v, self.torch.Tensor) else self.value(v, at) for v in leaves],
        ]

    def tensor(self, value: Any, at: str) -> list[Any]:
        """All about a tensor but its elements; tensors that begin at one address have one number."""
        if value.layout is not self.torch.strided or value.device.type != "cpu":
            raise Unkeyable(f"{at} is a {value.layout} tensor on {value.device}")
        memory = self._memory.setdefault(value.data_ptr(), len(self._memory)) if value.numel() else -1
        return ["tensor", self._class(type(value), at), str(value.dtype), list(value.shape), list(value.stride()),
                value.requires_grad, value.is_conj(), value.is_neg(), memory]  # fmt: skip

    def _weight(self, value: Any, at: str) -> list[Any]:
        """A parameter or buffer; a whole number, which may decide sizes, with its value."""
        return [*self.tensor(value, at), *([value.item()] if is_whole_number(value) else [])]

    def _elements(self, value: Any, at: str) -> str:
        if type(value) not in (self.torch.Tensor, self.torch.nn.Parameter):
            raise Unkeyable(f"{at} is a {type(value).__name__}")
        plain = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return checksum(plain.view(self.torch.uint8).numpy()).hex()

    def _module(self, module: Any, at: str) -> list[Any]:
        kind = type(module)
        self.kinds |= dict.fromkeys([k for k in kind.__mro__ if not is_versioned(k.__module__)])
        rest = {k: v for k, v in vars(module).items() if k not in _TABLES and k not in _UNSEEN}
        own = [
            [name, list(v.values()) and self.all(v.values(), f"{at}.{name}")]
            if name.endswith("_hooks")
            else [name, self.value(v, f"{at}.{name}")]
            for name, v in rest.items()
            if not name.endswith(("_hooks_with_kwargs", "_hooks_always_called"))
        ]
        tables = [
            [[name, None if t is None else self._weight(t, f"{at}.{name}")] for name, t in table.items()]
            for table in (module._parameters, module._buffers)
        ]
        parts = [[name, self.value(part, f"{at}.{name}")] for name, part in module._modules.items()]
        return ["nn", self._class(kind, at), own, *tables, parts]

    def _class(self, kind: type, at: str) -> Any:
        """A class by name; one of the user's with what its body and those of its bases define."""
        name = f"{kind.__module__}:{kind.__qualname__}"
        if is_versioned(kind.__module__):
            patched = [
                v for v in vars(kind).values() if type(v) is FunctionType and not is_versioned(v.__module__ or "")
            ]
            return [name, *self.all(patched, name)]
        if kind in self._classes:
            return name
        self._classes.add(kind)
        body = {k: v for k, v in vars(kind).items() if k not in _NO_MEANING and not _is_slot(v)}
        return [
            name,
            [self._class(b, at) for b in kind.__bases__],
            [[k, self._member(v, f"{name}.{k}")] for k, v in body.items()],
        ]

    def _member(self, value: Any, at: str) -> Any:
        """The definitions in a class's body; one without a key counts by its type alone, for its text stands in a file."""
        try:
            return self.value(value, at)
        except Unkeyable:
            return ["member", type(value).__qualname__]

    def _function(self, function: Any, at: str) -> list[Any]:
        cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
        return ["def", _code(function.__code__), *self.all((cells, function.__defaults__, function.__kwdefaults__), at)]

    def _builtin(self, function: Any, at: str) -> list[Any]:
        owner = function.__self__
        if owner is not None and type(owner) is not ModuleType:
            raise Unkeyable(f"{at} is a method of a {type(owner).__name__}")
        return ["builtin", str(function.__module__), function.__qualname__]

    def _object(self, value: Any, at: str) -> list[Any]:
        """Another object: its class and attributes, and its items where it is a container."""
        kind = type(value)
        slots = [s for k in kind.__mro__ for s in _slots(k) if hasattr(value, s)]
        if kind.__basicsize__ > _known_size(kind):
            raise Unkeyable(f"{at} is a {kind.__module__}.{kind.__qualname__}")
        items: Any = []
        if isinstance(value, dict):
            items = [[self.value(k, at), self.value(v, f"{at}[{k!r}]")] for k, v in dict.items(value)]
        elif isinstance(value, (list, tuple)):
            items = self.all(value, at)
        elif isinstance(value, (int, float, str)):
            items = repr(value)
        state = {**getattr(value, "__dict__", {}), **{s: getattr(value, s) for s in slots}}
        own = [
            [k, self.value(v, f"{at}.{k}")] for k, v in state.items() if not (k.endswith("_hash") and type(v) is int)
        ]
        return ["object", self._class(kind, at), items, own]  # a hash that is kept differs in every process

    def globals_of(self, kinds: Iterable[type]) -> list[Any]:
        """Values of the global names that methods of classes read, as far as they are plain, and functions by their code."""
        found: list[Any] = []
        for kind in kinds:
            places = vars(sys.modules.get(kind.__module__, object))
            methods = [v for v in vars(kind).values() if type(v) is FunctionType]
            for name in sorted({name for method in methods for name in method.__code__.co_names}):
                value = places.get(name)
                if type(value) in (bool, int, float, str):
                    found.append([name, repr(value)])
                elif type(value) is FunctionType:
                    found.append([name, _code(value.__code__)])
        return found


_CONTAINERS = (OrderedDict, dict, list, tuple, int, float, str, object)


def _known_size(kind: type) -> int:
    """Bytes of an object whose state is its items, attributes and slots: a larger one hides something (pickle asks likewise)."""
    base = next(k for k in _CONTAINERS if issubclass(kind, k))
    words = (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0) + sum([len(_slots(k)) for k in kind.__mro__])
    return base.__basicsize__ + 8 * words


def _slots(kind: type) -> tuple[str, ...]:
    found = vars(kind).get("__slots__", ())
    return tuple([s for s in ((found,) if isinstance(found, str) else found) if not s.startswith("__")])


def _is_slot(value: Any) -> bool:
    """Is an entry of a class's body made by Python for a slot or ``__dict__``?"""
    return type(value).__name__ in ("member_descriptor", "getset_descriptor")


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell  # an empty cell raises
    except ValueError:
        return True


_CODES: dict[CodeType, str] = {}


def _code(code: CodeType) -> str:
    """A key of what a function does: its instructions, names and constants, not where it stands."""
    found = _CODES.get(code)
    if found is None:
        parts: list[str | bytes] = [
            code.co_code,
            str((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)),
        ]
        parts += [_code(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
        found = _CODES[code] = content_key(*parts)
    return found


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset{sorted([_constant(v) for v in value])}"
    if isinstance(value, tuple):
        return f"({', '.join([_constant(v) for v in value])})"
    return f"{type(value).__name__} {value!r}"


__all__ = ["Unkeyable", "is_versioned", "model_key"]
