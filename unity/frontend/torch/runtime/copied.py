"""Weights of a torch model that a program holds in another form: changed in the model afterwards, they would be half seen.

Invariant: a weight is not kept alive here.
"""

from __future__ import annotations

from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require


class CopiedWeight:
    """A weight of which the program has a copy, as it was: ``counter._version`` is ``version`` until somebody writes to it."""

    __slots__ = ("counter", "name", "version")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.counter: Any = value.detach()
        """A tensor without elements that has torch's count of writes in common with the weight, not its memory."""
        self.counter.data = require("torch").empty(0, dtype=value.dtype)
        self.version: int = value._version

    def changed(self) -> FrontendError:
        """E660, for a weight that was written to."""
        return FrontendError(
            "E660",
            f"the weight {self.name} was changed after the model was compiled",
            help="f.refresh() takes what the model has now; or compile the model again",
        )
