"""Pools, resizes, norms and convolutions of images; losses; products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, of_floats

Shapes = list[tuple[int, ...]]
LARGE: Shapes = [(8, 64, 32, 32)]
SMALL: Shapes = [(1, 4, 8, 8)]
POOLS: dict[str, Callable[..., Any]] = {
    "max_pool 2": lambda x: F.max_pool2d(x, 2),
    "max_pool 3 by 2": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool with indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "avg_pool 2": lambda x: F.avg_pool2d(x, 2),
    "avg_pool 3 by 1": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "adaptive_avg_pool 7": lambda x: F.adaptive_avg_pool2d(x, min(7, x.shape[2] - 1)),
    "adaptive_avg_pool 1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_max_pool 4": lambda x: F.adaptive_max_pool2d(x, 4),
    "adaptive_max_pool 7": lambda x: F.adaptive_max_pool2d(x, min(7, x.shape[2] - 1)),
    "lp_pool": lambda x: F.lp_pool2d(x, 2, 2),
    "resize nearest": lambda x: F.interpolate(x, scale_factor=2),
    "resize nearest 1.5": lambda x: F.interpolate(x, size=(x.shape[2] * 3 // 2,) * 2),
    "resize bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "resize bilinear, corners": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "resize bilinear, down": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "resize bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "group_norm": lambda x: F.group_norm(x, 4),
    "instance_norm": F.instance_norm,
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
    "softmax of channels": lambda x: x.softmax(1),
}
NETS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v.abs()), [*LARGE, (64,), (64,)], [*SMALL, (4,), (4,)]),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        [(2, 16, 64, 64), (2, 64, 64, 2)],
        [(1, 4, 8, 8), (1, 8, 8, 2)],
    ),
    "layer_norm": (lambda x: F.layer_norm(x, (x.shape[1],)), [(1024, 1024)], [(32, 32)]),
    "rms_norm": (lambda x: F.rms_norm(x, (x.shape[1],)), [(1024, 1024)], [(32, 32)]),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), [(8, 64, 256), (64, 64, 3)], [(1, 4, 16), (4, 4, 3)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), [(1, 64, 56, 56), (64, 64, 3, 3)], [(1, 4, 8, 8), (4, 4, 3, 3)]),
    "conv2d, depthwise": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
        [(1, 64, 56, 56), (64, 1, 3, 3)],
        [(1, 4, 8, 8), (4, 1, 3, 3)],
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w, padding=1),
        [(1, 16, 16, 16, 16), (16, 16, 3, 3, 3)],
        [(1, 2, 4, 4, 4), (2, 2, 3, 3, 3)],
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [(1, 64, 28, 28), (64, 32, 2, 2)],
        [(1, 4, 8, 8), (4, 4, 2, 2)],
    ),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % x.shape[1]), [(1024, 1024)], [(32, 32)]),
    "mse_loss": (F.mse_loss, [(1024, 1024)] * 2, [(32, 32)] * 2),
    "smooth_l1_loss": (F.smooth_l1_loss, [(1024, 1024)] * 2, [(32, 32)] * 2),
    "binary_cross_entropy": (
        lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()),
        [(1024, 1024)] * 2,
        [(32, 32)] * 2,
    ),
    "kl_div": (
        lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"),
        [(1024, 1024)] * 2,
        [(32, 32)] * 2,
    ),
    "cosine_similarity": (F.cosine_similarity, [(1024, 1024)] * 2, [(32, 32)] * 2),
}
PRODUCTS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "matmul": (torch.mm, [(256, 256)] * 2, [(32, 32)] * 2),
    "matmul, right transposed": (lambda a, b: a @ b.t(), [(256, 256)] * 2, [(32, 32)] * 2),
    "matmul, left transposed": (lambda a, b: a.t() @ b, [(256, 256)] * 2, [(32, 32)] * 2),
    "matmul, 4 columns": (torch.mm, [(1024, 1024), (1024, 4)], [(32, 32), (32, 4)]),
    "matmul, 4 rows": (torch.mm, [(4, 1024), (1024, 1024)], [(4, 32), (32, 32)]),
    "matrix and vector": (torch.mv, [(1024, 1024), (1024,)], [(32, 32), (32,)]),
    "vector and matrix": (lambda a, b: b @ a, [(1024, 1024), (1024,)], [(32, 32), (32,)]),
    "dot": (torch.dot, [(1 << 20,)] * 2, [(1024,)] * 2),
    "outer": (torch.outer, [(1024,)] * 2, [(32,)] * 2),
    "batched matmul 8": (torch.bmm, [(4096, 8, 8)] * 2, [(8, 8, 8)] * 2),
    "batched matmul 16": (torch.bmm, [(1024, 16, 16)] * 2, [(32, 4, 4)] * 2),
    "batched matmul 32, transposed": (lambda a, b: a @ b.transpose(1, 2), [(256, 32, 32)] * 2, [(8, 8, 8)] * 2),
    "scores of attention": (torch.bmm, [(12, 128, 64), (12, 64, 128)], [(2, 16, 8), (2, 8, 16)]),
    "cdist": (torch.cdist, [(256, 64)] * 2, [(8, 8)] * 2),
    "einsum bij,bjk->bik": (lambda *a: torch.einsum("bij,bjk->bik", *a), [(32, 64, 64)] * 2, [(2, 8, 8)] * 2),
    "einsum bihd,bjhd->bhij": (
        lambda *a: torch.einsum("bihd,bjhd->bhij", *a),
        [(4, 64, 8, 64)] * 2,
        [(1, 8, 2, 8)] * 2,
    ),
    "einsum ij,jk,kl->il": (lambda *a: torch.einsum("ij,jk,kl->il", *a), [(128, 128)] * 3, [(16, 16)] * 3),
    "einsum bi,bj->bij": (lambda *a: torch.einsum("bi,bj->bij", *a), [(256, 64)] * 2, [(8, 8)] * 2),
    "einsum ijk,k->ij": (lambda *a: torch.einsum("ijk,k->ij", *a), [(64, 128, 128), (128,)], [(4, 8, 8), (8,)]),
    "einsum bij,bij->b": (lambda *a: torch.einsum("bij,bij->b", *a), [(64, 128, 128)] * 2, [(4, 8, 8)] * 2),
}
CASES: list[Case] = [
    *[of_floats("pools, resizes, norms", name, fn, LARGE, SMALL) for name, fn in POOLS.items()],
    *[of_floats("norms, convolutions, losses", name, *rest) for name, rest in NETS.items()],
    *[of_floats("products", name, *rest) for name, rest in PRODUCTS.items()],
]
