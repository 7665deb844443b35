"""Changes by ``forward`` that ``torch.export`` does not follow: plain attributes of modules, lists and dicts among the inputs.

Not here: tensors assigned to attributes, of which torch itself warns, and buffers, which a compiled model writes to.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .inputs import named_inputs

_NUMBERS = (int, float, bool, str, type(None))
_CONTAINERS = (list, dict, set)


@contextmanager
def lost_effects(model: Any) -> Iterator[None]:
    """While it lasts, runs of the model are watched; what they changed is a warning at the end."""
    before: dict[str, Any] = {}
    changed: dict[str, None] = {}

    def enter(module: Any, args: Any, kwargs: Any) -> None:
        before.update(_snapshot(module, args, kwargs))

    def leave(module: Any, args: Any, kwargs: Any, result: Any) -> None:
        after = _snapshot(module, args, kwargs)
        changed.update(
            dict.fromkeys([path for path, value in after.items() if path in before and value != before[path]])
        )

    hooks = [
        model.register_forward_pre_hook(enter, with_kwargs=True),
        model.register_forward_hook(leave, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    if changed:
        warnings.warn(f"forward changes {', '.join(changed)}; the compiled model does not, and reads what was there before: "
                      "keep it in a buffer, or return it", UserWarning, stacklevel=2)  # fmt: skip


def _snapshot(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Plain values by their places; of lists, dicts and sets what they hold, by identity."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name[:1] != "_" and isinstance(value, (*_NUMBERS, *_CONTAINERS)):
                found[f"self.{path}.{name}" if path else f"self.{name}"] = _content(value)
    inputs = [(name, value) for name, value in named_inputs(model, args, kwargs)]
    for name, value in inputs:
        if isinstance(value, _CONTAINERS):
            found[name] = _content(value)
        if isinstance(value, (list, tuple, dict)):
            inputs += [
                (f"{name}[{k!r}]", v) for k, v in (value.items() if isinstance(value, dict) else enumerate(value))
            ]
    return found


def _content(value: Any) -> Any:
    """A key that two values share where nothing was changed."""
    if isinstance(value, _NUMBERS):
        return type(value), repr(value)
    return [(k, id(v)) for k, v in value.items()] if isinstance(value, dict) else [id(v) for v in value]
