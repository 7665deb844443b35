"""Torch operators that programs call back: the registered functions behind ``torch.ops.<name>``, and what their calls cost so far.

The first argument of a call is a JSON template (`frontend/torch/context/fallback.py` writes it). The functions see zero-copy torch
tensors; a result never shares memory with an operand.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ....ffi.device_array import address_of, array_at
from ....ffi.registry import register_func
from ....ffi.tensor import Tensor
from ....ffi.torch_bridge import torch_from_array
from ....support.errors import VMError
from ....support.optional import require
from .arguments import refuse_tensor

PREFIX = "torch.ops."
_FORBIDDEN = ("debugprims", "prim", "profiler", "inductor", "_c10d_functional", "c10d", "rpc", "symm_mem")
"""Namespaces of operators that do not compute on tensors."""
_OUTSIDE = frozenset(("filename", "path", "file", "url", "uri", "group_name"))
"""Names of arguments by which operators reach files and other processes."""


@dataclass(slots=True)
class Runs:
    """The number of calls back into a torch operator in this process, and their seconds."""

    count: int = 0
    seconds: float = 0.0


RUNS: dict[str, Runs] = {}
"""Calls measured so far, by operator."""


def register_torch_operator(name: str) -> None:
    """Register the operator ``name``, ``torch.ops.<namespace>.<operator>.<overload>``, for a saved program loaded in another
    process.
    """
    target = _operator(name.removeprefix(PREFIX))
    register_func(PREFIX + str(target), torch_function(target), override=True)


@cache
def _operator(name: str) -> Any:
    """The torch operator ``namespace.name.overload``. Raises VMError E630 for anything else, and for one of files."""
    torch = require("torch")
    target: Any = torch.ops
    try:
        for part in name.split("."):
            target = getattr(target, part)
    except (AttributeError, RuntimeError):
        target = None
    if not isinstance(target, torch._ops.OpOverload):
        raise VMError(
            "E630", f"{name[:200]!r} is not an operator of torch", help="an operator of your own is registered first"
        )
    schema = target._schema
    tensors = ["Tensor" in str(part.type) for part in (*schema.arguments, *schema.returns)]
    outside = any([a.name in _OUTSIDE for a in schema.arguments])
    if outside or target.namespace in _FORBIDDEN or not any(tensors):
        raise VMError("E630", f"a program may not call the torch operator {name}: it is not a computation")
    return target


def torch_function(target: Any) -> Callable[..., Any]:
    """The registered function of a torch operator: ``f(template, *operands)``."""
    torch = require("torch")
    runs, reads = RUNS.setdefault(str(target), Runs()), not target._schema.is_mutable

    def run(template: str, *operands: Any) -> Any:
        values = [(_read(v) if reads else v.torch()) if isinstance(v, Tensor) else v for v in operands]
        start = time.perf_counter()
        with torch.no_grad():
            args, kwargs, dtypes = _operands(str(template), values, torch)
            made = _cast_to_inferred(target(*args, **kwargs), dtypes, torch)
        runs.count += 1
        runs.seconds += time.perf_counter() - start
        taken = {v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)}
        return _result(made, taken, torch)

    return run


def _read(value: Tensor) -> Any:
    """A tensor for an operator that writes to no operand: constants of a file, whose memory is read-only, as well."""
    array = value.layout
    if array.flags.writeable:
        return value.torch()
    return torch_from_array(array_at(address_of(array), array.dtype, array.shape, value, array.strides))


def _cast_to_inferred(made: Any, dtypes: Any, torch: Any) -> Any:
    """Results in the dtypes torch inferred for them: some operators give others when they run. Complex ones become pairs."""
    if isinstance(made, (list, tuple)):
        return [_cast_to_inferred(m, d, torch) for m, d in zip(made, dtypes)]
    if isinstance(made, torch.Tensor) and made.is_complex():
        made = torch.view_as_real(made.resolve_conj())
    return made.to(getattr(torch, dtypes)) if isinstance(made, torch.Tensor) and dtypes else made


def _result(made: Any, taken: set[int], torch: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return tuple([_result(m, taken, torch) for m in made])
    if not isinstance(made, torch.Tensor):
        return made
    refuse_tensor(torch, "the result of an operator that runs in torch", made)
    plain = made.resolve_conj().resolve_neg().contiguous()
    return Tensor.from_torch(plain.clone() if plain.untyped_storage().data_ptr() in taken else plain)


def _operands(template: str, values: list[Any], torch: Any) -> tuple[Any, Any, Any]:
    """(arguments, named ones, dtypes of the results) by a template. Raises VMError E603."""
    try:
        args, kwargs, dtypes = _parsed(template)
        return *_decode([args, kwargs], values, torch), dtypes
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, RecursionError) as error:
        raise VMError("E603", f"the template of a call of torch is not valid: {error}") from error


@cache
def _parsed(template: str) -> Any:
    return json.loads(template)


def _decode(value: Any, operands: list[Any], torch: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v, operands, torch) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "$":
        return operands[inner]
    if kind == "laid":
        position, axes = inner
        return operands[position].permute(axes).contiguous().permute([axes.index(i) for i in range(len(axes))])
    if kind == "number":
        return operands[inner].item()
    if kind == "keys":
        return {k: _decode(v, operands, torch) for k, v in inner.items()}
    if kind == "call":
        return _operator(inner[0])(*_decode(inner[1], operands, torch), **_decode(inner[2], operands, torch))
    if kind == "torch":
        found = getattr(torch, inner)
        if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
            raise TypeError(f"torch.{inner} is not a value")
        return found
    if kind == "complex":
        return complex(*[float(v) for v in inner])
    return torch.device(inner) if kind == "device" else float(inner)
