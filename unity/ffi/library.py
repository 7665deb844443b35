"""Library kernels: functions of other packages that can stand for an operator (``unity.register_library_kernel``).

Here: the table, the kernels of numpy and torch, and finding again what a saved program calls. Which kernel is used where is
decided at build (``frontend/choose/choose.py``). Invariant: a program names a kernel as ``library.<name>`` with its attributes
behind it, so that another process that registers the same kernels can run it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..support.errors import VMError
from ..support.optional import require
from .registry import get_global_func, register_func

PREFIX = "library."


@dataclass(slots=True, frozen=True)
class Anchor:
    """A call that a kernel may stand for: operator, shapes and data types of its tensors and of its result, attributes."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    attrs: dict[str, Any] = field(default_factory=dict)


Predicate = Callable[[Anchor], "bool | str"]


@dataclass(slots=True, frozen=True)
class LibraryKernel:
    """``predicate`` says whether (or why not) a kernel takes a call; ``function(*tensors, out, **attrs)`` computes into ``out``."""

    op: str
    name: str
    predicate: Predicate
    function: Callable[..., Any]


KERNELS: dict[str, LibraryKernel] = {}
"""Kernels by name."""


def register_library_kernel(
    op_name: str,
    name: str,
    predicate: Predicate,
    packed_func: Callable[..., Any] | str,
    override: bool = False,
) -> None:
    """Offer a library's function as a kernel of the operator ``op_name`` ("matmul" or "R.matmul"), called ``name`` in tables.

    ``predicate(anchor)``: True if the kernel takes the call; False, or a sentence that says why not. ``packed_func``: a function or
    the name of a registered one; it is called with the operator's tensors, the result's tensor, and the attributes by name. Raises
    VMError E984 if the name is taken and ``override`` is false.
    """
    if name in KERNELS and not override:
        raise VMError(
            "E984", f"a library kernel {name!r} is registered already", help="pass override=True to replace it"
        )
    function = get_global_func(packed_func).function if isinstance(packed_func, str) else packed_func
    operator = op_name if op_name.startswith("R.") else f"R.{op_name}"
    KERNELS[name] = LibraryKernel(operator, name, predicate, function)


def packed_name(kernel: LibraryKernel, attrs: dict[str, Any]) -> str:
    """The registered function that is the kernel with attributes: ``library.numpy.matmul`` or ``library.name[{...}]``."""
    given = {k: v for k, v in sorted(attrs.items()) if v is not None}
    name = f"{PREFIX}{kernel.name}" + (f"[{json.dumps(given)}]" if given else "")
    _bind(name, kernel, given)
    return name


def _bind(name: str, kernel: LibraryKernel, attrs: dict[str, Any]) -> None:
    def call(*tensors: Any) -> None:
        kernel.function(*tensors, **attrs)

    register_func(name, call, override=True)


def require_library(name: str) -> None:
    """Make sure that a function a program calls is there. Raises VMError E985 for a library kernel that nobody registered."""
    if not name.startswith(PREFIX) or get_global_func(name, allow_missing=True) is not None:
        return
    base, bracket, rest = name[len(PREFIX) :].partition("[")
    kernel = KERNELS.get(base)
    if kernel is None:
        raise VMError("E985", f"the program calls the library kernel {base!r}, which is not registered",
                      help=f"call unity.register_library_kernel for it first; known: {', '.join(KERNELS) or 'none'}")  # fmt: skip
    try:
        attrs = json.loads(rest[:-1]) if bracket else {}
    except ValueError as error:
        raise VMError("E985", f"the attributes of the library kernel {base!r} are not valid: {error}") from error
    if type(attrs) is not dict:
        raise VMError("E985", f"the attributes of the library kernel {base!r} are not valid: they have no names")
    _bind(name, kernel, attrs)


# ---- the kernels that come along


def _products(anchor: Anchor) -> bool | str:
    if (
        len(set(anchor.dtypes)) != 1
        or anchor.dtypes[0] not in ("float32", "float64")
        or anchor.out_dtype != anchor.dtypes[0]
    ):
        return f"it multiplies float32 or float64, not {' and '.join(anchor.dtypes)}"
    return True if all([len(s) >= 1 for s in anchor.shapes]) else "it takes no scalars"


def _numpy_matmul(x: Any, w: Any, out: Any, **attrs: Any) -> None:
    a, b, c = x.numpy(), w.numpy(), out.numpy()
    if a.ndim == 1 and b.ndim == 1:  # numpy gives a scalar
        c[...] = np.matmul(a, b)
    else:
        np.matmul(a, b, out=c)


def _with_torch(rule: Predicate) -> Predicate:
    def predicate(anchor: Anchor) -> bool | str:
        return rule(anchor) if importlib.util.find_spec("torch") is not None else "torch is not installed"

    return predicate


def _torch_matmul(x: Any, w: Any, out: Any, **attrs: Any) -> None:
    torch = require("torch")
    with torch.no_grad():
        torch.matmul(x.torch(), w.torch(), out=out.torch())


def _symmetric(anchor: Anchor) -> bool | str:
    attrs, rank = anchor.attrs, len(anchor.out_shape) - 2
    padding = attrs.get("padding", 0)
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * rank and padding[:rank] != padding[rank:]:
        return "its padding is the same on both sides"
    if attrs.get("data_layout") not in (None, "NCHW") or attrs.get("kernel_layout") not in (None, "OIHW"):
        return "it takes NCHW and OIHW alone"
    if attrs.get("out_layout") not in (None, "", attrs.get("data_layout")):
        return "its result has the layout of its input"
    return True if set(anchor.dtypes) == {"float32"} and anchor.out_dtype == "float32" else "it takes float32 alone"


def _torch_conv2d(
    x: Any, w: Any, out: Any, strides: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, **attrs: Any
) -> None:
    torch = require("torch")
    sides = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,)
    sides = sides * 2 if len(sides) == 1 else sides[:2]
    with torch.no_grad():
        made = torch.nn.functional.conv2d(x.torch(), w.torch(), None, strides, sides, dilation, groups)
        out.torch().copy_(made)


register_library_kernel("matmul", "numpy.matmul", _products, _numpy_matmul)
register_library_kernel("matmul", "torch.matmul", _with_torch(_products), _torch_matmul)
register_library_kernel("nn.conv2d", "torch.conv2d", _with_torch(_symmetric), _torch_conv2d)
