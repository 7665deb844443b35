"""annotate and unannotate: key-value notes on blocks and loops."""

from __future__ import annotations

from typing import Any

from ....ir.node import frozen
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import ItemRef, Sref
from ..core.state import ScheduleState


def notes(item: Sref) -> dict[str, Any]:
    """The annotations of a block or loop."""
    return dict((item.block.annotations if item.is_block else item.loop.annotations) or {})


def set_notes(state: ScheduleState, item: Sref, annotations: dict[str, Any]) -> None:
    """Put other annotations on a block or loop."""
    state.change(item, annotations=annotations if item.is_block else annotations or None)


@primitive(checks=("key not present",), rewrite="adds ann_key: ann_val to the annotations",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nsch.annotate(k, "pragma_auto_unroll_max_step", 16)')  # fmt: skip
def annotate(
    state: ScheduleState,
    block_or_loop: ItemRef,
    ann_key: str,
    ann_val: str | int | float | bool | list[Any] | dict[str, Any],
) -> None:
    """Attach a value under a key to a block or loop: a number, string, list or dictionary. Raises ScheduleError E426 if the key is
    present with another value, or the value is of another kind.
    """
    known = notes(block_or_loop)
    if ann_key in known and known[ann_key] != frozen(ann_val):
        refuse(
            "E426", f"{block_or_loop.name} is annotated {ann_key} = {known[ann_key]!r} already", "key not present",
            block_or_loop, f"unannotate {ann_key!r} first",
        )  # fmt: skip
    if not _plain(frozen(ann_val)):
        refuse(
            "E426",
            f"a {type(ann_val).__name__} cannot be an annotation",
            "plain value",
            block_or_loop,
            "numbers, strings, booleans, and lists or dictionaries of them",
        )
    set_notes(state, block_or_loop, {**known, ann_key: frozen(ann_val)})


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all([_plain(item) for item in value])
    if isinstance(value, dict):
        return all([isinstance(key, str) and _plain(item) for key, item in value.items()])
    return isinstance(value, (str, int, float, bool))


@primitive(checks=("key present",), rewrite="removes ann_key from the annotations",
           example='block = sch.get_block("C")\nsch.annotate(block, "note", 1)\nsch.unannotate(block, "note")')  # fmt: skip
def unannotate(state: ScheduleState, block_or_loop: ItemRef, ann_key: str) -> None:
    """Remove an annotation. Raises ScheduleError E426 if the key is absent."""
    known = notes(block_or_loop)
    if ann_key not in known:
        there = ", ".join(known) or "none"
        refuse("E426", f"{block_or_loop.name} has no annotation {ann_key!r}", "key present", block_or_loop,
               f"its keys: {there}")  # fmt: skip
    del known[ann_key]
    set_notes(state, block_or_loop, known)
