"""Whole builds cached between processes: a module built before becomes its executable without a pass being run.

The key is everything but the elements of larger constants: the module with its places in the source, the pipelines, the target,
the machine, the package's own files. The entry holds bytecode, machine code, and how each constant of the program is made of the
module's (`transform/infra/constant_provenance.py`); so other weights in the same module find it
too and are folded and packed by the same steps.
Not here: the folder (`ObjectCache`). Invariant: what is found equals what a build would make, to the bit. A build that
somebody watches, or that anything from outside the package takes part in, is neither looked up nor cached.
"""

from __future__ import annotations

import json

import numpy as np

from ..ffi.cache.cache_key import Key
from ..ffi.cache.object_cache import object_cache
from ..ffi.machine_code.objects import join_objects, split_objects
from ..ffi.tensor import Tensor
from ..ir.module import IRModule
from ..ir.op import OPS, OpInfo
from ..ir.pack import NotPackable, fingerprint
from ..op import SHIPPED
from ..support.errors import ArtifactError
from ..support.options import bool_option, int_option
from ..support.recursion import deep_recursion
from ..transform.default_schedule.apply import SCHEDULES
from ..transform.default_schedule.schedule_cache import are_own
from ..transform.infra.backend import backend_of, by_target
from ..transform.infra.constant_provenance import OPEN_BYTES, Ledger, Provenance
from ..transform.infra.passes import PASSES, Pipeline
from .executable.codec import SCHEMA, Costs, decode, encode, write_costs
from .executable.executable import Executable
from .kernel_cache import is_own, is_watched, kernel_parts
from .native.run import driver_tag
from .own_code import pack_own_code
from .stages import BuildConfig
from .virtual_machine import VirtualMachine


def cached_build(source: IRModule, config: BuildConfig) -> CachedBuild | None:
    """The place of a build in the cache, which may be off; None where it has none."""
    if is_watched():
        return None
    parts: dict[str, str] = {}
    for target in dict.fromkeys([config.target, *by_target(source, config.target)]):
        backend, found = backend_of(target), kernel_parts(config.lowering_for(target), target)
        if not found or not are_own(backend.rules) or not is_own(backend.nests):
            return None
        scheduling = {"rules": repr([rule.name for rule in backend.rules]), "nests": str(backend.nests)}
        found |= {"machine": repr(backend.machine(target)), **scheduling}
        parts = {name: "; ".join(filter(None, (parts.get(name), text))) for name, text in found.items()}
    database = SCHEDULES.top
    if database is not None:
        parts["database"] = database.state()
        if not parts["database"]:
            return None
    passes = (config.graph, config.schedule, config.plan, config.lowering)
    if not all([isinstance(p, Pipeline) and is_own(p) and _is_complete(p) for p in passes]):
        return None
    try:
        with deep_recursion():
            text, constants = fingerprint(source)
    except NotPackable:
        return None
    if any([type(c) is not Tensor for c in constants]) or any([_is_foreign(row, text) for row in OPS.values()]):
        return None
    key = Key(
        "program", module=text, constants=_constants_text(constants), passes=",".join(map(str, passes[:3])),
        exec_mode=config.exec_mode, cuda_graph=str(config.cuda_graph), driver=driver_tag(), numpy=np.__version__,
        verify=str(int_option("UNITY_VERIFY")), **parts,
    )  # fmt: skip
    if bool_option("UNITY_EXPLAIN"):  # to be told, the passes run
        object_cache().load(key)
        return None
    return CachedBuild(key, source, constants)


def _is_complete(pipeline: Pipeline) -> bool:
    """True if the text of a pipeline says everything about it."""
    return all([PASSES.get(p.name) == p or Pipeline.parse(str(p)).passes == (p,) for p in pipeline])


def _is_foreign(row: OpInfo, text: bytes) -> bool:
    """True if an operator of a module is from outside the package, or changed from there."""
    if row.name not in SHIPPED:
        return json.dumps(row.name).encode() in text
    functions = (row.infer, row.lower, row.ref, row.pure)
    if _OWN.get(row.name) == functions:
        return False
    foreign = any([_is_outside(f) for f in functions])
    if not foreign:
        _OWN[row.name] = functions
    return foreign


_OWN: dict[str, tuple[object, ...]] = {}
"""Functions of operators that an earlier build found to be the package's own: there are hundreds."""


def _is_outside(function: object) -> bool:
    own = (__name__.partition(".")[0], np.__name__)
    return callable(function) and str(getattr(function, "__module__", "")).partition(".")[0] not in own


def _constants_text(constants: list[Tensor]) -> str:
    """A text of what passes see of constants without a ledger: their order in memory, which share it, and small ones."""
    first: dict[int, int] = {}
    rows = []
    for index, tensor in enumerate(constants):
        array = tensor.numpy()
        shared = first.setdefault(tensor.data_ptr, index) if array.size else index
        elements = array.tobytes().hex() if array.nbytes <= OPEN_BYTES else ""
        rows.append([array.dtype.str, tensor.dtype, array.shape, array.strides, shared, elements])
    return json.dumps(rows, separators=(",", ":"))


class CachedBuild:
    """One build: ``load`` what an earlier one left, or build ``tracked()`` and ``keep`` what that gives."""

    def __init__(self, key: Key, source: IRModule, constants: list[Tensor]) -> None:
        self.store, self.key, self.source = object_cache(), key, source
        self.ledger = Ledger(constants)

    def tracked(self) -> IRModule:
        """The module as its passes shall see it."""
        with deep_recursion():
            return self.ledger.module(self.source)

    def load(self, config: BuildConfig) -> Executable | None:
        """The executable an earlier build left; None where there is none, or where its passes saw other elements."""
        data = self.store.load(self.key)
        if data is None:
            return None
        head, bytecode, *objects = split_objects(data)
        entry = json.loads(head)
        observed = {int(row): seen for row, seen in entry["observed"].items()}
        provenance = Provenance(self.ledger.sources, entry["steps"], entry["literals"], observed, entry["constants"])
        constants = provenance.constants(self.ledger.sources)
        if constants is None:
            return None
        try:
            program = decode(bytecode, constants, SCHEMA.read(Costs, entry["costs"]))
        except ArtifactError:  # damaged: it is made again
            return None
        executable = Executable(
            program,
            dict(zip(entry["objects"], objects, strict=True)),
            config.target.triple,
            entry["features"],
            entry["driver"],
            entry["words"],
            options=config.options,
            provenance=provenance,
            start=VirtualMachine,
            own_code=pack_own_code,
        )
        return executable

    def keep(self, executable: Executable) -> None:
        """Free an executable of the ledger, and remember it."""
        rows, executable.program.constants = self.ledger.settle(executable.program.constants)
        if not self.ledger.complete:
            return
        ledger = self.ledger
        executable.provenance = Provenance(ledger.sources, ledger.steps, ledger.literals, ledger.observed, rows)
        if self.store.folder is None:
            return
        executable.count_work()
        entry = {
            "literals": ledger.literals,
            "steps": ledger.steps,
            "observed": ledger.observed,
            "constants": rows,
            "objects": list(executable.objects),
            "features": executable.features,
            "driver": executable.driver_tag,
            "words": executable.driver_words,
            "costs": write_costs(executable.program.costs),
        }
        head = json.dumps(entry, separators=(",", ":")).encode()
        self.store.store(self.key, join_objects([head, encode(executable.program), *executable.objects.values()]))
