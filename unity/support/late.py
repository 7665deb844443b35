"""Rooms that are loaded when something on their left first needs them.

The front door (``unity/__init__.py``) knows every room by name and puts functions here that import one; a room on the left
asks by a word for what will be done ("script"). Invariant: nothing is loaded by importing this file.
"""

from __future__ import annotations

from collections.abc import Callable

LOADERS: dict[str, Callable[[], object]] = {}
"""Word to function that imports the room."""


def load(word: str) -> None:
    """Import the room behind a word; nothing where the front door has not named it."""
    loader = LOADERS.get(word)
    if loader is not None:
        loader()
