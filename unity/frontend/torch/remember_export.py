"""``remember_export=True``: what ``torch.export`` gave for a model is kept between processes and found again by the model's key.

An entry is the imported module with its places, the interface, the report, where each constant comes from (a weight of the model by
name, or its elements), and the files the process had loaded. Invariant: an entry counts only where each of those files has the size
and the time it had, and none of them changed after the process began that looks. What has no key is exported, with a warning that
says why. Not here: the key (``frontend/torch/capture/model_key.py``), the folder (``ffi/object_cache.py``).
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...ffi.object_archive import join_objects, split_objects
from ...ffi.object_cache import ObjectCache, object_cache
from ...ffi.tensor import Tensor
from ...ir.pack import NotPackable, fingerprint, from_fingerprint
from ...support.errors import ArtifactError, FrontendError
from ...support.gc_pause import no_collection
from ...support.optional import require
from ...support.recursion import deep_recursion
from ...transform.infra.constant_provenance import literal, read_literal
from .capture.discard_parameters import Held, memory_key
from .capture.model_key import Unkeyable, is_versioned, model_key
from .context.report import Fallback, ImportReport
from .imported import Imported
from .runtime.classes import Vouched
from .runtime.interface import read_interface, write_interface
from .runtime.operators import PREFIX, register_torch_operator


class ExportNotRemembered(UserWarning):
    """A model was exported though its export should have been remembered: something about it has no key."""


class RememberedExport:
    """One export: ``recall`` what an earlier process left, or export and ``keep`` what that gives."""

    def __init__(self, store: ObjectCache, key: str, model: Any) -> None:
        self.store, self.key = store, key
        parameters, buffers = [
            dict(named(remove_duplicate=False)) for named in (model.named_parameters, model.named_buffers)
        ]
        self.weights: dict[str, Any] = {**parameters, **buffers}

    def recall(self) -> Imported | None:
        """The import an earlier process left; None where there is none, or a file changed since."""
        data = self.store.load(self.key)
        if data is None:
            return None
        head, interface, module = split_objects(data)
        entry = json.loads(head)
        if any([_state_of(path) != tuple(state) for path, state in entry["files"].items()]):
            return None
        try:
            faced = read_interface(interface, Vouched(file="a remembered export", loaded=True))
        except ArtifactError:  # a class has gone
            return None
        constants = [
            _weight(self.weights[value], real) if kind == "weight" else read_literal(value)
            for kind, value, real in entry["constants"]
        ]
        fallbacks = [Fallback(**row) for row in entry["fallbacks"]]
        for fallback in fallbacks:
            register_torch_operator(PREFIX + fallback.operator)
        weights = {name: constants[place] for name, place in entry["weights"].items()}
        report = ImportReport(fallbacks, entry["imported"], weights, remembered=True)
        with deep_recursion(), no_collection():
            made = from_fingerprint(module, constants)
        state = {t: self.weights[t] for t in faced.updates if isinstance(t, str)}
        return Imported(made, faced, state, report, (Held(dict(self.weights)),))

    def keep(self, found: Imported) -> None:
        """Remember an import; a warning says why where that cannot be."""
        try:
            files = _loaded_files()
            with deep_recursion():
                module, constants = fingerprint(found.module)
            names = {id(data): name for name, data in found.report.weights.items()}
            missing = [t for t in found.state if t not in self.weights]
            if missing:
                raise Unkeyable(f"{missing[0]}, which the model writes to, is none of its buffers")
            entry = {
                "files": files,
                "constants": [self._origin(c, names.get(id(c)), found) for c in constants],
                "weights": {names[id(c)]: place for place, c in enumerate(constants) if id(c) in names},
                "imported": found.report.imported,
                "fallbacks": [asdict(f) for f in found.report.fallbacks],
            }
            interface = write_interface(found.interface)
        except (Unkeyable, NotPackable, FrontendError) as error:
            _warn(error)
            return
        self.store.store(self.key, join_objects([json.dumps(entry).encode(), interface, module]))

    def _origin(self, constant: Tensor, name: str | None, found: Imported) -> tuple[str, Any, bool]:
        """How another process makes a constant: of a weight (as real numbers?), or of its elements."""
        if name is not None and name in self.weights:
            value, given = self.weights[name], found.held[-1].tensor(name)
            if memory_key(value) != memory_key(given):
                raise Unkeyable(f"{name}, which the export has replaced")
            return "weight", name, bool(value.is_complex())
        return "literal", literal(constant), False


def _weight(value: Any, real: bool) -> Tensor:
    plain = require("torch").view_as_real(value.detach().resolve_conj()) if real else value.detach()
    return Tensor.from_torch(plain.contiguous())


def remembered_export(
    model: Any, args: Any, kwargs: dict[str, Any], dynamic_shapes: Any, options: object
) -> RememberedExport | None:
    """The place of an export in the cache; None where it has none, with a warning that says why."""
    store = object_cache()
    if store is None:
        return None
    try:
        return RememberedExport(store, model_key(model, args, kwargs, dynamic_shapes, repr(options)), model)
    except Unkeyable as error:
        _warn(error)
        return None


def _warn(error: Exception) -> None:
    warnings.warn(f"the export is not remembered: {error}", ExportNotRemembered, stacklevel=4)


def _loaded_files() -> dict[str, tuple[int, int]]:
    """Size and time of every file of code this process has loaded, but those of packages whose version says it all.

    Raises Unkeyable for code without a file.
    """
    library, found = sysconfig.get_paths()["stdlib"], {}
    for name, module in list(sys.modules.items()):
        if is_versioned(name) or module is None:
            continue
        path = getattr(module, "__file__", None)
        if path is None:
            if name == "__main__":
                raise Unkeyable("code of __main__, which has no file")
            continue  # a namespace, or built in
        if not path.startswith(library) or "site-packages" in path:
            state = _state_of(path)
            if state is None:
                raise Unkeyable(f"{path}, which is gone or changed after this process began")
            found[path] = state
    return found


def _state_of(path: str) -> tuple[int, int] | None:
    """Size and time of a file; None where it is gone, or newer than this process, which may have loaded another one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return None if status.st_mtime > BEGAN else (status.st_size, status.st_mtime_ns)


def _process_began() -> float:
    """When this process began; as near as the system says."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return time.time()


BEGAN = _process_began()
"""What changed later may not be what was imported."""

__all__ = ["ExportNotRemembered", "RememberedExport", "remembered_export"]
