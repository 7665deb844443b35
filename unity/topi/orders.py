"""Functions of TVM's topi that are not operators as they are: ``orders``, whose arguments TVM has in another order or with other
defaults, and ``more``, kinds of pooling and convolution by layout.

``topi.strided_slice(A, begin, end)``, ``topi.full(shape, dtype, value)``, ``topi.nn.conv2d_nchw(x, w, stride, padding, dilation)``.
Each gives its arguments to the operator's function; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import te
from ..ir.expr import IntImm
from ..support.errors import TypeRuleError

Functions = Mapping[str, Callable[..., Any]]

FIRST = ("a", "ary", "array", "data", "input", "x")
"""The names that TVM gives a first argument."""
ALIASES = {
    "a_max": "max", "a_min": "min", "a_tuple": "tensors", "axis": "axes", "filter": "weight", "lhs": "x1", "mode": "reduction",
    "newshape": "shape", "reps": "repeats", "rhs": "x2", "slope": "alpha", "stop": "end",
}  # fmt: skip
"""TVM's names of arguments, where an operator has no argument of that name."""


def orders(topi: Functions) -> dict[str, Callable[..., Any]]:
    """The functions by name; ``topi`` has those of the operators."""

    def strided_slice(
        a: Any, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end",
        assume_inbound: bool = True,
    ) -> Any:  # fmt: skip
        """Parts of axes (all, from the first on, without ``axes``); with ``slice_mode="size"`` the ends are sizes."""
        first = [begin] if isinstance(begin, int) else list(begin)
        last = [end] if isinstance(end, int) else list(end)
        if slice_mode == "size":
            last = [b + e if e >= 0 else a.shape[k] for k, (b, e) in enumerate(zip(first, last))]
            strides = None
        if strides is not None and len(strides) < len(first):
            strides = [*strides, *[1] * (len(first) - len(strides))]
        return topi["strided_slice"](a, list(range(len(first))) if axes is None else axes, first, last, strides)

    def full(shape: Any, dtype: str, fill_value: Any) -> Any:
        """A tensor of one value."""
        return te.compute(shape, lambda *_: _cast(fill_value, dtype), "full")

    def full_like(x: te.Tensor, fill_value: Any) -> Any:
        """A tensor of one value, of another one's shape and type."""
        return full(x.shape, x.dtype, fill_value)

    def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Any:
        """Evenly spaced numbers."""
        return topi["arange"](0, start, step, dtype) if stop is None else topi["arange"](start, stop, step, dtype)

    def expand_dims(a: te.Tensor, axis: int, num_newaxis: int = 1) -> Any:
        """Axes of size one, put in at a place."""
        place = axis + len(a.shape) + 1 if axis < 0 else axis
        return topi["expand_dims"](a, [place + k for k in range(num_newaxis)])

    def flip(a: te.Tensor, axis: int = 0) -> Any:
        """The elements along an axis in opposite order."""
        return topi["flip"](a, axis)

    def argmax(data: te.Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Any:
        """Places of the largest elements, int32; of equal ones the first."""
        return extreme("argmax", data, axis, keepdims, select_last_index)

    def argmin(data: te.Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Any:
        """Places of the smallest elements, int32; of equal ones the first."""
        return extreme("argmin", data, axis, keepdims, select_last_index)

    def extreme(name: str, data: te.Tensor, axis: Any, keepdims: bool, last: bool) -> Any:
        if last:
            raise TypeRuleError("E217", f"{name} gives the first of equal elements")
        return _as(topi[name](data, axis, keepdims), "int32")

    def gather_nd(a: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> Any:
        """Parts at places: the first axis of ``indices`` behind the batch runs over the axes of ``a``."""
        order = list(range(len(indices.shape)))
        order.append(order.pop(batch_dims))
        return topi["gather_nd"](a, topi["permute_dims"](indices, order), batch_dims)

    def sort(data: te.Tensor, axis: int = -1, is_ascend: bool = True) -> Any:
        """Elements in order along an axis."""
        return topi["sort"](data, axis, not is_ascend)

    def argsort(
        data: te.Tensor, valid_count: None = None, axis: int = -1, is_ascend: bool = True, dtype: str = "float32"
    ) -> Any:
        """Places of the elements in order along an axis. Raises TypeRuleError E217."""
        if valid_count is not None:
            raise TypeRuleError("E217", "argsort sorts whole rows: valid_count must be None")
        return _as(topi["argsort"](data, axis, not is_ascend, "int64"), dtype)

    def topk(
        data: te.Tensor,
        k: int = 1,
        axis: int = -1,
        ret_type: str = "both",
        is_ascend: bool = False,
        dtype: str = "int64",
    ) -> Any:
        """The largest elements along an axis (the smallest with ``is_ascend``) and their places."""
        made = topi["topk"](data, k, axis, ret_type, not is_ascend, dtype)
        return list(made) if isinstance(made, (tuple, list)) else made

    def einsum(subscripts: str, *operand: te.Tensor) -> Any:
        """Sums of products."""
        return topi["einsum"](operand, subscripts)

    def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> Any:
        """Product of matrices, one or both given transposed."""
        return nn_matmul(a, b, None, None, transp_a, transp_b)

    def nn_matmul(
        tensor_a: te.Tensor, tensor_b: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None,
        transpose_a: bool = False, transpose_b: bool = False,
    ) -> Any:  # fmt: skip
        """Product of matrices, one or both given transposed, plus a bias."""
        turned = [_transposed(t) if turn else t for t, turn in ((tensor_a, transpose_a), (tensor_b, transpose_b))]
        made = topi["matmul"](*turned, out_dtype=out_dtype)
        return made if bias is None else topi["add"](made, bias)

    def _transposed(tensor: te.Tensor) -> Any:
        count = len(tensor.shape)
        return topi["permute_dims"](tensor, [*range(count - 2), count - 1, count - 2])

    def one_hot(
        indices: te.Tensor, on_value: Any, off_value: Any, depth: int, axis: int = -1, dtype: str = "float32"
    ) -> Any:
        """``on_value`` at the places that indices name along a new axis, ``off_value`` elsewhere."""
        return topi["one_hot"](indices, _cast(on_value, dtype), _cast(off_value, dtype), depth, axis)

    def take(a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "fast") -> Any:
        """Elements at places along an axis, or of the flattened tensor. Raises TypeRuleError E217."""
        if batch_dims != 0:
            raise TypeRuleError("E217", "take has no batch axes here", help="use topi.gather_nd with batch_dims")
        return topi["take"](a, indices, axis, mode)

    def searchsorted(
        sorted_sequence: te.Tensor, values: te.Tensor, right: bool = False, out_dtype: str = "int64"
    ) -> Any:
        """Places where values belong in sorted rows."""
        return _as(topi["searchsorted"](sorted_sequence, values, right), out_dtype)

    def _as(tensor: te.Tensor, dtype: str) -> Any:
        return tensor if tensor.dtype == dtype else topi["astype"](tensor, dtype)

    def pad(
        data: te.Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, pad_value: Any = 0.0
    ) -> Any:
        """Elements of one value before and behind each axis (the same number without ``pad_after``)."""
        return _padded(data, pad_before, pad_after, "constant", pad_value)

    def mirror_pad(
        data: te.Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, mode: str = "REFLECT"
    ) -> Any:
        """Elements mirrored at the borders, the outermost not repeated."""
        if mode != "REFLECT":
            raise TypeRuleError("E217", f"mirror_pad has mode REFLECT, got {mode!r}")
        return _padded(data, pad_before, pad_after, "reflect", 0.0)

    def _padded(data: te.Tensor, before: Sequence[Any], after: Sequence[Any] | None, mode: str, value: Any) -> Any:
        behind = before if after is None else after
        if len(before) != len(data.shape) or len(behind) != len(data.shape):
            raise TypeRuleError(
                "E217", f"{data.name} has {len(data.shape)} axes, padded with {list(before)}, {list(behind)}"
            )
        widths = [int(width) for pair in zip(before, behind) for width in pair]
        return topi["nn.pad"](data, widths, mode, value)

    def instance_norm(
        data: te.Tensor, gamma: te.Tensor, beta: te.Tensor, channel_axis: int, axis: Any, epsilon: float = 1e-5
    ) -> Any:
        """Normalisation of each channel of each example."""
        return topi["nn.instance_norm"](data, gamma, beta, channel_axis, axis, epsilon)

    def batch_norm(
        data: te.Tensor, gamma: te.Tensor, beta: te.Tensor, moving_mean: te.Tensor, moving_var: te.Tensor, axis: int = 1,
        epsilon: float = 1e-5, center: bool = True, scale: bool = True, training: bool = False, momentum: float = 0.1,
    ) -> Any:  # fmt: skip
        """Normalisation of each channel: the result, and the new mean and variance."""
        given = (data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale, momentum, training)
        return list(topi["nn.batch_norm"](*given))

    def resize2d(
        data: te.Tensor, roi: Any, size: Any, layout: str = "NCHW", method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round", bicubic_alpha: float = -0.75,
        bicubic_exclude: bool = False, extrapolation_value: float = 0.0, out_dtype: str | None = None,
    ) -> Any:  # fmt: skip
        """Images of another size."""
        rounding, exclude = rounding_method or "round", bool(bicubic_exclude)
        options = (
            layout,
            method,
            coordinate_transformation_mode,
            rounding,
            bicubic_alpha,
            exclude,
            extrapolation_value,
        )
        return topi["image.resize2d"](data, size, roi, *options, out_dtype)

    nn = {
        "matmul": nn_matmul, "pad": pad, "mirror_pad": mirror_pad, "instance_norm": instance_norm, "batch_norm": batch_norm,
    }  # fmt: skip
    for name, function in nn.items():
        function.__name__ = name  # the name of the program that is made of it
    plain: tuple[Any, ...] = (
        strided_slice, full, full_like, arange, argmax, argmin, expand_dims, flip, gather_nd, sort, argsort, topk, einsum,
        matmul, one_hot, take, searchsorted,
    )  # fmt: skip
    return {
        **{function.__name__: function for function in plain},
        **{f"nn.{name}": function for name, function in nn.items()},
        "image.resize2d": resize2d,
    }


def _cast(value: Any, dtype: str) -> te.Value:
    """A number or scalar of a data type."""
    found = te.unwrap(value)
    return te.const(found, dtype) if isinstance(found, (bool, int, float)) else te.Value(found).astype(dtype)


def whole_number(value: Any, what: str) -> int:
    """A size that is known. Raises TypeRuleError E217 for one that is not."""
    found = te.unwrap(value)
    if isinstance(found, (int, IntImm)):
        return int(found)
    raise TypeRuleError("E217", f"{what} must be known when the program is built")


def more(topi: Functions) -> dict[str, Callable[..., Any]]:
    """The functions by name; ``topi`` has those of the operators."""

    def convolution(name: str, layout: str, kernel_layout: str) -> Callable[..., Any]:
        def call(
            data: te.Tensor, kernel: te.Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
            out_dtype: str | None = None,
        ) -> Any:  # fmt: skip
            return topi[name](data, kernel, stride, padding, dilation, 1, layout, kernel_layout, out_dtype=out_dtype)

        call.__doc__ = f"Convolution of data {layout} with weights {kernel_layout}."
        return call

    def conv2d(
        input: te.Tensor, filter: te.Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1, data_layout: str = "NCHW",
        kernel_layout: str = "", out_dtype: str | None = None, *, groups: int = 1,
    ) -> Any:  # fmt: skip
        """Convolution of images in a layout."""
        weights = kernel_layout or {"NHWC": "HWIO", "HWCN": "HWIO"}.get(data_layout, "OIHW")
        return topi["nn.conv2d"](
            input, filter, strides, padding, dilation, groups, data_layout, weights, out_dtype=out_dtype
        )

    def pooling(rank: int, space: str) -> Callable[..., Any]:
        def call(
            data: te.Tensor, kernel: Any, stride: Any, dilation: Any, padding: Any, pool_type: str,
            ceil_mode: bool = False, layout: str = space, count_include_pad: bool = True,
        ) -> Any:  # fmt: skip
            pool = topi[f"nn.{pool_kind(pool_type)}_pool{rank}d"]
            return pool(data, kernel, stride, padding, dilation, ceil_mode, count_include_pad, layout)

        call.__doc__ = f'Pooling of data {space}, ``pool_type`` "avg" or "max".'
        return call

    def adaptive(rank: int, space: str) -> Callable[..., Any]:
        def call(data: te.Tensor, output_size: Any, pool_type: str, layout: str = space) -> Any:
            return topi[f"nn.adaptive_{pool_kind(pool_type)}_pool{rank}d"](data, output_size, layout)

        call.__doc__ = f'Pooling of data {space} to a size, ``pool_type`` "avg" or "max".'
        return call

    nn = {
        "adaptive_pool": adaptive(2, "NCHW"), "adaptive_pool1d": adaptive(1, "NCW"), "adaptive_pool3d": adaptive(3, "NCDHW"),
        "add": topi["add"], "concatenate": topi["concat"], "conv1d_ncw": convolution("nn.conv1d", "NCW", "OIW"),
        "conv1d_nwc": convolution("nn.conv1d", "NWC", "WIO"), "conv2d": conv2d,
        "conv2d_nchw": convolution("nn.conv2d", "NCHW", "OIHW"), "conv2d_nhwc": convolution("nn.conv2d", "NHWC", "HWIO"),
        "conv3d_ncdhw": convolution("nn.conv3d", "NCDHW", "OIDHW"), "pool1d": pooling(1, "NCW"), "pool2d": pooling(2, "NCHW"),
        "pool3d": pooling(3, "NCDHW"),
    }  # fmt: skip
    return {f"nn.{name}": function for name, function in nn.items()}


def pool_kind(pool_type: str) -> str:
    """The kind of pooling. Raises TypeRuleError E217 for one that is none."""
    if pool_type not in ("avg", "max"):
        raise TypeRuleError("E217", f"pool_type must be avg or max, got {pool_type!r}")
    return pool_type
