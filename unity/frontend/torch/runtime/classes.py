"""Classes of which a saved model may build objects. A file names a class; it never has it imported or called for the asking.

Plain containers, and the caches and results of ``transformers``, are known by name. For any other class this process has to vouch:
it has registered the class with torch, has compiled a model that uses it, or names it in ``allow``. Invariant: the only modules
imported here are those of the table.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable

from ....support.errors import ArtifactError, FrontendError, MissingExtraError
from ....support.optional import require

PLAIN: dict[str, type] = {
    f"{kind.__module__}:{kind.__name__}": kind
    for kind in (list, tuple, dict, set, frozenset, int, float, bool, str, OrderedDict, defaultdict, deque)
}
"""Containers, and what may fill a ``defaultdict``."""
TABLE: dict[str, tuple[str, ...]] = {
    "transformers.cache_utils": (
        "DynamicCache", "DynamicLayer", "DynamicSlidingWindowLayer", "DynamicIndexedLayer", "StaticCache", "StaticLayer",
        "StaticSlidingWindowLayer", "StaticIndexedLayer", "SlidingWindowCache", "SlidingWindowLayer", "ChunkedSlidingLayer",
        "EncoderDecoderCache", "HybridCache", "LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer", "LinearAttentionAndStaticFullAttentionLayer",
        "LinearAttentionAndStaticSlidingWindowAttentionLayer",
    ),
    "transformers.modeling_outputs": (),
}  # fmt: skip
"""Modules of data structures, with the classes of each; nothing named: all its dataclasses."""
SEEN: dict[str, type] = {}
"""Classes of objects that models of this process take or return, by name."""


def class_name(kind: type) -> str:
    """The name of a class in a file: ``module:Name``."""
    return f"{kind.__module__}:{kind.__qualname__}"


class AllowedClasses:
    """The classes one file may use: the known ones and those its reader ``allow``s."""

    def __init__(self, allow: Iterable[type] = (), file: str = "the file") -> None:
        self.allowed: dict[str, type] = {}
        self.file = file
        for kind in allow:
            if not isinstance(kind, type):
                raise FrontendError("E019", f"allow= takes classes, got {kind!r}", help="allow=(my_module.MyOutput,)")
            self.allowed[class_name(kind)] = kind

    def find(self, name: str) -> type:
        """The class of a name. Raises ArtifactError E807 where nobody vouches for it."""
        found = PLAIN.get(name) or self.allowed.get(name) or SEEN.get(name) or _registered(name) or _from_table(name)
        if found is None:
            raise ArtifactError(
                "E807", f"{self.file} holds objects of the class {name[:200]!r}, for which nothing here vouches",
                help="where you know the class and trust it: unity.load_model(path, allow=(TheClass,))",
            )  # fmt: skip
        return found


def _registered(name: str) -> type | None:
    """A class somebody registered with torch in this process."""
    for kind in require("torch").utils._pytree.SUPPORTED_NODES:
        if isinstance(kind, type) and class_name(kind) == name:
            return kind
    return None


def _from_table(name: str) -> type | None:
    module, _, path = name.partition(":")
    listed = TABLE.get(module)
    if listed is None or not path.isidentifier() or (listed and path not in listed):
        return None
    try:
        found = getattr(require(module), path, None)
    except MissingExtraError as error:
        raise ArtifactError(
            "E807", f"objects of the class {name!r} need the package transformers", help=error.help
        ) from error
    own = isinstance(found, type) and found.__module__ == module
    return found if own and (listed or hasattr(found, "__dataclass_fields__")) else None
