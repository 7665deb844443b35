"""Weights of a torch model that a program holds in another form: changed in the model afterwards, they would be half seen.

Invariant: a weight is not kept alive here.
"""

from __future__ import annotations

import weakref
from typing import Any

from ....support.errors import FrontendError


class CopiedWeight:
    """A weight of which the program has a copy, as it was."""

    __slots__ = ("name", "reference", "version")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.reference = weakref.ref(value)
        self.version: int = value._version

    def check(self) -> None:
        """Raise FrontendError E660 where the weight was written to since; torch counts that."""
        value = self.reference()
        if value is not None and value._version != self.version:
            raise FrontendError(
                "E660",
                f"the weight {self.name} was changed after the model was compiled",
                help="f.refresh() takes what the model has now; or compile the model again",
            )


__all__ = ["CopiedWeight"]
