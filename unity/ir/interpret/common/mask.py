"""A set of lanes, which is the environment of what they run."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Value


class Mask:
    """A set of lanes, and the environment of what they run: the value of each variable, in all lanes."""

    __slots__ = ("_index", "all", "count", "env", "lanes")

    def __init__(self, lanes: np.ndarray, env: dict[Any, Any] | None = None) -> None:
        self.lanes = lanes
        self.env = env if env is not None else {}
        self.count = int(np.count_nonzero(lanes))
        self.all = self.count == lanes.size
        self._index: np.ndarray | None = None

    def __getitem__(self, key: Any) -> Any:
        return self.env[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.env[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a variable or buffer, if it has one."""
        return self.env.get(key, default)

    @property
    def index(self) -> np.ndarray:
        """Numbers of the lanes in the set."""
        if self._index is None:
            self._index = np.flatnonzero(self.lanes)
        return self._index

    def where(self, condition: Value) -> Mask:
        """The lanes of the set for which a condition holds; the same object when it holds for all."""
        if np.ndim(condition) == 0:
            return self if condition else Mask(np.zeros_like(self.lanes), self.env)
        made = Mask(self.lanes & condition, self.env)
        return self if made.count == self.count else made

    def split(self, condition: Value) -> tuple[Mask | None, Mask | None]:
        """The lanes for which a condition holds and the others, None for no lanes."""
        first = self.where(condition)
        if first is self:
            return self, None
        return (first, Mask(self.lanes & ~first.lanes, self.env)) if first.count else (None, self)

    def union(self, other: Mask) -> Mask:
        """The lanes of either set."""
        return self if other is self else Mask(self.lanes | other.lanes, self.env)

    def picked(self, value: Value) -> Value:
        """The rows of the set's lanes; scalars stay."""
        return value if self.all or np.ndim(value) == 0 else value[self.index]
