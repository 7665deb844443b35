"""Inputs of a torch model: checked before the model is traced, brought into the traced form when it is called."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ..support.errors import FrontendError
from ..support.extras import require

_PLAIN = (int, float, bool, str, type(None))


def check_examples(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise FrontendError E962 for example inputs ``forward`` does not take, E015 for tensors of a kind that is not supported."""
    torch = require("torch")
    signature = forward_signature(model)
    names = [f"input {i}" for i in range(len(args))]
    if signature is not None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise FrontendError("E962", f"the example inputs do not fit {type(model).__name__}.forward{signature}: {error}",
                                help="pass example_inputs as a tuple and example_kwargs as a dict") from error  # fmt: skip
        names = [n for n in bound.arguments if n not in kwargs]
    for name, value in [*zip(names, args), *kwargs.items()]:
        for path, leaf in torch.utils._pytree.tree_flatten_with_path(value)[0]:
            _check_leaf(torch, f"{name}{torch.utils._pytree.keystr(path)}", leaf)


def forward_signature(model: Any) -> inspect.Signature | None:
    """Parameters of a model's ``forward``; None where Python does not know them."""
    try:
        return inspect.signature(model.forward)
    except (AttributeError, TypeError, ValueError):
        return None


def _check_leaf(torch: Any, name: str, leaf: Any) -> None:
    if isinstance(leaf, torch.Tensor):
        refuse_tensor(torch, f"the input {name}", leaf)
    elif not isinstance(leaf, _PLAIN) and not type(leaf).__module__.startswith(("torch", "enum")):
        kind = type(leaf)
        hint = "torch.from_numpy(x) shares memory with an array" if kind.__module__ == "numpy" else None
        raise FrontendError(
            "E962", f"the input {name} is a {kind.__module__}.{kind.__qualname__}, expected torch tensors", help=hint
        )


def refuse_tensor(torch: Any, what: str, value: Any) -> None:
    """Raise FrontendError E015 for a tensor that is not dense, not on the cpu, quantised or nested."""
    if value.is_nested or value.is_quantized or value.layout is not torch.strided:
        kind = (
            "nested"
            if value.is_nested
            else "quantised"
            if value.is_quantized
            else str(value.layout).removeprefix("torch.")
        )
        raise FrontendError(
            "E015", f"{what} is a {kind} tensor, expected a dense one", help="call to_dense() or dequantize() first"
        )
    if value.device.type != "cpu":
        meta = value.device.type == "meta"
        raise FrontendError(
            "E015", f"{what} is a tensor on {value.device}, expected the cpu",
            help='it has no elements: call model.to_empty(device="cpu") and load the weights' if meta else "call .cpu() first",
        )  # fmt: skip


def outline(spec: Any) -> str:
    """The nesting of inputs in a few characters: ``(*, {mask: *})``."""
    if spec.is_leaf():
        return "*"
    inner = [outline(s) for s in spec.children()]
    if spec.type is dict:
        return "{" + ", ".join([f"{k}: {s}" for k, s in zip(spec.context, inner)]) + "}"
    if spec.type in (tuple, list):
        return f"({', '.join(inner)})" if spec.type is tuple else f"[{', '.join(inner)}]"
    return f"{spec.type.__name__}({', '.join(inner)})"


def arguments_outline(spec: Any) -> str:
    """As ``outline`` for the inputs of a call: ``(*, mask=*)``."""
    positional, named = spec.children()
    parts = [outline(s) for s in positional.children()]
    parts += [f"{k}={outline(s)}" for k, s in zip(named.context, named.children())]
    return f"({', '.join(parts)})"


def rearranged(
    names: Sequence[str], spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments with those given by name and by place as in the traced call, None where that cannot be."""
    positional, named = spec.children()
    count, wanted = len(positional.children()), list(named.context)
    given = dict(zip(names, args)) if len(args) <= len(names) else {}
    if len(given) != len(args) or set(given) & set(kwargs):
        return None
    given.update(kwargs)
    order = [*names[:count], *wanted]
    if len(order) != count + len(wanted) or set(order) != set(given):
        return None
    return tuple([given[n] for n in order[:count]]), {n: given[n] for n in wanted}


__all__ = [
    "arguments_outline",
    "check_examples",
    "forward_signature",
    "outline",
    "rearranged",
    "refuse_tensor",
]
