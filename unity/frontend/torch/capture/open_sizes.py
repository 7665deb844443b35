"""Functions of torch that fix a size at what it is in the example, in forms that leave it open.

They ask for the number itself where a symbol would do: pooling of signals, ranges of a given number of floats, indices along an
axis. Not here: recurrent layers (``traceable.py``). Invariant: a form gives what the function gives, and stands in for it only
where a size is symbolic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.optional import require


def open_form(torch: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """The call in a form that keeps symbolic sizes; None where the function itself does, or no size is symbolic."""
    name = getattr(fn, "__name__", "")
    form = _FORMS.get(name)
    places = (torch, torch.nn.functional, torch.Tensor)
    if form is None or all([fn is not getattr(place, name, None) for place in places]):
        return None
    made: Callable[[], Any] | None = form(torch, *args, **kwargs)
    return made


def _is_open(torch: Any, *sizes: Any) -> bool:
    return any([isinstance(size, torch.SymInt) for size in sizes])


def _max_pool1d(
    torch: Any, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Callable[[], Any] | None:  # fmt: skip
    """As images of one row."""
    if return_indices or not _is_open(torch, *input.shape):
        return None

    def row(value: Any, other: int) -> list[int]:
        return [other, *(value if isinstance(value, (tuple, list)) else [value])]

    steps = kernel_size if stride is None or stride == [] else stride
    return lambda: torch.max_pool2d(
        input.unsqueeze(-2), row(kernel_size, 1), row(steps, 1), row(padding, 0), row(dilation, 1), ceil_mode
    ).squeeze(-2)  # fmt: skip


def _linspace(
    torch: Any, start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any
) -> Callable[[], Any] | None:
    """Steps from the start in the first half, from the end in the other, as in torch; in float64, and of numbers alone."""
    dtype = dtype or torch.get_default_dtype()
    if (
        not _is_open(torch, steps)
        or not all([isinstance(v, (int, float)) for v in (start, end)])
        or not dtype.is_floating_point
    ):
        return None
    device = options.get("device")

    def made() -> Any:
        at = torch.arange(steps, dtype=torch.float64, device=device)
        last = torch.full((), steps - 1, dtype=torch.float64, device=device)
        step = (end - start) / last.clamp(min=1)
        return torch.where(at * 2 < last + 1, start + step * at, end - step * (last - at)).to(dtype)

    return made


def _take_along_dim(torch: Any, input: Any, indices: Any, dim: int | None = None) -> Callable[[], Any] | None:
    """``gather`` of both at their common sizes along the other axes."""
    if dim is None or not _is_open(torch, *input.shape, *indices.shape):
        return None

    def made() -> Any:
        axis = dim % input.dim()
        sizes = [[*t.shape[:axis], 1, *t.shape[axis + 1 :]] for t in (input, indices)]
        common = torch.broadcast_shapes(*sizes)
        wide = [t.expand([*common[:axis], t.shape[axis], *common[axis + 1 :]]) for t in (input, indices)]
        return wide[0].gather(axis, wide[1])

    return made


_FORMS: dict[str, Callable[..., Callable[[], Any] | None]] = {
    "linspace": _linspace, "max_pool1d": _max_pool1d, "take_along_dim": _take_along_dim,
}  # fmt: skip


def recurrent_rules() -> dict[Any, Callable[..., tuple[Any, ...]]]:
    """Inference of the results of recurrent layers for any number of steps: operator -> a function of its arguments.

    torch's own rules take the layers apart step by step.
    """

    def infer(x: Any, state: Any, weights: Any, *options: Any) -> tuple[Any, ...]:
        states = list(state) if isinstance(state, (tuple, list)) else [state]
        both = options[4]  # has_biases, num_layers, dropout, train, bidirectional, batch_first
        out = x.new_empty([*x.shape[:-1], states[0].shape[-1] * (2 if both else 1)])
        return (out, *[s.new_empty(s.shape) for s in states])

    aten = require("torch").ops.aten
    return dict.fromkeys([aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input], infer)
