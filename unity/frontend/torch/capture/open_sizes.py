"""Functions of torch that fix a size at what it is in the example, in forms that leave it open.

They ask for the number itself where a symbol would do: pooling of signals, ranges of a given number of floats, indices along an
axis. Not here: recurrent layers (``traceable.py``). Invariant: a form gives what the function gives, and stands in for it only
where a size is symbolic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.optional import require


def symbolic_form(torch: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """The call in a form that keeps symbolic sizes; None where the function itself does, or no size is symbolic."""
    name = getattr(fn, "__name__", "")
    form = _FORMS.get(name)
    namespaces = (torch, torch.nn.functional, torch.Tensor, torch._C._fft)
    if form is None or all([fn is not getattr(place, name, None) for place in namespaces]):
        return None
    compute: Callable[[], Any] | None = form(torch, *args, **kwargs)
    return compute


def _is_symbolic(torch: Any, *sizes: Any) -> bool:
    return any([isinstance(size, torch.SymInt) for size in sizes])


def _max_pool1d(
    torch: Any, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Callable[[], Any] | None:  # fmt: skip
    """As images of one row."""
    if return_indices or not _is_symbolic(torch, *input.shape):
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
        not _is_symbolic(torch, steps)
        or not all([isinstance(v, (int, float)) for v in (start, end)])
        or not dtype.is_floating_point
    ):
        return None
    device = options.get("device")

    def compute() -> Any:
        positions = torch.arange(steps, dtype=torch.float64, device=device)
        last = torch.full((), steps - 1, dtype=torch.float64, device=device)
        step = (end - start) / last.clamp(min=1)
        return torch.where(positions * 2 < last + 1, start + step * positions, end - step * (last - positions)).to(
            dtype
        )

    return compute


def _tensor(torch: Any, data: Any, dtype: Any = None, device: Any = None, **options: Any) -> Callable[[], Any] | None:
    """Numbers, nested in lists; torch asks for their values, but for those of ``torch.tensor``."""
    numbers = torch.utils._pytree.tree_leaves(data) if isinstance(data, (list, tuple)) else [data]
    kinds = (torch.SymInt, torch.SymFloat)
    if options or not any([isinstance(n, kinds) for n in numbers]):
        return None
    if not all([isinstance(n, (*kinds, int, float)) for n in numbers]):
        return None
    whole = all([isinstance(n, (torch.SymInt, int)) for n in numbers])
    kind = dtype or (torch.int64 if whole else torch.get_default_dtype())

    def made(value: Any) -> Any:
        nested = isinstance(value, (list, tuple))
        return (
            torch.stack([made(v) for v in value]) if nested else torch.scalar_tensor(value, dtype=kind, device=device)
        )

    return lambda: made(data)


def _new_tensor(
    torch: Any, own: Any, data: Any, dtype: Any = None, device: Any = None, **options: Any
) -> Callable[[], Any] | None:
    return _tensor(torch, data, dtype or own.dtype, device or own.device, **options)


def _take_along_dim(torch: Any, input: Any, indices: Any, dim: int | None = None) -> Callable[[], Any] | None:
    """``gather`` of both at their common sizes along the other axes."""
    if dim is None or not _is_symbolic(torch, *input.shape, *indices.shape):
        return None

    def compute() -> Any:
        axis = dim % input.dim()
        sizes = [[*t.shape[:axis], 1, *t.shape[axis + 1 :]] for t in (input, indices)]
        common = torch.broadcast_shapes(*sizes)
        wide = [t.expand([*common[:axis], t.shape[axis], *common[axis + 1 :]]) for t in (input, indices)]
        return wide[0].gather(axis, wide[1])

    return compute


def _cdist(torch: Any, x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Callable[[], Any] | None:
    """Without the product of matrices that torch takes for more than 25 rows."""
    if compute_mode == _NO_PRODUCT or not _is_symbolic(torch, *x1.shape, *x2.shape):
        return None
    return lambda: torch.cdist(x1, x2, p, _NO_PRODUCT)


_NO_PRODUCT = "donot_use_mm_for_euclid_dist"


def _mean(torch: Any, input: Any, *axes: Any, **options: Any) -> Callable[[], Any] | None:
    """Of complex numbers: the mean of both parts."""
    if not input.is_complex() or not _is_symbolic(torch, *input.shape) or "dtype" in options or "out" in options:
        return None
    return lambda: torch.complex(*[torch.mean(part, *axes, **options) for part in (input.real, input.imag)])


def _fftfreq(torch: Any, n: Any, d: float = 1.0, **options: Any) -> Callable[[], Any] | None:
    if not _is_symbolic(torch, n):
        return None

    def compute() -> Any:
        positions = torch.arange(n, dtype=options.pop("dtype", None) or torch.get_default_dtype(), **options)
        return (positions - torch.where(positions < (n + 1) // 2, 0, n)) / (n * d)

    return compute


def _rfftfreq(torch: Any, n: Any, d: float = 1.0, **options: Any) -> Callable[[], Any] | None:
    if not _is_symbolic(torch, n):
        return None
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    return lambda: torch.arange(n // 2 + 1, dtype=dtype, **options) / (n * d)


def _affine_grid(torch: Any, theta: Any, size: Any, align_corners: bool | None = None) -> Callable[[], Any] | None:
    """The positions of all elements, from -1 to 1, times the matrix."""
    if not _is_symbolic(torch, *size):
        return None

    def axis(length: Any) -> Any:
        positions = torch.arange(length, dtype=theta.dtype, device=theta.device) * 2 + 1 - length
        return positions / torch.sym_max(length - 1, 1) if align_corners else positions / length

    def compute() -> Any:
        places = torch.meshgrid(*[axis(length) for length in size[2:]], indexing="ij")
        base = torch.stack([*places[::-1], torch.ones_like(places[0])], -1)
        rows = base.flatten(0, -2) @ theta.mT
        return rows.unflatten(1, list(size[2:]))

    return compute


def _istft(
    torch: Any, input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: Any = None,
    return_complex: bool = False,
) -> Callable[[], Any] | None:  # fmt: skip
    """Frames by Fourier's transform, weighed and added where they lie, over the sum of the squares of the window there."""
    if return_complex or not _is_symbolic(torch, *input.shape, length):
        return None
    hop, width = hop_length or n_fft // 4, win_length or n_fft

    def compute() -> Any:
        whole = torch.ones(width, dtype=input.real.dtype, device=input.device) if window is None else window
        whole = torch.nn.functional.pad(whole, ((n_fft - width) // 2, n_fft - width - (n_fft - width) // 2))
        bins = input[..., : n_fft // 2 + 1, :].transpose(-1, -2)
        frames = torch.fft.irfft(bins, n_fft, norm="ortho" if normalized else "backward") * whole
        count = input.shape[-1]
        start, stop = (n_fft // 2 if center else 0), (count - 1) * hop + n_fft - (n_fft // 2 if center else 0)
        stop = stop if length is None else start + length
        weights = (whole * whole).expand(count, n_fft)
        places = torch.arange(count, device=input.device)[:, None] * hop + torch.arange(n_fft, device=input.device)

        def added(rows: Any) -> Any:
            flat = rows.new_zeros([*rows.shape[:-2], (count - 1) * hop + n_fft])
            return flat.index_add(-1, places.flatten(), rows.flatten(-2))

        signal, envelope = added(frames), added(weights)
        missing = torch.sym_max(stop - signal.shape[-1], 0)
        kept = (signal / torch.where(envelope == 0, 1, envelope))[..., start:stop]
        return torch.nn.functional.pad(kept, (0, missing))

    return compute


_FORMS: dict[str, Callable[..., Callable[[], Any] | None]] = {
    "linspace": _linspace, "max_pool1d": _max_pool1d, "take_along_dim": _take_along_dim, "cdist": _cdist, "mean": _mean,
    "fft_fftfreq": _fftfreq, "fft_rfftfreq": _rfftfreq, "affine_grid": _affine_grid, "istft": _istft,
    "as_tensor": _tensor, "asarray": _tensor, "new_tensor": _new_tensor,
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
