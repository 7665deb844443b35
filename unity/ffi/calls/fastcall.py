"""Python functions around machine code: ``kernel_function`` and ``driver_function`` make checked, fast callables.

The callable is a builtin function object made with ``PyCMethod_New``; its ``__self__`` is the table of addresses,
which also keeps everything it needs alive. Entries with the same spec and mode share one piece of machine code.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...support.forking import fork_lock
from ..abi import KernelSignature, check_failed
from ..device import Device
from ..dtype import DataType
from ..machine_code.engine import Engine
from ..machine_code.llvm import CompileOptions
from ..native.native_helpers import helper_symbols
from ..tensor import float_of_bits
from .check import ArgumentChecker, OutHandler
from .entry_spec import EntrySpec, spec_of_kernel, validate
from .fastcall_ir import ANY_LANE, device_number, entry_ir

_METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
OPTIONS = CompileOptions(pipeline="light", opt=0)
"""Entries are branches and calls: LLVM's quick code generation takes a quarter of the time and makes no slower ones."""


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_new_method = ctypes.pythonapi.PyCMethod_New
_new_method.restype = ctypes.py_object
_new_method.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]


class EntryTable(np.ndarray):
    """The words ``[raw, env, slow, status, devices..., their numbers...]`` an entry reads, of a gated one ``[..., gate, lane]``;
    ``keep`` holds what they point to."""

    keep: tuple[object, ...]


class StatusReporter:
    """Raises the error of a kernel's positive status: its message, and words of symbols and scalars (``count`` at ``place``)."""

    def __init__(self, spec: EntrySpec, messages: Sequence[str]) -> None:
        self.name, self.messages = spec.name, tuple(messages)
        self.shown = [(symbol, "int64") for symbol in spec.symbols]
        self.shown += [(arg.name, arg.dtype) for arg in spec.shown_scalars()]

    def __call__(self, status: int, place: int, count: int) -> None:
        words = [ctypes.string_at(place + 8 * k, 8) for k in range(count)]
        known = [(name, _number(dtype, word)) for (name, dtype), word in zip(self.shown, words, strict=True)]
        raise check_failed(self.name, self.messages, status, known)


def _number(dtype: str, word: bytes) -> int | float:
    """The number that an entry stores in a word."""
    kind = DataType(dtype)
    if kind.is_narrow:
        return float_of_bits(dtype, int.from_bytes(word, "little"))
    found: int | float = struct.unpack("d" if kind.is_float else "Q" if kind.is_uint else "q", word)[0]
    return bool(found) if kind.is_bool else found


_ENGINES: dict[str, Engine] = {}
_LOCK = fork_lock()


def _entry_engine(text: str) -> Engine:
    with _LOCK:
        found = _ENGINES.get(text)
        if found is None:
            found = Engine(helper_symbols()).add_ir(text, OPTIONS)
            found.link()
            _ENGINES[text] = found
        return found


def _make(
    spec: EntrySpec, text: str, raw: int, env: int, slow: Callable[..., Any], reporter: StatusReporter, keep: Iterable[object],
    gate: Sequence[int] = (),
) -> Callable[..., Any]:  # fmt: skip
    engine = _entry_engine(text)
    doc = f"{spec.name}({', '.join([arg.name for arg in spec.args])})".encode()
    method = _MethodDef(spec.name.encode(), engine.address("entry"), _METH_FASTCALL_KEYWORDS, doc)
    devices = spec.devices()
    words = [raw, env, id(slow), id(reporter), *map(id, devices), *map(device_number, devices), *gate]
    table = np.array(words, dtype=np.uint64).view(EntryTable)
    table.keep = (method, slow, reporter, engine, devices, *keep)
    result: Callable[..., Any] = _new_method(ctypes.addressof(method), table, None, None)
    return result


def kernel_function(
    spec: EntrySpec,
    address: int,
    *,
    messages: Sequence[str] = (),
    result: str | None = None,
    keep: Iterable[object] = (),
) -> Callable[..., Any]:
    """A Python function around a kernel's raw entry ``i32 raw(leaves..., i64 symbols... [, ptr result])``.

    ``messages`` name the positive statuses, ``result`` is the type of the scalar written through the last pointer,
    ``keep`` holds the Engine. Raises FFIError E711 for an inconsistent spec; the function raises VMError E602 to E614.
    """
    validate(spec)
    text = entry_ir(spec, result=result)
    made = _make(spec, text, address, 0, ArgumentChecker(spec), StatusReporter(spec, messages), keep)
    return made if result is None or not DataType(result).is_narrow else of_bits(made, result)


def of_bits(function: Callable[..., int], dtype: str) -> Callable[..., float]:
    """A function that gives a narrow float, of one that gives its bits."""
    return lambda *args, **kwargs: float_of_bits(dtype, function(*args, **kwargs))


def driver_function(
    spec: EntrySpec, address: int, *, env: int = 0, keep: Iterable[object] = (), out: OutHandler | None = None,
    silent: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A Python function around a driver ``ptr raw(ptr env, ptr leaves, ptr symbols)`` that returns a new object.

    ``leaves`` are records ``{data or scalar bits, object, dims, ndim}``, 32 bytes each. ``keep`` holds the Engine and
    everything ``env`` points to; ``out`` does the calls with ``out=``; ``silent`` as of ``ArgumentChecker``.
    Raises FFIError E711 for an inconsistent spec; the function raises VMError E602 to E613.
    """
    validate(spec)
    checker = ArgumentChecker(spec, out, silent)
    return _make(spec, entry_ir(spec, driver=True), address, env, checker, StatusReporter(spec, ()), keep)


def gated_kernel(
    signature: KernelSignature,
    address: int,
    general: Callable[..., Any],
    gate: int,
    device: Device,
    keep: Iterable[object],
) -> Callable[..., Any]:
    """A kernel on a device that is called without Python in between where all arguments fit as they are and the ``gate`` lets the
    call in; every other call is one of ``general``."""
    spec = spec_of_kernel(signature, device)
    text, reporter = entry_ir(spec, result=signature.result, gated=True), StatusReporter(spec, signature.messages)
    return _make(spec, text, address, 0, general, reporter, keep, (gate, ANY_LANE))


def gated_driver(
    spec: EntrySpec, address: int, general: Callable[..., Any], gate: int, env: int, keep: Iterable[object]
) -> Callable[..., Any]:
    """The same for a driver, at first for the lane 0, whose arena is that of ``env``: ``set_lane`` gives it another one."""
    text = entry_ir(spec, driver=True, gated=True)
    return _make(spec, text, address, env, general, StatusReporter(spec, ()), keep, (gate, 0))


def set_lane(gated: Callable[..., Any], lane: int, env: int) -> None:
    """Let a function of ``gated_driver`` be one for calls in another lane."""
    table: EntryTable = gated.__self__  # type: ignore[attr-defined]
    table[1], table[-1] = env, lane
