"""``unity.load``: a saved executable, mapped into memory, checked, or compiled again where its machine code may not run.

Execution side: compiling again (``trust=False``, or another processor) asks for the compiler rooms, which may not be installed.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..ffi.dtype import DataType
from ..ffi.machine_code.objects import bring_objects
from ..ffi.targets.processor import lacking_features, other_machine
from ..ffi.tensor import Tensor
from ..support.errors import ArtifactError, FFIError
from ..support.lazy import load as load_room
from ..support.schema import Misfit, within
from .executable.artifact import ALIGN, open_sections
from .executable.codec import SCHEMA, Costs, decode
from .executable.executable import Executable
from .own_code import pack_own_code
from .virtual_machine import VirtualMachine


@dataclass(slots=True, frozen=True)
class _Constant:
    """The place of a constant in its section."""

    dtype: str
    shape: list[Annotated[int, within(0, 1 << 47)]]
    offset: Annotated[int, within(0, 1 << 62)]


@dataclass(slots=True, frozen=True)
class _Meta:
    """The section ``meta`` of a file."""

    triple: str
    features: str
    driver: str
    words: list[list[str | int | bool | None]]
    options: dict[str, str]
    constants: list[_Constant]
    source: list[_Constant]
    program_constants: Annotated[int, within(0, 1 << 31)]
    module_constants: list[Annotated[int, within(0, 1 << 31)]]
    costs: Costs


def load(path: str | Path, trust: bool = True) -> Executable:
    """Load the executable saved in the file ``path``.

    Constants are mapped, not copied: processes that load one file share them. ``trust=True`` runs the machine code of the file
    after its checksums hold; they find damage, not malice. ``trust=False`` never runs it: the module text in the file is compiled
    again, and text that refers to anything but its own tensor programs is refused. A file made for a processor with features that
    this one lacks is compiled again too. Raises ArtifactError E801 to E808.
    """
    parts = open_sections(path)
    keep: list[Any] = []
    try:
        meta: _Meta = SCHEMA.record(_Meta, json.loads(bytes(parts["meta"].read())))
        missing = missing_features(meta.triple, meta.features)
        brought = bytes(parts["own_code"].read()) if "own_code" in parts else None
        if brought and trust and not missing:  # before the larger sections are read, whose checksums are native
            keep += bring_objects(brought)
        sections = {name: section.read() for name, section in parts.items() if name != "source"}
        text = bytes(sections["module"]).decode()
        bytecode, model, pool = bytes(sections["bytecode"]), bytes(sections["model"]), sections["constants"]
        source = parts["source"]
        constants = _constants(meta.constants, pool)
        count, every = meta.program_constants, len(constants) + len(meta.source)
        if count > len(constants) or max(meta.module_constants, default=-1) >= every:
            raise Misfit("it names constants that are not there")
    except (KeyError, ValueError, RecursionError, FFIError) as error:
        raise ArtifactError("E805", f"{path}: the description of the program is not valid: {error}") from error

    def describe() -> tuple[str, list[Tensor]]:
        known = [*constants, *(_constants(meta.source, source.read()) if meta.source else ())]
        return text, [known[k] for k in meta.module_constants]

    if not trust or missing:
        reason = f"{path} was compiled for another processor ({missing})" if missing else f"{path} is not trusted"
        options: dict[str, Any] = dict(meta.options)
        if missing:
            options["target"] = _for_this_machine(str(options.get("target", "")))
        executable = _recompile(*describe(), options, trust, reason)
    else:
        objects = {
            name.removeprefix("object."): bytes(data) for name, data in sections.items() if name.startswith("object.")
        }
        executable = Executable(
            decode(bytecode, constants[:count], meta.costs), objects, meta.triple, meta.features, meta.driver, meta.words,
            dict(meta.options), [pool, *keep], describe, start=VirtualMachine, own_code=partial(_own_code, brought, meta.driver),
        )  # fmt: skip
    executable.model, executable.state = model, constants[count:]
    return executable


def _own_code(brought: bytes | None, driver: str, executable: Executable) -> bytes:
    """The code that a loaded program brings along when it is saved again: the same, unless its driver was made anew."""
    return brought if brought is not None and executable.driver_tag == driver else pack_own_code(executable)


def _constants(table: list[_Constant], pool: memoryview) -> list[Tensor]:
    """Tensors over the mapped file: read-only by convention, private pages. Raises ArtifactError E805."""
    memory = np.frombuffer(pool, np.uint8) if pool.nbytes else np.empty(0, np.uint8)
    memory.flags.writeable = False
    found = []
    try:
        for row in table:
            data_type = DataType(row.dtype).numpy
            size = data_type.itemsize * math.prod(row.shape)
            if row.offset % ALIGN or row.offset + size > memory.size:
                raise ValueError("a constant lies outside the file")
            array = memory[row.offset : row.offset + size].view(data_type) if size else np.empty(0, data_type)
            found.append(Tensor(array.reshape(row.shape)))
    except (ValueError, TypeError, FFIError, OverflowError) as error:
        raise ArtifactError("E805", f"the constants of the file are not valid: {error}") from error
    return found


def missing_features(triple: str, features: str) -> str:
    """The reason why machine code for this triple and these features cannot run here, or ""."""
    if not triple:
        return ""
    other = other_machine(triple)
    if other:
        return other
    lacks = lacking_features(features)
    return f"it needs {', '.join(lacks[:8])}" if lacks else ""


def _for_this_machine(target: str) -> str:
    """A target without the processor and the features it names."""
    return " ".join([part for part in target.split() if not part.startswith(("-mcpu=", "-mattr=", "-mtriple="))])


def _recompile(text: str, constants: list[Tensor], options: dict[str, Any], trust: bool, reason: str) -> Executable:
    """The program compiled again of its text. Raises ArtifactError E804 where that cannot be, E808 as ``vm.build.rebuild``."""
    if not text.strip():
        raise ArtifactError("E804", f"{reason}, and the file holds no module text to compile again")
    try:
        build = load_room("compiler")
    except ImportError as error:
        raise ArtifactError("E804", f"{reason}, and the compiler is not installed: {error}") from error
    executable: Executable = build.rebuild(text, constants, options, trust)
    return executable
