"""The programs of the table as their usual kernels in Triton; imported where triton is. Source: the tutorials of Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(X, Y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _layer_norm(X, G, B, Y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(at < n, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + 1e-5)
    g = tl.load(G + at, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(B + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(Y + row * n + at, centred * scale * g + b, mask=at < n)


@triton.jit
def _rms_norm(X, G, Y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n + 1e-5)
    g = tl.load(G + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(Y + row * n + at, x * scale * g, mask=at < n)


@triton.jit
def _silu_chain(X, Y, Z, W, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n).to(tl.float32)
    y = tl.load(Y + at, mask=at < n).to(tl.float32)
    z = tl.load(Z + at, mask=at < n).to(tl.float32)
    tl.store(W + at, x * tl.sigmoid(x) * y + z, mask=at < n)


_TILES = [
    triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_stages=stages, num_warps=warps)
    for m, n, k, stages, warps in (
        (128, 256, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 32, 4, 4),
        (64, 256, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 32, 4, 4),
    )
]  # fmt: skip


@triton.autotune(configs=_TILES, key=["n"])
@triton.jit
def _product(A, B, C, n: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    pid, down, across = tl.program_id(0), tl.cdiv(n, M), tl.cdiv(n, N)
    group = pid // (GROUP * across)
    size = min(down - group * GROUP, GROUP)
    i = (group * GROUP + pid % (GROUP * across) % size) * M + tl.arange(0, M)
    j = (pid % (GROUP * across) // size) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    a, b = A + (i % n)[:, None] * n + k[None, :], B + k[:, None] * n + (j % n)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, n, K):
        left = n - start
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        a += K
        b += K * n
    at = C + i[:, None] * n + j[None, :]
    tl.store(at, total.to(C.dtype.element_ty), mask=(i[:, None] < n) & (j[None, :] < n))


def _by_rows(kernel: Any) -> Callable[..., torch.Tensor]:
    """A kernel that has a program for each row."""

    def run(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        made, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
        kernel[(x.shape[0],)](x, *others, made, x.shape[1], BLOCK=block, num_warps=max(1, min(16, block // 256)))
        return made

    return run


def _chain(*inputs: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(inputs[0])
    _silu_chain[(triton.cdiv(made.numel(), 1024),)](*inputs, made, made.numel(), BLOCK=1024)
    return made


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    made, n = torch.empty_like(a), a.shape[0]
    _product[lambda chosen: (triton.cdiv(n, chosen["M"]) * triton.cdiv(n, chosen["N"]),)](a, b, made, n)
    return made


KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "product bfloat16": _matmul,
    "product float32": _matmul,
    "softmax": _by_rows(_softmax),
    "layer norm": _by_rows(_layer_norm),
    "RMS norm": _by_rows(_rms_norm),
    "silu(x) * y + z": _chain,
}
"""By the name of a program."""
