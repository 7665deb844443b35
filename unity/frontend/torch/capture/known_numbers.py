"""Numbers that a model holds in tensors, followed while it is exported.

Models keep sizes (of a kernel, of a border) in integer buffers without an axis, compute with them and hand the results to functions
that need plain numbers. torch.export takes every buffer for data and gives up; here the values are followed beside it.
Not here: export itself (``trace.py``).

Invariant: a value is known only if it follows from buffers, tensors outside the trace and Python numbers alone, and nothing is
written to it. Who uses this sees to it that the program writes no buffer of ``whole_numbers``.
"""

from __future__ import annotations

import re
from typing import Any

_CONVERSIONS = {"item": None, "tolist": None, "__int__": int, "__index__": int, "__bool__": bool, "__float__": float}
_OF_NUMBERS = ("pad",)
"""Functions that read numbers from their lists, also where tensors stand there."""
_ARITHMETIC = frozenset(
    re.findall(
        r"\w+",
        """add sub subtract rsub mul multiply div divide true_divide floor_divide remainder neg negative abs ceil floor round
        maximum minimum max min clamp to int long float bool clone as_tensor eq ne lt le gt ge logical_not logical_and
        logical_or __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__
        __mod__ __rmod__ __div__ __rdiv__ __neg__ __abs__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__""",
    )
)
"""Functions that compute one number from others."""


def whole_numbers(model: Any) -> dict[str, Any]:
    """The integer buffers of a model without an axis, by name."""
    return {
        name: buffer
        for name, buffer in model.named_buffers()
        if buffer.dim() == 0 and not buffer.is_floating_point() and not buffer.is_complex()
    }


def _writes(name: str) -> bool:
    """True if the function of a name changes its argument."""
    if name.startswith("__"):
        return name in ("__setitem__", "__set__") or (name.startswith("__i") and name not in ("__int__", "__index__"))
    return name.endswith("_")


def known_numbers(torch: Any, model: Any) -> Any:
    """A mode: while it lasts, numbers computed from the whole numbers of a model are taken as they are.

    Its ``sound`` is False where a known value was written to: what was traced does not hold then.
    """
    tree, unmoded = torch.utils._pytree, torch.utils._python_dispatch._disable_current_modes
    begin = {name: buffer.detach().clone() for name, buffer in whole_numbers(model).items()}

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sound = True
            self.values: dict[int, tuple[Any, Any]] = {}  # by identity; the tensor is kept that it stay the same

        def value_of(self, x: Any) -> Any:
            """The value of a tensor without an axis, None where it is not known."""
            if not isinstance(x, torch.Tensor) or x.dim():
                return None
            if id(x) not in self.values:
                own = [name for name, buffer in model.named_buffers() if buffer is x and name in begin]
                outside = type(x) is torch.Tensor and not torch._is_functional_tensor(x)
                if not own and not outside:
                    return None
                self.values[id(x)] = (x, begin[own[0]] if own else x)
            return self.values[id(x)][1]

        def __torch_function__(self, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(fn, "__name__", "")
            leaves, shape = tree.tree_flatten((args, kwargs))
            found = [self.value_of(leaf) for leaf in leaves]
            if all([f is None for f in found]):
                return fn(*args, **kwargs)
            if name in _CONVERSIONS or name in _OF_NUMBERS:
                with unmoded():
                    leaves = [leaf if f is None else f.item() for f, leaf in zip(found, leaves, strict=True)]
                kind = _CONVERSIONS.get(name)
                if name in _CONVERSIONS:
                    return leaves[0] if kind is None else kind(leaves[0])
                args, kwargs = tree.tree_unflatten(leaves, shape)
                return fn(*args, **kwargs)
            self.sound = self.sound and not _writes(name)
            result = fn(*args, **kwargs)
            others = [leaf for f, leaf in zip(found, leaves, strict=True) if f is None]
            if name in _ARITHMETIC and isinstance(result, torch.Tensor) and not any([_is_data(v) for v in others]):
                with unmoded():
                    known = [leaf if f is None else f for f, leaf in zip(found, leaves, strict=True)]
                    args, kwargs = tree.tree_unflatten(known, shape)
                    self.values[id(result)] = (result, fn(*args, **kwargs))
            return result

    def _is_data(value: Any) -> bool:
        return isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))

    return Mode()
