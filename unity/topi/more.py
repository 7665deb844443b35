"""Functions of TVM's topi that are not operators here: kinds of pooling and convolution by layout.

Each is written with the functions of the operators. Not here: other orders of arguments (``orders.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..support.errors import TypeRuleError
from .orders import Functions


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
            kind = pool_kind(pool_type)
            if kind == "avg":
                return topi[f"nn.adaptive_avg_pool{rank}d"](data, output_size, layout)
            if layout != space:
                raise TypeRuleError("E217", f"adaptive pooling of {layout} to maxima is not here", help=f"use {space}")
            return topi[f"nn.adaptive_max_pool{rank}d"](data, output_size)[0]

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
