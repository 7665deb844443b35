"""Weights that a compiled program keeps in another form: a torch model gives them up (``discard_parameters=True``), or takes them
with it when it goes.

A parameter or buffer of the model is replaced by one without memory that fails clearly; memory is never freed by force, so that
what others hold (another model with the same parameter, a view) stays theirs. Invariant: only parameters and buffers of the
model and entries of the exported program whose own elements were imported are replaced, all that are tied at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from ....ffi.discard import discard
from ....ffi.tensor import Tensor
from ....support.errors import FrontendError
from ....support.optional import require
from ..runtime.memory import CopiedWeight

Memory = tuple[Any, ...]


@dataclass(slots=True, frozen=True)
class TensorTables:
    """Tensors of a model by name, as an ``ExportedProgram`` holds them."""

    state_dict: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)

    def tensor(self, name: str) -> Any:
        """A tensor of either table."""
        found = self.state_dict.get(name)
        return self.constants.get(name) if found is None else found


def memory_key(value: Any) -> Memory:
    """A key that is equal for two torch tensors of the same elements in the same order."""
    return value.data_ptr(), value.dtype, tuple(value.shape), value.stride()


def eraser(model: Any, programs: tuple[TensorTables, ...], weights: Mapping[str, Tensor]) -> Callable[[Tensor], None]:
    """A function that erases the parameters behind a tensor; ``weights`` are those of an import by the names of the program."""
    read: dict[Memory, Tensor] = {}
    for name, data in weights.items():
        value = programs[-1].tensor(name)
        if value is not None and value.numel():
            read[memory_key(value)] = data
    tables: list[tuple[str, dict[str, Any], Callable[[str, Any], None]]] = []
    for held in programs:
        for table in (held.state_dict, held.constants):
            if all([table is not known for _, known, _ in tables]):  # decompositions hand tables on
                tables.append(("", table, table.__setitem__))
    if hasattr(model, "named_modules"):
        for path, module in model.named_modules():  # a module may hold its weights in other places too, as nn.LSTM does
            tables += [(f"{path}.", table, module.__setattr__) for table in (module._parameters, module._buffers)]
    erasers: dict[int, list[Callable[[], None]]] = {}
    for path, table, put in tables:
        for name, value in table.items():
            if isinstance(value, require("torch").Tensor) and value.numel() and not value.is_meta:
                found = read.get(memory_key(value))
                if found is not None:
                    erasers.setdefault(id(found), []).append(partial(_erase, path, table, put, name))

    def erase(data: Tensor) -> None:
        for erase_one in erasers.pop(id(data), ()):
            erase_one()

    return erase


def tie_lifetimes(model: Any, tables: TensorTables, weights: Mapping[str, Tensor], skipped: Iterable[Tensor]) -> None:
    """Let imported weights live as long as the model's own tensors, but for those ``skipped``, which the program reads as they are.

    So a model that is deleted gives its memory back though the module it became is still there.
    """
    exported = hasattr(model, "graph_signature")
    own = {id(t) for t in (model.state_dict.values() if exported else [*model.parameters(), *model.buffers()])}
    left = {id(tensor) for tensor in skipped}
    for name, data in weights.items():
        value = tables.tensor(name)
        if id(value) in own and id(data) not in left:  # what the export made itself is nobody's: the module keeps it
            weakref.finalize(value, _discard_if_alive, weakref.ref(data)).atexit = False


def copied_weights(weights: Iterable[tuple[str, Any]], shared: Iterable[Tensor]) -> list[CopiedWeight]:
    """The torch tensors by name that a program with the constants ``shared`` does not take from torch's own memory."""
    left = {tensor.data_ptr for tensor in shared}
    return [
        CopiedWeight(name, value)
        for name, value in weights
        if value is not None and not value.is_inference() and value.data_ptr() not in left
    ]


def _discard_if_alive(reference: weakref.ref[Tensor]) -> None:
    data = reference()
    if data is not None:
        discard(data)


def _erase(path: str, table: dict[str, Any], put: Callable[[str, Any], None], name: str) -> None:
    put(name, _erased_class()(table[name], f"{path}{name}".lstrip(".")))


@cache
def _erased_class() -> Any:
    torch = require("torch")

    class ErasedParameter(torch.Tensor):  # type: ignore[misc, name-defined]
        """A weight without memory; every operator on it raises FrontendError E018."""

        erased_name: str

        @staticmethod
        def __new__(cls, value: Any, name: str) -> Any:
            erased = torch.Tensor._make_subclass(cls, torch.empty_like(value, device="meta"), value.requires_grad)
            erased.erased_name = name
            erased._is_param = isinstance(value, torch.nn.Parameter)
            return erased

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            leaves = torch.utils._pytree.tree_leaves((args, kwargs or {}))
            names = [leaf.erased_name for leaf in leaves if isinstance(leaf, cls)]
            raise FrontendError(
                "E018", f"{func} needs the weight {names[0]}, which was discarded when the model was compiled",
                help="call the compiled model, or compile without discard_parameters=True",
            )  # fmt: skip

        def __repr__(self, *, tensor_contents: Any = None) -> str:
            return f"ErasedParameter({self.erased_name}, shape={tuple(self.shape)})"

    return ErasedParameter
