"""Counting what memory does for a warp: passes over the banks of shared memory, segments of global memory.

Banks: 32 of 4 bytes; lanes reading one word share it; accesses wider than 4 bytes are served in parts of the warp of 128 bytes.
Segments: aligned pieces of 32 bytes of global memory, which moves in them ("sectors"). A run of neighbours may begin anywhere.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .findings import Site
from .lanes import WARP

BANKS = 32
BANK_BYTES = 4
SEGMENT = 32
_ABSENT = np.int64(-(1 << 60))


def count_shared(site: Site, address: np.ndarray, active: np.ndarray, width: int) -> None:
    """Count an access of ``width`` bytes per lane at byte ``address`` (warps, 32), each relative to its block's memory."""
    if not active.any():
        return
    rows, times = _patterns(address // BANK_BYTES, active)
    _record(site, *_shared_work(rows.tobytes(), width), times)


@lru_cache(512)
def _shared_work(patterns: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Passes over the banks that rows of words take, and the least they could; a loop has the same rows in every iteration."""
    rows = np.frombuffer(patterns, np.int64).reshape(-1, WARP)
    words_per_lane = max(1, -(-width // BANK_BYTES))
    part = max(1, WARP // words_per_lane)
    passes = np.zeros(len(rows), np.int64)
    least = np.zeros(len(rows), np.int64)
    for start in range(0, WARP, part):
        lanes = rows[:, start : start + part]
        present = lanes != _ABSENT
        words = (lanes[:, :, None] + np.arange(words_per_lane)).reshape(len(rows), -1)
        words[~np.repeat(present, words_per_lane, axis=1)] = _ABSENT
        passes += _bank_passes(words)
        least += _distinct(words, BANKS)
    return passes, least


def _bank_passes(words: np.ndarray) -> np.ndarray:
    """Largest number of distinct words in one bank, per row."""
    ordered, fresh = _different(words)
    row = np.repeat(np.arange(len(words)), words.shape[1]).reshape(words.shape)
    slots = row * BANKS + ordered % BANKS
    counts = np.bincount(slots[fresh], minlength=len(words) * BANKS).reshape(-1, BANKS)
    found: np.ndarray = counts.max(axis=1)
    return found


def _different(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in order, and which of their numbers are the first of equal ones."""
    ordered = np.sort(rows, axis=1)
    fresh = ordered != _ABSENT
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, fresh


def _distinct(words: np.ndarray, per: int) -> np.ndarray:
    found: np.ndarray = -(-_different(words)[1].sum(axis=1) // per)
    return found


def count_global(site: Site, address: np.ndarray, active: np.ndarray, width: int) -> None:
    """Count an access of ``width`` bytes per lane at byte ``address`` (warps, 32) of one memory."""
    if not active.any():
        return
    shifted = np.where(active, address, 0)
    base = np.where(active.any(axis=1), np.where(active, address, np.iinfo(np.int64).max).min(axis=1), 0)
    shifted = shifted - (base // SEGMENT * SEGMENT)[:, None]
    rows, times = _patterns(shifted, active, align=False)
    present = rows != _ABSENT
    reach = max(1, -(-width // SEGMENT) + (1 if width > 1 else 0))
    segments = (rows // SEGMENT)[:, :, None] + np.arange(reach)
    last = ((rows + width - 1) // SEGMENT)[:, :, None]
    segments = np.where(present[:, :, None] & (segments <= last), segments, _ABSENT).reshape(len(rows), -1)
    touched = _distinct(segments, 1)
    _record(site, touched, np.minimum(_least_segments(rows, width), touched), times)


def _least_segments(rows: np.ndarray, width: int) -> np.ndarray:
    """Segments that a request needs: those of each run of a segment or more where it lies, and of all bytes of shorter ones side by
    side. A run goes on at lanes that are not further apart in memory than in the warp."""
    order = np.argsort(rows, axis=1, kind="stable")
    at = np.take_along_axis(rows, order, axis=1)
    present = at != _ABSENT
    begins = present.copy()
    begins[:, 1:] &= np.diff(at, axis=1) > np.abs(np.diff(order, axis=1)) * width
    row, first = np.nonzero(begins)
    start, end = at[row, first], np.maximum.reduceat(at.ravel(), row * WARP + first) + width
    is_long = end - start >= SEGMENT
    least = np.bincount(row[is_long], ((end - 1) // SEGMENT - start // SEGMENT + 1)[is_long], len(rows))
    row, start, end = row[~is_long], start[~is_long], end[~is_long]
    short = np.bincount(row, end - start, len(rows))
    found, first = np.unique(row, return_index=True)
    short[found] += start[first] % SEGMENT
    result: np.ndarray = (least - (-short // SEGMENT)).astype(np.int64)
    return result


def _patterns(rows: np.ndarray, active: np.ndarray, align: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Different rows with their number; ``align`` shifts each row so that its first active lane is at 0 (banks rotate)."""
    rows = np.where(active, rows, _ABSENT)
    busy = active.any(axis=1)
    if not busy.all():
        rows, active = rows[busy], active[busy]
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    if align:
        first = rows[np.arange(len(rows)), active.argmax(axis=1)]
        rows = np.where(active, rows - first[:, None], _ABSENT)
    if (rows == rows[0]).all():
        return rows[:1], np.array([len(rows)], np.int64)
    if len(rows) > 64:
        unique, counts = np.unique(rows, axis=0, return_counts=True)
        return unique, counts
    return rows, np.ones(len(rows), np.int64)


def _record(site: Site, transactions: np.ndarray, least: np.ndarray, times: np.ndarray) -> None:
    if not len(times):
        return
    site.requests += int(times.sum())
    site.transactions += int((transactions * times).sum())
    site.ideal += int((np.maximum(least, 1) * times).sum())
    site.worst = max(site.worst, int(transactions.max()))
