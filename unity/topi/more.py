"""Functions of TVM's topi that are no operator of ours: kinds of pooling and convolution by layout, masks, shapes, sums of a list.

Each is written with the functions of the operators. Not here: other orders of arguments (``orders.py``).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from .. import te
from ..support.errors import TypeRuleError
from .orders import Functions, whole_number


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

    def grouped(name: str, layout: str, kernel_layout: str) -> Callable[..., Any]:
        def call(
            data: te.Tensor, kernel: te.Tensor, stride: Any, padding: Any, dilation: Any, groups: int,
            out_dtype: str | None = None,
        ) -> Any:  # fmt: skip
            return topi[name](
                data, kernel, stride, padding, dilation, groups, layout, kernel_layout, out_dtype=out_dtype
            )

        call.__doc__ = f"Convolution of groups of channels of data {layout} with weights {kernel_layout}."
        return call

    def transposed(name: str) -> Callable[..., Any]:
        def call(
            data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, out_dtype: str | None, output_padding: Any,
            groups: int = 1,
        ) -> Any:  # fmt: skip
            return topi[name](data, kernel, strides, padding, output_padding, 1, groups, out_dtype=out_dtype)

        call.__doc__ = f"``R.{name}`` with the channels first."
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
            kind = pool_kind(pool_type)
            if kind == "avg":
                return topi[f"nn.adaptive_avg_pool{rank}d"](data, output_size, layout)
            if layout != space:
                raise TypeRuleError("E217", f"adaptive pooling of {layout} to maxima is not here", help=f"use {space}")
            return topi[f"nn.adaptive_max_pool{rank}d"](data, output_size)[0]

        call.__doc__ = f'Pooling of data {space} to a size, ``pool_type`` "avg" or "max".'
        return call

    def scale_shift(axis: int) -> Callable[..., Any]:
        def call(data: te.Tensor, scale: te.Tensor, shift: te.Tensor) -> Any:
            def element(*i: Any) -> Any:
                return data[i] * scale[i[axis]] + shift[i[axis]]

            return te.compute(data.shape, lambda *i: element(*i), "scale_shift")

        call.__doc__ = f"Each channel (axis {axis}) times a number plus another."
        return call

    def identity(x: te.Tensor) -> Any:
        """A copy."""
        return te.compute(x.shape, lambda *i: x[i], "identity")

    def elemwise_sum(xs: Sequence[te.Tensor]) -> Any:
        """Sum of several tensors."""
        return reduce(topi["add"], xs[1:], xs[0])

    def shape(array: te.Tensor, dtype: str = "int32") -> Any:
        """The sizes of the axes as a tensor."""
        sizes = [te.Value(size).astype(dtype) for size in array.shape]

        def at(k: Any) -> Any:
            return reduce(lambda rest, n: te.if_then_else(k == n, sizes[n], rest), range(len(sizes) - 1), sizes[-1])

        return te.compute((len(sizes),), lambda i: at(i), "shape")

    def tensor_size(array: te.Tensor, dtype: str = "int32") -> Any:
        """The number of elements as a tensor without axes."""
        count = reduce(lambda a, b: a * b, [te.Value(size) for size in array.shape], te.const(1, "int64"))
        return te.compute((), lambda: count.astype(dtype), "size")

    def tensordot(a: te.Tensor, b: te.Tensor, axes: Any) -> Any:
        """Sums of products over axes of both: a number (the last of ``a``, the first of ``b``), or two lists."""
        if isinstance(axes, int):
            left, right = list(range(len(a.shape) - axes, len(a.shape))), list(range(axes))
        else:
            left, right = [[k] if isinstance(k, int) else list(k) for k in axes]
        names_a = list(string.ascii_letters[: len(a.shape)])
        names_b = list(string.ascii_letters[len(a.shape) : len(a.shape) + len(b.shape)])
        for one, other in zip(left, right):
            names_b[other] = names_a[one]
        shared = {names_a[k] for k in left}
        kept = [n for n in (*names_a, *names_b) if n not in shared]
        return topi["einsum"]((a, b), f"{''.join(names_a)},{''.join(names_b)}->{''.join(kept)}")

    def sequence_mask(data: te.Tensor, valid_length: te.Tensor, mask_value: float = 0, axis: int = 0) -> Any:
        """Steps from each example's length on are ``mask_value``; ``axis`` (0 or 1) is that of the steps."""
        masked = te.const(mask_value, data.dtype)
        return te.compute(
            data.shape,
            lambda *i: te.if_then_else(i[axis] < valid_length[i[1 - axis]].astype("int64"), data[i], masked),
            "sequence_mask",
        )

    def matrix_set_diag(data: te.Tensor, diagonal: te.Tensor, k: int = 0) -> Any:
        """Matrices with another diagonal, the ``k``-th."""
        if not isinstance(k, int):
            raise TypeRuleError("E217", "matrix_set_diag sets one diagonal")

        def element(*i: Any) -> Any:
            row, column = i[-2], i[-1]
            place = row if k >= 0 else column
            return te.if_then_else(column - row == k, diagonal[(*i[:-2], place)], data[i])

        return te.compute(data.shape, lambda *i: element(*i), "matrix_set_diag")

    def dilate(data: te.Tensor, strides: Sequence[int], dilation_value: float = 0.0) -> Any:
        """Elements with ``strides - 1`` others of one value between them."""
        sizes = [(te.Value(size) - 1) * step + 1 for size, step in zip(data.shape, strides)]

        def element(*i: Any) -> Any:
            hit = [at % step == 0 for at, step in zip(i, strides) if step != 1]
            value = data[tuple([at // step for at, step in zip(i, strides)])]
            return te.if_then_else(te.all(*hit), value, te.const(dilation_value, data.dtype)) if hit else value

        return te.compute(tuple(sizes), lambda *i: element(*i), "dilate")

    def unravel_index(x: te.Tensor, shape: Any) -> Any:
        """Places along each axis of a shape, of places in the flattened tensor."""
        if isinstance(shape, te.Tensor):
            raise TypeRuleError(
                "E217", "unravel_index takes the numbers of a shape", help="topi.unravel_index(x, (4, 5))"
            )
        sizes = [whole_number(size, "a size of unravel_index") for size in shape]

        def element(axis: Any, *i: Any) -> Any:
            found, behind = te.const(0, x.dtype), 1
            for k in reversed(range(len(sizes))):
                found = te.if_then_else(axis == k, x[i] // behind % sizes[k], found)
                behind *= sizes[k]
            return found

        return te.compute((len(sizes), *x.shape), lambda *i: element(*i), "unravel_index")

    nn = {
        "adaptive_pool": adaptive(2, "NCHW"), "adaptive_pool1d": adaptive(1, "NCW"), "adaptive_pool3d": adaptive(3, "NCDHW"),
        "add": topi["add"], "concatenate": topi["concat"], "conv1d_ncw": convolution("nn.conv1d", "NCW", "OIW"),
        "conv1d_nwc": convolution("nn.conv1d", "NWC", "WIO"), "conv1d_transpose_ncw": transposed("nn.conv1d_transpose"),
        "conv2d": conv2d, "conv2d_nchw": convolution("nn.conv2d", "NCHW", "OIHW"),
        "conv2d_nhwc": convolution("nn.conv2d", "NHWC", "HWIO"), "conv2d_transpose_nchw": transposed("nn.conv2d_transpose"),
        "conv3d_ncdhw": convolution("nn.conv3d", "NCDHW", "OIDHW"), "dilate": dilate, "fast_softmax": topi["nn.softmax"],
        "group_conv1d_ncw": grouped("nn.conv1d", "NCW", "OIW"), "group_conv2d_nchw": grouped("nn.conv2d", "NCHW", "OIHW"),
        "group_conv2d_nhwc": grouped("nn.conv2d", "NHWC", "HWIO"), "pool1d": pooling(1, "NCW"), "pool2d": pooling(2, "NCHW"),
        "pool3d": pooling(3, "NCDHW"), "scale_shift_nchw": scale_shift(1), "scale_shift_nhwc": scale_shift(3),
    }  # fmt: skip
    plain: tuple[Any, ...] = (
        identity, elemwise_sum, shape, tensor_size, tensordot, sequence_mask, matrix_set_diag, unravel_index,
    )  # fmt: skip
    return {
        **{function.__name__: function for function in plain},
        "ndarray_size": tensor_size, "fast_exp": topi["exp"], "fast_tanh": topi["tanh"], "fast_erf": topi["erf"],
        **{f"nn.{name}": function for name, function in nn.items()},
    }  # fmt: skip


def pool_kind(pool_type: str) -> str:
    """The kind of pooling. Raises TypeRuleError E217 for one that is none."""
    if pool_type not in ("avg", "max"):
        raise TypeRuleError("E217", f"pool_type must be avg or max, got {pool_type!r}")
    return pool_type


__all__ = ["more", "pool_kind"]
