"""Arguments of a call of a torch model: brought into the form the model was exported in; tensors nothing here can hold refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....support.errors import FrontendError

PLACES = ("cpu", "cuda")
"""Kinds of devices, as torch calls them, whose tensors models may hold and be given."""


def refuse_tensor(torch: Any, what: str, value: Any, devices: Sequence[str] = ("cpu",)) -> None:
    """Raise FrontendError E015 for a tensor that is not dense, quantised, nested, or on no device of the kinds ``devices``."""
    if value.is_nested or value.is_quantized or value.layout is not torch.strided:
        if value.is_nested:
            kind, hint = "nested", "call to_padded_tensor(0.0) first"
        elif value.is_quantized:
            kind, hint = "quantised", "call dequantize() first"
        else:
            kind, hint = str(value.layout).removeprefix("torch."), "call to_dense() first"
        raise FrontendError("E015", f"{what} is a {kind} tensor, expected a dense one", help=hint)
    if value.device.type not in devices:
        kind = value.device.type
        raise FrontendError(
            "E015", f"{what} is a tensor on {value.device}, expected {'the cpu' if devices == ('cpu',) else ' or '.join(devices)}",
            help="it has no elements: give true inputs; a model gets its weights by "
            'model.to_empty(device="cpu") and load_state_dict' if kind == "meta"
            else f'call .cpu() first, or compile for its device: unity.compile(..., target="{kind}")' if kind in PLACES
            else "call .cpu() first",
        )  # fmt: skip


def structure_text(spec: Any) -> str:
    """The nesting of inputs in a few characters: ``(*, {mask: *})``."""
    if spec.is_leaf():
        return "*"
    inner = [structure_text(s) for s in spec.children()]
    if spec.type is dict:
        return "{" + ", ".join([f"{k}: {s}" for k, s in zip(spec.context, inner)]) + "}"
    if spec.type in (tuple, list):
        return f"({', '.join(inner)})" if spec.type is tuple else f"[{', '.join(inner)}]"
    return f"{spec.type.__name__}({', '.join(inner)})"


def arguments_text(spec: Any) -> str:
    """As ``structure_text`` for the inputs of a call: ``(*, mask=*)``."""
    positional, named = spec.children()
    parts = [structure_text(s) for s in positional.children()]
    parts += [f"{k}={structure_text(s)}" for k, s in zip(named.context, named.children())]
    return f"({', '.join(parts)})"


def rearranged(
    names: Sequence[str], spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments with those given by name and by place as in the traced call, None where that cannot be.

    ``names`` are the parameters that a call may give by place; what is given behind them is ``*args``.
    """
    positional, named = spec.children()
    count, wanted = len(positional.children()), list(named.context)
    given, rest = dict(zip(names, args)), args[len(names) :]
    if set(given) & set(kwargs) or len(rest) != max(0, count - len(names)):
        return None
    given.update(kwargs)
    placed = names[:count]
    if {*placed, *wanted} != set(given):
        return None
    return (*[given[n] for n in placed], *rest), {n: given[n] for n in wanted}


def span(t: Any) -> tuple[int, int]:
    """The address of a tensor's first element, and the one behind its last."""
    start = t.data_ptr()
    if t.is_contiguous():
        return start, start + t.nbytes
    extent = sum([(size - 1) * stride for size, stride in zip(t.shape, t.stride())]) + 1 if t.numel() else 0
    return start, start + extent * t.element_size()


def overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """True if two spans have an address in common."""
    return max(first[0], second[0]) < min(first[1], second[1])
