"""A checksum of large memory at the speed of reading it: finds damage, not malice.

The memory is cut into pieces; of each, 32 lanes of 64-bit words are summed, and the running sums are summed again (Fletcher's
checksum), by all threads. SHA-256 of these sums and of the length is the result. Invariant: a change inside one word changes it
always, whatever the number of threads; so does exchanging two words that differ. One piece or less is summed by numpy,
with the same result: small sections of a file are read before any machine code is there.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from typing import Any

import numpy as np

from ..machine_code.engine import Engine
from ..machine_code.layout import immortal
from ..machine_code.llvm import CompileOptions
from .pool import ParallelFor, ensure_pool

PIECE = 1 << 20
"""Bytes of a piece."""
_ROW = 256
"""Bytes summed at once: 32 words."""
_STATE = 2 * _ROW

_VECTOR = "<8 x i64>"
OPTIONS = CompileOptions(pipeline="O2")


def checksum_ir() -> str:
    """``i32 unity_checksum(ptr {memory, bytes, sums}, i64 begin, i64 end)`` for a range of pieces; bytes a multiple of a row."""
    sums = [f"{kind}{k}" for kind in "ab" for k in range(4)]
    loop = "\n".join([f"  %{s} = phi {_VECTOR} [ zeroinitializer, %piece ], [ %{s}n, %row ]" for s in sums])
    body = "\n".join(
        [
            f"  %p{k} = getelementptr i8, ptr %at, i64 {64 * k}\n"
            f"  %w{k} = load {_VECTOR}, ptr %p{k}, align 1\n"
            f"  %a{k}n = add {_VECTOR} %a{k}, %w{k}\n"
            f"  %b{k}n = add {_VECTOR} %b{k}, %a{k}n"
            for k in range(4)
        ]
    )
    stores = "\n".join(
        [f"  %s{s} = getelementptr i8, ptr %to, i64 {64 * k}\n  store {_VECTOR} %{s}, ptr %s{s}, align 1"
         for k, s in enumerate(sums)]
    )  # fmt: skip
    return f"""\
declare i64 @llvm.smin.i64(i64, i64)
define i32 @unity_checksum(ptr %ctx, i64 %begin, i64 %end) {{
entry:
  %memory = load ptr, ptr %ctx
  %bytes_at = getelementptr i8, ptr %ctx, i64 8
  %bytes = load i64, ptr %bytes_at
  %sums_at = getelementptr i8, ptr %ctx, i64 16
  %sums = load ptr, ptr %sums_at
  br label %pieces
pieces:
  %i = phi i64 [ %begin, %entry ], [ %i2, %next ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %piece, label %done
piece:
  %first = mul i64 %i, {PIECE}
  %far = add i64 %first, {PIECE}
  %last = call i64 @llvm.smin.i64(i64 %far, i64 %bytes)
  br label %rows
rows:
  %offset = phi i64 [ %first, %piece ], [ %offset2, %row ]
{loop}
  %left = icmp slt i64 %offset, %last
  br i1 %left, label %row, label %next
row:
  %at = getelementptr i8, ptr %memory, i64 %offset
{body}
  %offset2 = add i64 %offset, {_ROW}
  br label %rows
next:
  %place = mul i64 %i, {_STATE}
  %to = getelementptr i8, ptr %sums, i64 %place
{stores}
  %i2 = add i64 %i, 1
  br label %pieces
done:
  ret i32 0
}}
"""


@cache
def _function() -> Any:
    engine = Engine().add_ir(checksum_ir(), OPTIONS)
    immortal(engine)
    return engine.address("unity_checksum")


def piece_sums(data: np.ndarray) -> np.ndarray:
    """The sums of one piece."""
    rows = data.view(np.uint64).reshape(-1, _ROW // 8)
    counts = np.arange(len(rows), 0, -1, dtype=np.uint64)
    return np.concatenate([rows.sum(0, dtype=np.uint64), counts @ rows]).view(np.uint8)


def checksum(memory: Any) -> bytes:
    """32 bytes that change with any damage to a buffer."""
    data = np.frombuffer(memory, np.uint8) if memoryview(memory).nbytes else np.empty(0, np.uint8)
    whole = data.size // _ROW * _ROW
    pieces = -(-whole // PIECE)
    if pieces == 1:
        sums = piece_sums(data[:whole])
    else:
        sums = np.zeros(pieces * _STATE, np.uint8)
    if pieces > 1:
        context = (ctypes.c_int64 * 3)(data.ctypes.data, whole, sums.ctypes.data)
        ParallelFor(ensure_pool())(_function(), ctypes.addressof(context), pieces, 1)
    found = hashlib.sha256(data.size.to_bytes(8, "little"))
    found.update(sums.tobytes())
    found.update(data[whole:].tobytes())
    return found.digest()
